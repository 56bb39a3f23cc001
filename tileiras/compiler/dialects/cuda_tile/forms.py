"""Pieces of the assembly form: types, constants, assumptions, hints and the clauses of single ops.

Each entry of `FORMS` is a pair (print, parse) that a template names.
"""

from __future__ import annotations

from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import floats
from tileiras.compiler.ir import types as T
from tileiras.diag import Loc

from tileiras.compiler.ir.verify import tname

from .dense import elements_of, pack_elements, unique_value
from .ops import ENUMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.parser import Parser, State
    from tileiras.compiler.ir.printer import Printer

MAX_ELEMENTS = 1 << 24


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) & 1 else value


# ---- types


SCALARS = (
    "f16 or bf16 or f32 or tf32 or f64 or f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN or i1 or i8 or i16 or i32 or i64"
)


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
        raise p.error("expected static shape")
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
        if not shape:
            raise p.error("strides must not be provided for 0-d tiles")
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
        raise p.error("expected static shape")
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
    if not p.at("tile"):  # the short form of the specification documents
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

# ---- constants


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


def parse_dense_literal(p: Parser) -> tuple[Any, list[int], tuple[int, ...], int]:
    """`<f32: ...>`: element type, values, shape of the literal, position."""
    p.expect("<")
    pos = p.start
    elem = elem_type(p)
    if not isinstance(elem, T.Scalar):
        raise p.error(f"element type '{elem}' has no constants", pos)
    p.expect(":")
    at = p.start
    values: list[int] = []
    shape = parse_elements(p, elem, values, 0)
    p.expect(">")
    return elem, values, shape, at


def make_dense(p: Parser, literal: tuple[Any, list[int], tuple[int, ...], int], type: Any) -> Any:
    elem, values, shape, pos = literal
    if not isinstance(type, T.TileType):
        text = "result #0 must be tile of i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or "
        raise p.error(f"{text}f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN values, but got '{tname(type)}'", pos)
    if type.elem is not elem:
        raise p.error(f"mismatch between the element type: '{elem}' and the tile element type '{type.elem}'", pos)
    count = 1
    for d in type.shape:
        count *= d
    if shape and shape != type.shape:
        listed, wanted = ", ".join(map(str, shape)), ", ".join(map(str, type.shape))
        raise p.error(f"inferred shape of elements literal ([{listed}]) does not match type ([{wanted}])", pos)
    if elem is T.I4:
        raise p.error("element type 'i4' has no constants", pos)
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


# ---- assumptions


def print_predicate(printer: Printer, op: Op) -> None:
    value = op.attrs.get("predicate")
    printer.put(value if isinstance(value, str) else str(value))


def parse_div_by(p: Parser) -> Any:
    p.expect("<")
    divisor = p.integer()
    every = along = None
    if p.accept(","):
        p.expect("every")
        every = p.integer()
        p.expect("along")
        along = p.integer()
    p.expect(">")
    return T.DivBy(divisor, every, along)


def parse_bounded(p: Parser) -> Any:
    p.expect("<")
    lower = dynamic_int(p)
    p.expect(",")
    upper = dynamic_int(p)
    p.expect(">")
    return T.Bounded(lower, upper)


def parse_same_elements(p: Parser) -> Any:
    p.expect("<")
    p.expect("[")
    values = tuple(p.list_of(p.integer, "]"))
    p.expect(">")
    return T.SameElements(values)


PREDICATES = {"div_by": parse_div_by, "bounded": parse_bounded, "same_elements": parse_same_elements}


def parse_one_predicate(p: Parser) -> Any:
    if p.kind == "word" and p.token in PREDICATES:
        return PREDICATES[p.step()](p)
    return p.attribute()


def parse_predicate(p: Parser, state: State) -> None:
    """One predicate, or the list of the specification documents."""
    if p.accept("["):
        state.attrs["predicate"] = tuple(p.list_of(lambda: parse_one_predicate(p), "]"))
    else:
        state.attrs["predicate"] = parse_one_predicate(p)


# ---- hints


def hints_text(printer: Printer, hints: dict[str, Any]) -> str:
    return "<" + ", ".join(printer.dict_entry(k, v, False) for k, v in sorted(hints.items())) + ">"


