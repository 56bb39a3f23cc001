"""The nv_tileaa dialect: every cuda_tile body op over tensors, and functions that carry a kernel spec.

Its table is derived from cuda_tile's, because a lifted op means the same; only `module` and `func` are its own.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile
from tileiras.compiler.ir.spec import ISOLATED, SINGLE_BLOCK, SYMBOL, SYMBOL_TABLE, Attr, OpSpec, derive

D = "nv_tileaa"

MODULE = OpSpec(
    "module", dialect=D, attrs=(Attr("sym_name", "symbol"),), regions=1, traits=ISOLATED | SYMBOL_TABLE | SINGLE_BLOCK
)
FUNC = OpSpec(
    "func",
    dialect=D,
    attrs=(
        Attr("sym_name", "symbol"),
        Attr("function_type", "type"),
        Attr("kernel_spec", "dict", optional=True),
    ),
    regions=1,
    traits=ISOLATED | SYMBOL | SINGLE_BLOCK,
)
_OWN = {"module": MODULE, "func": FUNC}
BY_NAME: dict[str, OpSpec] = {
    **{spec.name: derive(spec, D) for spec in cuda_tile.SPECS if spec.name not in ("module", "entry")},
    **_OWN,
}
SPECS = tuple(BY_NAME.values())
