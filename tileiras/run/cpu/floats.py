"""Float ops on any number of lanes: arithmetic rounded once in the op's mode, extrema, compares, rounding, math.

f16 and bf16 are computed in f32, which holds twice their digits and two more: rounding twice is rounding once.
f32 and f64 in a directed mode run in a function of their own that sets the CPU's rounding and sets it back.
"""

from __future__ import annotations

from . import mathlib
from .code import INT_OF, REGISTER, Code, const, mangled, name_of, vec
from .formats import (
    FORMATS,
    RM,
    RN,
    canonical_nan,
    computed,
    flush,
    narrow,
    narrow64,
    round_odd,
    two_sum,
    widen,
    widen64,
)  # fmt: skip
from .registry import elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ROUNDING = {"zero": 0, RN: 1, "positive_inf": 2, "negative_inf": 3}  # LLVM's numbers


def mode_of(op: Any) -> str:
    mode = op.attr("rounding_mode") or RN
    return RN if mode in ("approx", "full") else mode


def directed(c: Code, n: int, operation: str, type: str, mode: str, args: tuple[str, ...]) -> str:
    """An f32 or f64 operation in a directed rounding mode."""
    t = vec(type, n)
    name = f"rounded.{operation}.{mode}.{mangled(type, n)}"
    if name not in c.module.functions:
        intrinsic = f"llvm.experimental.constrained.{operation}.{mangled(type, n)}"
        c.module.declare("llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
        c.module.declare(
            intrinsic, f"declare {t} @{intrinsic}({', '.join([t] * len(args))}, metadata, metadata)"
        )
        names = [f"%a{i}" for i in range(len(args))]
        typed = ", ".join(f"{t} {a}" for a in names)
        c.module.functions[name] = "\n".join(
            (
                f"define internal {t} @{name}({typed}) noinline strictfp {{",
                f"  call void @llvm.set.rounding(i32 {ROUNDING[mode]}) strictfp",
                f'  %r = call {t} @{intrinsic}({typed}, metadata !"round.dynamic", metadata !"fpexcept.strict") strictfp',
                "  call void @llvm.set.rounding(i32 1) strictfp",
                f"  ret {t} %r",
                "}",
            )
        )
    return c.call(name, t, [(t, a) for a in args])


OPCODES = {"addf": "fadd", "subf": "fsub", "mulf": "fmul", "divf": "fdiv"}


def flushed(c: Code, n: int, op: Any, args: tuple[str, ...]) -> tuple[str, ...]:
    """The operands, subnormals flushed where the op asks for it."""
    return tuple(flush(c, n, a) for a in args) if op.attr("flush_to_zero") else args


def after(c: Code, n: int, op: Any, x: str) -> str:
    return flush(c, n, x) if op.attr("flush_to_zero") else x


def nearest(c: Code, n: int, name: str, type: str, args: tuple[str, ...]) -> str:
    if name == "sqrt":
        return c.intrinsic("sqrt", type, n, *args)
    if name == "fma":
        return c.intrinsic("fma", type, n, *args)
    return c.bin(OPCODES[name], type, n, *args)


@elementwise("addf", "subf", "mulf", "divf", "sqrt", "fma")
def arithmetic(c: Code, n: int, op: Any, *args: str) -> str:
    fmt, operation, mode = name_of(op.result.type.elem), op.spec.name, mode_of(op)
    if fmt in ("f32", "f64"):
        args = flushed(c, n, op, args)
        type = REGISTER[fmt]
        if mode == RN:
            out = nearest(c, n, operation, type, args)
        else:
            out = directed(c, n, OPCODES.get(operation, operation), type, mode, args)
        return after(c, n, op, out)
    if mode == RN and operation != "fma":
        return narrow(c, n, nearest(c, n, operation, "float", tuple(widen(c, n, a, fmt) for a in args)), fmt)
    x = [widen64(c, n, a, fmt) for a in args]
    if operation in ("addf", "subf", "fma"):
        if operation == "fma":
            x = [c.bin("fmul", "double", n, x[0], x[1]), x[2]]  # exact
        elif operation == "subf":
            x[1] = c.op(f"fneg {vec('double', n)} {x[1]}")
        s, e = two_sum(c, n, "double", x[0], x[1])
        out = round_odd(c, n, s, e)
        if mode == RM:
            out = zero_sum_sign(c, n, out, x[0], x[1])
    else:  # quotients and roots of so few digits are never close enough to a tie to fall on a wrong side
        out = nearest(c, n, operation, "double", tuple(x))
    return narrow64(c, n, out, fmt, mode)


def zero_sum_sign(c: Code, n: int, s: str, a: str, b: str) -> str:
    """Toward negative infinity an exact cancellation gives -0; two +0 stay +0."""
    bits = [c.cast("bitcast", "double", "i64", n, v) for v in (a, b)]
    positive = c.cmp("eq", "i64", n, c.bin("or", "i64", n, *bits), const("i64", n, 0))
    zero = c.cmp("oeq", "double", n, s, const("double", n, 0.0))
    cancelled = c.bin("and", "i1", n, zero, c.bin("xor", "i1", n, positive, const("i1", n, 1)))
    return c.select("double", n, cancelled, const("double", n, -0.0), s)


@elementwise("negf", "absf")
def sign(c: Code, n: int, op: Any, a: str) -> str:
    """The sign bit flipped or cleared, of NaN too."""
    fmt = name_of(op.result.type.elem)
    type = REGISTER[fmt]
    if type in INT_OF:
        return c.op(f"fneg {vec(type, n)} {a}") if op.spec.name == "negf" else c.intrinsic("fabs", type, n, a)
    bit = 1 << FORMATS[fmt].sign
    if op.spec.name == "negf":
        return c.bin("xor", type, n, a, const(type, n, bit))
    return c.bin("and", type, n, a, const(type, n, bit - 1))


@elementwise("maxf", "minf")
def extremum(c: Code, n: int, op: Any, a: str, b: str) -> str:
    """+0 is larger than -0; a NaN loses against a number, or wins with propagate_nan."""
    fmt = name_of(op.result.type.elem)
    a, b = flushed(c, n, op, (a, b))
    type, greater = REGISTER[fmt], op.spec.name == "maxf"
    x, y, wide = widen(c, n, a, fmt), widen(c, n, b, fmt), computed(fmt)
    first = c.cmp("ogt" if greater else "olt", wide, n, x, y)
    first = c.bin("or", "i1", n, first, c.cmp("uno", wide, n, y, y))
    out = c.select(type, n, first, a, b)
    it = INT_OF.get(type, type)
    i, j = (c.cast("bitcast", type, it, n, v) for v in (a, b))
    both = c.cast("bitcast", it, type, n, c.bin("and" if greater else "or", it, n, i, j))
    out = c.select(type, n, c.cmp("oeq", wide, n, x, y), both, out)
    if op.attr("propagate_nan"):
        out = c.select(type, n, c.cmp("uno", wide, n, x, y), canonical_nan(fmt, n), out)
    return after(c, n, op, out)


PREDICATES = {
    "equal": "eq", "not_equal": "ne", "less_than": "lt", "less_than_or_equal": "le",
    "greater_than": "gt", "greater_than_or_equal": "ge",
}  # fmt: skip


@elementwise("cmpf")
def cmpf(c: Code, n: int, op: Any, a: str, b: str) -> str:
    fmt = name_of(op.operands[0].type.elem)
    order = "u" if op.attr("comparison_ordering") == "unordered" else "o"
    predicate = order + PREDICATES[op.attr("comparison_predicate")]
    return c.cmp(predicate, computed(fmt), n, widen(c, n, a, fmt), widen(c, n, b, fmt))


@elementwise("floor", "ceil")
def rounded(c: Code, n: int, op: Any, a: str) -> str:
    fmt = name_of(op.result.type.elem)
    return narrow(c, n, c.intrinsic(op.spec.name, computed(fmt), n, widen(c, n, a, fmt)), fmt)


@elementwise("remf")
def remf(c: Code, n: int, op: Any, a: str, b: str) -> str:
    """Exact in every format."""
    fmt = name_of(op.result.type.elem)
    return narrow(c, n, c.bin("frem", computed(fmt), n, widen(c, n, a, fmt), widen(c, n, b, fmt)), fmt)


MATH = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin", "cos": "cos", "tan": "tan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "fpowf": "pow", "atan2": "atan2",
}  # fmt: skip


