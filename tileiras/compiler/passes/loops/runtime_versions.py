"""TileAARuntimeVersions: where only alignment is missing for asynchronous copies, a loop tests it and has two versions.

Before: `%r = for .. { load %va[..] .. mmaf }`, nothing known of the pointer or the strides of %va.
After:  `%ok = (pointer | strides) has no low bits`, `%r = if %ok { for .. {..} } else { for .. {..} }`; in the first the
facts are assumed, so that it is the loop of a kernel that promises them. One test a block, the same for all threads.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, I64, Dense, DivBy, Ptr, TensorType, TileType
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RuntimeVersions(Pass):
    NAME = "TileAARuntimeVersions"
    SUMMARY = "Test at run time what asynchronous copies need, and have a loop for each answer"
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.schedule.loops import missing_facts

        if context.target is None:
            return True
        made = 0
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            needs = missing_facts(loop, context.target) if made < CostModel.versions else None
            if needs and all(is_outside(value, loop) for value in needs):
                two_versions(loop, needs)
                made += 1
        return True


def is_outside(value: Value, loop: Op) -> bool:
    """Whether a value is there before a loop begins."""
    block = value.op.block if value.op is not None else value.owner
    while block is not None:
        parent = block.region.op if block.region is not None else None  # type: ignore[union-attr]
        if parent is loop:
            return False
        block = parent.block if parent is not None else None
    return True


def two_versions(loop: Op, needs: dict[Value, int]) -> None:
    block = loop.block
    assert block is not None

    def put(name: str, operands: Any, type: Any, attrs: dict[str, Any] | None = None) -> Value:
        return block.insert_before(
            loop, create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), loop.loc)
        ).result

    scalar = TensorType(I64, (), None)

    def number(value: int) -> Value:
        data = value.to_bytes(constant_bytes(I64), "little")
        return put("constant", (), scalar, {"value": Dense(TileType(I64, ()), data)})

    bits: Value | None = None
    for value, divisor in needs.items():
        elem = value.type.elem  # type: ignore[attr-defined]
        if isinstance(elem, Ptr):
            word = put("ptr_to_int", (value,), scalar)
        elif elem.bits < 64:
            word = put("exti", (value,), scalar, {"signedness": "unsigned"})
        else:
            word = value
        low = put("andi", (word, number(divisor - 1)), scalar)
        bits = low if bits is None else put("ori", (bits, low), scalar)
    attrs = {"comparison_predicate": "equal", "signedness": "unsigned"}
    aligned = put("cmpi", (bits, number(0)), TensorType(I1, (), None), attrs)
    then, otherwise = Block(), Block()
    values: dict[Value, Value] = {}
    for value, divisor in needs.items():
        assume = create(
            tileaa.BY_NAME["assume"],
            (value,),
            (value.type,),
            {"predicate": DivBy(divisor, None, None)},
            (),
            loop.loc,
        )
        values[value] = then.append(assume).result
    for view in views_before(loop, needs):
        then.append(clone_op(view, values))
    fast = then.append(clone_op(loop, values))
    types = [r.type for r in loop.results]
    jumps = [
        create(tileaa.BY_NAME["yield"], source.results, (), {}, (), loop.loc, (len(types),))
        for source in (fast, loop)
    ]
    then.append(jumps[0])
    position = block.ops.index(loop)
    otherwise.append(loop)
    otherwise.append(jumps[1])
    made = create(
        tileaa.BY_NAME["if"], (aligned,), types, {}, (Region([then]), Region([otherwise])), loop.loc
    )
    made.block, block.ops[position] = block, made
    for i, (old, new) in enumerate(zip(loop.results, made.results)):
        new.name = old.name
        old.replace_all_uses_with(new)
        jumps[1].set_operand(i, old)


def views_before(loop: Op, needs: dict[Value, int]) -> list[Op]:
    """Views in front of a loop that are made from the values and used in it, in the order in which they are made."""

    def views(value: Value) -> list[Value]:
        op = value.op
        if op is None or not op.spec.name.startswith(("make_", "assume")) or not is_outside(value, loop):
            return []
        return [] if value in needs else list(op.operands)

    depends: dict[Value, bool] = {}
    found: list[Op] = []
    for value in parts_first((v for op in loop.walk() for v in op.operands), views):
        parts = views(value)
        depends[value] = value in needs or any(depends[v] for v in parts)
        if parts and depends[value] and value.op is not None:
            found.append(value.op)
    return found
