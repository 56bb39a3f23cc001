"""Constants in text form: `<f32: [1.0, 2.0]>`, and MLIR's `dense<...>`."""

from __future__ import annotations

from tileiras.compiler.ir import floats
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.lexer import ParseError
from tileiras.compiler.ir.verify import tname

from .dense import elements_of, pack_elements, signed, unique_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.parser import Parser, State
    from tileiras.compiler.ir.printer import Printer

MAX_ELEMENTS = 1 << 24
CONSTANTS = "i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN"


def spell_element(value: int, elem: Any) -> str:
    if elem is T.I1:
        return "true" if value else "false"
    return floats.spell(value, elem) if elem.is_float else str(signed(value, elem.bits))


def print_dense(printer: Printer, dense: Any) -> None:
    """`<f32: 1.0>`, nested lists where elements differ."""
    elem, shape = dense.type.elem, dense.type.shape
    value = unique_value(dense)
    if value is not None:
        printer.put(f"<{elem}: {spell_element(value, elem)}>")
        return
    items = [spell_element(v, elem) for v in elements_of(dense)]
    for extent in reversed(shape):
        items = [f"[{', '.join(items[i : i + extent])}]" for i in range(0, len(items), extent)]
    printer.put(f"<{elem}: {items[0]}>")


def print_value(printer: Printer, op: Op) -> None:
    print_dense(printer, op.attrs["value"])


def parse_element(p: Parser, elem: Any) -> int:
    pos = p.start
    if p.kind == "word" and p.token in ("true", "false"):
        if not (isinstance(elem, T.Scalar) and elem is T.I1):
            raise p.error(f"expected {'floating-point' if elem.is_float else 'integer'} value{p.found()}")
        return 1 if p.step() == "true" else 0
    negative = p.accept("-")
    if p.kind != "number":
        what = "floating-point" if elem.is_float else "integer"
        raise p.error(f"expected {what} value{p.found()}", pos)
    text = p.step()
    if elem.is_float:
        if text.startswith("0x"):
            value = int(text, 16)
            if negative or value >> floats.width_of(elem):
                raise p.error("hexadecimal float constant out of range for type", pos)
            return value
        if "." not in text:
            note = "add a trailing dot to make the literal a float"
            raise p.error("unexpected decimal integer literal for a floating point value", pos, note)
        return floats.parse_decimal(("-" if negative else "") + text, elem)
    if "." in text:
        raise p.error("expected integer elements, but parsed floating-point", pos)
    value = int(text, 16) if text.startswith("0x") else int(text)
    value = -value if negative else value
    limit = 1 << elem.bits
    if not -(limit >> 1) <= value < limit and not (elem is T.I1 and value == -1):
        raise p.error("integer constant out of range for type", pos)
    return value & (limit - 1)


def plain_integers(p: Parser, elem: Any) -> list[int] | None:
    """A long innermost list of plain integers, without a token for each; None when it is anything else."""
    end = p.text.find("]", p.start)
    body = p.text[p.start + 1 : end]
    if len(body) < 256 or "[" in body or "/" in body or elem.is_float or elem.bits == 1:
        return None
    parts = [part.strip() for part in body.split(",")]
    if any(len(part) > 20 or not part.lstrip("-").isdecimal() or not part.isascii() for part in parts):
        return None
    limit = 1 << elem.bits
    found = [int(part) for part in parts if not part.startswith("--")]
    if len(found) != len(parts) or any(not -(limit >> 1) <= v < limit for v in found):
        return None
    p.seek(end + 1)
    return [v & (limit - 1) for v in found]


