"""TileAASplitBlocks: a tile block that a cluster of CTAs shares, where the hint num_cta_in_cga (cuTile's num_ctas) asks for it.

Before: `func @k {kernel_spec = {num_cta_in_cga = 2, ..}}` with tiles of 256x128. After: `{cluster_dim = [2, 1, 1], tile_ctas
= 2, ..}` and the code of one CTA, with tiles of 128x128 (passes/tileaa/split_block.py). A launch counts clusters, so that a
grid of any size stays valid. Where CTAs cannot share the block, or one is faster (cluster_worth.py), a remark says why, and it
stays one CTA.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule import hints
from tileiras.compiler.schedule.kernel_spec import kernel_spec
from tileiras.compiler.target.cost import CostModel

from .whole import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OWN_BOUNDS = ("nvvm.cluster_dim", "nvvm.blocksareclusters", "nvvm.maxclusterrank")


class SplitBlocks(Pass):
    NAME = "TileAASplitBlocks"
    SUMMARY = "Divide tile blocks among the CTAs of a cluster, where the hint asks"
    """
    does: divides tile blocks among the CTAs of a cluster where the hint `num_cta_in_cga` asks, and one CTA would not
      be faster
    without: a tile block is one CTA
    acts: cluster_add_2_1024 on sm_90
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.passes.tileaa.split_block import split_block
        from tileiras.compiler.passes.tileaa.split_demand import Refused, division_of

        from . import cluster_worth

        spec, target = func.attrs[KEY], context.target
        ctas = spec.num_cta_in_cga
        if ctas is None or ctas < 2 or target is None or not hints.clusters(target):
            return True  # attachKernelSpecAttributes has said so
        reason = self.outside(func, spec, ctas)
        if reason is None:
            try:
                division = division_of(func, ctas.bit_length() - 1)
                reason = cluster_worth.slower(division, target)
            except Refused as why:
                reason = f"the CTAs of a cluster cannot share the tile block: {why}"
            if reason is None:
                become(func, split_block(division), context)
                made = kernel_spec(func, context.analyses, context.module.attrs, context.sink)
                made.cluster_dim, made.num_ctas, made.tile_ctas = (ctas, 1, 1), ctas, ctas
                func.attrs[KEY] = made
                context.remark(D.CLUSTER, func, ctas=ctas)
                return True
        hints.say([(func, "num_cta_in_cga", ctas, reason)], context)
        return True

    def outside(self, func: Any, spec: Any, ctas: int) -> str | None:
        """What the kernel says of clusters itself that forbids it."""
        if spec.num_ctas != 1 or any(name in func.attrs for name in OWN_BOUNDS):
            return "the kernel has launch bounds for clusters of its own"
        if ctas > CostModel.portable_cluster:
            return f"a cluster of more than {CostModel.portable_cluster} CTAs needs a launch attribute"
        return None
