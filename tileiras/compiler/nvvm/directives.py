"""Attributes of a kernel and the PTX directives they become.

    nvvm.reqntid [x, y, z]     .reqntid            nvvm.maxnreg N            .maxnreg N
    nvvm.cluster_dim [x, y, z] .reqnctapercluster  nvvm.minctasm N           .minnctapersm N
    nvvm.maxclusterrank N      .maxclusterrank N   nvvm.blocksareclusters    .blocksareclusters
    nvvm.tile_ctas N           .blocksareclusters  (CTAs of a cluster, which share a tile block: a launch counts clusters)

Cluster directives exist from sm_90 on; below, a kernel runs without clusters and none is written. A cluster of
[1, 1, 1] needs no directive, except that ptxas accepts .blocksareclusters only next to one.
Source: PTX ISA manual, cluster dimension and performance-tuning directives.
"""

from __future__ import annotations

from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .code import Function

KERNEL = "nvvm.kernel"


def cluster_dim(fn: Function) -> tuple[int, int, int]:
    return tuple(fn.attrs.get("nvvm.cluster_dim") or (1, 1, 1))  # type: ignore[return-value]


def tile_ctas(fn: Function) -> int:
    """The CTAs that share a tile block."""
    return int(fn.attrs.get("nvvm.tile_ctas") or 1)  # type: ignore[call-overload]


def directives(fn: Function, target: Any) -> list[str]:
    """The directive lines behind .reqntid."""
    attrs = fn.attrs
    out = []
    if target.has(sm.CLUSTER):
        dims = cluster_dim(fn)
        alone = attrs.get("nvvm.blocksareclusters") not in (None, False) or tile_ctas(fn) > 1
        if dims != (1, 1, 1) or alone:
            out.append(".reqnctapercluster {}, {}, {}".format(*dims))
        if alone:
            out.append(".blocksareclusters")
            fn.features.add(sm.BLOCKS_ARE_CLUSTERS)
        if "nvvm.maxclusterrank" in attrs:
            out.append(f".maxclusterrank {attrs['nvvm.maxclusterrank']}")
    if "nvvm.maxnreg" in attrs:
        out.append(f".maxnreg {attrs['nvvm.maxnreg']}")
    if "nvvm.minctasm" in attrs:
        out.append(f".minnctapersm {attrs['nvvm.minctasm']}")
    return out
