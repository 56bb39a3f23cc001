"""The assembly form of ops with regions, and of module, entry and global."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.parse_values import plain_hints
from tileiras.compiler.ir.printer import symbol

from . import const_syntax, forms, frontend
from .ops import BY_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.parser import Parser, State
    from tileiras.compiler.ir.printer import Printer


def types_of(values: Any) -> str:
    return ", ".join(str(v.type) for v in values)


def named_arg(p: Parser) -> tuple[str, int]:
    """`%name` that becomes a block argument."""
    if p.kind != "value":
        raise p.error(f"expected SSA operand{p.found()}")
    pos = p.start
    return p.step(), pos


# ---- module, entry, global


def print_module(printer: Printer, op: Op) -> None:
    name = op.attrs.get("sym_name")
    printer.put(f" {symbol(name)}" if name else "")
    producer = op.attrs.get("producer")
    extra = [printer.named_attr(op, k, v) for k, v in sorted(op.attrs.items()) if k not in MODULE_OWN]
    if producer is not None:
        extra.insert(0, f"producer = {printer.attr_value(producer)}")
    if extra:
        printer.put(f" attributes {{{', '.join(extra)}}}")
    printer.put(" ")
    if op.regions and op.regions[0].blocks:
        printer.region(op.regions[0])
    else:
        printer.put("{")
        printer.newline()
        printer.put("}")


MODULE_OWN = ("sym_name", "producer", "bytecode_version")


def parse_module(p: Parser, state: State) -> None:
    state.committed = True
    state.attrs["sym_name"] = p.symbol_name() if p.kind == "symbol" else "kernels"
    if p.accept("attributes"):
        for name, value in p.dictionary().items():
            attr = state.spec.attr_by_name.get(name)
            plain = frontend.plain(value)
            state.attrs[name] = (
                plain if attr is None else p.coerce(state.spec, attr, value, p.start, state.dialect)
            )
    p.scopes.append({None: True})  # type: ignore[dict-item]
    region = p.region(state.spec, None)
    p.scopes.pop()
    if not region.blocks:
        region.append(Block())
    state.regions = [region]


def parse_outer_module(p: Parser, pos: int) -> Op:
    """`module attributes {...} { cuda_tile.module {...} }`: the builtin one; its attributes go to the inner."""
    name = p.symbol_name() if p.kind == "symbol" else None
    attrs = p.dictionary() if p.accept("attributes") else {}
    outer = p.block
    block = Block()
    p.block = block
    p.enter()
    p.expect("{")
    while not p.at("}"):
        if p.kind == "end":
            raise p.error("expected '}', but the input ends")
        if p.kind in ("hash", "bang") and p.definition():
            continue
        p.one_op()
    p.step()
    p.leave()
    p.block = outer
    if name is not None:
        attrs.setdefault("sym_name", name)
    return outer_module(p, list(block.ops), attrs, pos)


def outer_module(p: Parser, ops: list[Op], attrs: dict[str, Any], pos: int) -> Op:
    """The inner module of a builtin one, with its attributes; ops around it move in."""
    name = attrs.pop("sym_name", None)
    modules = [op for op in ops if op.spec.name == "module"]
    loose = [op for op in ops if op.spec.name != "module"]
    if len(modules) > 1:
        raise p.error("expected one cuda_tile.module", pos)
    if modules:
        module = modules[0]
        module.block = None
        for op in loose:
            module.regions[0].block.append(op)
    else:
        content = Block()
        for op in loose:
            content.append(op)
        module = Op(BY_NAME["module"], attrs={"sym_name": name or "kernels"}, regions=[Region([content])])
    frontend.apply_module_attrs(p, module, attrs, pos)
    return module


def print_entry(printer: Printer, op: Op) -> None:
    block = op.regions[0].blocks[0] if op.regions and op.regions[0].blocks else None
    args = ""
    if block is not None:
        parts = [f"{printer.name(a)}: {a.type}" for a in block.args]
        for i, own in enumerate(op.attrs.get("arg_attrs") or ()):
            parts[i] += f" {printer.attr_value(own, typed=True)}" if own else ""
        args = ", ".join(parts)
    if block is None:
        args = ", ".join(map(str, op.attrs["function_type"].params))
    printer.put(f" {symbol(op.attrs['sym_name'])}({args})")
    results = getattr(op.attrs["function_type"], "results", ())
    if results:
        listed = ", ".join(map(str, results))
        printer.put(f" -> ({listed})" if len(results) > 1 else f" -> {listed}")
    hints = op.attrs.get("optimization_hints")
    if hints:
        printer.put(f" optimization_hints={forms.hints_text(printer, hints)}")
    extra = [printer.named_attr(op, k, v) for k, v in sorted(op.attrs.items()) if k not in ENTRY_OWN]
    if extra:
        printer.put(f" attributes {{{', '.join(extra)}}}")
    printer.put(" ")
    printer.region(op.regions[0])
    if op.attrs.get("sym_visibility") == "private":
        printer.put(' {sym_visibility = "private"}')


ENTRY_OWN = ("sym_name", "function_type", "optimization_hints", "sym_visibility", "arg_attrs", "res_attrs")


def parse_entry(p: Parser, state: State) -> None:
    state.committed = True
    state.attrs["sym_visibility"] = "private" if p.accept("private") else "public"
    if state.attrs["sym_visibility"] == "public":
        p.accept("public")
        del state.attrs["sym_visibility"]
    state.attrs["sym_name"] = p.symbol_name()
    raw = state.spec.name != "entry"
    arg_attrs: list[dict[str, Any]] = []
    args: list[tuple[str, Any, int]] = []

    def arg() -> None:
        name, pos = named_arg(p)
        p.expect(":")
        type = p.type() if raw else p.value_type()
        arg_attrs.append(plain_hints(p.dictionary()) if p.at("{") else {})
        if p.at("loc"):
            p.location()
        args.append((name, type, pos))

    p.expect("(")
    p.list_of(arg, ")")
    if any(arg_attrs):
        state.attrs["arg_attrs"] = tuple(arg_attrs)
    results: tuple[Any, ...] = ()
    if p.accept("->"):
        results = tuple(p.type_or_list())
    if p.accept("optimization_hints"):
        p.expect("=")
        hints = forms.parse_hint_list(p)
        if hints:
            state.attrs["optimization_hints"] = hints
    if p.accept("attributes"):
        p.attr_dict(state)
        for name, value in state.attrs.items():
            if name not in state.spec.attr_by_name:
                state.attrs[name] = frontend.plain(value)
    state.attrs["function_type"] = T.FunctionType(tuple(t for _, t, _ in args), results)
    p.scopes.append({None: True})  # type: ignore[dict-item]
    state.regions = [p.own_region(state, args)]
    p.scopes.pop()
    if p.at("{"):  # where the real printer puts the visibility
        state.attrs.update({name: frontend.plain(value) for name, value in p.dictionary().items()})


def print_global(printer: Printer, op: Op) -> None:
    if op.attr("symbol_visibility") == "private":
        printer.put(" private")
    printer.put(" ")
    if op.attrs.get("constant"):
        printer.put(" constant")
    printer.put(f" {symbol(op.attrs['sym_name'])}")
    alignment = op.attr("alignment")
    if alignment:
        printer.put(f" alignment = {alignment}")
    printer.put(" ")
    dense = op.attrs["value"]
    const_syntax.print_dense(printer, dense)
    printer.put(f" : {dense.type}")


def parse_global(p: Parser, state: State) -> None:
    if p.accept("private"):
        state.attrs["symbol_visibility"] = "private"
    else:
        p.accept("public")
    if p.accept("constant"):
        state.attrs["constant"] = True
    state.attrs["sym_name"] = p.symbol_name()
    if p.accept("alignment"):
        p.expect("=")
        state.attrs["alignment"] = p.integer()
    literal = const_syntax.parse_dense_literal(p)
    p.expect(":")
    state.attrs["value"] = const_syntax.make_dense(p, literal, p.value_type())


# ---- control flow


def print_if(printer: Printer, op: Op) -> None:
    printer.put(f" {printer.name(op.operands[0])} ")
    if op.results:
        printer.put(f"-> ({types_of(op.results)}) ")
    printer.region(op.regions[0], hide_terminator=True)
    if len(op.regions) > 1 and op.regions[1].blocks:
        printer.put(" else ")
        printer.region(op.regions[1], hide_terminator=True)


def parse_if(p: Parser, state: State) -> None:
    state.operands["condition"] = [p.value()]
    results: list[Any] = []
    if p.accept("->"):
        results = parse_result_types(p)
    state.result_types = results
    state.regions = [p.own_region(state, [])]
    state.regions.append(p.own_region(state, []) if p.accept("else") else Region())


def parse_result_types(p: Parser) -> list[Any]:
    """`(types)`, or types without parentheses."""
    if p.accept("("):
        return p.list_of(p.value_type, ")")
    found = [p.value_type()]
    while p.accept(","):
        found.append(p.value_type())
    return found


def print_carried(printer: Printer, args: Any, inits: Any) -> None:
    pairs = ", ".join(f"{printer.name(a)} = {printer.name(v)}" for a, v in zip(args, inits))
    printer.put(f"iter_values({pairs})")


def parse_carried(p: Parser, state: State) -> list[tuple[str, int]]:
    """`iter_values(%arg = %init, ...)`: names of the arguments; inits become operands."""
    names: list[tuple[str, int]] = []
    inits: list[Any] = []

    def pair() -> None:
        names.append(named_arg(p))
        p.expect("=")
        inits.append(p.value())

    p.expect("(")
    p.list_of(pair, ")")
    state.operands["initValues"] = inits
    return names


def print_for(printer: Printer, op: Op) -> None:
    if op.attrs.get("unsignedCmp"):
        printer.put(" unsigned")
    args = op.regions[0].blocks[0].args
    lower, upper, step = (printer.name(v) for v in op.operands[:3])
    printer.put(f" {printer.name(args[0])} in ({lower} to {upper}, step {step}) : {args[0].type} ")
    if len(op.operands) > 3:
        print_carried(printer, args[1:], op.operands[3:])
        printer.put(f" -> ({types_of(op.results)}) ")
    printer.region(op.regions[0], hide_terminator=True)


def parse_for(p: Parser, state: State) -> None:
    if p.accept("unsigned"):
        state.attrs["unsignedCmp"] = True
    name, pos = named_arg(p)
    p.expect("in")
    p.expect("(")
    state.operands["lowerBound"] = [p.value()]
    p.expect("to")
    state.operands["upperBound"] = [p.value()]
    p.expect(",")
    p.expect("step")
    state.operands["step"] = [p.value()]
    p.expect(")")
    p.expect(":")
    at = p.start
    type = p.value_type()
    for field in ("lowerBound", "upperBound", "step"):
        p.same_type(state.operands[field][0], type, at)
    args = [(name, type, pos)]
    state.result_types = []
    state.operands["initValues"] = []
    if p.accept("iter_values"):
        names = parse_carried(p, state)
        p.expect("->")
        at = p.start
        state.result_types = parse_result_types(p)
        if len(state.result_types) != len(names):
            text = f"mismatch in number of loop-carried values and defined values: {len(names)} vs {len(state.result_types)}"
            raise p.error(text, at)
        for value, carried in zip(state.operands["initValues"], state.result_types):
            p.same_type(value, carried, at)
        args += [(n, t, at) for (n, at), t in zip(names, state.result_types)]
    state.regions = [p.own_region(state, args)]


def print_loop(printer: Printer, op: Op) -> None:
    printer.put(" ")
    if op.operands:
        print_carried(printer, op.regions[0].blocks[0].args, op.operands)
        printer.put(f" : {types_of(op.operands)} ")
        if op.results:
            printer.put(f"-> {types_of(op.results)} ")
    elif op.results:
        printer.put(f": {types_of(op.results)} ")
    printer.region(op.regions[0], hide_terminator=True)


def parse_loop(p: Parser, state: State) -> None:
    args: list[tuple[str, Any, int]] = []
    state.operands["initValues"] = []
    state.result_types = []
    if p.accept("iter_values"):
        names = parse_carried(p, state)
        p.expect(":")
        at = p.start
        types = parse_result_types(p)
        if len(types) != len(names):
            raise p.error("found different number of iter_values and types", at)
        for value, type in zip(state.operands["initValues"], types):
            p.same_type(value, type, at)
        args = [(n, t, pos) for (n, pos), t in zip(names, types)]
        if p.accept("->"):
            state.result_types = parse_result_types(p)
    elif p.accept(":"):
        state.result_types = parse_result_types(p)
    if p.at("->"):
        raise p.error("expected '{'")
    state.regions = [p.own_region(state, args)]


# ---- reduce, scan


def print_aggregate(printer: Printer, op: Op) -> None:
    printer.put(f" {', '.join(map(printer.name, op.operands))} dim={op.attrs.get('dim')}")
    if "reverse" in op.spec.attr_by_name:
        printer.put(f" reverse={'true' if op.attrs.get('reverse') else 'false'}")
    identities = ", ".join(printer.attr_value(v) for v in op.attrs.get("identities", ()))
    printer.put(f" identities=[{identities}] : {types_of(op.operands)} -> {types_of(op.results)} ")
    printer.newline()
    args = op.regions[0].blocks[0].args if op.regions[0].blocks else ()
    printer.put("(" + ", ".join(f"{printer.name(a)}: {a.type}" for a in args) + ") ")
    printer.region(op.regions[0])


def parse_aggregate(p: Parser, state: State) -> None:
    state.operands["operands"] = p.values()
    p.expect("dim")
    p.expect("=")
    state.attrs["dim"] = p.integer()
    if "reverse" in state.spec.attr_by_name:
        p.expect("reverse")
        p.expect("=")
        pos = p.start
        word = p.word("true or false")
        if word not in ("true", "false"):
            raise p.error("expected true or false", pos)
        state.attrs["reverse"] = word == "true"
    p.expect("identities")
    p.expect("=")
    p.expect("[")
    state.attrs["identities"] = tuple(p.list_of(p.number, "]"))
    p.expect(":")
    pos = p.start
    types = [p.value_type()]
    while p.accept(","):
        types.append(p.value_type())
    if len(types) != len(state.operands["operands"]):
        count = len(state.operands["operands"])
        raise p.error(
            f"number of operands and types do not match: got {count} operands and {len(types)} types", pos
        )
    for value, type in zip(state.operands["operands"], types):
        p.same_type(value, type, pos)
    p.expect("->")
    state.result_types = parse_result_types_here(p)
    args: list[tuple[str, Any, int]] = []

    def arg() -> None:
        name, pos = named_arg(p)
        p.expect(":")
        args.append((name, p.type(), pos))

    p.expect("(")
    p.list_of(arg, ")")
    state.regions = [p.own_region(state, args)]


def parse_result_types_here(p: Parser) -> list[Any]:
    """Result types; a parenthesis opens the body's arguments unless a type follows it."""
    if p.at("("):
        mark = p.start
        p.step()
        if p.kind != "value" and not p.at(")"):
            return p.list_of(p.value_type, ")")
        p.seek(mark)
        return []
    found = [p.value_type()]
    while p.accept(","):
        found.append(p.value_type())
    return found


FORMS = {
    "module": (print_module, parse_module),
    "outer_module": (print_module, parse_outer_module),
    "entry": (print_entry, parse_entry),
    "global": (print_global, parse_global),
    "if": (print_if, parse_if),
    "for": (print_for, parse_for),
    "loop": (print_loop, parse_loop),
    "reduce": (print_aggregate, parse_aggregate),
    "scan": (print_aggregate, parse_aggregate),
}
