"""Remarks on hints of the bytecode that change nothing here: each is answered with its value and the reason.

`occupancy`, `latency` and `num_worker_warps_per_cta` are followed (kernel_spec.py, rings.py). So is `num_cta_in_cga`
where TileAASplitBlocks can and it pays: it gives the other reasons.
"""

from __future__ import annotations

from tileiras.compiler.target.products import PRODUCTS
from tileiras.diag import REMARK, Diag

from .kernel_spec import BLOCKS, WARPS, entry_hint, given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context

IGNORED = Diag(
    "HintNotUsed", REMARK, "hint {name} = {value} is not used: {reason}", "schedule", kind="missed", category="memory"
)  # fmt: skip
"""
cause: A hint of the bytecode asks for something that this compiler does not do; the remark names value and reason.
remedy: Nothing is wrong. Leave the hint out where another compiler does not need it.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_90 = {num_cta_in_cga = 2}> {
+ entry @k() optimization_hints = <sm_90 = {num_cta_in_cga = 1}> {
      return
    }
  }
"""

ENTRY_HINTS = ("num_cta_in_cga", "num_worker_warps_per_cta", "occupancy")
NO_CLUSTERS = "a tile block is one CTA: the target has no clusters, or they are left out"
NO_TENSOR_MAP = "the kernel's parameters are pointers, and no tensor map is made of them"


def unused(func: Op, target: Any) -> Iterator[tuple[Op, str, object, str]]:
    """(op, hint, value, reason) of every hint for `target` that nothing follows."""
    ctas = entry_hint(func, target, "num_cta_in_cga")
    if ctas is not None and ctas > 1 and not clusters(target):
        yield func, "num_cta_in_cga", ctas, NO_CLUSTERS
    warps = entry_hint(func, target, "num_worker_warps_per_cta")
    if warps is not None and warps not in WARPS:
        yield func, "num_worker_warps_per_cta", warps, f"a block has one of {WARPS} warps"
    blocks = entry_hint(func, target, "occupancy")
    if blocks is not None and blocks not in BLOCKS:
        yield func, "occupancy", blocks, f"an SM is asked for {BLOCKS[0]} to {BLOCKS[-1]} blocks"
    for name in ENTRY_HINTS:
        value = given(func, target, name)
        if value is not None and entry_hint(func, target, name) is None:
            spelled = str(value).lower() if isinstance(value, bool) else value
            yield func, name, spelled, "it is no integer"
    if not decided_later(func, target):
        yield from without_maps(func, target)


def clusters(target: Any) -> bool:
    """Whether CTAs of a cluster may share a tile block."""
    from tileiras.compiler.target import sm

    return target is not None and bool(target.has(sm.BLOCKS_ARE_CLUSTERS))


def decided_later(func: Op, target: Any) -> bool:
    """Whether TileASModuloSchedule says which loads are bulk tensor copies."""
    from tileiras.compiler.target import sm

    if target is None or target.tensor_maps == "none" or not target.has(sm.TMA):
        return False
    return any(op.spec.name in PRODUCTS for op in func.walk())


def without_maps(func: Op, target: Any) -> Iterator[tuple[Op, str, object, str]]:
    """Loads and stores that the program lets be bulk tensor copies, as long as none is."""
    for op in func.walk():
        if op is not func and "optimization_hints" in op.attrs and flag(op, target, "allow_tma"):
            yield op, "allow_tma", "true", NO_TENSOR_MAP


def flag(op: Op, target: Any, key: str) -> bool | None:
    """A hint that is true or false; None when absent."""
    value = given(op, target, key)
    return None if value is None else bool(value)


def report(func: Op, context: Context) -> None:
    """Says which hints are not used, when remarks of that kind were asked for."""
    if IGNORED.wanted(context.remarks):
        say(unused(func, context.target), context)


def say(found: Iterable[tuple[Op, str, object, str]], context: Context) -> None:
    for op, name, value, reason in found:
        context.remark(IGNORED, op, name=name, value=value, reason=reason)
