"""CuTe layouts as attributes: a shape tree and a stride tree, `(4, (2, 8)) : (1, (4, 16))`, and swizzles."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.layout.linear import LinearLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def tree_text(tree: Any) -> str:
    return f"({', '.join(map(tree_text, tree))})" if isinstance(tree, tuple) else str(tree)


LayoutAttr = T._interned(
    "LayoutAttr",
    ("shape", "stride"),
    "Hierarchical shape and stride.",
    lambda a: f"#cute.layout<{tree_text(a.shape)} : {tree_text(a.stride)}>",
)
LayoutAttr.DIALECT = "cute"
LayoutAttr.IS_ATTR = True
Swizzle = T._interned(
    "Swizzle",
    ("bits", "base", "shift"),
    "Xor of offset bits [base+shift, +bits) into [base, +bits).",
    lambda a: f"#cute.swizzle<{a.bits}, {a.base}, {a.shift}>",
)
Swizzle.DIALECT = "cute"
Swizzle.IS_ATTR = True
LayoutType = T._interned("LayoutType", ("rank",), "A layout value of a rank.", lambda t: f"layout<{t.rank}>")
LayoutType.DIALECT = "cute"


def leaves(tree: Any) -> list[Any]:
    if not isinstance(tree, tuple):
        return [tree]
    return [leaf for item in tree for leaf in leaves(item)]


def congruent(a: Any, b: Any) -> bool:
    """Whether two trees have the same nesting."""
    if isinstance(a, tuple) != isinstance(b, tuple):
        return False
    return not isinstance(a, tuple) or (len(a) == len(b) and all(map(congruent, a, b)))


def rank(tree: Any) -> int:
    return len(tree) if isinstance(tree, tuple) else 1


def size(layout: Any) -> int:
    n = 1
    for extent in leaves(layout.shape):
        n *= extent
    return n


def cosize(layout: Any) -> int:
    """One more than the largest offset."""
    return 1 + sum((e - 1) * s for e, s in zip(leaves(layout.shape), leaves(layout.stride)))


# ---- text


def parse_tree(p: Any) -> Any:
    if p.accept("("):
        return tuple(p.list_of(lambda: parse_tree(p), ")"))
    return p.integer()


def parse_layout(p: Any) -> Any:
    p.expect("<")
    shape = parse_tree(p)
    p.expect(":")
    found = LayoutAttr(shape, parse_tree(p))
    p.expect(">")
    return found


def parse_swizzle(p: Any) -> Any:
    p.expect("<")
    found = Swizzle(*p.list_of(p.integer, ">"))
    return found


def parse_layout_type(p: Any) -> Any:
    p.expect("<")
    found = LayoutType(p.integer())
    p.expect(">")
    return found


def parse_linear(p: Any) -> Any:
    """`#linear<7, reg = [1], lane = [...], warp = [...], inv = 3>`, as LinearLayout prints itself."""
    p.expect("<")
    pos = p.start
    bits = p.integer()
    parts: dict[str, Any] = {"reg": [], "lane": [], "warp": [], "inv": 0}
    while p.accept(","):
        name = p.word("reg, lane, warp or inv")
        if name not in parts:
            raise p.error(f"unknown part '{name}' of a linear layout", pos)
        p.expect("=")
        parts[name] = p.integer() if name == "inv" else (p.expect("["), p.list_of(p.integer, "]"))[1]
    p.expect(">")
    columns = [*parts["reg"], *parts["lane"], *parts["warp"], parts["inv"]]
    if not 0 <= bits <= 24 or any(not 0 <= c < 1 << bits for c in columns):
        raise p.error(f"a column of the linear layout does not fit {bits} index bits", pos)
    if len(parts["lane"]) != 5 or len(parts["warp"]) > 5:
        raise p.error("a linear layout has 5 lane columns and at most 5 warp columns", pos)
    return LinearLayout(bits, parts["reg"], parts["lane"], parts["warp"], parts["inv"])
