"""Types and debug records in text form: what the parser reads behind `tile`, `ptr`, `di_loc` and the others."""

from __future__ import annotations

from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.diags import STATIC_SHAPE
from tileiras.compiler.ir.lexer import ParseError
from tileiras.compiler.ir.verify import tname
from tileiras.diag import Loc

from .ops import ENUMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.parser import Parser


SCALARS = "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or i1 or i8 or i16 or i32 or i64"


def elem_type(p: Parser, what: str = "elementType") -> Any:
    """An element type: scalar or pointer."""
    pos = p.start
    expected = f"failed to verify '{what}': {SCALARS}" + (" or Pointer type" if what == "elementType" else "")
    if p.kind == "word" and p.token not in T.Scalar.POOL and (p.token[1:].isdigit() or p.token == "index"):
        raise p.error(expected, pos)
    found = p.type()
    if not isinstance(found, (T.Scalar, T.Ptr)):
        raise p.error(expected, pos)
    return found


def parse_tile(p: Parser) -> Any:
    p.expect("<")
    shape = p.dims()
    if None in shape:
        raise ParseError(p.start, "expected static shape", STATIC_SHAPE)
    elem = elem_type(p)
    p.expect(">")
    return T.TileType(elem, shape)


def ptr_attr(p: Parser) -> str:
    if p.kind == "hash" and p.token == "#cuda_tile.ptr_attr":
        p.step()
    p.expect("<")
    pos = p.start
    name = p.word("a pointer attribute")
    if name not in ENUMS["PtrAttr"]:
        raise p.error(f"unknown pointer attribute '{name}'", pos)
    p.expect(">")
    return name


def parse_ptr(p: Parser) -> Any:
    p.expect("<")
    pointee = elem_type(p, "pointeeType")
    attr = ptr_attr(p) if p.accept(",") else None
    p.expect(">")
    return T.Ptr(pointee, attr)


def dynamic_int(p: Parser) -> int | None:
    return None if p.accept("?") else p.integer()


def parse_tensor_view(p: Parser) -> Any:
    p.expect("<")
    shape = p.dims()
    elem = elem_type(p)
    strides: tuple[int | None, ...] = ()
    attr = None
    given = False
    while p.accept(","):
        if p.at("<") or p.kind == "hash":
            attr = ptr_attr(p)
            break
        if not shape and p.at("strides"):
            raise p.error("strides must not be provided for 0-d tiles")
        if not shape:
            raise p.error(f"expected token after element type in 0-d tensor_view{p.found()}")
        p.expect("strides")
        p.expect("=")
        p.expect("[")
        strides = tuple(p.list_of(lambda: stride(p), "]"))
        given = True
    pos = p.start
    if not shape and not p.at(">"):
        raise p.error(f"expected token after element type in 0-d tensor_view{p.found()}")
    p.expect(">")
    if not given and shape:
        raise p.error("expected 'strides'", pos)
    return T.TensorView(elem, shape, strides, attr)


def stride(p: Parser) -> int | None:
    if p.accept("?"):
        return None
    pos = p.start
    if not (p.kind == "number" or p.at("-")):
        raise p.error(f"expected either 64-bit integer or question mark{p.found()}")
    value = p.integer()
    if value <= 0:
        raise p.error(f"expected strictly positive integer, got {value}", pos)
    return value


def tile_shape(p: Parser) -> tuple[int, ...]:
    """`tile=(4x8)`."""
    p.expect("tile")
    p.expect("=")
    p.expect("(")
    if p.accept(")"):
        return ()
    found = p.dims()  # all but the last, which has no `x` behind it
    last = p.integer("a tile dimension")
    if None in found:
        raise ParseError(p.start, "expected static shape", STATIC_SHAPE)
    p.expect(")")
    return (*found, last)  # type: ignore[arg-type]


def comma_words(p: Parser) -> dict[str, Any]:
    """Named parts of a tile view: padding, tensor view, dim_map, traversal strides, sparse dimension."""
    found: dict[str, Any] = {}
    while p.accept(","):
        pos = p.start
        if p.at("padding_value"):
            p.step()
            p.expect("=")
            at = p.start
            value = p.word("a padding value")
            if value not in PADDING:
                raise p.error(f"unknown padding value '{value}'", at)
            found["padding"] = value
        elif p.at("dim_map"):
            p.step()
            p.expect("=")
            p.expect("[")
            found["dim_map"] = tuple(p.list_of(p.integer, "]"))
        elif p.at("traversal_strides"):
            p.step()
            p.expect("=")
            p.expect("[")
            found["traversal"] = tuple(p.list_of(p.integer, "]"))
        elif p.at("sparse_dim"):
            p.step()
            p.expect("=")
            found["sparse_dim"] = p.integer()
        else:
            view = p.type()
            if not isinstance(view, T.TensorView):
                raise p.error(f"expected 'tensor_view' type, but got '{tname(view)}'", pos)
            found["view"] = view
    if "view" not in found:
        raise p.error("expected a tensor_view")
    return found


