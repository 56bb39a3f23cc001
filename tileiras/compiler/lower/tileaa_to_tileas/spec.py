"""attachKernelSpecAttributes: folds hints and tt.* attributes into one kernel_spec record.

num_warps: tt.num_warps or num_worker_warps_per_cta when given; else enough warps that the largest tile leaves
at most 64 elements a thread, between 4 and 16.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

DEFAULT_WARPS = 4
MAX_WARPS = 16


def entry_hint(op: Op, target: Any, key: str) -> Any:
    """A hint of the entry: the target's entry first, then `default`; None when absent or of a wrong kind."""
    hints = op.attrs.get("optimization_hints") or {}
    for arch in (target.name, "default"):
        values = hints.get(arch)
        if isinstance(values, dict) and key in values:
            value = values[key]
            value = getattr(value, "value", value)
            return value if isinstance(value, int) and not isinstance(value, bool) else None
    return None


def kernel_spec(op: Op, target: Any, module_attrs: dict[str, Any]) -> dict[str, Any]:
    """The record that layout assignment, scheduling and the function boundary read."""

    def module_int(name: str) -> Any:
        value = op.attrs.get(name, module_attrs.get(name))
        return getattr(value, "value", value)

    warps = module_int("tt.num_warps")
    exact = isinstance(warps, int)
    if not exact:
        hint = entry_hint(op, target, "num_worker_warps_per_cta")
        warps = hint if hint in (1, 2, 4, 8, 16, 32) else None
    if warps is None:
        warps = _choose_warps(op)
    ctas = entry_hint(op, target, "num_cta_in_cga")
    cluster = (ctas, 1, 1) if ctas in (2, 4, 8, 16) else (1, 1, 1)
    return {
        "num_warps": warps,
        "cluster_dim": cluster,
        "occupancy": entry_hint(op, target, "occupancy"),
        "num_stages": module_int("tt.num_stages"),
    }


def _choose_warps(op: Op) -> int:
    if op.attrs.get("strip_mined"):
        return MAX_WARPS
    largest = 0
    accumulators = 0
    for inner in op.walk():
        for result in inner.results:
            shape = getattr(result.type, "shape", None)
            if shape and inner.spec.name not in ("make_tensor_view", "constant", "iota", "broadcast"):
                largest = max(largest, num_elements(tuple(s or 1 for s in shape)))
        if inner.spec.name.startswith("mma"):
            accumulators = max(accumulators, num_elements(inner.results[0].type.shape))  # type: ignore[attr-defined]
    warps = DEFAULT_WARPS
    while warps < MAX_WARPS and largest > warps * 32 * 64:
        warps *= 2
    return warps
