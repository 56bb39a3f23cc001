"""Rules of the cute dialect: shapes and strides agree in rank and nesting, compositions stay inside."""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid, Rules

from . import diags as D
from .layout import LayoutAttr, LayoutType, Swizzle, congruent, cosize, leaves, rank, size, tree_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    return ((lambda t: isinstance(t, LayoutType)), "cute layout") if name == "layout" else None


def check_layout(op: Op, attr: str) -> Any:
    layout = op.attrs[attr]
    if type(layout) is not LayoutAttr:
        raise Invalid(D.KIND, attr=attr, want="#cute.layout")
    if not congruent(layout.shape, layout.stride):
        raise Invalid(D.CONGRUENT, attr=attr, shape=tree_text(layout.shape), stride=tree_text(layout.stride))
    if any(extent < 1 for extent in leaves(layout.shape)):
        raise Invalid(D.EXTENT, attr=attr, got=tree_text(layout.shape))
    return layout


def check_make_layout(op: Op) -> None:
    layout = check_layout(op, "layout")
    want = op.results[0].type.rank  # type: ignore[attr-defined]
    if rank(layout.shape) != want:
        raise Invalid(D.RANK, attr="layout", got=rank(layout.shape), want=want)


def check_composition(op: Op) -> None:
    lhs, rhs = check_layout(op, "lhs_layout"), check_layout(op, "rhs_layout")
    if cosize(rhs) > size(lhs):
        raise Invalid(D.COMPOSED, got=cosize(rhs) - 1, have=size(lhs))


def check_swizzled(op: Op) -> None:
    swizzle = op.attrs["swizzle"]
    if type(swizzle) is not Swizzle:
        raise Invalid(D.KIND, attr="swizzle", want="#cute.swizzle")
    if swizzle.shift < swizzle.bits:
        raise Invalid(D.SWIZZLE, shift=swizzle.shift, bits=swizzle.bits)


RULES = Rules()
RULES.constraint = constraint
RULES.checks = {
    "make_layout": check_make_layout,
    "composition": check_composition,
    "swizzled": check_swizzled,
}
