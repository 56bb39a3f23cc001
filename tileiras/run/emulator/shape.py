"""How many CTAs a launch has, and in which clusters: what the launch says, and what the entry's directives ask of it."""

from __future__ import annotations

import math

import numpy as np

from .syntax import EmulatorError

GRID_LIMITS = (0x7FFFFFFF, 65535, 65535)  # PTX ISA, %nctaid; the same for every target since sm_30
Triple = tuple[int, int, int]


def triple(value, name: str) -> Triple:
    values = (value,) if isinstance(value, (int, np.integer)) else tuple(value)
    values = tuple(int(v) for v in values) + (1, 1, 1)
    if min(values[:3]) < 1:
        raise EmulatorError(f"{name} must be positive, got {values[:3]}")
    return values[0], values[1], values[2]


def launch_shape(name: str, directives: dict[str, list], grid, cluster) -> tuple[Triple, Triple | None, int]:
    """CTAs in each dimension; those of a cluster, None without clusters; CTAs to one that the launch counts.

    With .blocksareclusters the grid counts clusters: every one has as many CTAs as .reqnctapercluster says, and %ctaid
    and %nctaid count CTAs as ever (PTX ISA, cluster dimension and miscellaneous directives).
    """
    grid = triple(grid, "grid")
    asked = directives.get(".reqnctapercluster")
    required = triple(asked, ".reqnctapercluster") if asked else None
    cluster = required if cluster is None else triple(cluster, "cluster")
    if required is not None and cluster != required:
        raise EmulatorError(
            f"{name} requires clusters of {required} (.reqnctapercluster), launched with {cluster}"
        )
    if cluster is None and ".explicitcluster" in directives:
        raise EmulatorError(f"{name} is launched in clusters only (.explicitcluster): give cluster")
    most = directives.get(".maxclusterrank")
    if most and cluster is not None and math.prod(cluster) > most[0]:
        raise EmulatorError(
            f"{name} allows clusters of {most[0]} CTAs (.maxclusterrank), launched with {cluster}"
        )
    counts = grid
    if ".blocksareclusters" in directives:
        if required is None or not directives.get(".reqntid"):
            raise EmulatorError(
                f"{name} has .blocksareclusters, but not both .reqntid and .reqnctapercluster"
            )
        counts = grid[0] * required[0], grid[1] * required[1], grid[2] * required[2]
    elif cluster is not None and any(g % c for g, c in zip(grid, cluster)):
        raise EmulatorError(f"grid {grid} is not a multiple of cluster {cluster}")
    if any(n > limit for n, limit in zip(counts, GRID_LIMITS)):
        of = "" if counts == grid else f" of clusters {required}"
        raise EmulatorError(f"grid {grid}{of} is larger than a GPU takes: at most {GRID_LIMITS}")
    return counts, cluster, math.prod(counts) // math.prod(grid)