PADDING = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")


def parse_partition_view(p: Parser) -> Any:
    p.expect("<")
    if not p.at("tile"):  # the short form of older producers
        shape = p.dims()
        elem = elem_type(p)
        p.expect(">")
        unknown = (None,) * len(shape)
        view = T.TensorView(elem, unknown, unknown, None)
        return T.PartitionView(shape, view, tuple(range(len(shape))), None)
    tile = tile_shape(p)
    parts = comma_words(p)
    p.expect(">")
    dim_map = parts.get("dim_map", tuple(range(len(parts["view"].shape))))
    return T.PartitionView(tile, parts["view"], dim_map, parts.get("padding"))


def parse_strided_view(p: Parser) -> Any:
    p.expect("<")
    tile = tile_shape(p)
    parts = comma_words(p)
    p.expect(">")
    dim_map = parts.get("dim_map", tuple(range(len(parts["view"].shape))))
    return T.StridedView(tile, parts.get("traversal", ()), parts["view"], dim_map, parts.get("padding"))


def parse_gather_scatter_view(p: Parser) -> Any:
    p.expect("<")
    tile = tile_shape(p)
    parts = comma_words(p)
    p.expect(">")
    return T.GatherScatterView(tile, parts["view"], parts.get("sparse_dim", 0), parts.get("padding"))


TYPES = {
    "tile": parse_tile,
    "ptr": parse_ptr,
    "token": lambda p: T.TOKEN,
    "tensor_view": parse_tensor_view,
    "partition_view": parse_partition_view,
    "strided_view": parse_strided_view,
    "gather_scatter_view": parse_gather_scatter_view,
}

# ---- debug attributes


def named_fields(p: Parser, names: dict[str, str]) -> dict[str, Any]:
    """`<name = value, ...>`: each name once, all of them (a trailing `?` in the table: optional)."""
    p.expect("<")
    found: dict[str, Any] = {}

    def entry() -> None:
        pos = p.start
        name = p.word("a parameter name in struct")
        if name not in names or name in found:
            raise p.error(f"duplicate or unknown struct parameter name: {name}", pos)
        p.expect("=")
        kind = names[name].rstrip("?")
        at = p.start
        if kind == "int":
            found[name] = p.integer()
        elif kind == "str":
            found[name] = p.string()
        else:
            value = p.attribute()
            if type(value).__name__ not in kind.split("|"):
                raise p.error(f"parameter '{name}' has the wrong kind", at)
            found[name] = value

    if p.at(">"):
        entry()
    p.list_of(entry, ">")
    for name, kind in names.items():
        if name not in found and not kind.endswith("?"):
            raise p.error(f"struct is missing required parameter: {name}")
    return found


def parse_di_file(p: Parser) -> Any:
    p.expect("<")
    name = p.string()
    p.expect("in")
    directory = p.string()
    p.expect(">")
    return D.DIFile(name, directory)


def parse_di_compile_unit(p: Parser) -> Any:
    return D.DICompileUnit(named_fields(p, {"file": "DIFile"})["file"])


SCOPES = "DILexicalBlock|DISubprogram|DIFile|DICompileUnit"


def parse_di_lexical_block(p: Parser) -> Any:
    f = named_fields(p, {"scope": SCOPES, "file": "DIFile", "line": "int", "column": "int"})
    return D.DILexicalBlock(f["scope"], f["file"], f["line"], f["column"])


def parse_di_subprogram(p: Parser) -> Any:
    f = named_fields(
        p,
        {"file": "DIFile", "line": "int", "name": "str", "linkageName": "str", "compileUnit": "DICompileUnit",
         "scopeLine": "int?", "flags": "int?"},
    )  # fmt: skip
    return D.DISubprogram(
        f["file"],
        f["line"],
        f["name"],
        f["linkageName"],
        f["compileUnit"],
        f.get("scopeLine", 0),
        f.get("flags"),
    )


def parse_di_loc(p: Parser) -> Loc:
    p.expect("<")
    pos = p.start
    where = p.location_body()
    p.expect("in")
    scope = p.attribute()
    p.expect(">")
    if not isinstance(where, Loc):
        raise p.error(f"undefined location alias '{where}'", pos)
    if not isinstance(scope, (D.DILexicalBlock, D.DISubprogram, D.DIFile, D.DICompileUnit)):
        raise p.error("expected a debug scope", pos)
    return Loc(where.file, where.line, where.col, where.callers, scope)
