"""The nv_tileaa dialect: every cuda_tile body op over tensors, and functions that carry a kernel spec.

Its table is derived from cuda_tile's, because a lifted op means the same; only `module` and `func` are its own.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import ops as cuda_tile
from tileiras.compiler.ir.spec import ISOLATED, SINGLE_BLOCK, SYMBOL, SYMBOL_TABLE, Arg, Attr, OpSpec, derive

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
# Slices of huge tiles in per-thread local memory (see passes/tileaa/strip_mine.py). The handle is a token-typed value.
LOCAL_ALLOC = OpSpec(
    "local_alloc", dialect=D, attrs=(Attr("type", "type"), Attr("log2_slices", "i64")), results=(Arg("handle", "any"),)
)
LOCAL_WRITE = OpSpec(
    "local_write", dialect=D, operands=(Arg("handle", "any"), Arg("slice", "any"), Arg("value", "any"))
)
LOCAL_READ = OpSpec(
    "local_read", dialect=D, operands=(Arg("handle", "any"), Arg("slice", "any")), results=(Arg("value", "any"),)
)
LOCAL_READ_ALL = OpSpec(
    "local_read_all", dialect=D, operands=(Arg("handle", "any"),), results=(Arg("value", "any"),),
    attrs=(Attr("dim", "i64"), Attr("log2_slices", "i64")),
)  # fmt: skip
_LOCAL = {spec.name: spec for spec in (LOCAL_ALLOC, LOCAL_WRITE, LOCAL_READ, LOCAL_READ_ALL)}
_OWN = {**_LOCAL, "module": MODULE, "func": FUNC}
BY_NAME: dict[str, OpSpec] = {
    **{spec.name: derive(spec, D) for spec in cuda_tile.SPECS if spec.name not in ("module", "entry")},
    **_OWN,
}
SPECS = tuple(BY_NAME.values())