def print_hints(printer: Printer, op: Op) -> None:
    printer.put(hints_text(printer, op.attrs["optimization_hints"]))


def parse_hint_list(p: Parser) -> dict[str, Any]:
    """`<sm_90 = {latency = 3}, default = {...}>`."""
    from tileiras.compiler.ir.parser import plain_hints

    p.expect("<")
    found: dict[str, Any] = {}

    def entry() -> None:
        pos = p.start
        name = p.string() if p.kind == "string" else p.word("valid keyword or string")
        p.expect("=")
        if not p.at("{"):
            text = f"expected dictionary attribute for optimization_hints entry `{name}`{p.found()}"
            raise p.error(text)
        if name in found:
            raise p.error(f"duplicate key '{name}' in optimization hints", pos)
        found[name] = plain_hints(p.dictionary())

    p.list_of(entry, ">")
    return found


def parse_hints(p: Parser, state: State) -> None:
    state.attrs["optimization_hints"] = parse_hint_list(p)


# ---- clauses of single ops


def print_overflow(printer: Printer, op: Op) -> None:
    value = op.attr("overflow")
    if value not in (None, "none"):
        printer.put(f" overflow<{value}>")


def clause(word: str, name: str) -> Any:
    """Parses `word<case>` into attribute `name` when it is there."""

    def parse(p: Parser, state: State) -> None:
        if p.accept(word):
            p.expect("<")
            pos = p.start
            state.attrs[name] = p.enum_case(state, state.spec.attr_by_name[name], p.word(), pos)
            p.expect(">")

    return parse


def print_divi_rounding(printer: Printer, op: Op) -> None:
    value = op.attr("rounding")
    if value not in (None, "zero"):
        printer.put(f" rounding<{value}>")


def print_minmax_flags(printer: Printer, op: Op) -> None:
    for name in ("flush_to_zero", "propagate_nan"):
        if op.attrs.get(name):
            printer.put(" " + name)


def parse_minmax_flags(p: Parser, state: State) -> None:
    while p.kind == "word" and p.token in ("flush_to_zero", "propagate_nan"):
        state.attrs[p.step()] = True


def index_group(op: Op) -> list[Any]:
    return op.group("index")


def print_index_types(printer: Printer, op: Op) -> None:
    types = [v.type for v in index_group(op)]
    if types and all(t is types[0] for t in types):
        types = types[:1]
    for type in types:
        printer.put(f", {type}")


def parse_index_types(p: Parser, state: State) -> None:
    """One type for all indices, or one for each."""
    indices = state.operands["index"]
    found = []
    pos = p.start
    while p.accept(","):
        pos = p.start
        found.append(p.value_type())
    if len(found) == 1:
        found = found * len(indices)
    if len(found) != len(indices):
        raise p.error(f"expected 1 or {len(indices)} index types, but got {len(found)}", pos)
    for value, type in zip(indices, found):
        p.same_type(value, type, pos)


def print_inbounds(printer: Printer, op: Op) -> None:
    value = op.attrs.get("inbounds")
    if value and any(value):
        printer.put(f" inbounds = [{', '.join('true' if v else 'false' for v in value)}]")


def parse_inbounds(p: Parser, state: State) -> None:
    if p.accept("inbounds"):
        p.expect("=")
        p.expect("[")

        def item() -> bool:
            pos = p.start
            word = p.word("true or false")
            if word not in ("true", "false"):
                raise p.error("expected true or false", pos)
            return word == "true"

        state.attrs["inbounds"] = tuple(p.list_of(item, "]"))


def print_index_token_types(printer: Printer, op: Op) -> None:
    print_index_types(printer, op)
    for value in op.group("token"):
        printer.put(f", {value.type}")


def parse_index_token_types(p: Parser, state: State) -> None:
    """Index types, then the type of the token."""
    state.declared.add("token")
    wanted = len(state.operands["index"])
    found = []
    pos = p.start
    while p.accept(","):
        pos = p.start
        found.append(p.value_type())
    tokens = [t for t in found if t is T.TOKEN]
    if len(tokens) != len(state.operands.get("token", ())):
        raise p.error("expected the type of the token", pos)
    types = [t for t in found if t is not T.TOKEN]
    types = types * wanted if len(types) == 1 else types
    if len(types) != wanted:
        raise p.error(f"expected 1 or {wanted} index types, but got {len(types)}", pos)
    for value, type in zip(state.operands["index"], types):
        p.same_type(value, type, pos)


