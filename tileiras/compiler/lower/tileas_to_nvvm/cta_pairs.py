"""Pairs of CTAs of a cluster that multiply as one: which of them leads, and what lies in its shared memory."""

from __future__ import annotations

from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.directives import cluster_dim

from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

GROUPS = ("cta_group::1", "cta_group::2")  # of one CTA, of a pair


def group_of(op: Op) -> str:
    return GROUPS[bool(op.attr("pair"))]


def leader_of_pair(lowering: Lowering) -> Any:
    """The rank of the CTA that issues the products of this one's pair."""
    if max(cluster_dim(lowering.fn)) == 2:
        return 0
    return lowering.b.entry("and.b32", rank(lowering), ~1 & 0xFFFFFFFF)


def rank(lowering: Lowering) -> Any:
    return lowering.b.entry("mov.u32", _sym("%cluster_ctarank"))


def both_of_pair(lowering: Lowering) -> Any:
    """The mask of the CTAs of a pair, as its leader has it."""
    b = lowering.b
    if max(cluster_dim(lowering.fn)) == 2:
        return b.materialize(3, "h")
    return b.entry("cvt.u16.u32", b.entry("shl.b32", b.materialize(3, "r"), leader_of_pair(lowering)))


def at_leader(lowering: Lowering, address: Any) -> Any:
    """What lies at an address of this CTA's shared memory, in that of the pair's leader."""
    b = lowering.b
    return b.emit("mapa.shared::cluster.u32", b.materialize(address, "r"), leader_of_pair(lowering))
