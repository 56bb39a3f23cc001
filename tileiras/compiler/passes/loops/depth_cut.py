"""Operands of products in parts of K, one for each warp that has one: (parts, rows, k) of the left one, (parts, k, columns) of
the right one.

What is computed from a load alone, element by element, is computed of its parts: threads that read them from where they were
copied to need no other layout behind that.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import Dense, TensorType, TileType
from tileiras.compiler.schedule.staging import is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Cut:
    """Makes the ops of a product's operands anew, in front of it."""

    def __init__(self, product: Op, parts: int) -> None:
        self.product = product
        self.parts = parts

    def put(self, name: str, operands: Any, type: Any, attrs: Any) -> Value:
        assert self.product.block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs, (), self.product.loc)
        return self.product.block.insert_before(self.product, made).result

    def of(self, value: Value, dim: int) -> Value:
        """A matrix whose dimension `dim` is that of K, in parts."""
        whole: Any = value.type
        rows, columns = whole.shape
        shape = (
            (rows, self.parts, columns // self.parts) if dim else (self.parts, rows // self.parts, columns)
        )
        type = TensorType(whole.elem, shape, None)
        cut = self.put("reshape", (value,), type, {})
        if not dim:
            return cut
        type = TensorType(whole.elem, (shape[1], shape[0], shape[2]), None)
        return self.put("permute", (cut,), type, {"permutation": (1, 0, 2)})

    def of_loaded(self, value: Value, dim: int) -> Value:
        """The same of what is computed from one load, in front of which it is cut."""
        steps: list[Op] = []  # from the product to the load
        current, k = value, dim
        while (op := current.op) is not None and op.block is self.product.block and len(current.uses) == 1:
            if op.spec.name == "permute" and len(current.type.shape) == 2:  # type: ignore[attr-defined]
                k = op.attr("permutation")[k]
                following = op.operands[0]
            elif is_elementwise(op) and op.segments is None:
                tiles = [v for v in op.operands if not is_constant(v)]
                if len(tiles) != 1 or tiles[0].type.shape != current.type.shape:  # type: ignore[attr-defined]
                    break
                following = tiles[0]
            else:
                break
            steps.append(op)
            current = following
        made = self.of(current, k)
        for op in reversed([step for step in steps if step.spec.name == "permute"]):
            if tuple(op.attr("permutation")) != (1, 0):
                continue
            parts, rows, columns = made.type.shape  # type: ignore[attr-defined]
            type = TensorType(made.type.elem, (parts, columns, rows), None)  # type: ignore[attr-defined]
            made = self.put("permute", (made,), type, {"permutation": (0, 2, 1)})
        for op in reversed([step for step in steps if step.spec.name != "permute"]):
            shape = made.type.shape  # type: ignore[attr-defined]
            operands = [self.constant(v, shape) if is_constant(v) else made for v in op.operands]
            type = TensorType(op.result.type.elem, shape, None)  # type: ignore[attr-defined]
            made = self.put(op.spec.name, operands, type, dict(op.attrs))
        return made

    def constant(self, value: Value, shape: Any) -> Value:
        old: Any = value.op.attr("value")  # type: ignore[union-attr]
        type = TensorType(old.type.elem, shape, None)
        return self.put("constant", (), type, {"value": Dense(TileType(old.type.elem, shape), old.data)})


def is_constant(value: Value) -> bool:
    """Whether a value is one number everywhere."""
    op = value.op
    return op is not None and op.spec.name == "constant" and len(set(dense_bits(op.attr("value")))) == 1