def print_multimem(printer: Printer, op: Op) -> None:
    value = op.attrs.get("inbounds")
    if value and any(value):
        printer.put(f"inbounds = [{', '.join('true' if v else 'false' for v in value)}]")
    reduction = op.attrs.get("reduction", "add")
    if reduction != "add":
        printer.put(f" attributes {{reduction = #cuda_tile.multimem_reduction_kind<{reduction}>}}")


def parse_multimem(p: Parser, state: State) -> None:
    parse_inbounds(p, state)
    if "reduction" in state.spec.attr_by_name:
        state.attrs["reduction"] = "add"
    if p.accept("attributes"):
        p.attr_dict(state)


def print_load_extras(printer: Printer, op: Op) -> None:
    for name in ("mask", "paddingValue"):
        for value in op.group(name):
            printer.put(", " + printer.name(value))


def parse_load_extras(p: Parser, state: State) -> None:
    """Mask and padding: by type, as one of them may be absent."""
    found = []
    pos = p.start
    while p.accept(","):
        found.append(p.value())
    if len(found) > 2:
        raise p.error("expected a mask and a padding value at most", pos)
    if len(found) == 1:
        type, source = found[0].type, state.operands["source"][0].type
        pointee = getattr(getattr(source, "elem", None), "pointee", None)
        is_mask = not isinstance(type, T.TileType) or type.elem is T.I1 or type.elem is not pointee
        state.operands["mask" if is_mask else "paddingValue"] = found
    elif found:
        state.operands["mask"], state.operands["paddingValue"] = found[:1], found[1:]
    state.operands.setdefault("mask", [])
    state.operands.setdefault("paddingValue", [])


def print_one_type(printer: Printer, op: Op) -> None:
    printer.put(str(op.results[0].type) if op.results else "")


def parse_one_type(p: Parser, state: State) -> None:
    source = state.operands["src"][0].type
    want = "tensor_view" if state.spec.operands[0].constraint == "tensor_view" else "tile view"
    if not isinstance(source, T.TensorView if want == "tensor_view" else T.TILE_VIEWS):
        raise p.error(f"expected {want}, got '{tname(source)}'")
    type = p.value_type()
    while p.accept(","):
        type = p.value_type()
    rank = len(source.shape if isinstance(source, T.TensorView) else source.tile)
    state.result_types = [type] * rank


def print_print_types(printer: Printer, op: Op) -> None:
    args = op.group("args")
    if args:
        printer.put(" : " + ", ".join(str(v.type) for v in args))


def parse_print_types(p: Parser, state: State) -> None:
    args = state.operands.get("args", [])
    if args or p.at(":"):
        p.expect(":")
        for i, value in enumerate(args):
            if i:
                p.expect(",")
            pos = p.start
            p.same_type(value, p.value_type(), pos)


def print_tensor_view(printer: Printer, op: Op) -> None:
    type = op.results[0].type
    dynamic = [iter(op.group("dynamicShape")), iter(op.group("dynamicStrides"))]
    lists = []
    for values, extents in zip(dynamic, (type.shape, type.strides)):
        names = [printer.name(v) if d is None and (v := next(values, None)) is not None else str(d) for d in extents]
        lists.append(f"[{', '.join(names)}]")
    printer.put(f" {printer.name(op.operands[0])}, shape = {lists[0]}, strides = {lists[1]} : ")
    named = [op.operands[0].type] if getattr(op.operands[0].type.elem, "attr", None) is not None else []
    if len(op.operands) > 1:
        named.append(op.operands[1].type)
    if named:
        printer.put(", ".join(map(str, named)) + " -> ")
    printer.put(str(type))


