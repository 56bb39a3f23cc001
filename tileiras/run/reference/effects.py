"""The remaining ops: tokens, ids, globals, alloca, print, assert, assume."""

from __future__ import annotations

import re

import numpy as np

from tileiras.compiler.ir.types import Bounded, DivBy, TensorView, TileType

from . import diags
from .floats import FORMATS, decode64
from .ints import as_signed, as_unsigned
from .memory import Fault
from .races import START
from .registry import effect, elem_name
from .state import raise_fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .compile import Compiler
    from .registry import Frame, Step


@effect("make_token", "join_tokens", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko")
def compile_token(c: Compiler, op: Op) -> Step | None:
    """Program order satisfies every token. With check=True a token is the set of operations before it (races.py)."""
    d = c.slot(op.result)
    sources = c.slots_of(op.operands)
    if not c.check:
        return None

    def step(s: Frame) -> None:
        token = START
        for a in sources:
            token = token.join(s[a])
        s[d] = token

    return step


@effect("get_tile_block_id", "get_num_tile_blocks")
def compile_ids(c: Compiler, op: Op) -> Step:
    x, y, z = c.slots_of(op.results)
    own = op.spec.name == "get_tile_block_id"

    def step(s: Frame) -> None:
        state = s[0]
        s[x], s[y], s[z] = map(np.int32, state.id if own else state.launch.grid)

    return step


@effect("get_global")
def compile_get_global(c: Compiler, op: Op) -> Step:
    d, name = c.slot(op.result), op.attr("name")

    def step(s: Frame) -> None:
        s[d] = np.int64(s[0].launch.globals[name])

    return step


@effect("alloca")
def compile_alloca(c: Compiler, op: Op) -> Step:
    """Memory of the tile block; the same op gets the same bytes again, its earlier lifetime being over."""
    d, count, alignment = c.slot(op.result), op.attr("num_elem"), op.attr("alignment")
    size = count * getattr(op.result.type.elem.pointee, "bytes", 8)  # type: ignore[attr-defined]
    site = id(op)

    def step(s: Frame) -> None:
        state = s[0]
        found = state.scratch.get(site)
        if found is None:
            label = f"alloca of {size} bytes in tile block {state.id_text}"
            found = state.scratch[site] = state.launch.allocate(size, alignment or 1, label)
        s[d] = np.int64(found[0])

    return step


# ---- print and assert

CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L|q)?([a-zA-Z%])")


def split_format(text: str) -> list[tuple[str, str]]:
    """[(literal, conversion)], the last with an empty conversion; %% is literal text."""
    out, literal, end = [], "", 0
    for match in CONVERSION.finditer(text):
        literal += text[end : match.start()]
        end = match.end()
        if match.group(5) == "%":
            literal += "%"
        else:
            out.append((literal, match.group(0)))
            literal = ""
    out.append((literal + text[end:], ""))
    return out


def format_element(conversion: str, value: Any) -> str:
    """One element by C's rules; h and l do not matter to Python."""
    match = CONVERSION.fullmatch(conversion)
    assert match is not None
    flags, width, precision, _, kind = match.groups()
    spec = f"%{flags}{width or ''}" + (f".{precision or ''}" if "." in conversion else "")
    if kind in "aA":
        text = float(value).hex()
        text = re.sub(r"\.?0*p", "p", text) if np.isfinite(float(value)) else str(float(value))
        text = text.upper() if kind == "A" else text
        return f"{{:{'<' if '-' in flags else '>'}{width or ''}}}".format(text)
    if kind in "eEfFgG":
        number = float(value)
        if not np.isfinite(number):
            text = ("-" if np.signbit(number) else "+" if "+" in flags else "") + (
                "nan" if np.isnan(number) else "inf"
            )
            text = text.upper() if kind.isupper() else text
            return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))
        return (spec + kind) % number
    if kind in "diuoxX":
        return format_integer(
            int(value), kind, flags, int(width or 0), precision if "." in conversion else None
        )
    if kind == "c":
        return (spec + "c") % chr(int(value) & 0xFF)
    if kind == "p":
        return f"{int(value):#x}"
    return ("%" + flags + (width or "") + "s") % str(value)


def format_integer(value: int, kind: str, flags: str, width: int, precision: str | None) -> str:
    """An integer by C's rules: digits, then the prefix of #, then the sign, then zeros or blanks up to the width."""
    digits = f"{abs(value):{kind if kind in 'oxX' else 'd'}}"
    if precision is not None:
        digits = "" if not value and not int(precision or 0) else digits.zfill(int(precision or 0))
    prefix = ""
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    elif "#" in flags and kind in "xX" and value:
        prefix = "0" + kind
    if kind in "di":
        prefix = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    if "-" in flags:
        return (prefix + digits).ljust(width)
    if "0" in flags and precision is None:
        return prefix + digits.zfill(width - len(prefix))
    return (prefix + digits).rjust(width)


def string_at(memory: Any, address: int) -> str:
    """The characters from an address up to the NUL."""
    data = bytearray()
    while byte := int(memory.load(np.array([address + len(data)], np.int64), np.dtype(np.uint8))[0]):
        data.append(byte)
    return data.decode("utf-8", "surrogateescape")


