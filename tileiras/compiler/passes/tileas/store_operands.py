"""Operands that no copy can bring are stored side by side, and products read them in slices.

    %x = load ..                              barrier
    %y = load ..                              %x = load ..
    %a = convert_layout %x                    store_shared %buffer, %x
    %b = convert_layout %y                    %y = load ..
    %d = mmaf %a, %b, %c                      store_shared %buffer, %y
                                              barrier
                                              %a = load_shared %buffer
                                              %b = load_shared %buffer
                                              %d = mmaf %a, %b, %c

So go both operands of a product in the slow version of a loop, where pointers are not aligned. Each of the two conversions alone
has a barrier in front and one inside, across which ptxas moves no load: all loads of a step are on their way before the first of
them is stored, each in a register of its own, and then whole operands lie in registers. The buffer is no larger than the ring of
the fast version, which is not there then.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import splat
from tileiras.compiler.layout.shared import arrange, matrix_load
from tileiras.compiler.schedule.instructions import mma_sync
from tileiras.compiler.schedule.scratch import held_around
from tileiras.compiler.schedule.staging import LOADS, RENAMES, is_elementwise
from tileiras.compiler.target.products import PRODUCTS

from .hoist_conversions import end_of_buffers, neighbours
from .staged_operands import moving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


class StoreOperands(Pass):
    NAME = "TileASStoreOperands"
    SUMMARY = "Store operands that no copy can bring side by side between two barriers"
    """
    does: in the slow version of a loop, what a product's operands are loaded as goes to shared memory behind one barrier
    without: all loads of a step wait in registers; a few bytes may be spilled
    acts: matmul_f16_128 on sm_80
    """

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if "operand_bytes" in op.attrs]:
            most = loop.attrs["operand_bytes"]
            loop.attrs = {name: value for name, value in loop.attrs.items() if name != "operand_bytes"}
            _store_operands(loop, most, context)
        return True


def _store_operands(loop: Op, most: int, context: Context) -> None:
    """The operands of each product of a loop, where both are loaded and fit `most` bytes together."""
    for product in [op for op in loop.regions[0].block.ops if op.spec.name in PRODUCTS]:
        if len(product.operands) > 3 or "atom" in product.attrs or mma_sync(product, context.target) is None:
            continue
        found = [_Operand.of(v, product) for v in product.operands[:2]]
        operands = [operand for operand in found if operand is not None]
        size = sum(in_units(operand.bytes) for operand in operands)
        if len(operands) == len(found) and size + held_around(loop) <= most:
            _store(loop, product, operands, size, context)


class _Operand:
    """What a product takes: `chain`, from the product back to a change of layout, and where the loaded tile lies in between."""

    def __init__(self, chain: list[Op], load: Op) -> None:
        self.chain = chain
        self.load = load
        self.source = chain[-1].operands[0]
        type: Any = self.source.type
        self.size: int = type.elem.bytes
        self.bytes = num_elements(type.shape) * self.size
        layout: Any = chain[-1].result.type.layout  # type: ignore[attr-defined]
        last = len(type.shape) - 1
        ways = dict.fromkeys((neighbours(self.source), *range(last, -1, -1)))
        places = [arrange(type.shape, unit, self.size) for unit in ways]
        read = [columns for columns in places if matrix_load(columns, layout, self.size) is not None]
        self.columns = read[0] if read else arrange(type.shape, last, self.size)

    @staticmethod
    def of(value: Value, product: Op) -> _Operand | None:
        """What is loaded in the product's block, changes its layout once, and is wanted by the product alone."""
        chain: list[Op] = []
        op = value.op
        while op is not None and op.block is product.block and len(op.result.uses) == 1:
            chain.append(op)
            if op.spec is tileas.CONVERT_LAYOUT:
                break
            tiles = moving(op)
            if not is_elementwise(op) or len(tiles) != 1:
                return None
            op = tiles[0].op
        else:
            return None
        load = chain[-1].operands[0].op
        while load is not None and load.spec.name in RENAMES:
            load = load.operands[0].op
        if load is None or load.spec.name not in LOADS or load.block is not product.block:
            return None
        type: Any = chain[-1].operands[0].type
        if type.elem.bits < 8 or type.layout.inv:
            return None
        found = _Operand(chain, load)
        layout: Any = chain[-1].result.type.layout  # type: ignore[attr-defined]
        if found.size == 1 and matrix_load(found.columns, layout, 1) is None:
            return None  # bytes would be read one by one
        return found


def _store(loop: Op, product: Op, operands: list[_Operand], size: int, context: Context) -> None:
    before, here = Rewriter(context, loop), Rewriter(context, product)
    type: Any = product.result.type
    scalar = TensorType(I32, (), splat(0, len(type.layout.warp)))
    zero = before.create(
        tileas.BY_NAME["constant"], (), (scalar,), {"value": Dense(TileType(I32, ()), bytes(4))}
    )
    attrs = {"bytes": size, "offset": end_of_buffers(loop)}
    place = before.create(tileas.ALLOC_SHARED, (), (SHARED,), attrs)
    if zero is None or place is None or loop.block is None:
        return
    block: Any = product.block
    order = {op: n for n, op in enumerate(block.ops)}
    starts = [0, in_units(operands[0].bytes)]
    said = [{"arrangement": operand.columns, "start": start} for operand, start in zip(operands, starts)]
    # the step before has read: no barrier stands between loads and stores
    Rewriter(context, min((operand.load for operand in operands), key=order.__getitem__)).create(
        tileas.BARRIER
    )
    for operand, each in zip(operands, said):
        maker: Any = operand.source.op
        behind = Rewriter(context, block.ops[block.ops.index(maker) + 1])
        behind.create(tileas.STORE_SHARED, (place.result, zero.result, operand.source), (), each)
    here.create(tileas.BARRIER)
    for operand, each in zip(operands, said):
        convert = operand.chain[-1]
        made = here.create(tileas.LOAD_SHARED, (place.result, zero.result), (convert.result.type,), each)
        if made is None:
            return
        convert.result.replace_all_uses_with(made.result)
        convert.erase()
        for op in reversed(operand.chain[:-1]):  # behind what it is made of now
            block.ops.remove(op)
            block.insert_before(product, op)
    following = loop.block.ops[loop.block.ops.index(loop) + 1]
    Rewriter(context, following).create(tileas.FREE_SHARED, (place.result,))
