"""attachKernelSpecAttributes: folds hints and tt.* attributes into one record, `nv_tileaa.kernel_spec`, on every function.

    num_warps      tt.num_warps, or the hint num_worker_warps_per_cta; else what the schedule room says of kernels with
                   staged products, or enough warps that the largest tile leaves at most 64 elements a thread,
                   between 4 and 16
    cluster_dim    tt.cluster_dim or tt.cluster_size; else [tt.num_ctas, 1, 1]
    num_ctas       CTAs of a cluster
    occupancy      nv_tileaa.occupancy, or the hint of that name; num_stages and is_persistent as they are

An attribute on the function wins over one on the module, and a hint of the bytecode is used as is. The hint
num_cta_in_cga asks for several CTAs that share one tile block: a launch then counts clusters, so that a grid of any size
stays valid (BLOCKS_ARE_CLUSTERS in the cubin, as in NVIDIA's). TileAASplitBlocks follows it where it can.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KernelSpec
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.diag import ERROR, WORD_ERROR, Diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value

WARPS = (1, 2, 4, 8, 16, 32)
BLOCKS = range(1, 33)  # of an SM
INVALID = Diag(
    "AA-0301",
    ERROR,
    "attribute '{name}' must be {want}, but is {got}",
    "attachKernelSpecAttributes",
    WORD_ERROR,
)
"""
see: AA-0106

- module attributes {nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 0 : i32} {
+ module attributes {nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32} {
    cuda_tile.module {
      entry @k() {

        return
      }
    }
  }
"""


def given(op: Op, target: Any, key: str) -> Any:
    """What an op's hints say, of any kind: the target's first, then `default`; None when absent."""
    hints = op.attrs.get("optimization_hints") or {}
    names = (target.name, f"sm_{target.number}", "default") if target is not None else ("default",)
    for arch in names:
        values = hints.get(arch)
        if isinstance(values, dict) and key in values:
            value = values[key]
            return getattr(value, "value", value)
    return None


def entry_hint(op: Op, target: Any, key: str) -> Any:
    """A hint that is a number; None when absent or of a wrong kind."""
    value = given(op, target, key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def given_warps(op: Op, target: Any, module_attrs: dict[str, Any]) -> int | None:
    """The warps that a hint or an attribute asks for; None where they are chosen."""
    hint = entry_hint(op, target, "num_worker_warps_per_cta")
    if hint in WARPS:
        return hint  # type: ignore[no-any-return]
    value = op.attrs.get("tt.num_warps", module_attrs.get("tt.num_warps"))
    value = getattr(value, "value", value)
    return value if value in WARPS and not isinstance(value, bool) else None


def kernel_spec(op: Op, analyses: Analyses, module_attrs: dict[str, Any], sink: Any = None) -> KernelSpec:
    """The record that layout assignment, scheduling and the function boundary read. What cannot be is reported."""

    target = analyses.target

    def attribute(name: str, want: str, good: Any) -> Any:
        value = op.attrs.get(name, module_attrs.get(name))
        value = getattr(value, "value", value)
        if value is None or good(value):
            return value
        if sink is not None:
            sink.emit(INVALID, loc=op.loc, name=name, want=want, got=value)
        return None

    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    def triple(value: Any) -> bool:
        return (
            isinstance(value, (tuple, list)) and len(value) == 3 and all(whole(v) and v >= 1 for v in value)
        )

    warps = attribute("tt.num_warps", "one of 1, 2, 4, 8, 16, 32", lambda v: v in WARPS and whole(v))
    hint = entry_hint(op, target, "num_worker_warps_per_cta")
    if hint in WARPS:
        warps = hint
    if warps is None:
        warps = _choose_warps(op, analyses)
    most = CostModel.most_cluster
    ctas = attribute("tt.num_ctas", f"an integer from 1 to {most}", lambda v: whole(v) and 1 <= v <= most)
    cluster = attribute("tt.cluster_dim", "three positive integers", triple)
    if cluster is None:
        cluster = attribute("tt.cluster_size", "three positive integers", triple)
    cluster = tuple(cluster) if cluster is not None else (ctas or 1, 1, 1)
    occupancy = attribute(
        "nv_tileaa.occupancy", "an integer from 1 to 32", lambda v: whole(v) and v in BLOCKS
    )
    if occupancy is None:
        hint = entry_hint(op, target, "occupancy")
        occupancy = hint if hint in BLOCKS else None
    spec = KernelSpec(
        warps,
        cluster[0] * cluster[1] * cluster[2],
        cluster,
        occupancy,
        attribute("tt.num_stages", "a positive integer", lambda v: whole(v) and v >= 1),
        entry_hint(op, target, "num_cta_in_cga"),
    )
    if op.attrs.get("tt.is_persistent", module_attrs.get("tt.is_persistent")) not in (None, False, 0):
        spec.is_persistent = True
        spec.scheduler = "StaticPersistent"
    return spec


def max_registers(spec: KernelSpec, blocks: int | None = None) -> int | None:
    """Registers a thread may have so that `occupancy` blocks fit one SM, or as many of them as shared memory has room for
    (`blocks`); None where ptxas needs no word.

    Without occupancy one block counts, from 16 warps on: ptxas 13.0 and 13.4 drop to 32 registers a thread in such a
    block as soon as the 128 that fit are not enough, which spills four times as much.
    ptxas has a lower bound of 24 and warns about less.
    """
    occupancy = spec.occupancy
    if occupancy is not None and blocks is not None:
        occupancy = max(1, min(occupancy, blocks))
    if occupancy is None:
        if spec.num_warps < CostModel.most_warps:
            return None
        occupancy = 1
    fair = CostModel.register_file // (occupancy * 32 * spec.num_warps)
    unit = CostModel.register_unit
    return max(CostModel.min_registers, min(CostModel.max_registers, fair // unit * unit))


def registers_of(spec: KernelSpec) -> int:
    """Registers that a thread can count on."""
    return max_registers(spec) or min(
        CostModel.max_registers, CostModel.register_file // (32 * spec.num_warps)
    )


def _choose_warps(op: Op, analyses: Analyses) -> int:
    products = False
    warps = CostModel.least_warps
    computed: list[tuple[int, Value]] = []
    for inner in op.walk():
        products = products or inner.spec.name in PRODUCTS
        for result in inner.results:
            shape = getattr(result.type, "shape", None)
            if shape and inner.spec.name not in ("make_tensor_view", "constant", "iota", "broadcast"):
                computed.append((num_elements(tuple(s or 1 for s in shape)), result))
    largest = max((size for size, _ in computed), default=0)
    if products and analyses.target is not None:
        from tileiras.compiler.schedule.loops import sums_of_multiply_adds
        from tileiras.compiler.schedule.multiply_adds import warps_of
        from tileiras.compiler.schedule.products import choose_warps
        from tileiras.compiler.schedule.registers import is_staged_operand

        chosen = choose_warps(op, analyses, CostModel.least_warps, CostModel.most_warps)
        if chosen is not None:
            return chosen
        sums = sums_of_multiply_adds(op, analyses)
        if sums:
            others = (size for size, value in computed if not is_staged_operand(value))
            return warps_of(max(sums, *others), CostModel.most_warps)
    while warps < CostModel.most_warps and largest > warps * 32 * CostModel.thread_elements:
        warps *= 2
    return warps