def parse_elements(p: Parser, elem: Any, values: list[int], depth: int) -> tuple[int, ...]:
    """A number or a nested list; its shape."""
    if not p.at("["):
        values.append(parse_element(p, elem))
        return ()
    pos = p.start
    if depth > 16:
        raise p.error("dense literal has too many dimensions")
    quick = plain_integers(p, elem)
    if quick is not None:
        values += quick
        return (len(quick),)
    p.step()
    shapes: list[tuple[int, ...]] = []

    def item() -> None:
        if len(values) > MAX_ELEMENTS:
            raise p.error("dense literal has too many elements")
        shape = parse_elements(p, elem, values, depth + 1)
        if shapes and shape != shapes[0]:
            raise p.error("tensor literal is invalid; ranks are not consistent between elements", pos)
        shapes.append(shape)

    p.list_of(item, "]")
    return (len(shapes), *(shapes[0] if shapes else ()))


def constant_type(p: Parser) -> Any:
    """The element type of a constant."""
    pos = p.start
    expected = f"expect element type to be one of {CONSTANTS} values, but got "
    try:
        elem = p.type()
    except ParseError as error:
        error.notes += (f"{expected}'<<NULL TYPE>>'",)
        raise
    if not isinstance(elem, T.Scalar) or elem is T.I4:
        raise p.error(f"{expected}'{tname(elem)}'", pos)
    return elem


def parse_dense_literal(p: Parser) -> tuple[Any, list[int], tuple[int, ...], int]:
    """`<f32: ...>`: element type, values, shape of the literal, position."""
    p.expect("<")
    elem = constant_type(p)
    p.expect(":")
    at = p.start
    values: list[int] = []
    shape = parse_elements(p, elem, values, 0)
    p.expect(">")
    return elem, values, shape, at


def make_dense(p: Parser, literal: tuple[Any, list[int], tuple[int, ...], int], type: Any) -> Any:
    elem, values, shape, pos = literal
    if not isinstance(type, T.TileType):
        raise p.error(f"result #0 must be tile of {CONSTANTS} values, but got '{tname(type)}'", pos)
    if type.elem is not elem:
        raise p.error(
            f"mismatch between the element type: '{elem}' and the tile element type '{type.elem}'", pos
        )
    count = 1
    for d in type.shape:
        count *= d
    if shape and shape != type.shape:
        listed, wanted = ", ".join(map(str, shape)), ", ".join(map(str, type.shape))
        raise p.error(
            f"inferred shape of elements literal ([{listed}]) does not match type ([{wanted}])", pos
        )
    return T.Dense(type, pack_elements(elem, values, count))


def parse_value(p: Parser, state: State) -> None:
    """`<f32: 1.0> : tile<4xf32>`; the template's `: {T result}` follows, so the type is read ahead."""
    literal = parse_dense_literal(p)
    mark = p.start
    p.expect(":")
    type = p.value_type()
    p.seek(mark)
    state.attrs["value"] = make_dense(p, literal, type)


def parse_dense_attr(p: Parser, state: Any = None) -> Any:
    """The rest of MLIR's `dense<"0x..."> : type` or `dense<[...]> : type`, behind `dense<`."""
    pos = p.start
    if p.kind == "string":
        text = p.string()
        p.expect(">")
        p.expect(":")
        type = p.value_type()
        try:
            data = bytes.fromhex(text[2:] if text.startswith("0x") else text)
        except ValueError:
            raise p.error("expected a string of hexadecimal digits", pos) from None
        if not isinstance(type, T.TileType) or not isinstance(type.elem, T.Scalar):
            raise p.error(f"constant must have a tile type, but got '{type}'", pos)
        return T.Dense(type, data)
    mark = pos
    depth = 0
    while p.kind != "end" and not (depth == 0 and p.at(">")):
        depth += {"[": 1, "]": -1}.get(p.token, 0)
        p.step()
    p.expect(">")
    p.expect(":")
    type = p.value_type()
    after = p.start
    if not isinstance(type, T.TileType) or not isinstance(type.elem, T.Scalar):
        raise p.error(f"constant must have a tile type, but got '{type}'", mark)
    p.seek(mark)
    values: list[int] = []
    shape = parse_elements(p, type.elem, values, 0)
    p.seek(after)
    return make_dense(p, (type.elem, values, shape, mark), type)
