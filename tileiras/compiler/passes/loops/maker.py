"""What passes that write a loop anew make ops with: at the end of blocks, at the place in the source that the loop has."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.types import I1, TOKEN, TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAG = TensorType(I1, (), None)


class Maker:
    """Makes ops for a loop."""

    def __init__(self, loop: Op) -> None:
        self.loop = loop

    def make(self, block: Block, name: str, operands: Any, type: Any, attrs: Any = None) -> Value:
        return block.append(
            create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), self.loop.loc)
        ).result

    def end(self, block: Block, name: str, values: list[Value]) -> None:
        block.append(create(tileaa.BY_NAME[name], values, (), {}, (), self.loop.loc, (len(values),)))

    def compare(self, block: Block, predicate: str, x: Value, y: Value, signedness: str) -> Value:
        return self.make(
            block, "cmpi", (x, y), FLAG, {"comparison_predicate": predicate, "signedness": signedness}
        )

    def joined(self, block: Block, tokens: list[Value]) -> Value:
        """One token for several."""
        tokens = list(dict.fromkeys(tokens))
        if len(tokens) == 1:
            return tokens[0]
        made = create(tileaa.BY_NAME["join_tokens"], tokens, (TOKEN,), {}, (), self.loop.loc, (len(tokens),))
        return block.append(made).result

    def beyond(self, block: Block, counter: Value, upper: Value, step: Value) -> Value:
        """The counter of the next iteration; the upper bound where there is none, or where it would be beyond all numbers."""
        left = self.make(block, "subi", (upper, counter), counter.type, {"overflow": "none"})
        more = self.compare(block, "greater_than", left, step, "unsigned")
        next = self.make(block, "addi", (counter, step), counter.type, {"overflow": "none"})
        return self.make(block, "select", (more, next, upper), counter.type)