def format_value(conversion: str, value: Any, name: str, memory: Any = None) -> str:
    """A scalar as printf prints it, a tile as nested lists of its elements. Strings are read from memory."""
    kind = conversion[-1]
    if name == "ptr" and kind == "s":
        texts = [string_at(memory, int(address)) for address in np.ravel(value)]
        value = np.array(texts, object).reshape(np.shape(value))
    if name in FORMATS:
        value = decode64(value, FORMATS[name])
    elif name != "ptr":
        value = as_unsigned(value, name) if kind in "uoxXcp" else as_signed(value, name)
        if name == "i1" and kind not in "uoxX":
            value = np.abs(value)
    if kind in "diuoxXc" and name in FORMATS:
        value = np.asarray(value).astype(np.int64)

    def nested(v: Any) -> str:
        if np.ndim(v) == 0:
            return format_element(conversion, v)
        return "[" + ", ".join(nested(x) for x in v) + "]"

    return nested(value)


@effect("print_tko")
def compile_print(c: Compiler, op: Op) -> Step:
    # C++ frontends write the NUL of a literal into the attribute: printf stops there
    parts = split_format(op.attr("str").split("\0", 1)[0])
    args = [(c.slot(v), elem_name(v)) for v in op.group("args")]
    results, token = c.slots_of(op.results), c.one(op.operand("token"))

    def step(s: Frame) -> None:
        text = []
        for i, (literal, conversion) in enumerate(parts):
            text.append(literal)
            if conversion and i < len(args):
                slot, name = args[i]
                try:
                    text.append(format_value(conversion, s[slot], name, s[0].memory))
                except Fault as fault:
                    raise_fault(s[0], op, fault, (1,), None)
        s[0].launch.write("".join(text))
        for d in results:
            s[d] = None if token is None else s[token]

    return step


@effect("assert")
def compile_assert(c: Compiler, op: Op) -> Step:
    condition, message = c.slot(op.operands[0]), op.attr("message")

    def step(s: Frame) -> None:
        value = s[condition]
        if not np.all(value):
            state = s[0]
            bad = ~np.asarray(value)
            places = np.argwhere(bad)
            for place in places[:8]:
                where = "element [" + ", ".join(map(str, place)) + "]" if bad.ndim else "scalar condition"
                state.launch.report(
                    diags.ASSERT_FAILED, op, message=message, block=state.id_text, where=where
                )
            if len(places) > 8:
                key = diags.ASSERT_FAILED.code, id(op)
                state.launch.counts[key] += len(places) - 8

    return step


# ---- assume


def broken(predicate: Any, value: Any, value_type: Any) -> tuple[Any, str]:
    """(which elements break the assumption, what it says)."""
    if isinstance(value_type, TensorView):
        return np.asarray(value.base % predicate.divisor != 0), f"base address {value.base:#x}"
    name = getattr(value_type.elem, "name", "ptr")
    if isinstance(predicate, DivBy):
        number = as_signed(value, name).astype(np.int64)
        if predicate.every is None or predicate.along is None:
            return np.asarray(number & np.int64(predicate.divisor - 1)) != 0, "not divisible"
        unit = getattr(value_type.elem.pointee, "bytes", 8) if name == "ptr" else 1
        along = np.moveaxis(np.asarray(number), predicate.along, 0)
        every = predicate.every or along.shape[0]
        place = np.arange(along.shape[0])
        first = along[place // every * every]
        steps = ((place % every) * unit).reshape((-1,) + (1,) * (along.ndim - 1))
        bad = ((first & np.int64(predicate.divisor - 1)) != 0) | (along != first + steps)
        return np.moveaxis(
            bad, 0, predicate.along
        ), "not divisible at the start of a group, or the group does not count up"
    if isinstance(predicate, Bounded):
        number = as_signed(value, name)
        bad = np.zeros(np.shape(number), np.bool_)
        if predicate.lower is not None:
            bad = bad | (number < predicate.lower)
        if predicate.upper is not None:
            bad = bad | (number > predicate.upper)
        return np.asarray(bad), "out of range"
    array = np.asarray(value)
    index = []
    for extent, group in zip(array.shape, predicate.values):
        place = np.arange(extent)
        index.append(place // group * group if group else place)
    first = array[np.ix_(*index)] if index else array
    return np.asarray(array != first), "differs from the first element of its group"


@effect("assume")
def compile_assume(c: Compiler, op: Op) -> Step:
    a, d = c.slot(op.operands[0]), c.slot(op.result)
    if not c.check:

        def step(s: Frame) -> None:
            s[d] = s[a]

        return step

    if is_count(op.result) and only_strides(
        op.result
    ):  # said where it matters: a stride of one element is never used

        def deferred(s: Frame) -> None:
            s[d] = s[a]

        c.assumed.setdefault(op.result, []).append(op)
        c.assumed[op.result] += c.assumed.get(op.operands[0], ())
        return deferred

    def checked(s: Frame) -> None:
        value = s[d] = s[a]
        tell_broken(s, op, value)

    return checked


def is_count(value: Value) -> bool:
    """Whether a value is one integer."""
    return isinstance(value.type, TileType) and not value.type.shape and elem_name(value) in ("i32", "i64")


def only_strides(value: Value) -> bool:
    """Whether a value is used as a stride of tensor views only (or not at all), perhaps by way of more assumptions."""
    return all(
        only_strides(user.result)
        if user.spec.name == "assume"
        else user.spec.name == "make_tensor_view"
        and value not in (*user.group("base"), *user.group("dynamicShape"))
        for user, _ in value.uses
    )


def tell_broken(s: Frame, op: Op, value: Any) -> None:
    """Report an assumption that the value breaks."""
    predicate, value_type = op.attr("predicate"), op.operands[0].type
    bad, what = broken(predicate, value, value_type)
    if bad.any():
        state = s[0]
        sample = (
            "" if isinstance(value_type, TensorView) else f", e.g. {np.asarray(value)[bad].reshape(-1)[0]}"
        )
        state.launch.report_elements(
            diags.ASSUME_FALSE, op, state, bad, predicate=str(predicate), what=what + sample
        )
