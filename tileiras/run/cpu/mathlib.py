"""Math functions of f32 on vectors, without calls; docs/accuracy.md has the measured errors.

exp and exp2 are computed in f32 with one rounding of the result too many (below 1 ULP), the others in f64 and rounded
once. Arguments that range reduction in f64 does not reach go through the C library. Coefficients are Chebyshev fits.
All of it uses fused multiply-add; CPUs without take the C library.
"""

from __future__ import annotations

import math

from .code import BITS, INT_OF, Code, const, mangled, vec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LN2_HIGH_F32, LN2_LOW_F32 = 0.6931471824645996, -1.9046542121259336e-09
LN2_HIGH, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
# (exp(r) - 1 - r) / r**2 on half an octave, for f32 and for f64 to 2**-40; (2**r - 1) / r
EXP_F32 = (0.5, 0.16666573381900845, 0.04166655011030512, 0.008363773874405574, 0.0013926926614021907)
EXP_F64 = (
    0.49999999999951383, 0.16666666666662247, 0.04166666679362806, 0.008333333344872034,
    0.0013888837087667207, 0.00019841222761353435, 2.486920416652337e-05, 2.761877702984587e-06,
)  # fmt: skip
EXP2_F32 = (
    0.6931471884859542, 0.24022650764548661, 0.05550354928952364, 0.009618080665269781,
    0.001339201740555255, 0.00015454162087917222,
)  # fmt: skip
# (atanh(s) / s - 1) / s**2 in s**2, for mantissas from 1/sqrt(2) to sqrt(2)
LOG = (
    0.333333333333309, 0.20000000005893742, 0.14285711977376142, 0.11111441079634286, 0.09069664542405062,
    0.08317408646718488,
)  # fmt: skip
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, for r up to pi / 4
SIN = (
    -0.16666666666666666, 0.0083333333333307, -0.00019841269836387345, 2.755731591191116e-06,
    -2.5051092507061385e-08, 1.59153232122714e-10,
)  # fmt: skip
COS = (
    0.041666666666666664, -0.0013888888888887241, 2.4801587298533456e-05, -2.755731715246704e-07,
    2.087612165887116e-09, -1.1380876948169717e-11,
)  # fmt: skip
NEAR = float(1 << 17)  # arguments up to which two parts of pi/2 suffice
SMALL = 0.02  # arguments below which tanh and sinh are their series


