"""ConvertTileAAToTileAS: gives every tensor a layout and inserts convert_layout where renaming is not enough.

Layouts are inferred forward in one walk, loops to a fixed point (`infer.py`); then the function is rebuilt with
them (`rebuild.py`). attachKernelSpecAttributes (schedule/kernel_spec.py) decides threads, cluster and registers first.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


WORK_ELEMS = 32 * 64  # elements a warp, of all tiles of a function, below which no chain of ops is long
HUGE_ELEMS = 1 << 15  # tiles above are cut into slices before layouts are chosen


def needs_strip_mining(func: Op) -> bool:
    """Whether any tile of the function is above the limit."""
    return any(
        isinstance(r.type, TensorType) and num_elements(r.type.shape) > HUGE_ELEMS
        for op in func.walk()
        for r in op.results
    )


def _cut_long_chains(func: Op, num_warps: int) -> Op:
    """See passes/tileaa/long_chains.py, which is loaded for functions of many or large tiles only."""
    work = 0
    for op in func.walk():
        for r in op.results:
            if isinstance(r.type, TensorType):
                work += num_elements(r.type.shape)
    if work < WORK_ELEMS * num_warps:
        return func
    from tileiras.compiler.passes.tileaa.long_chains import cut_long_chains

    return cut_long_chains(func, num_warps)


def _in_parts(func: Op, target: Any, num_warps: int, registers: int) -> Op:
    """The function with loops over parts of what the registers of a block cannot hold."""
    products = any(op.spec.name in ("mmaf", "mmai", "mma_block_scaled") for op in func.walk())
    huge = needs_strip_mining(func)
    if products:
        from tileiras.compiler.passes.tileaa.stream_products import stream_products

        if huge:
            func = stream_products(func, target, num_warps, registers, huge_only=True)
    if huge:
        from tileiras.compiler.passes.tileaa.product_loops import Budget
        from tileiras.compiler.passes.tileaa.strip_mine import strip_mine

        func = strip_mine(func, Budget(target, num_warps, registers))
    elif not products:
        func = _cut_long_chains(func, num_warps)
    if not products:
        return func
    from tileiras.compiler.schedule.loops import staged_products

    return stream_products(func, target, num_warps, registers, staged=staged_products(func, target))


def lower_module(module: Op, target: Any, sink: Any, module_attrs: dict[str, Any]) -> Op:
    """An nv_tileas module; globals are copied."""
    from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
    from tileiras.compiler.schedule.kernel_spec import kernel_spec, registers_of

    from .infer import Inference
    from .rebuild import rebuild

    body = Block()
    for op in module.regions[0].block.ops:
        if op.spec.name == "func":
            spec = op.attrs.get(KEY) or kernel_spec(op, target, module_attrs, sink)
            op = _in_parts(op, target, spec.num_warps, registers_of(spec))
            inference = Inference(op, target, spec.num_warps)
            func = rebuild(op, inference)
            func.attrs[KEY] = spec
            body.append(func)
        else:
            body.append(create(tileas.BY_NAME[op.spec.name], attrs=dict(op.attrs), loc=op.loc))
    return create(tileas.MODULE, attrs=dict(module.attrs), regions=[Region([body])])
