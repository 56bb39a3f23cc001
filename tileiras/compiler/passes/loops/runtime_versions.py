"""TileAARuntimeVersions: where only alignment or a stride of 1 is missing for asynchronous copies, a loop tests it and has two
versions.

Before: `%r = for .. { load %va[..] .. mmaf }`, nothing known of the pointer or the strides of %va.
After:  `%ok = (pointer | strides) has no low bits`, `%r = if %ok { for .. {..} } else { for .. {..} }`; in the first the
facts are assumed, so that it is the loop of a kernel that promises them. One test a block, the same for all threads.
Of tiles of pointers what is tested are the scalars of addresses and masks: bases, strides, edges. What the loop uses that is
computed from them in front of it, each version computes for itself. Of a view none of whose strides is known to be 1, the last
one is tested, and stands in the types of the first version's views.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import (
    I1,
    I64,
    TILE_VIEWS,
    Bounded,
    Dense,
    DivBy,
    Ptr,
    TensorType,
    TensorView,
    TileType,
)  # fmt: skip
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.passes.tileaa.axis import low_bit
from tileiras.compiler.schedule.candidates import computes, is_outside
from tileiras.compiler.schedule.staging import ONE
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RuntimeVersions(Pass):
    NAME = "TileAARuntimeVersions"
    SUMMARY = "Test at run time what asynchronous copies need, and have a loop for each answer"
    """
    does: loops whose alignment is not proven, of views or of tiles of pointers, or views without a stride that is known to be
      1, test that once and have a version for each answer
    without: one slow version
    acts: matmul_f16_128 on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.schedule.loops import missing_facts

        if context.target is None:
            return True
        made = 0
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            needs = missing_facts(loop, context.target) if made < CostModel.versions else None
            if needs:
                facts = " and ".join(f"{named(v)} is {said(bits)}" for v, bits in needs.items())
                context.remark(D.VERSIONS, loop, facts=facts)
                two_versions(loop, needs)
                made += 1
        return True


def named(value: Value) -> str:
    """A scalar in words: its name in the source, its place among the arguments, or what makes it."""
    if value.name:
        return f"%{value.name}"
    return f"argument {value.index}" if value.op is None else f"a result of {value.op.spec.full_name}"


def said(bits: int) -> str:
    """In words that bits of a number are zero."""
    if bits == ONE:
        return "1"
    divisor = low_bit(~bits)
    words = [f"a multiple of {divisor}"] if divisor > 1 else []
    if bits >= divisor:
        words.append(f"from 0 to {most(bits)}")
    return ", ".join(words)


def most(zeros: int) -> int:
    """The largest number whose highest bits are zero, as many as are set at the top."""
    top = zeros.bit_length()
    while zeros >> top - 1 & 1:
        top -= 1
    return (1 << top) - 1


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
    for value, zeros in needs.items():
        elem = value.type.elem  # type: ignore[attr-defined]
        if isinstance(elem, Ptr):
            word = put("ptr_to_int", (value,), scalar)
        elif elem.bits < 64:
            word = put("exti", (value,), scalar, {"signedness": "unsigned"})
        else:
            word = value
        low = (
            put("xori", (word, number(1)), scalar)
            if zeros == ONE
            else put("andi", (word, number(zeros)), scalar)
        )
        bits = low if bits is None else put("ori", (bits, low), scalar)
    attrs = {"comparison_predicate": "equal", "signedness": "unsigned"}
    aligned = put("cmpi", (bits, number(0)), TensorType(I1, (), None), attrs)
    then, otherwise = Block(), Block()
    values: dict[Value, Value] = {}
    for value, zeros in needs.items():
        if zeros == ONE:
            elem = value.type.elem  # type: ignore[attr-defined]
            one = Dense(TileType(elem, ()), (1).to_bytes(constant_bytes(elem), "little"))
            made = create(tileaa.BY_NAME["constant"], (), (value.type,), {"value": one}, (), loop.loc)
            values[value] = then.append(made).result
            continue
        divisor = low_bit(~zeros)
        predicates = [DivBy(divisor, None, None)] if divisor > 1 else []
        if zeros >= divisor:
            predicates.append(Bounded(0, most(zeros)))
        known = value
        for predicate in predicates:
            attrs = {"predicate": predicate}
            assume = create(tileaa.BY_NAME["assume"], (known,), (value.type,), attrs, (), loop.loc)
            known = then.append(assume).result
        values[value] = known
    remade = made_from(needs, loop)
    for op in remade:
        then.append(clone_op(op, values))
    fast = then.append(clone_op(loop, values))
    tell_strides(then, {values[value] for value, zeros in needs.items() if zeros == ONE})
    used = [k for k, r in enumerate(loop.results) if r.uses]
    types = [loop.results[k].type for k in used]
    jumps = [
        create(tileaa.BY_NAME["yield"], [source.results[k] for k in used], (), {}, (), loop.loc, (len(used),))
        for source in (fast, loop)
    ]
    then.append(jumps[0])
    position = block.ops.index(loop)
    otherwise.append(loop)
    otherwise.append(jumps[1])
    branch = create(
        tileaa.BY_NAME["if"], (aligned,), types, {}, (Region([then]), Region([otherwise])), loop.loc
    )
    branch.block, block.ops[position] = block, branch
    for i, (k, new) in enumerate(zip(used, branch.results)):
        old = loop.results[k]
        new.name = old.name
        old.replace_all_uses_with(new)
        jumps[1].set_operand(i, old)
    for op in reversed(remade):  # what nothing but the slow loop uses is computed for it alone
        if op.block is block and all(is_within(user, otherwise) for r in op.results for user, _ in r.uses):
            block.ops.remove(op)
            otherwise.ops.insert(0, op)
            op.block = otherwise


