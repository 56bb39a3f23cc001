"""TileAARunParts: a tile block whose loops carry more than registers hold runs as parts, one behind the other.

Before: `for %j iter(%acc: 128x512) { .. }; store %acc, %v[%i]`. After: `for %r in 0 to 2 { for %j iter(%acc: 64x512) { .. };
store %acc, %v[2 %i + %r] }`.

A part is what a CTA of a cluster would do (split_demand.py), with the number of the part in the place of its rank: every stored
tile is divided, and what a part needs is followed backwards to loads. What has no row of a part is loaded by each of them, as the
keys of attention are; products and reductions are not done twice, or the block stays whole.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I32, TensorType
from tileiras.compiler.passes.tileaa.slice_ops import splat_constant
from tileiras.compiler.schedule.kernel_spec import kernel_spec
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_of_element

from .whole import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RunParts(Pass):
    NAME = "TileAARunParts"
    SUMMARY = "Parts, one behind the other, of tile blocks whose loops carry more than registers hold"
    """
    does: tile blocks whose loops with products carry more than registers hold run as two or four parts, one behind the other
    without: what is carried waits in local memory
    acts: large_matmul_256x256x64 on sm_90
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.passes.tileaa.split_block import split_block
        from tileiras.compiler.passes.tileaa.split_demand import Refused, division_of

        spec = func.attrs.get(KEY)
        carried = carried_words(func, context.target)
        if spec is None or spec.num_ctas != 1:
            return True
        parts = -(-carried // CostModel.sums_of_block)
        if parts > 1:
            s = (parts - 1).bit_length()
            try:
                division = division_of(func, s)
            except Refused:
                return True
            become(func, one_behind_the_other(split_block(division), 1 << s), context)
            context.remark(D.RUNS_PARTS, func, parts=1 << s)
            func.attrs[KEY] = kernel_spec(func, context.analyses, context.module.attrs, context.sink)
        return True


def carried_words(func: Op, target: Any) -> int:
    """32-bit words of the largest tile that a loop with products carries, or of all of their sums, where registers hold them."""
    in_memory = target is not None and target.has(sm.TCGEN05)
    most = 0
    for loop in func.walk():
        body = loop.regions[0].block if loop.spec.name == "for" else None
        products = [op for op in body.ops if op.spec.name in PRODUCTS] if body is not None else []
        if body is None or not products:
            continue
        sums = 0
        for arg in body.args[1:]:
            most = max(most, words(arg.type))
            sums += words(arg.type) if any(op in products and at == 2 for op, at in arg.uses) else 0
        most = max(most, 0 if in_memory else sums)
    return most


def words(type: Any) -> int:
    """32-bit words of a tile."""
    if not isinstance(type, TensorType):
        return 0
    return num_elements(type.shape) * registers_of_element(type.elem)  # type: ignore[attr-defined]


def one_behind_the_other(func: Op, parts: int) -> Op:
    """The function of a part, whose number it asks for first, as a loop over all parts. What is assumed of parameters stays in
    front of the loop: it holds for the whole kernel, which the maps of bulk copies ask for."""
    old = func.regions[0].block
    rank, *work, end = old.ops
    block = Block([arg.type for arg in old.args])
    for arg, new in zip(old.args, block.args):
        new.name = arg.name
        arg.replace_all_uses_with(new)
    scalar = TensorType(I32, ())

    def number(value: int) -> Any:
        attrs = {"value": splat_constant(I32, (), value)}
        return block.append(create(BY_NAME["constant"], [], [scalar], attrs, loc=func.loc)).result

    old.ops, in_front = [], set(block.args)
    body = Block([scalar])
    rank.result.replace_all_uses_with(body.args[0])
    for op in work:
        if op.spec.name == "assume" and in_front.issuperset(op.operands):
            in_front.add(block.append(op).result)
        else:
            body.append(op)
    bounds = [number(0), number(parts), number(1)]
    body.append(create(BY_NAME["continue"], [], [], loc=func.loc, segments=(0,)))
    block.append(
        create(
            BY_NAME["for"], bounds, [], {"nv_tileaa.nounroll": True}, [Region([body])], func.loc, (1, 1, 1, 0)
        )
    )
    block.append(end)
    return create(func.spec, attrs=dict(func.attrs), regions=[Region([block])], loc=func.loc)
