"""Functions whose results are rounded to 16 bits: computed with ex2.approx and rcp.approx, a few f32 ulps from exact.

A result of f16 or bf16 is then at most 0.55 ulp from exact, whatever the hardware's approximations are within their
documented error (`tests/unit/test_short_results.py` tries all inputs at both ends of it). tanh.approx is not used: its
error is a tenth of an ulp of bf16 and more than one of f16.
"""

from __future__ import annotations

from tileiras.compiler.passes.tileaa.short_results import SHORT, TINY_IS_ZERO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .floats import Floats

LOG2E = 1.4426950408889634
SMALL = 0.25  # below, tanh is a polynomial: 1 - 2 / (e^2x + 1) would cancel
TANH = (-1 / 3, 2 / 15, -17 / 315)
HUGE, TINY = 0x7E000000, 0x00800000  # 2^125, 2^-126: beyond, a reciprocal may be no normal number


def suffices(f: Floats, op: Op) -> bool:
    """Whether the result is rounded to 16 bits: by the op itself, or by whatever uses it."""
    return f.w == 32 and bool(op.attrs.get(SHORT))


def tiny_is_zero(op: Op) -> bool:
    return bool(op.attrs.get(TINY_IS_ZERO))


def exp(f: Floats, x: Any, tiny_is_zero: bool = False) -> Any:
    return exp2(f, f.mul(x, f.c(LOG2E)), tiny_is_zero)


def exp2(f: Floats, x: Any, tiny_is_zero: bool = False) -> Any:
    """`tiny_is_zero`: results below 2^-126 may be zero, which spares what assemblers put around ex2.approx."""
    return f.b.emit("ex2.approx.ftz.f32" if tiny_is_zero else "ex2.approx.f32", x)


def tanh(f: Floats, x: Any) -> Any:
    a = f.abs(x)
    e = f.b.emit("ex2.approx.ftz.f32", f.mul(a, f.c(2 * LOG2E)))
    large = f.fma(f.b.emit("rcp.approx.ftz.f32", f.add(e, f.c(1.0))), f.c(-2.0), f.c(1.0))
    z = f.mul(x, x)
    small = f.fma(f.mul(f.poly(z, TANH), z), x, x)
    return f.select(f.cmp("lt", a, f.c(SMALL)), small, f.copysign(large, x))


def div(f: Floats, x: Any, y: Any) -> Any:
    """x / y by a reciprocal. Both are scaled where that of y is no normal number; a common y shares all but two."""
    a = f.abs(y)
    scale = f.select(f.cmp("lt", a, f.bits(TINY)), f.c(2.0**24), f.c(1.0))
    scale = f.select(f.cmp("gt", a, f.bits(HUGE)), f.c(0.25), scale)
    return f.mul(f.mul(x, scale), f.b.emit("rcp.approx.ftz.f32", f.mul(y, scale)))
