"""Attributes of the nv_tileaa dialect: what is known about the tile an access touches."""

from __future__ import annotations

from tileiras.compiler.ir import types as T

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TileAttr = T._interned(
    "TileAttr",
    ("shape", "alignment"),
    "Tile of an access: extents in elements, alignment of its first byte.",
    lambda a: f"#nv_tileaa.tile<[{', '.join(map(str, a.shape))}], align = {a.alignment}>",
)
TileAttr.DIALECT = "nv_tileaa"
TileAttr.IS_ATTR = True


def parse_tile(p: Any) -> Any:
    """`<[64, 64], align = 16>`."""
    p.expect("<")
    p.expect("[")
    shape = tuple(p.list_of(p.integer, "]"))
    p.expect(",")
    p.expect("align")
    p.expect("=")
    found = TileAttr(shape, p.integer())
    p.expect(">")
    return found
