"""Undefined behaviour of pure ops that `check=True` reports: per op, what its operands must not be.

A row gives a function of the operand values that yields (what is wrong, which elements), or None when the
attributes of the op leave nothing to check.
"""

from __future__ import annotations

import numpy as np

from .floats import FORMATS, decode64
from .ints import BITS, as_signed, as_unsigned, interpret
from .registry import elem_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op

    Find = Callable[..., Iterator[tuple[str, Any]]]

CHECKS: dict[str, Callable[[Op], Find | None]] = {}


def check(*names: str) -> Callable[[Any], Any]:
    def register(build: Any) -> Any:
        for name in names:
            CHECKS[name] = build
        return build

    return register


@check("divi", "remi")
def division(op: Op) -> Find:
    name, reading = elem_name(op.operands[0]), interpret(op)
    signed = op.attr("signedness") == "signed"

    def find(a: Any, b: Any) -> Iterator[tuple[str, Any]]:
        x, y = reading(a, name), reading(b, name)
        yield "division by zero", y == 0
        if signed and name != "i1":
            yield "the quotient overflows", (x == np.iinfo(x.dtype).min) & (y == -1)

    return find


@check("addi", "subi", "muli")
def overflow(op: Op) -> Find | None:
    kind, name = op.attr("overflow"), elem_name(op.operands[0])
    if kind in (None, "none"):
        return None
    bits = BITS[name]

    def compute(a: Any, b: Any) -> Any:
        """The unbounded result: int64 holds sums of 32 bits, float64 tells their products from the bounds."""
        wide: Any = (
            object if bits == 64 else np.float64 if name == "i32" and op.spec.name == "muli" else np.int64
        )
        x, y = np.asarray(a).astype(wide), np.asarray(b).astype(wide)
        return x + y if op.spec.name == "addi" else x - y if op.spec.name == "subi" else x * y

    def find(a: Any, b: Any) -> Iterator[tuple[str, Any]]:
        if kind in ("no_signed_wrap", "no_wrap"):
            r = compute(as_signed(a, name), as_signed(b, name))
            yield "signed overflow", _outside(r, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if kind in ("no_unsigned_wrap", "no_wrap"):
            r = compute(as_unsigned(a, name), as_unsigned(b, name))
            yield "unsigned overflow", _outside(r, 0, (1 << bits) - 1)

    return find


def _outside(r: Any, low: int, high: int) -> Any:
    return np.asarray((r < low) | (r > high), np.bool_)


@check("negi")
def negation(op: Op) -> Find | None:
    name = elem_name(op.operands[0])
    if op.attr("overflow") in (None, "none") or name == "i1":
        return None

    def find(a: Any) -> Iterator[tuple[str, Any]]:
        yield "signed overflow", a == np.iinfo(a.dtype).min

    return find


@check("shli")
def shift_left(op: Op) -> Find | None:
    kind, name = op.attr("overflow"), elem_name(op.operands[0])
    bits = BITS[name]
    if kind in (None, "none"):
        return None

    def find(a: Any, b: Any) -> Iterator[tuple[str, Any]]:
        amount = as_unsigned(b, name)
        if kind in ("no_signed_wrap", "no_wrap"):
            yield (
                "signed overflow",
                _shift(as_signed(a, name), amount, -(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            )
        if kind in ("no_unsigned_wrap", "no_wrap"):
            yield "unsigned overflow", _shift(as_unsigned(a, name), amount, 0, (1 << bits) - 1)

    return find


def _shift(value: Any, amount: Any, low: int, high: int) -> Any:
    """Whether value << amount, unbounded, leaves low..high."""
    wide = np.asarray(value).astype(object) << np.minimum(np.asarray(amount).astype(object), 64)
    return _outside(wide, low, high)


@check("trunci")
def truncation(op: Op) -> Find | None:
    kind, source, target = op.attr("overflow"), elem_name(op.operands[0]), elem_name(op.result)
    if kind in (None, "none"):
        return None
    bits = BITS[target]

    def find(a: Any) -> Iterator[tuple[str, Any]]:
        if kind in ("no_signed_wrap", "no_wrap"):
            x = as_signed(a, source)
            yield "signed overflow", (x < -(1 << (bits - 1))) | (x > (1 << (bits - 1)) - 1)
        if kind in ("no_unsigned_wrap", "no_wrap"):
            yield "unsigned overflow", as_unsigned(a, source) > (1 << bits) - 1

    return find


@check("ftoi")
def float_to_int(op: Op) -> Find | None:
    if op.attr("saturating"):
        return None
    fmt, name = FORMATS[elem_name(op.operands[0])], elem_name(op.result)
    bits = BITS[name]
    low, high = (
        (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if op.attr("signedness") == "signed" else (0.0, 2.0**bits)
    )

    def find(a: Any) -> Iterator[tuple[str, Any]]:
        t = np.trunc(decode64(a, fmt))
        yield f"the value does not fit {name}", ~((t >= low) & (t < high))

    return find


@check("extract", "insert")
def block_index(op: Op) -> Find | None:
    inner, outer = (op.result, op.operands[0]) if op.spec.name == "extract" else (op.operands[0], op.result)
    counts = [w // i for w, i in zip(outer.type.shape, inner.type.shape)]  # type: ignore[attr-defined]
    skip = 1 if op.spec.name == "extract" else 2
    if not counts:
        return None

    def find(*args: Any) -> Iterator[tuple[str, Any]]:
        for d, (index, count) in enumerate(zip(args[skip:], counts)):
            yield (
                f"block index {int(index)} of dimension {d} is not below {count}",
                not 0 <= int(index) < count,
            )

    return find
