"""Ops of the cute dialect: layouts as values, so that their algebra has verifiers. They have no lowering of their own."""

from __future__ import annotations

from tileiras.compiler.ir.spec import PURE, Arg, Attr, OpSpec

D = "cute"
MAKE_LAYOUT = OpSpec(
    "make_layout",
    dialect=D,
    attrs=(Attr("layout", "cute_layout"),),
    results=(Arg("result", "layout"),),
    traits=PURE,
)
COMPOSITION = OpSpec(
    "composition", dialect=D, operands=(Arg("lhs", "layout"), Arg("rhs", "layout")),
    attrs=(Attr("lhs_layout", "cute_layout"), Attr("rhs_layout", "cute_layout")), results=(Arg("result", "layout"),), traits=PURE,
)  # fmt: skip
SWIZZLED = OpSpec(
    "swizzled", dialect=D, operands=(Arg("source", "layout"),), attrs=(Attr("swizzle", "cute_swizzle"),),
    results=(Arg("result", "layout"),), traits=PURE,
)  # fmt: skip
BY_NAME = {spec.name: spec for spec in (MAKE_LAYOUT, COMPOSITION, SWIZZLED)}
