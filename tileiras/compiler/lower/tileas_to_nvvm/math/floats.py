"""A small notation for float code in one width: the math functions read like formulas."""

from __future__ import annotations

import struct

from tileiras.compiler.target import sm

from ..arith import in_f32, word_of
from ..state import elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from ..state import Lowering


def function(compute: Callable[..., Any]) -> Callable[[Lowering, Op], None]:
    """Lowering of an elementwise function written once for both widths: compute(Floats, op, *operands)."""

    def lower(lowering: Lowering, op: Op) -> None:
        elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
        if elem in ("f32", "f64"):
            floats = Floats(lowering, elem)
            return elementwise(lowering, op, lambda *args: compute(floats, op, *args))
        floats = Floats(lowering, "f32")
        in_f32(lowering, op, lambda *args: compute(floats, op, *args))

    return lower


class Floats:
    """Operations on f32 or f64 operands. Every result is rounded to nearest even."""

    __slots__ = ("b", "bias", "cls", "lowering", "mantissa", "t", "w")

    def __init__(self, lowering: Lowering, type: str) -> None:
        self.lowering = lowering
        self.b = lowering.b
        self.t = type
        self.w = 32 if type == "f32" else 64
        self.cls = "r" if type == "f32" else "d"
        self.mantissa = 23 if type == "f32" else 52
        self.bias = 127 if type == "f32" else 1023

    # ---- constants
    def c(self, value: float) -> Any:
        """A constant, rounded to the width."""
        code = "<f" if self.w == 32 else "<d"
        bits = int.from_bytes(struct.pack(code, value), "little")
        return self.b.float(self.cls, bits)

    def bits(self, pattern: int) -> Any:
        return self.b.float(self.cls, pattern)

    @property
    def inf(self) -> Any:
        return self.bits(0x7F800000 if self.w == 32 else 0x7FF0 << 48)

    @property
    def nan(self) -> Any:
        return self.bits(0x7FFFFFFF if self.w == 32 else 0x7FF8 << 48)

    # ---- arithmetic
    def add(self, x: Any, y: Any) -> Any:
        return self.b.emit(f"add.rn.{self.t}", x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return self.b.emit(f"sub.rn.{self.t}", x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.b.emit(f"mul.rn.{self.t}", x, y)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.b.emit(f"fma.rn.{self.t}", x, y, z)

    def div(self, x: Any, y: Any) -> Any:
        return self.b.emit(f"div.rn.{self.t}", x, y)

    def neg(self, x: Any) -> Any:
        return self.b.emit(f"neg.{self.t}", x)

    def abs(self, x: Any) -> Any:
        return self.b.emit(f"abs.{self.t}", x)

    def rint(self, x: Any) -> Any:
        return self.b.emit(f"cvt.rni.{self.t}.{self.t}", x)

    def trunc(self, x: Any) -> Any:
        return self.b.emit(f"cvt.rzi.{self.t}.{self.t}", x)

    def poly(self, x: Any, coefficients: Sequence[float]) -> Any:
        """Horner: c[0] + c[1] x + c[2] x^2 ..."""
        value = self.c(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.c(c))
        return value

    # ---- choice
    def cmp(self, predicate: str, x: Any, y: Any) -> Any:
        return self.b.emit(f"setp.{predicate}.{self.t}", x, y)

    def select(self, p: Any, x: Any, y: Any) -> Any:
        return self.b.emit(f"selp.{self.t}", x, y, p)

    def clamp(self, x: Any, high: float, low: float) -> Any:
        """x within [low, high]; NaN stays."""
        if self.w == 32 and self.lowering.target.has(sm.MINMAX_NAN):
            return self.b.emit("max.NaN.f32", self.b.emit("min.NaN.f32", x, self.c(high)), self.c(low))
        x = self.select(self.cmp("gt", x, self.c(high)), self.c(high), x)
        return self.select(self.cmp("lt", x, self.c(low)), self.c(low), x)

    def both(self, p: Any, q: Any) -> Any:
        return self.b.emit("and.pred", p, q)

    def either(self, p: Any, q: Any) -> Any:
        return self.b.emit("or.pred", p, q)

    def invert(self, p: Any) -> Any:
        return self.b.emit("not.pred", p)

    # ---- bits
    def word(self, x: Any) -> Any:
        """The bits in a register."""
        return word_of(self.lowering, x) if self.w == 32 else self.b.materialize(getattr(x, "bits", x), "d")

    def copysign(self, magnitude: Any, sign: Any) -> Any:
        """|magnitude| with the sign of `sign`."""
        return self.b.emit(f"copysign.{self.t}", sign, magnitude)

    def to_int(self, x: Any) -> Any:
        """A small integral float as s32."""
        return self.b.emit(f"cvt.rni.s32.{self.t}", x)

    def from_int(self, n: Any) -> Any:
        return self.b.emit(f"cvt.rn.{self.t}.s32", n)

    def power_of_two(self, n: Any) -> Any:
        """2^n for a normal exponent in s32."""
        b = self.b
        biased = b.add(32, n, self.bias)
        if self.w == 32:
            return b.emit("shl.b32", biased, 23)
        return b.emit("shl.b64", b.emit("cvt.s64.s32", biased), 52)

    def scale(self, x: Any, n: Any) -> Any:
        """x * 2^n with one rounding at most, for |n| up to twice the exponent range."""
        half = self.b.emit("shr.s32", n, 1)
        rest = self.b.sub(32, n, half)
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(rest))
