"""Division, roots and rounding to integers: one or two instructions each."""

from __future__ import annotations

from ..arith import ROUND, in_f32, round_directed, upcast
from ..state import Lowering, elementwise
from . import short
from .floats import Floats
from .short import SHORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def _elem(op: Op) -> str:
    return op.results[0].type.elem.name  # type: ignore[attr-defined, no-any-return]


def lower_divf(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    elem = _elem(op)
    mode = op.attr("rounding_mode")
    ftz = ".ftz" if op.attr("flush_to_zero") else ""
    if elem == "f32" and mode in ("approx", "full"):
        return elementwise(lowering, op, lambda x, y: b.emit(f"div.{mode}{ftz}.f32", x, y))
    rounding = ROUND[mode]
    if elem == "f32" and rounding == "rn" and not ftz and op.attrs.get(SHORT):
        floats = Floats(lowering, "f32")
        return elementwise(lowering, op, lambda x, y: short.div(floats, x, y))
    if elem in ("f32", "f64"):
        return elementwise(lowering, op, lambda x, y: b.emit(f"div.{rounding}{ftz}.{elem}", x, y))

    def one(x: Any, y: Any) -> Any:  # f32 has enough bits that a second rounding to nearest is harmless
        wide = b.emit(f"div.{rounding}.f32", upcast(lowering, x, elem), upcast(lowering, y, elem))
        return round_directed(lowering, wide, elem, rounding)

    elementwise(lowering, op, one)


def lower_sqrt(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    elem = _elem(op)
    mode = op.attr("rounding_mode")
    ftz = ".ftz" if op.attr("flush_to_zero") else ""
    if elem == "f32" and mode == "approx":
        return elementwise(lowering, op, lambda x: b.emit(f"sqrt.approx{ftz}.f32", x))
    rounding = ROUND[mode]
    if elem in ("f32", "f64"):
        return elementwise(lowering, op, lambda x: b.emit(f"sqrt.{rounding}{ftz}.{elem}", x))

    def one(x: Any) -> Any:
        return round_directed(
            lowering, b.emit(f"sqrt.{rounding}.f32", upcast(lowering, x, elem)), elem, rounding
        )

    elementwise(lowering, op, one)


def lower_rsqrt(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    elem = _elem(op)
    ftz = ".ftz" if op.attr("flush_to_zero") else ""
    if elem == "f64":
        return elementwise(
            lowering,
            op,
            lambda x: b.emit("div.rn.f64", b.float("d", 0x3FF0000000000000), b.emit("sqrt.rn.f64", x)),
        )
    if elem == "f32":
        return elementwise(lowering, op, lambda x: b.emit(f"rsqrt.approx{ftz}.f32", x))
    in_f32(lowering, op, lambda x: b.emit("rsqrt.approx.f32", x))


def _to_integer(mode: str) -> Any:
    def lower(lowering: Lowering, op: Op) -> None:
        b = lowering.b
        elem = _elem(op)
        if elem in ("f32", "f64", "f16"):
            return elementwise(lowering, op, lambda x: b.emit(f"cvt.{mode}.{elem}.{elem}", x))
        in_f32(lowering, op, lambda x: b.emit(f"cvt.{mode}.f32.f32", x))

    return lower


LOWER = {
    "divf": lower_divf,
    "sqrt": lower_sqrt,
    "rsqrt": lower_rsqrt,
    "ceil": _to_integer("rpi"),
    "floor": _to_integer("rmi"),
}