class Maths:
    """Arithmetic on vectors of one float type."""

    def __init__(self, c: Code, n: int, type: str) -> None:
        self.c, self.n, self.type = c, n, type

    def k(self, value: float) -> str:
        return const(self.type, self.n, value)

    def add(self, a: str, b: str) -> str:
        return self.c.bin("fadd", self.type, self.n, a, b)

    def sub(self, a: str, b: str) -> str:
        return self.c.bin("fsub", self.type, self.n, a, b)

    def mul(self, a: str, b: str) -> str:
        return self.c.bin("fmul", self.type, self.n, a, b)

    def div(self, a: str, b: str) -> str:
        return self.c.bin("fdiv", self.type, self.n, a, b)

    def fma(self, a: str, b: str, x: str) -> str:
        return self.c.intrinsic("fma", self.type, self.n, a, b, x)

    def poly(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's rule, the constant term first in the list."""
        out = self.k(coefficients[-1])
        for value in reversed(coefficients[:-1]):
            out = self.fma(out, x, self.k(value))
        return out

    def clamp(self, x: str, low: float, high: float) -> str:
        """NaN stays NaN."""
        c, n = self.c, self.n
        x = c.select(self.type, n, c.cmp("ogt", self.type, n, x, self.k(high)), self.k(high), x)
        return c.select(self.type, n, c.cmp("olt", self.type, n, x, self.k(low)), self.k(low), x)

    def rint(self, x: str) -> str:
        return self.c.intrinsic("rint", self.type, self.n, x)

    def abs(self, x: str) -> str:
        return self.c.intrinsic("fabs", self.type, self.n, x)

    def like(self, x: str, sign: str) -> str:
        """x >= 0 with a sign. Of a copysign that is narrowed LLVM narrows both sides, f64 to f16 by a call of no library."""
        c, n, bits = self.c, self.n, INT_OF[self.type]
        top = const(bits, n, -(1 << (BITS[bits] - 1)))
        sign = c.bin("and", bits, n, c.cast("bitcast", self.type, bits, n, sign), top)
        out = c.bin("xor", bits, n, c.cast("bitcast", self.type, bits, n, x), sign)
        return c.cast("bitcast", bits, self.type, n, out)

    def choose(self, predicate: str, a: str, b: str, x: str, y: str) -> str:
        """x where a compares to b, else y."""
        return self.c.select(self.type, self.n, self.c.cmp(predicate, self.type, self.n, a, b), x, y)

    def whole(self, x: str) -> str:
        """i32 of a whole number; anything for NaN."""
        t = vec("i32", self.n)
        return self.c.op(f"freeze {t} {self.c.cast('fptosi', self.type, 'i32', self.n, x)}")


def scale_f32(c: Code, n: int, x: str, by: str) -> str:
    """x * 2**by with one rounding, for `by` from -300 to 300 and x near 1."""
    if "scalef" in c.features and n >= 4:
        t, name = vec("float", n), f"llvm.ldexp.{mangled('float', n)}.{mangled('i32', n)}"
        c.module.declare(name, f"declare {t} @{name}({t}, {vec('i32', n)})")
        return c.call(name, t, [(t, x), (vec("i32", n), by)])
    half = c.bin("ashr", "i32", n, by, const("i32", n, 1))
    for part in (half, c.bin("sub", "i32", n, by, half)):
        biased = c.bin("add", "i32", n, part, const("i32", n, 127))
        power = c.bin("shl", "i32", n, biased, const("i32", n, 23))
        x = c.bin("fmul", "float", n, x, c.cast("bitcast", "i32", "float", n, power))
    return x


def exp(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "float")
    x = m.clamp(x, -150.0, 150.0)
    k = m.rint(m.mul(x, m.k(1 / math.log(2))))
    r = m.fma(k, m.k(-LN2_HIGH_F32), x)
    r = m.fma(k, m.k(-LN2_LOW_F32), r)
    p = m.add(m.fma(m.mul(r, r), m.poly(r, EXP_F32), r), m.k(1.0))
    return scale_f32(c, n, p, m.whole(k))


def exp2(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "float")
    x = m.clamp(x, -200.0, 200.0)
    k = m.rint(x)
    r = m.sub(x, k)
    return scale_f32(c, n, m.fma(r, m.poly(r, EXP2_F32), m.k(1.0)), m.whole(k))


def in_f64(function: Callable[[Code, int, str], str]) -> Callable[[Code, int, str], str]:
    """A function of f64 vectors on f32 ones, rounded once."""

    def rounded(c: Code, n: int, x: str) -> str:
        return c.cast(
            "fptrunc", "double", "float", n, function(c, n, c.cast("fpext", "float", "double", n, x))
        )

    return rounded


def exp_f64(m: Maths, x: str, limit: float) -> str:
    """e**x to about 2**-40 for |x| up to limit < 700, which larger ones count as."""
    c, n = m.c, m.n
    x = m.clamp(x, -limit, limit)
    k = m.rint(m.mul(x, m.k(1 / math.log(2))))
    r = m.fma(k, m.k(-LN2_HIGH), x)
    r = m.fma(k, m.k(-LN2_LOW), r)
    p = m.add(m.fma(m.mul(r, r), m.poly(r, EXP_F64), r), m.k(1.0))
    power = c.cast("sext", "i32", "i64", n, m.whole(k))
    bits = c.cast("bitcast", "double", "i64", n, p)
    bits = c.bin("add", "i64", n, bits, c.bin("shl", "i64", n, power, const("i64", n, 52)))
    return c.cast("bitcast", "i64", "double", n, bits)


def log_parts(c: Code, n: int, x: str) -> tuple[str, str]:
    """(log of the mantissa, exponent as f64) of positive f64 numbers, none of them subnormal."""
    m = Maths(c, n, "double")
    bits = c.cast("bitcast", "double", "i64", n, x)
    start = const("i64", n, 0x3FE6A09E667F3BCD)  # 1/sqrt(2)
    e = c.bin("ashr", "i64", n, c.bin("sub", "i64", n, bits, start), const("i64", n, 52))
    f = c.bin("sub", "i64", n, bits, c.bin("shl", "i64", n, e, const("i64", n, 52)))
    f = c.cast("bitcast", "i64", "double", n, f)
    s = m.div(m.sub(f, m.k(1.0)), m.add(f, m.k(1.0)))
    t = m.mul(s, s)
    twice = m.add(s, s)
    log = m.fma(m.mul(twice, t), m.poly(t, LOG), twice)
    return log, c.cast("sitofp", "i32", "double", n, c.cast("trunc", "i64", "i32", n, e))


def log_ends(c: Code, n: int, x: str, out: str) -> str:
    """The logarithm where there is one: -inf of 0, NaN below, +inf of +inf."""
    m = Maths(c, n, "double")
    out = m.choose("oeq", x, m.k(math.inf), x, out)
    out = m.choose("oeq", x, m.k(0.0), m.k(-math.inf), out)
    out = m.choose(
        "olt", x, m.k(0.0), "splat (double 0x7FF8000000000000)" if n > 1 else "0x7FF8000000000000", out
    )
    return m.choose("uno", x, x, x, out)


@in_f64
def log(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "double")
    part, e = log_parts(c, n, x)
    return log_ends(c, n, x, m.fma(e, m.k(math.log(2)), part))


@in_f64
def log2(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "double")
    part, e = log_parts(c, n, x)
    return log_ends(c, n, x, m.fma(part, m.k(1 / math.log(2)), e))


@in_f64
def tanh(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "double")
    size = m.abs(x)
    power = exp_f64(m, m.add(size, size), 60.0)
    out = m.sub(m.k(1.0), m.div(m.k(2.0), m.add(power, m.k(1.0))))
    t = m.mul(size, size)
    series = m.mul(size, m.poly(t, (1.0, -1 / 3, 2 / 15, -17 / 315)))
    return m.like(m.choose("olt", size, m.k(SMALL), series, out), x)


@in_f64
def sinh(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "double")
    size = m.abs(x)
    power = exp_f64(m, size, 200.0)
    out = m.mul(m.sub(power, m.div(m.k(1.0), power)), m.k(0.5))
    t = m.mul(size, size)
    series = m.mul(size, m.poly(t, (1.0, 1 / 6, 1 / 120, 1 / 5040)))
    return m.like(m.choose("olt", size, m.k(SMALL), series, out), x)


@in_f64
def cosh(c: Code, n: int, x: str) -> str:
    m = Maths(c, n, "double")
    power = exp_f64(m, m.abs(x), 200.0)
    return m.mul(m.add(power, m.div(m.k(1.0), power)), m.k(0.5))


def circle(name: str) -> Callable[[Code, int, str], str]:
    """sin, cos or tan: by quadrants where pi/2 in two parts suffices, by the C library where some lane lies beyond."""

    def near(c: Code, n: int, x: str) -> str:
        m = Maths(c, n, "double")
        k = m.rint(m.mul(x, m.k(2 / math.pi)))
        r = m.fma(k, m.k(-HALF_PI), x)
        r = m.fma(k, m.k(-HALF_PI_LOW), r)
        quadrant = m.whole(k)
        t = m.mul(r, r)
        sin = m.fma(m.mul(r, t), m.poly(t, SIN), r)
        cos = m.fma(m.mul(t, t), m.poly(t, COS), m.fma(t, m.k(-0.5), m.k(1.0)))
        odd = c.cast("trunc", "i32", "i1", n, quadrant)
        if name == "tan":
            top, bottom = c.select("double", n, odd, cos, sin), c.select("double", n, odd, sin, cos)
            out = m.div(top, bottom)
            return c.select("double", n, odd, c.op(f"fneg {vec('double', n)} {out}"), out)
        out = c.select("double", n, odd, *((cos, sin) if name == "sin" else (sin, cos)))
        turn = quadrant if name == "sin" else c.bin("add", "i32", n, quadrant, const("i32", n, 1))
        minus = c.cmp("ne", "i32", n, c.bin("and", "i32", n, turn, const("i32", n, 2)), const("i32", n, 0))
        out = c.select("double", n, minus, c.op(f"fneg {vec('double', n)} {out}"), out)
        if name == "sin":  # keeps the sign of zero
            out = m.choose("oeq", x, m.k(0.0), x, out)
        return out

    def far(c: Code, n: int) -> str:
        t, function = vec("double", n), f"far.{name}.{n}"
        if function not in c.module.functions:
            f = Code(c.module, c.features)
            f.do(f"ret {t} {f.intrinsic(name, 'double', n, '%x')}")
            c.module.functions[function] = f.text(f"define internal {t} @{function}({t} %x) noinline")
        return function

    def either(c: Code, n: int, x: str) -> str:
        m, t = Maths(c, n, "double"), vec("double", n)
        beyond = c.cmp("uge", "double", n, m.abs(x), m.k(NEAR))
        some = beyond if n == 1 else c.op(f"bitcast <{n} x i1> {beyond} to i{n}")
        some = some if n == 1 else c.op(f"icmp ne i{n} {some}, 0")
        close, away, done = c.new_label("close"), c.new_label("away"), c.new_label("done")
        c.branch(some, away, close)
        c.begin(close)
        a = near(c, n, x)
        close = c.label
        c.jump(done)
        c.begin(away)
        b = c.call(far(c, n), t, [(t, x)])
        away = c.label
        c.jump(done)
        c.begin(done)
        return c.op(f"phi {t} [ {a}, %{close} ], [ {b}, %{away} ]")

    return in_f64(either)


F32 = {
    "exp": exp, "exp2": exp2, "log": log, "log2": log2, "tanh": tanh, "sinh": sinh, "cosh": cosh,
    "sin": circle("sin"), "cos": circle("cos"), "tan": circle("tan"),
}  # fmt: skip