def parse_tensor_view_op(p: Parser, state: State) -> None:
    state.operands["base"] = [p.value()]
    lists: list[list[Any]] = []
    for i, word in enumerate(("shape", "strides")):
        if not p.accept(","):
            if i == 0:
                raise p.error(f"expected ','{p.found()}")
            lists.append([])
            continue
        p.expect(word)
        p.expect("=")
        p.expect("[")
        lists.append(p.list_of(lambda: p.value() if p.kind == "value" else p.integer("either integer or SSA value"), "]"))
    p.expect(":")
    pos = p.start
    type = p.type()
    named = [p.default.value_type(type)]
    while p.accept(","):
        named.append(p.value_type())
    index_type = None
    if p.accept("->"):
        if isinstance(named[0], T.TileType) and isinstance(named[0].elem, T.Ptr):  # its attribute has to be said
            p.same_type(state.operands["base"][0], named.pop(0), pos)
        index_type = named[0] if named else None
        pos = p.start
        type = p.type()
    if not isinstance(type, T.TensorView):
        raise p.error(f"expected 'tensor_view' type, but got '{tname(type)}'", pos)
    for name, given, extents in zip(("dynamicShape", "dynamicStrides"), lists, (type.shape, type.strides)):
        state.operands[name] = values = [v for v in given if not isinstance(v, int)]
        word = "shape" if name == "dynamicShape" else "stride"
        if len(given) != len(extents):
            text = f"expected {word} declaration to contain {len(extents)} elements due to tensor_view type"
            raise p.error(f"{text}, but {len(given)} were provided", pos)
        for i, (v, d) in enumerate(zip(given, extents)):
            v = v if isinstance(v, int) else None
            if v != d:
                sides = f"expected {'dynamic' if d is None else d}, got {'dynamic' if v is None else v}"
                raise p.error(f"input {word} dimension {i} does not match tensor_view type ({sides})", pos)
        for value in values:
            if index_type is None:
                raise p.error("expected the type of dynamic extents and strides", pos)
            p.same_type(value, index_type, pos)
    state.types["result"] = [type]


# ---- debug attributes


def named_fields(p: Parser, names: dict[str, str]) -> dict[str, Any]:
    """`<name = value, ...>`: each name once, all of them (a trailing `?` in the table: optional)."""
    p.expect("<")
    found: dict[str, Any] = {}

    def entry() -> None:
        pos = p.start
        name = p.word("a parameter name")
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
        f["file"], f["line"], f["name"], f["linkageName"], f["compileUnit"], f.get("scopeLine", 0), f.get("flags")
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


def parse_wrapped_hints(p: Parser) -> Any:
    return parse_hint_list(p)


ATTRS = {
    **PREDICATES,
    "optimization_hints": parse_wrapped_hints,
    "di_file": parse_di_file,
    "di_compile_unit": parse_di_compile_unit,
    "di_lexical_block": parse_di_lexical_block,
    "di_subprogram": parse_di_subprogram,
    "di_loc": parse_di_loc,
}

def parse_view_type(p: Parser, state: State) -> None:
    """The operand of a view op has the tensor_view type inside of the result type."""
    type = state.types["result"][0]
    if not isinstance(type, T.TILE_VIEWS):
        raise p.error(f"expected '{state.spec.results[0].constraint}' type, but got '{tname(type)}'")
    p.same_type(state.operands["tensor_view"][0], type.view, state.pos)


FORMS = {
    "view_type": (lambda printer, op: None, parse_view_type),
    "value": (print_value, parse_value),
    "dense": (print_value, parse_dense_attr),
    "predicate": (print_predicate, parse_predicate),
    "hints": (print_hints, parse_hints),
    "overflow": (print_overflow, clause("overflow", "overflow")),
    "divi_rounding": (print_divi_rounding, clause("rounding", "rounding")),
    "minmax_flags": (print_minmax_flags, parse_minmax_flags),
    "index_types": (print_index_types, parse_index_types),
    "inbounds": (print_inbounds, parse_inbounds),
    "index_token_types": (print_index_token_types, parse_index_token_types),
    "multimem": (print_multimem, parse_multimem),
    "load_extras": (print_load_extras, parse_load_extras),
    "one_type": (print_one_type, parse_one_type),
    "print_types": (print_print_types, parse_print_types),
    "tensor_view": (print_tensor_view, parse_tensor_view_op),
}
