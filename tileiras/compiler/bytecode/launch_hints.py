"""Launch attributes of a frontend as the hints that every compiler of the bytecode reads.

`tt.num_ctas` and the cluster's x extent become num_cta_in_cga, `tt.num_warps` num_worker_warps_per_cta and
`nv_tileaa.occupancy` occupancy, under the architecture `default`. A hint that is there is used as is. Our reader takes
them out again: the attributes themselves travel too, so text comes back as it was.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ARCH = "default"
POWERS = (1, 2, 4, 8, 16, 32)
ADDED = "default"  # among the extra attributes: which hints are ours


def forwarded(module: dict[str, Any], entry: dict[str, Any], hints: dict[str, Any]) -> dict[str, int]:
    """The hints to add to those of `ARCH`, from the attributes of a module and an entry; what cannot be is left out."""

    def given(*names: str) -> Any:
        return next((a[name] for name in names for a in (entry, module) if name in a), None)

    cluster = given("tt.cluster_dim", "tt.cluster_size")
    ctas = cluster[0] if isinstance(cluster, (tuple, list)) and cluster else given("tt.num_ctas")
    occupancy = given("nv_tileaa.occupancy")
    found = {
        "num_cta_in_cga": ctas if ctas in POWERS[1:5] else None,
        "num_worker_warps_per_cta": warps if (warps := given("tt.num_warps")) in POWERS else None,
        "occupancy": occupancy if occupancy in range(1, 33) else None,
    }
    there = hints.get(ARCH) or {}
    return {k: v for k, v in found.items() if type(v) is int and k not in there}


def add(hints: dict[str, Any], extra: dict[str, Any], more: dict[str, int]) -> None:
    """Puts forwarded hints in, and their names into the extra attributes."""
    if more:
        hints[ARCH] = {**(hints.get(ARCH) or {}), **more}
        extra[ADDED] = tuple(more)


def take_out(hints: dict[str, Any], extra: dict[str, Any]) -> None:
    """The hints without those that `add` put in."""
    there = hints.get(ARCH)
    names = extra.pop(ADDED, ())
    if isinstance(there, dict) and isinstance(names, tuple):
        for name in names:
            there.pop(name, None)
        if not there:
            del hints[ARCH]
