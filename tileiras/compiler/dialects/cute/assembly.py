"""Text form of the cute dialect."""

from __future__ import annotations

from tileiras.compiler.ir.asm import Dialect

from . import layout
from .ops import BY_NAME

DIALECT = Dialect("cute", BY_NAME)
DIALECT.types = {"layout": layout.parse_layout_type}
DIALECT.attrs = {
    "layout": layout.parse_layout,
    "swizzle": layout.parse_swizzle,
    "linear": layout.parse_linear,
}