@elementwise("rsqrt", *MATH)
def math(c: Code, n: int, op: Any, *args: str) -> str:
    """By our own vectors for f32 and narrower types; else in f64 by the C library, rounded once to the element type."""
    fmt = name_of(op.result.type.elem)
    args = flushed(c, n, op, args)
    own = mathlib.F32.get(op.spec.name)
    if own is not None and fmt != "f64" and "fma" in c.features:
        return after(c, n, op, narrow(c, n, own(c, n, widen(c, n, args[0], fmt)), fmt))
    x = [widen64(c, n, a, fmt) for a in args]
    if op.spec.name == "rsqrt":
        out = c.bin("fdiv", "double", n, const("double", n, 1.0), c.intrinsic("sqrt", "double", n, *x))
    else:
        out = c.intrinsic(MATH[op.spec.name], "double", n, *x)
    return after(c, n, op, narrow64(c, n, out, fmt))


@elementwise("fpowi")
def fpowi(c: Code, n: int, op: Any, a: str, b: str) -> str:
    from .integers import read

    fmt, name = name_of(op.result.type.elem), name_of(op.operands[1].type.elem)
    y = c.cast("sitofp", "i32", "double", n, read(c, n, b, name, "i32", True))
    return narrow64(c, n, c.intrinsic("pow", "double", n, widen64(c, n, a, fmt), y), fmt)
