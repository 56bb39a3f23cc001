"""KernelAttrPass: the marker cute.kernel becomes nvvm.kernel, and the attributes become directives.

Before: `func @k {cute.kernel, nvvm.reqntid = [128, 1, 1]}`. After: `{nvvm.kernel, ..}` and `.reqntid 128, 1, 1`.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.nvvm.directives import KERNEL, cluster_dim, directives
from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class KernelAttrPass(Pass):
    NAME = "KernelAttrPass"
    SUMMARY = "Mark kernels and spell their launch bounds"
    """
    does: marks kernels, spells launch bounds
    needed: nvvm.module
    """
    __slots__ = ()

    def run(self, fn: Any, context: Context) -> bool:
        if fn.attrs.pop("cute.kernel", None):
            fn.attrs[KERNEL] = True
        block = fn.attrs.get("nvvm.reqntid")
        if block is not None:
            fn.block = tuple(block)
        if context.target.has(sm.CLUSTER):
            fn.cluster = cluster_dim(fn)
        fn.directives = directives(fn, context.target)
        return True
