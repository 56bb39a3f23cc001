"""Pieces of the assembly form: assumptions, hints and the clauses of single ops.

Each entry of `FORMS` is a pair (print, parse) that a template names.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import tname

from .const_syntax import parse_dense_attr, parse_value, print_value
from .type_syntax import (
    dynamic_int,
    parse_di_compile_unit,
    parse_di_file,
    parse_di_lexical_block,
    parse_di_loc,
    parse_di_subprogram,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.parser import Parser, State
    from tileiras.compiler.ir.printer import Printer


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
    if p.kind == "number" or p.at("-"):
        raise p.error("expected assume predicate attribute")
    return p.attribute()  # of another kind: nobody checks it


def parse_predicate(p: Parser, state: State) -> None:
    """One predicate, or the list that older producers write."""
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
            at = p.start
            got = p.attribute()
            text = f"expected dictionary attribute for optimization_hints entry `{name}` got value={got}"
            raise p.error(text, at)
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
        names = [
            printer.name(v) if d is None and (v := next(values, None)) is not None else str(d)
            for d in extents
        ]
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
        lists.append(
            p.list_of(
                lambda: p.value() if p.kind == "value" else p.integer("either integer or SSA value"), "]"
            )
        )
    p.expect(":")
    pos = p.start
    type = p.type()
    named = [p.default.value_type(type)]
    while p.accept(","):
        named.append(p.value_type())
    index_type = None
    if p.accept("->"):
        if isinstance(named[0], T.TileType) and isinstance(
            named[0].elem, T.Ptr
        ):  # its attribute has to be said
            p.same_type(state.operands["base"][0], named.pop(0), pos)
        index_type = named[0] if named else p.default.value_type(type)
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


ATTRS = {
    **PREDICATES,
    "optimization_hints": parse_hint_list,
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
        raise p.error(
            f"expected '{state.spec.results[0].constraint}' type, but got '{tname(type)}'", p.here()
        )
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