def tell_strides(block: Block, ones: set[Value]) -> None:
    """Writes strides of 1 into the types of a version's views."""
    views = [op for outer in block.ops for op in outer.walk() if op.spec.name == "make_tensor_view"]
    for op in views:
        dynamic = op.group("dynamicStrides")
        if ones.isdisjoint(dynamic):
            continue
        type: Any = op.results[0].type
        rest = iter(dynamic)
        strides = [next(rest) if s is None else s for s in type.strides]
        kept = [v for v in dynamic if v not in ones]
        told = tuple(1 if s in ones else None if isinstance(s, Value) else s for s in strides)
        assert op.segments is not None and op.block is not None
        before = op.operands[: len(op.operands) - len(dynamic)]
        new = create(
            op.spec, [*before, *kept], (TensorView(type.elem, type.shape, told, type.ptr_attr),), dict(op.attrs), (), op.loc,
            (*op.segments[:-1], len(kept)),
        )  # fmt: skip
        op.block.insert_before(op, new)
        op.results[0].replace_all_uses_with(new.result)
        op.erase()
        work = [new.result]
        while work:
            view = work.pop()
            for user, _ in view.uses:
                for result in user.results:
                    tiles: Any = result.type
                    if isinstance(tiles, TILE_VIEWS):
                        base = view.type.view if isinstance(view.type, TILE_VIEWS) else view.type  # type: ignore[attr-defined]
                        fields = [base if name == "view" else getattr(tiles, name) for name in tiles.FIELDS]
                        result.type = tiles.__class__(*fields)
                        work.append(result)
                    elif isinstance(tiles, TensorView):  # assumptions about it
                        result.type = view.type
                        work.append(result)


def made_from(needs: dict[Value, int], loop: Op) -> list[Op]:
    """Ops in front of a loop that compute what it uses from the values: views, tiles of pointers, masks; in the order in which
    they are computed."""

    def parts(value: Value) -> list[Value]:
        op = value.op
        if op is None or value in needs or op.regions or not computes(op) or not is_outside(value, loop):
            return []
        return list(op.operands)

    depends: dict[Value, bool] = {}
    found: dict[Op, None] = {}
    for value in parts_first((v for op in loop.walk() for v in op.operands), parts):
        below = parts(value)
        depends[value] = value in needs or any(depends[v] for v in below)
        if below and depends[value] and value.op is not None:
            found[value.op] = None
    return list(found)


def is_within(op: Op, block: Block) -> bool:
    """Whether an op lies in a block or in a region of one of its ops."""
    at = op.block
    while at is not None and at is not block:
        at = at.region.op.block if at.region is not None and at.region.op is not None else None
    return at is block
