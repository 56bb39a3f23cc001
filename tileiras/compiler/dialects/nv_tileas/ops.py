"""The nv_tileas dialect: nv_tileaa's ops over tensors with layouts, plus `convert_layout`."""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile
from tileiras.compiler.ir.spec import ISOLATED, PURE, SINGLE_BLOCK, SYMBOL, SYMBOL_TABLE, Arg, Attr, OpSpec, derive

D = "nv_tileas"

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
CONVERT_LAYOUT = OpSpec(
    "convert_layout", dialect=D, operands=(Arg("source", "any"),), results=(Arg("result", "any"),), traits=PURE
)
_OWN = {"module": MODULE, "func": FUNC, "convert_layout": CONVERT_LAYOUT}
BY_NAME: dict[str, OpSpec] = {
    **{spec.name: derive(spec, D) for spec in cuda_tile.SPECS if spec.name not in ("module", "entry")},
    **_OWN,
}
SPECS = tuple(BY_NAME.values())
