"""Floating-point instructions and conversions of the PTX emulator against exact rational arithmetic and ml_dtypes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from emulator_kit import apply

RNG = np.random.default_rng(0)
BF16 = ml_dtypes.bfloat16
FORMATS = {  # fraction bits, least exponent, largest finite
    "f16": (10, -14, 65504.0, np.float16), "bf16": (7, -126, float(ml_dtypes.finfo(BF16).max), BF16),
    "f32": (23, -126, float(np.finfo(np.float32).max), np.float32), "f64": (52, -1022, 1.7976931348623157e308, np.float64),
}  # fmt: skip


def round_exact(value, name, mode="rn"):
    """A Fraction rounded to a format, as a float (signed zero is lost)."""
    frac, least, largest, _ = FORMATS[name]
    if value == 0:
        return 0.0
    x = abs(value)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    e -= Fraction(2) ** e > x
    unit = Fraction(2) ** (max(e, least) - frac)
    n, rest = divmod(x, unit)
    up = {"rn": rest * 2 > unit or (rest * 2 == unit and n & 1), "rz": False, "rm": value < 0 and rest > 0,
          "rp": value > 0 and rest > 0}[mode]  # fmt: skip
    y = (n + bool(up)) * unit
    if y > Fraction(largest):
        y = math.inf if mode == "rn" or mode == ("rm" if value < 0 else "rp") else largest
    return float(y) if value > 0 else -float(y)


def interesting(name, count=300):
    """Values of a format: specials, subnormals, neighbours of powers of two, random bits."""
    _, _, _, dtype = FORMATS[name]
    bits = np.dtype(dtype).itemsize * 8
    raw = RNG.integers(0, 1 << min(bits, 63), count, np.uint64)
    if bits == 64:
        raw |= RNG.integers(0, 2, count, np.uint64) << np.uint64(63)
    narrow = RNG.normal(0, 1, count) * 2.0 ** RNG.integers(-4, 5, count)
    info = ml_dtypes.finfo(dtype)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1.5,
        0.5,
        float(info.max),
        -float(info.max),
        float(info.tiny),
        -float(info.tiny),
        float(info.smallest_subnormal),
        3 * float(info.smallest_subnormal),
        math.inf,
        -math.inf,
        math.nan,
        1 + float(info.eps),
        1 - float(info.epsneg),
        2 + 2 * float(info.eps),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate(
            [
                np.array(special, np.float64).astype(dtype),
                raw.astype(f"uint{bits}").view(dtype),
                narrow.astype(dtype),
            ]
        )


def same(got, want):
    """Equal values, where NaN equals NaN and zeros need not agree in sign."""
    got, want = np.asarray(got).astype(np.float64), np.asarray(want, np.float64)
    return (got == want) | (np.isnan(got) & np.isnan(want))


def assert_same(got, want, *context):
    ok = same(got, want)
    if not ok.all():
        i = int(np.flatnonzero(~ok)[0])
        raise AssertionError(
            (i, *(np.asarray(c)[i] for c in context), "got", np.asarray(got)[i], "want", np.asarray(want)[i])
        )


def exact(fn, name, mode, *arrays):
    """fn on Fractions where all arguments are finite, else on f64 by IEEE."""
    out = []
    for row in zip(*(a.astype(np.float64).tolist() for a in arrays)):
        if all(math.isfinite(v) for v in row):
            out.append(round_exact(fn(*map(Fraction, row)), name, mode))
        else:
            with np.errstate(all="ignore"):
                out.append(float(fn(*map(np.float64, row))))
    return np.array(out)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_add_mul_fma(name, mode):
    a = interesting(name)
    b, c = RNG.permutation(a), RNG.permutation(a)
    near = slice(-120, None)  # products that almost cancel the addend
    with np.errstate(all="ignore"):
        c[near] = -(a[near] * b[near])
    dtype = a.dtype
    out = apply(
        f"add.{mode}.{name} %d0, %a0, %a1; sub.{mode}.{name} %d1, %a0, %a1; mul.{mode}.{name} %d2, %a0, %a1;"
        f"fma.{mode}.{name} %d3, %a0, %a1, %a2;",
        [a, b, c],
        [dtype] * 4,
    )
    assert_same(out[0], exact(lambda x, y: x + y, name, mode, a, b), a, b)
    assert_same(out[1], exact(lambda x, y: x - y, name, mode, a, b), a, b)
    assert_same(out[2], exact(lambda x, y: x * y, name, mode, a, b), a, b)
    want = exact(lambda x, y, z: x * y + z, name, mode, a, b, c)
    # inf and NaN travel by their own rules: an infinite factor or addend decides, a finite product never overflows first
    assert_same(out[3], want, a, b, c)


def test_zero_signs():
    a = np.array([0.0, -0.0, 1.5, -1.5, 0.0], np.float32)
    b = np.array([-0.0, -0.0, -1.5, 1.5, 0.0], np.float32)
    rn, rm, m = apply(
        "add.rn.f32 %d0, %a0, %a1; add.rm.f32 %d1, %a0, %a1; fma.rm.f32 %d2, %a0, 0f3F800000, %a1;",
        [a, b],
        [np.float32] * 3,
    )
    assert np.signbit(rn).tolist() == [False, True, False, False, False]
    assert np.signbit(rm).tolist() == [True, True, True, True, False]
    assert np.signbit(m).tolist() == [True, True, True, True, False]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_div_sqrt_rcp(name, mode):
    a = interesting(name, 200)
    b = RNG.permutation(a)
    a, b = (np.where(np.isfinite(v) & (v != 0), v, v.dtype.type(3)) for v in (a, b))
    q, r, s = apply(
        f"div.{mode}.{name} %d0, %a0, %a1; rcp.{mode}.{name} %d1, %a1; abs.{name} %a0, %a0;"
        f"sqrt.{mode}.{name} %d2, %a0;",
        [a, b],
        [a.dtype] * 3,
    )
    assert_same(q, exact(lambda x, y: x / y, name, mode, a, b), a, b)
    assert_same(r, exact(lambda y: 1 / y, name, mode, b), b)
    for x, y in zip(np.abs(a).tolist(), s.tolist()):
        below, above = (np.nextafter(a.dtype.type(y), a.dtype.type(d)) for d in (-math.inf, math.inf))
        square = Fraction(y) ** 2
        if mode in ("rz", "rm"):
            assert square <= Fraction(x) < Fraction(float(above)) ** 2
        elif mode == "rp":
            assert Fraction(float(below)) ** 2 < Fraction(x) <= square
        else:
            assert ((Fraction(y) + Fraction(float(below))) / 2) ** 2 <= Fraction(x)
            assert Fraction(x) <= ((Fraction(y) + Fraction(float(above))) / 2) ** 2


def test_division_by_zero_and_infinities():
    a = np.array([1, -1, 0, np.inf, np.inf, 2, np.nan], np.float32)
    b = np.array([0, 0, 0, np.inf, 2, np.inf, 1], np.float32)
    with np.errstate(all="ignore"):
        want = a / b
    for mode in ("rn", "rz", "rp", "rm"):
        assert_same(apply(f"div.{mode}.f32 %d0, %a0, %a1;", [a, b], [np.float32]), want, a, b)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_arithmetic_rounds_once(name):
    a = interesting(name, 500)
    b, c = RNG.permutation(a), RNG.permutation(a)
    ops = {
        "fma": (lambda x, y, z: x * y + z, (a, b, c)),
        "add": (lambda x, y: x + y, (a, b)),
        "sub": (lambda x, y: x - y, (a, b)),
        "mul": (lambda x, y: x * y, (a, b)),
    }
    for op, (fn, args) in ops.items():
        regs = ", ".join(f"%a{i}" for i in range(len(args)))
        got = apply(f"{op}.rn.{name} %d0, {regs};", args, [np.uint16]).view(a.dtype)
        assert_same(got, exact(fn, name, "rn", *args), *args)


def test_packed_halves():
    a, b, c = (interesting("f16", 200)[18:].reshape(-1, 2) for _ in range(3))
    words = [x.copy().view(np.uint32).reshape(-1) for x in (a, b, c)]
    f, s = apply("fma.rn.f16x2 %d0, %a0, %a1, %a2; add.rn.sat.f16x2 %d1, %a0, %a1;", words, [np.uint32] * 2)
    assert_same(
        f.view(np.float16), exact(lambda x, y, z: x * y + z, "f16", "rn", a.ravel(), b.ravel(), c.ravel())
    )
    with np.errstate(all="ignore"):
        total = (a + b).ravel().astype(np.float64)
    assert_same(s.view(np.float16), np.where(total > 0, np.minimum(total, 1), 0))


def test_packed_singles():
    a, b, c = (interesting("f32", 60)[:96].reshape(-1, 2) for _ in range(3))
    a, b, c = (np.where(np.isfinite(x), x, np.float32(2)) for x in (a, b, c))
    words = [x.view(np.uint64).reshape(-1) for x in (a, b, c)]
    one = "0x4040000040000000"  # {2, 3} in every lane
    f, s, m, u = apply(
        f"fma.rn.f32x2 %d0, %a0, %a1, %a2; add.rz.f32x2 %d1, %a0, %a1; mul.rn.f32x2 %d2, %a0, %a1;"
        f"mov.b64 %rd0, {one}; fma.rn.f32x2 %d3, %rd0, %a1, %a2;",
        words,
        [np.uint64] * 4,
    )
    flat = [x.ravel() for x in (a, b, c)]
    assert_same(f.view(np.float32), exact(lambda x, y, z: x * y + z, "f32", "rn", *flat))
    assert_same(s.view(np.float32), exact(lambda x, y: x + y, "f32", "rz", *flat[:2]))
    assert_same(m.view(np.float32), exact(lambda x, y: x * y, "f32", "rn", *flat[:2]))
    two = np.tile(np.array([2, 3], np.float32), a.shape[0])
    assert_same(u.view(np.float32), exact(lambda x, y, z: x * y + z, "f32", "rn", two, *flat[1:]))


def test_mixed_precision():
    a = interesting("f16", 60)
    c = np.resize(interesting("f32", 60), a.size)
    f, s = apply("fma.rn.f32.f16 %d0, %a0, %a0, %a1; add.rn.f32.f16 %d1, %a0, %a1;", [a, c], [np.float32] * 2)
    assert_same(f, exact(lambda x, y: x * x + y, "f32", "rn", a, c), a, c)
    assert_same(s, exact(lambda x, y: x + y, "f32", "rn", a, c), a, c)


def test_flush_to_zero():
    tiny = np.float32(2.0**-126)
    a = np.array([tiny / 2, -tiny / 2, tiny, tiny * 0.75, 1e-38], np.float32)
    b = np.array([1, 1, 0.5, 1, 0.5], np.float32)
    got = apply(
        "mul.ftz.f32 %d0, %a0, %a1; add.ftz.f32 %d1, %a0, %a0; mul.f32 %d2, %a0, %a1; fma.rn.ftz.f32 %d3, %a0, %a1, %a0;"
        "abs.ftz.f32 %d4, %a0; setp.eq.ftz.f32 %q0, %a0, 0f00000000; selp.u32 %d5, 1, 0, %q0;",
        [a, b],
        [np.float32] * 5 + [np.uint32],
    )
    with np.errstate(all="ignore"):
        flush = lambda v: np.where(np.abs(v) < tiny, 0, v)  # noqa: E731
        x = flush(a)
        assert_same(got[0], flush(x * b))
        assert_same(got[1], flush(x + x))
        assert_same(got[2], a * b)
        assert_same(got[3], flush(x * b + x))
        assert_same(got[4], np.abs(x))
    assert got[5].tolist() == [1, 1, 0, 1, 1]


def test_saturation_and_relu():
    a = np.array([-2, -0.0, 0.3, 1, 7, np.nan, np.inf, -np.inf], np.float32)
    got = apply("add.sat.f32 %d0, %a0, 0f00000000; mul.sat.f32 %d1, %a0, 0f3F800000;", [a], [np.float32] * 2)
    want = np.array([0, 0, 0.3, 1, 1, 0, 1, 0], np.float32)
    assert (got[0] == want).all() and (got[1] == want).all() and not np.signbit(got[0]).any()
    h = a.astype(np.float16)
    got = apply(
        "fma.rn.relu.f16 %d0, %a0, %a1, %a2;", [h, np.ones_like(h), np.zeros_like(h)], [np.uint16]
    ).view(np.float16)
    assert_same(got, np.array([0, 0, np.float16(0.3), 1, 7, np.nan, np.inf, 0]))


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_min_max(name):
    a = interesting(name, 60)
    b = RNG.permutation(a)
    a[:4], b[:4] = [0.0, -0.0, np.nan, 1.0], [-0.0, 0.0, 2.0, np.nan]
    raw = [a, b]
    mods = ("", ".NaN") if name != "f64" else ("",)
    for mod in mods:
        lo, hi = apply(
            f"min{mod}.{name} %d0, %a0, %a1; max{mod}.{name} %d1, %a0, %a1;",
            raw,
            [f"uint{a.dtype.itemsize * 8}"] * 2,
        )
        lo, hi = lo.view(a.dtype), hi.view(a.dtype)
        x, y = a.astype(np.float64), b.astype(np.float64)
        assert_same(lo, np.minimum(x, y) if mod else np.fmin(x, y), a, b)
        assert_same(hi, np.maximum(x, y) if mod else np.fmax(x, y), a, b)
        assert np.signbit(lo.astype(np.float64)[:2]).all() and not np.signbit(hi.astype(np.float64)[:2]).any()


def test_min_max_variants():
    a, b, c = (RNG.normal(0, 1, 100).astype(np.float32) for _ in range(3))
    got = apply(
        "max.xorsign.abs.f32 %d0, %a0, %a1; min.f32 %d1, %a0, %a1, %a2; max.abs.f32 %d2, %a0, %a1, %a2;",
        [a, b, c],
        [np.float32] * 3,
    )
    sign = np.where(np.signbit(a) != np.signbit(b), -1, 1)
    assert_same(got[0], sign * np.maximum(np.abs(a), np.abs(b)))
    assert_same(got[1], np.minimum(np.minimum(a, b), c))
    assert_same(got[2], np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(c)))


def test_unordered_comparisons():
    a = np.array([1, 2, np.nan, 1, np.nan, -0.0], np.float32)
    b = np.array([2, 2, 1, np.nan, np.nan, 0.0], np.float32)
    nan = np.isnan(a) | np.isnan(b)
    with np.errstate(all="ignore"):
        base = {"eq": a == b, "ne": (a != b) & ~nan, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    for cmp, want in base.items():
        got, un = apply(f"setp.{cmp}.f32 %q0, %a0, %a1; setp.{cmp}u.f32 %q1, %a0, %a1;", [a, b], [bool, bool])
        assert got.tolist() == want.tolist(), cmp
        assert un.tolist() == (want | nan).tolist(), cmp
    num, un = apply("setp.num.f32 %q0, %a0, %a1; setp.nan.f32 %q1, %a0, %a1;", [a, b], [bool, bool])
    assert num.tolist() == (~nan).tolist() and un.tolist() == nan.tolist()
    q = apply("setp.lt.f32 %q0|%q1, %a0, %a1;", [a, b], [bool, bool])
    assert q[1].tolist() == (~q[0]).tolist()


def test_sign_operations_keep_bits():
    bits = np.array([0x7FC12345, 0xFFC00001, 0x7F812345, 0x80000000, 0x3F800000], np.uint32)
    n, a, c = apply(
        "neg.f32 %d0, %a0; abs.f32 %d1, %a0; copysign.f32 %d2, %a0, 0f40000000;", [bits], [np.uint32] * 3
    )
    assert (n == bits ^ np.uint32(1 << 31)).all() and (a == bits & np.uint32(0x7FFFFFFF)).all()
    assert (c == np.where(bits >> np.uint32(31), np.uint32(0xC0000000), np.uint32(0x40000000))).all()
    f = bits.view(np.float32)
    for kind, want in {
        "finite": np.isfinite(f),
        "notanumber": np.isnan(f),
        "infinite": np.isinf(f),
        "number": ~np.isnan(f),
        "normal": f == 1,
        "subnormal": f == 5,
    }.items():
        assert apply(f"testp.{kind}.f32 %q0, %a0;", [bits], [bool]).tolist() == want.tolist(), kind


def test_approximations_are_close():
    x = np.concatenate([np.exp2(RNG.uniform(-20, 20, 300)), [1, 2, 0.5]]).astype(np.float32)
    d = x.astype(np.float64)
    cases = {
        "rcp.approx": 1 / d,
        "sqrt.approx": np.sqrt(d),
        "rsqrt.approx": 1 / np.sqrt(d),
        "lg2.approx": np.log2(d),
        "sin.approx": np.sin(d),
        "cos.approx": np.cos(d),
        "tanh.approx": np.tanh(d),
    }
    for op, want in cases.items():
        assert_same(apply(f"{op}.f32 %d0, %a0;", [x], [np.float32]), want.astype(np.float32), x)
    e = RNG.uniform(-140, 120, 200).astype(np.float32)
    full, ftz = apply("ex2.approx.f32 %d0, %a0; ex2.approx.ftz.f32 %d1, %a0;", [e], [np.float32] * 2)
    want = np.exp2(e.astype(np.float64)).astype(np.float32)
    assert_same(full, want, e)
    assert_same(ftz, np.where(np.abs(want) < 2.0**-126, 0, want), e)
    q = apply(
        "div.approx.f32 %d0, %a0, %a1; div.full.f32 %d1, %a0, %a1;",
        [x, np.full_like(x, 2.0**127)],
        [np.float32] * 2,
    )
    assert (q[0] == 0).all() and (q[1] == x / np.float32(2.0**127)).all()
    r = apply("rcp.approx.ftz.f64 %d0, %a0;", [d], [np.uint64])
    assert (r & np.uint64(0xFFFFFFFF) == 0).all()
    assert (np.abs(r.view(np.float64) * d - 1) < 2e-6).all()


# conversions
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_float_to_integer(name, mode):
    a = np.concatenate(
        [
            interesting(name, 200),
            np.array([0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 255.5, -128.5, 32767.5, 65503.0]).astype(
                FORMATS[name][3]
            ),
        ]
    )
    with np.errstate(all="ignore"):
        r = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](a.astype(np.float64))
    for bits in (8, 16, 32, 64):
        for sign in "su":
            lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
            width = max(16, bits)
            got = apply(
                f"cvt.{mode}.{sign}{bits}.{name} %d0, %a0;", [a], [f"{'u' if sign == 'u' else ''}int{width}"]
            )
            for x, v, g in zip(a.tolist(), r.tolist(), got.tolist()):
                if math.isnan(x):
                    zero = name != "f64" and bits != 64
                    want = 0 if zero else (lo if sign == "s" else 1 << bits - 1)
                else:
                    want = min(max(int(v), lo), hi) if math.isfinite(v) else (hi if v > 0 else lo)
                assert g == want, (x, sign, bits)
    same_type = apply(f"cvt.{mode}.{name}.{name} %d0, %a0;", [a], [f"uint{a.dtype.itemsize * 8}"]).view(
        a.dtype
    )
    assert_same(same_type, r, a)


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s8", "u16", "s32", "u32", "s64", "u64"])
def test_integer_to_float(source, mode):
    bits, kind = int(source[1:]), f"{'u' if source[0] == 'u' else ''}int{int(source[1:])}"
    raw = RNG.integers(0, 1 << 63, 300, np.uint64) >> RNG.integers(0, 63, 300, np.uint64)
    edge = [
        0,
        1,
        (1 << 24) + 1,
        (1 << 25) + 2,
        (1 << 53) + 1,
        (1 << 54) + 2,
        (1 << 63) - 1,
        (1 << 64) - 1,
        1 << 63,
    ]
    a = np.concatenate([raw, np.array(edge, np.uint64)]).astype(f"uint{bits}").view(kind)
    for to in ("f16", "f32", "f64"):
        dtype = FORMATS[to][3]
        out = apply(f"cvt.{mode}.{to}.{source} %d0, %a0;", [a], [f"uint{np.dtype(dtype).itemsize * 8}"]).view(
            dtype
        )
        assert_same(out, [round_exact(Fraction(int(v)), to, mode) for v in a], a)


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_single_to_half(to, mode):
    every = np.arange(1 << 16, dtype=np.uint16).view(FORMATS[to][3])
    exact32 = every.astype(np.float32)
    finite = exact32[np.isfinite(exact32)]
    with np.errstate(all="ignore"):
        up = np.nextafter(finite, np.float32(np.inf))
        middle = (
            (
                finite.astype(np.float64)
                + np.nextafter(every[np.isfinite(exact32)], every.dtype.type(np.inf)).astype(np.float64)
            )
            / 2
        ).astype(np.float32)
    picks = RNG.permutation(np.concatenate([finite, up, middle, np.nextafter(middle, np.float32(0))]))[:6000]
    a = np.concatenate([picks, interesting("f32", 300)])
    got = apply(f"cvt.{mode}.{to}.f32 %d0, %a0;", [a], [np.uint16]).view(every.dtype)
    want = [
        round_exact(Fraction(v), to, mode) if math.isfinite(v) else v for v in a.astype(np.float64).tolist()
    ]
    assert_same(got, want, a)
    if mode == "rn":
        with np.errstate(all="ignore"):
            assert_same(got, a.astype(every.dtype).astype(np.float64), a)
    back = apply(f"cvt.f32.{to} %d0, %a0;", [every], [np.float32])
    assert_same(back, exact32)


def test_double_to_narrow():
    a = interesting("f64", 600)
    a = np.concatenate([a, RNG.normal(0, 1, 2000) * 2.0 ** RNG.integers(-160, 140, 2000)])
    near = RNG.normal(0, 1, 500).astype(np.float32).astype(np.float64)
    a = np.concatenate([a, near + near * 2.0**-24, near + near * 2.0**-24 * (1 + 2.0**-20)])
    for to, modes in (("f32", ("rn", "rz", "rm", "rp")), ("f16", ("rn",))):
        for mode in modes:
            dtype = FORMATS[to][3]
            got = apply(f"cvt.{mode}.{to}.f64 %d0, %a0;", [a], [f"uint{np.dtype(dtype).itemsize * 8}"]).view(
                dtype
            )
            assert_same(
                got, [round_exact(Fraction(v), to, mode) if math.isfinite(v) else v for v in a.tolist()], a
            )


def test_tf32():
    a = interesting("f32", 800)
    for mode in ("rna", "rn", "rz"):
        got = apply(f"cvt.{mode}.tf32.f32 %d0, %a0;", [a], [np.uint32])
        assert (got[~np.isnan(a)] & np.uint32(0x1FFF) == 0).all()
        for x, g in zip(a.tolist(), got.view(np.float32).tolist()):
            if not math.isfinite(x):
                assert same(g, x).all()
                continue
            _, e = math.frexp(x)
            unit = Fraction(2) ** (max(e - 1, -126) - 10)
            n, rest = divmod(abs(Fraction(x)), unit)
            up = {
                "rna": rest * 2 >= unit,
                "rn": rest * 2 > unit or (rest * 2 == unit and n & 1),
                "rz": False,
            }[mode]
            want = float((n + bool(up)) * unit)
            want = math.inf if want > 3.4e38 else want
            assert abs(g) == want, x


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_fp8(name):
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name]
    largest = float(ml_dtypes.finfo(dtype).max)
    codes = np.arange(256, dtype=np.uint8)
    table = codes.view(dtype).astype(np.float32)
    pairs = (codes.astype(np.uint16) | RNG.permutation(codes).astype(np.uint16) << 8).astype(np.uint16)
    wide = apply(f"cvt.rn.f16x2.{name}x2 %d0, %a0;", [pairs], [np.uint32]).view(np.float16).reshape(-1, 2)
    assert_same(wide[:, 0], table[pairs & 255])
    assert_same(wide[:, 1], table[pairs >> 8])
    finite = np.sort(table[np.isfinite(table)])
    middle = (finite[1:] + finite[:-1]) / 2
    a = np.concatenate(
        [
            finite,
            middle,
            np.nextafter(middle, np.float32(0)),
            np.nextafter(middle, np.float32(9e9)),
            np.array([1e9, -1e9, np.inf, -np.inf, np.nan, largest * 1.03, largest * 1.5], np.float32),
        ]
    )
    b = RNG.permutation(a)
    got = apply(f"cvt.rn.satfinite.{name}x2.f32 %d0, %a0, %a1;", [a, b], [np.uint16])

    def code(x):
        y = np.clip(x, -largest, largest).astype(dtype).view(np.uint8)
        return np.where(np.isnan(x), 0x7F, y)

    assert ((got >> 8) == code(a)).all() and ((got & 255) == code(b)).all()
    half = RNG.permutation(a.astype(np.float16))[: a.size // 2 * 2].reshape(-1, 2)
    got = apply(
        f"cvt.rn.satfinite.relu.{name}x2.f16x2 %d0, %a0;",
        [half.copy().view(np.uint32).reshape(-1)],
        [np.uint16],
    )
    low = np.where(half <= 0, np.float16(0), half).astype(np.float32)
    assert ((got & 255) == code(low[:, 0])).all() and ((got >> 8) == code(low[:, 1])).all()


def test_fp4_fp6_and_scales():
    table = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    finite = np.sort(table)
    a = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, [9, -9, 0.1, 0.26, 5.1]]).astype(np.float32)
    b = RNG.permutation(a)
    got = apply(
        ".reg .b8 %by; cvt.rn.satfinite.e2m1x2.f32 %by, %a0, %a1; cvt.u16.u8 %d0, %by;", [a, b], [np.uint16]
    )
    clip = lambda x: np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8) & 15  # noqa: E731
    assert ((got >> 4) == clip(a)).all() and ((got & 15) == clip(b)).all()
    for name, dtype in (("e3m2", ml_dtypes.float6_e3m2fn), ("e2m3", ml_dtypes.float6_e2m3fn)):
        codes = np.arange(64, dtype=np.uint16)
        got = apply(f"cvt.rn.f16x2.{name}x2 %d0, %a0;", [codes], [np.uint32]).view(np.float16).reshape(-1, 2)
        assert_same(got[:, 0], codes.astype(np.uint8).view(dtype).astype(np.float32))
        x = np.concatenate([got[:, 0].astype(np.float32), RNG.normal(0, 9, 300).astype(np.float32)])
        back = apply(f"cvt.rn.satfinite.{name}x2.f32 %d0, %a0, %a0;", [x], [np.uint16])
        largest = float(ml_dtypes.finfo(dtype).max)
        want = np.clip(x, -largest, largest).astype(dtype).view(np.uint8) & 63
        assert (back & 63 == want).all() and (back >> 8 == want).all()
    codes = np.arange(256, dtype=np.uint16)
    got = apply("cvt.rn.bf16x2.ue8m0x2 %d0, %a0;", [codes], [np.uint32])
    scale = codes.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert_same((got & np.uint32(0xFFFF)).astype(np.uint16).view(BF16), scale)
    x = np.array([1, 1.5, 2, 3, 1e-39, 2.0**127, 3e38, np.nan], np.float32)
    down = apply("cvt.rz.satfinite.ue8m0x2.f32 %d0, %a0, %a0;", [x], [np.uint16]) & 255
    up = apply("cvt.rp.satfinite.ue8m0x2.f32 %d0, %a0, %a0;", [x], [np.uint16]) & 255
    assert down.tolist() == [127, 127, 128, 128, 0, 254, 254, 255]
    assert up.tolist() == [127, 128, 128, 129, 0, 254, 254, 255]


def test_pack_to_half_pairs_and_integers():
    a, b = (RNG.normal(0, 100, 200).astype(np.float32) for _ in range(2))
    h, f = apply(
        "cvt.rn.f16x2.f32 %d0, %a0, %a1; cvt.rn.relu.bf16x2.f32 %d1, %a0, %a1;", [a, b], [np.uint32] * 2
    )
    assert (h.view(np.float16).reshape(-1, 2) == np.stack([b, a], 1).astype(np.float16)).all()
    want = np.maximum(np.stack([b, a], 1), 0).astype(BF16)
    assert (f.view(np.uint16).reshape(-1, 2) == want.view(np.uint16)).all()
    x, y = (RNG.integers(-300, 300, 100).astype(np.int32) for _ in range(2))
    c = RNG.integers(0, 2**31, 100).astype(np.uint32)
    s, u = apply(
        "cvt.pack.sat.s16.s32 %d0, %a0, %a1; cvt.pack.sat.u8.s32.b32 %d1, %a0, %a1, %a2;",
        [x, y, c],
        [np.uint32] * 2,
    )
    assert (s.view(np.int32) == (y & 0xFFFF) + ((x & 0xFFFF) << 16)).all()
    assert (u == (np.clip(y, 0, 255) | np.clip(x, 0, 255) << 8 | ((c & 0xFFFF).astype(np.int64) << 16))).all()


def test_integer_width_changes():
    edges = [0, -1, 127, 128, -128, -129, 255, 256, 65535, 32768]
    a = np.concatenate([RNG.integers(-(2**31), 2**31, 200), edges]).astype(np.int32)
    got = apply(
        "cvt.s8.s32 %d0, %a0; cvt.u8.s32 %d1, %a0; cvt.sat.s8.s32 %d2, %a0; cvt.sat.u16.s32 %d3, %a0;"
        "cvt.s64.s32 %d4, %a0; cvt.u64.u32 %d5, %a0; cvt.sat.u32.s32 %d6, %a0;",
        [a],
        [np.int32, np.uint32, np.int32, np.uint32, np.int64, np.uint64, np.uint32],
    )
    assert (got[0] == a.astype(np.int8)).all() and (got[1] == a.astype(np.uint8)).all()
    assert (got[2] == np.clip(a, -128, 127)).all() and (got[3] == np.clip(a, 0, 65535)).all()
    assert (got[4] == a).all() and (got[5] == a.view(np.uint32)).all() and (got[6] == np.maximum(a, 0)).all()


@pytest.mark.full
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_half_fma_widely(name):
    """Many random triples of each type."""
    dtype = FORMATS[name][3]
    raw = [RNG.integers(0, 1 << 16, 100_000).astype(np.uint16).view(dtype) for _ in range(3)]
    got = apply(f"fma.rn.{name} %d0, %a0, %a1, %a2;", raw, [np.uint16]).view(dtype)
    assert_same(got, exact(lambda x, y, z: x * y + z, name, "rn", *raw), *raw)
