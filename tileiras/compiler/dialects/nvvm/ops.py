"""`nvvm.module`: per-thread code as one op; its attribute `code` is the module of records."""

from __future__ import annotations

from tileiras.compiler.ir.spec import ISOLATED, Attr, OpSpec

MODULE = OpSpec("module", dialect="nvvm", attrs=(Attr("code", "records"),), traits=ISOLATED, text="{!code}")
BY_NAME = {"module": MODULE}
