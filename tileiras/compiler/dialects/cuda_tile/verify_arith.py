"""Arithmetic and conversions of cuda_tile: modes, widths, signs."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, broken
from tileiras.diag import Catalogue

from .ops import BASIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")

BASIC_OPS = frozenset(("addf", "subf", "mulf", "fma"))


def check_ftz(op: Op) -> None:
    elem = op.results[0].type.elem
    if op.attrs.get("flush_to_zero") and elem is not T.F32:
        real = f"flush_to_zero modifier only supported for f32 data type, but got: '{elem}'"
        mode = op.attrs.get("rounding_mode", "zero")
        allowed = BASIC if op.spec.name in BASIC_OPS else (mode,)
        raise Invalid(D.FTZ, real if mode in allowed else (real, expected_modes(op, allowed, mode)))


def modes(names: tuple[str, ...]) -> str:
    return f"invalid rounding mode specified, expect one of [{', '.join(names)}]"


def check_basic_float(op: Op) -> None:
    check_ftz(op)
    mode = op.attr("rounding_mode")
    if mode not in BASIC:
        raise Invalid(D.ROUNDING_OUTSIDE_DIVF, (modes(BASIC), expected_modes(op, BASIC, mode)))


def expected_modes(op: Op, names: tuple[str, ...], got: Any) -> str:
    """What the real text parser says about a rounding clause."""
    return f"custom op '{op.spec.full_name}' expected rounding mode to be one of: {', '.join(map(repr, names))}, got: '{got}'"


def only_f32(op: Op, mode: Any) -> str | None:
    elem = op.results[0].type.elem
    if mode in ("approx", "full") and elem is not T.F32:
        return f"{mode} modifier only supported for f32 data type, but got: '{elem}'"
    return None


def check_divf(op: Op) -> None:
    check_ftz(op)
    mode, allowed = op.attr("rounding_mode"), (*BASIC, "approx", "full")
    if mode not in allowed:
        raise Invalid(D.DIVF_ROUNDING, (modes(allowed), expected_modes(op, allowed, mode)))
    real = only_f32(op, mode)
    if real is not None:
        raise Invalid(D.DIVF_APPROX, real)


def check_sqrt(op: Op) -> None:
    check_ftz(op)
    mode, allowed = op.attr("rounding_mode"), (*BASIC, "approx")
    if mode not in allowed:
        raise broken(modes(allowed))
    real = only_f32(op, mode)
    if real is not None:
        raise broken(real)


def check_approx_full(op: Op) -> None:
    mode, allowed = op.attr("rounding_mode"), ("approx", "full")
    if mode not in allowed:
        raise broken(modes(allowed))
    if mode == "approx":
        real = only_f32(op, mode)
        if real is not None:
            raise broken(real)


def check_divi(op: Op) -> None:
    mode, allowed = op.attr("rounding"), ("zero", "negative_inf", "positive_inf")
    if mode not in allowed:
        raise broken(modes(allowed))
    if mode == "negative_inf" and op.attrs.get("signedness") == "unsigned":
        raise broken("rounding mode 'negative_inf' is not allowed with 'unsigned' flag")


def check_negi(op: Op) -> None:
    if op.attr("overflow") in ("no_unsigned_wrap", "no_wrap"):
        raise broken("'no_unsigned_wrap' overflow flag is not supported")


def ends(op: Op) -> tuple[Any, Any]:
    return op.operands[0].type.elem, op.results[0].type.elem


def check_exti(op: Op) -> None:
    source, target = ends(op)
    if source.bits >= target.bits:
        raise Invalid(D.EXTI, "extending to smaller or identical integer")


def check_trunci(op: Op) -> None:
    source, target = ends(op)
    if source.bits <= target.bits:
        raise Invalid(D.TRUNCI, "truncating to larger or identical integer")


WIDE = (T.F16, T.BF16, T.F32, T.F64)


def ftof_modes(source: Any, target: Any) -> tuple[str, ...]:
    """Rounding modes of a conversion between two different float types (13.4)."""
    if target is T.F8E8M0FNU:
        return ("zero", "positive_inf")
    if source is T.F8E8M0FNU:
        return (*BASIC, "nearest_away") if target is T.F64 else ("nearest_even", "zero")
    if target in (T.F8E4M3FN, T.F8E5M2, T.F4E2M1FN):
        return ("nearest_even",)
    if target is T.TF32:
        if source is T.F32:
            return ("nearest_even", "zero", "nearest_away")
        return ("nearest_even", "zero") if source is T.F64 else (*BASIC, "nearest_away")
    if source in WIDE and target in WIDE:
        if source.bits < target.bits:
            return (*BASIC, "nearest_away")
        if source is T.F64 and target is T.F32:
            return BASIC
    return ("nearest_even", "zero")


def check_ftof(op: Op) -> None:
    source, target = ends(op)
    if source is target:
        raise Invalid(D.FTOF_IDENTITY, "converting tiles must not be a no-op")
    mode = op.attr("rounding_mode")
    if mode in ftof_modes(source, target):
        return
    if target is T.F8E8M0FNU:
        raise broken(
            "invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported"
        )
    raise Invalid(D.FTOF_ROUNDING, "invalid rounding mode specified. Only 'nearest_even' is supported")


def check_itof(op: Op) -> None:
    if op.results[0].type.elem is T.F8E8M0FNU:
        raise broken(
            "integer to f8E8M0FNU conversion is not supported, please first convert to another float type"
        )
    if op.attr("rounding_mode") != "nearest_even":
        raise Invalid(D.ITOF_ROUNDING, "invalid rounding mode specified. Only 'nearest_even' is supported")


def check_ftoi(op: Op) -> None:
    mode = op.attr("rounding_mode")
    if mode != "nearest_int_to_zero":
        real = "invalid rounding mode specified. Only 'nearest_int_to_zero' is supported"
        raise Invalid(D.FTOI_ROUNDING, (real, expected_modes(op, ("nearest_int_to_zero",), mode)))


def check_bitcast(op: Op) -> None:
    source, target = ends(op)
    if source.bits != target.bits:
        sides = f"'{source}' of width {source.bits} to type '{target}' of width {target.bits}"
        real = f"types must be equal width, cannot convert {sides}"
        raise Invalid(D.BITCAST, real)


CHECKS: dict[str, Callable[[Op], None]] = {
    **dict.fromkeys(BASIC_OPS, check_basic_float),
    **dict.fromkeys(("exp2", "rsqrt", "maxf", "minf"), check_ftz),
    **dict.fromkeys(("exp", "tanh"), check_approx_full),
    "divf": check_divf,
    "sqrt": check_sqrt,
    "divi": check_divi,
    "negi": check_negi,
    "exti": check_exti,
    "trunci": check_trunci,
    "ftof": check_ftof,
    "itof": check_itof,
    "ftoi": check_ftoi,
    "bitcast": check_bitcast,
}
