"""NVVM IR verifier (layer 4) as a pass: the rules are in `compiler/nvvm/verify.py`."""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.nvvm.verify import verify_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NVVMIRVerifier(Pass):
    NAME = "NVVMIRVerifier"
    SUMMARY = "Parameter space, launches and intrinsics against the target"
    """
    does: layer 4: parameter space, launches, instructions against the target
    without: not checked
    """
    ANCHOR = "module"
    LAYER = 4
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        if not verify_module(module, context.sink, operands=context.verify_each):
            self.signal_failure()
        return True
