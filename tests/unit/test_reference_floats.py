"""Formats, rounding and float arithmetic against exact rationals, ml_dtypes and mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.reference_kit import DTYPES, evaluate

from tileiras.run.reference.exact import compute
from tileiras.run.reference.floats import FORMATS, decode64, encode

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
ARITHMETIC = ("f16", "bf16", "f32", "f64")
LAYOUT = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "tf32": (11, -126, 127),
    "f64": (53, -1022, 1023),
}  # precision, smallest and largest exponent


def neighbours(value: Fraction, name: str) -> tuple[Fraction, Fraction]:
    """The largest grid value <= value and the smallest >= value of a format without an upper bound."""
    precision, emin, _ = LAYOUT[name]
    magnitude = abs(value)
    e = max(emin, magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - 1)
    while magnitude >= Fraction(2) ** (e + 1):
        e += 1
    quantum = Fraction(2) ** (e - precision + 1)
    steps = value / quantum
    return math.floor(steps) * quantum, math.ceil(steps) * quantum


def round_exactly(value: Fraction, name: str, mode: str) -> float:
    """Independent rounding of a nonzero rational."""
    precision, _, emax = LAYOUT[name]
    low, high = neighbours(value, name)
    if mode == "negative_inf" or (mode == "zero" and value > 0):
        chosen = low
    elif mode == "positive_inf" or (mode == "zero" and value < 0):
        chosen = high
    elif value - low != high - value:
        chosen = low if value - low < high - value else high
    else:
        gap = high - low
        chosen = low if not gap or (low / gap) % 2 == 0 else high
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** emax
    if abs(chosen) <= largest:
        return float(chosen) or (-0.0 if value < 0 else 0.0)
    if mode == "nearest_even" or ((mode == "positive_inf") == (chosen > 0) and mode != "zero"):
        return math.inf if chosen > 0 else -math.inf
    return float(largest if chosen > 0 else -largest)


def same(got: float, want: float) -> bool:
    return (got == want and math.copysign(1, got) == math.copysign(1, want)) or (
        math.isnan(got) and math.isnan(want)
    )


def samples(name: str, count: int, seed: int) -> np.ndarray:
    """Random bit patterns without NaN and infinity, with many subnormals, equal exponents and extremes."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(DTYPES[name]).itemsize * 8
    words = rng.integers(0, 1 << bits, count, dtype=np.uint64)
    near = rng.integers(0, 1 << (bits // 2), count, dtype=np.uint64)
    one = np.asarray(1.0).astype(DTYPES[name]).reshape(1).view(f"u{bits // 8}")[0]
    words = np.where(rng.random(count) < 0.3, near, words)
    words = np.where(rng.random(count) < 0.4, (words & np.uint64(0xFF)) + np.uint64(int(one)), words)
    x = words.astype(f"u{bits // 8}").view(DTYPES[name])
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(x.astype(np.float64)), x, np.asarray(0.5).astype(DTYPES[name]))


def stored(x: np.ndarray, name: str) -> np.ndarray:
    return x.view(FORMATS[name].storage)


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if b else None,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("op", EXACT)
def test_arithmetic_is_rounded_once(op: str, name: str, mode: str) -> None:
    arity = 3 if op == "fma" else 2
    args = [samples(name, 200, seed=i + 1) for i in range(arity)]
    with np.errstate(all="ignore"):
        got = decode64(compute(op, FORMATS[name], mode, *(stored(a, name) for a in args)), FORMATS[name])
    for i, row in enumerate(zip(*args)):
        exact = EXACT[op](*(Fraction(float(v)) for v in row))
        if exact:  # zero results and division by zero: test_signed_zeros
            assert same(float(got[i]), round_exactly(exact, name, mode)), (op, name, mode, row)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_sqrt_is_rounded_once(name: str, mode: str) -> None:
    x = np.abs(samples(name, 200, seed=7))
    with np.errstate(all="ignore"):
        got = decode64(compute("sqrt", FORMATS[name], mode, stored(x, name)), FORMATS[name])
    with mpmath.workprec(400):
        for value, root in zip(x, got):
            if value:
                exact = mpmath.sqrt(mpmath.mpf(float(value)))
                scaled = int(mpmath.floor(exact * mpmath.mpf(2) ** 1400))
                sticky = (
                    Fraction(1, 2**1402) if Fraction(scaled, 2**1400) ** 2 != Fraction(float(value)) else 0
                )
                assert same(float(root), round_exactly(Fraction(scaled, 2**1400) + sticky, name, mode)), (
                    value,
                    mode,
                )


def test_cancelled_sums_are_negative_zero_only_toward_negative_infinity() -> None:
    for name in ARITHMETIC:
        for mode in MODES:
            out = evaluate(
                "subf", [(name, [1.5, 0.0, -0.0]), (name, [1.5, 0.0, 0.0])], name, rounding_mode=mode
            )
            down = mode == "negative_inf"
            assert np.signbit(out.astype(np.float64)).tolist() == [down, down, True]
            out = evaluate(
                "addf", [(name, [0.0, -0.0, -0.0]), (name, [0.0, -0.0, 0.0])], name, rounding_mode=mode
            )
            assert np.signbit(out.astype(np.float64)).tolist() == [False, True, down]


def test_infinities_and_nan_in_every_mode() -> None:
    for name in ARITHMETIC:
        for mode in MODES:
            a = [np.inf, np.inf, np.inf, 1.0, 0.0, np.nan]
            b = [1.0, -np.inf, 0.0, 0.0, 0.0, 1.0]
            run = {
                op: evaluate(op, [(name, a), (name, b)], name, rounding_mode=mode).astype(np.float64)
                for op in ("addf", "mulf", "divf")
            }
            assert run["addf"][0] == np.inf and np.isnan(run["addf"][1]) and np.isnan(run["addf"][5])
            assert run["mulf"][1] == -np.inf and np.isnan(run["mulf"][2])
            assert run["divf"][3] == np.inf and np.isnan(run["divf"][4]) and np.isnan(run["divf"][1])


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN"])
def test_decode_tables_agree_with_ml_dtypes(name: str) -> None:
    dtype = getattr(
        ml_dtypes,
        {
            "f8E4M3FN": "float8_e4m3fn",
            "f8E5M2": "float8_e5m2",
            "f8E8M0FNU": "float8_e8m0fnu",
            "f4E2M1FN": "float4_e2m1fn",
        }[name],
    )
    codes = np.arange(16 if name == "f4E2M1FN" else 256, dtype=np.uint8)
    want = codes.view(dtype).astype(np.float32)
    got = decode64(codes, FORMATS[name])
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def test_unsigned_e5m3_has_no_sign_and_one_nan() -> None:
    table = decode64(np.arange(256, dtype=np.uint8), FORMATS["fnv8E5M3FNU"])
    assert table[0] == 0 and table[1] == 2.0**-17 and table[8] == 2.0**-14
    assert table[15 << 3] == 1.0 and table[254] == 2.0**16 * 1.75 and np.isnan(table[255])
    assert (np.diff(table[:255]) > 0).all()


@pytest.mark.parametrize("name", ["f16", "bf16", "f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_every_value_survives_decode_and_encode(name: str) -> None:
    fmt = FORMATS[name]
    count = 1 << fmt.bits
    codes = np.arange(count, dtype=np.uint16 if fmt.bits == 16 else np.uint8).view(fmt.storage)
    with np.errstate(all="ignore"):
        values = decode64(codes, fmt)
        back = encode(values, fmt)
    keep = ~np.isnan(values)
    np.testing.assert_array_equal(np.asarray(back)[keep].view(codes.dtype), codes[keep])


@given(
    st.floats(width=64, allow_nan=False),
    st.sampled_from(["f16", "bf16", "f32", "tf32"]),
    st.sampled_from(MODES),
)
@settings(max_examples=400, deadline=None)
def test_ftof_from_f64_rounds_exactly(x: float, name: str, mode: str) -> None:
    with np.errstate(all="ignore"):
        got = float(decode64(encode(np.array([x]), FORMATS[name], mode), FORMATS[name])[0])
    want = x if not math.isfinite(x) or x == 0 else round_exactly(Fraction(x), name, mode)
    assert same(got, want)


def test_nearest_away_differs_from_nearest_even_at_ties_only() -> None:
    x = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11), 1 + 2.0**-12])
    assert decode64(encode(x, FORMATS["tf32"], "nearest_away"), FORMATS["tf32"]).tolist() == [
        1 + 2.0**-10,
        1 + 2.0**-9,
        -(1 + 2.0**-10),
        1.0,
    ]
    assert decode64(encode(x, FORMATS["tf32"]), FORMATS["tf32"]).tolist() == [1.0, 1 + 2.0**-9, -1.0, 1.0]


def test_f64_to_bf16_is_not_rounded_twice() -> None:
    x = [1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40]
    out = evaluate("ftof", [("f64", x)], "bf16", rounding_mode="nearest_even").astype(np.float64)
    assert out.tolist() == [1 + 2.0**-7, 1 + 2.0**-7]


@pytest.mark.parametrize("target,largest", [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_fp8_conversions_saturate(target: str, largest: float) -> None:
    x = [1e9, -1e9, np.inf, -np.inf, np.nan, largest, largest * 1.2, 0.0, -0.0, 1.0]
    for source in ("f32", "f64", "bf16"):
        out = evaluate("ftof", [(source, x)], target, rounding_mode="nearest_even").astype(np.float64)
        assert out[:4].tolist() == [largest, -largest, largest, -largest]
        assert np.isnan(out[4]) and out[5] == largest and out[6] == largest and out[9] == 1.0
        assert np.signbit(out[7:9]).tolist() == [False, True]


@pytest.mark.parametrize("target", ["f8E4M3FN", "f8E5M2"])
def test_fp8_rounding_agrees_with_ml_dtypes_in_range(target: str) -> None:
    limit = float(ml_dtypes.finfo(DTYPES[target]).max)
    x = np.random.default_rng(3).uniform(-limit, limit, 2000).astype(np.float32) * np.float32(
        2.0
    ) ** -np.arange(2000).astype(np.float32).__mod__(24)
    out = evaluate("ftof", [("f32", x)], target, rounding_mode="nearest_even")
    np.testing.assert_array_equal(out.view(np.uint8), x.astype(DTYPES[target]).view(np.uint8))


def test_e8m0_conversions_round_up_or_toward_zero() -> None:
    x = [1.0, 1.5, 3.0, 2.0**-127, 2.0**-130, 0.0, 3e38, np.inf, np.nan]
    zero = evaluate("ftof", [("f32", x)], "f8E8M0FNU", rounding_mode="zero").view(np.uint8)
    up = evaluate("ftof", [("f32", x)], "f8E8M0FNU", rounding_mode="positive_inf").view(np.uint8)
    assert zero.tolist() == [127, 127, 128, 0, 0, 0, 254, 254, 255]
    assert up.tolist() == [127, 128, 129, 0, 0, 0, 254, 254, 255]


def test_flush_to_zero_flushes_inputs_and_results() -> None:
    tiny, small = 2.0**-140, 2.0**-126
    out = evaluate(
        "addf",
        [("f32", [tiny, -tiny, small]), ("f32", [0.0, -0.0, -small * 0.5])],
        "f32",
        rounding_mode="nearest_even",
        flush_to_zero=True,
    )
    assert out.tolist() == [0.0, 0.0, small] and np.signbit(out).tolist() == [False, True, False]
    out = evaluate(
        "mulf",
        [("f32", [small, small]), ("f32", [0.5, -0.5])],
        "f32",
        rounding_mode="nearest_even",
        flush_to_zero=True,
    )
    assert out.tolist() == [0.0, 0.0] and np.signbit(out).tolist() == [False, True]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_extrema_treat_nan_and_signed_zero_by_rule(name: str) -> None:
    a = [0.0, -0.0, np.nan, 1.0, np.nan, -3.0, np.inf]
    b = [-0.0, 0.0, 2.0, np.nan, np.nan, 5.0, -np.inf]
    high = evaluate("maxf", [(name, a), (name, b)], name).astype(np.float64)
    low = evaluate("minf", [(name, a), (name, b)], name).astype(np.float64)
    assert np.signbit(high[:2]).tolist() == [False, False] and np.signbit(low[:2]).tolist() == [True, True]
    assert high[2:4].tolist() == [2.0, 1.0] and low[2:4].tolist() == [2.0, 1.0]
    assert np.isnan(high[4]) and high[5:].tolist() == [5.0, np.inf] and low[5:].tolist() == [-3.0, -np.inf]
    strict = evaluate("maxf", [(name, a), (name, b)], name, propagate_nan=True).astype(np.float64)
    assert np.isnan(strict[2:5]).all() and strict[5] == 5.0


@pytest.mark.parametrize("name", ARITHMETIC)
def test_comparisons_with_nan(name: str) -> None:
    a, b = [1.0, 2.0, np.nan, 1.0, np.nan], [2.0, 2.0, 1.0, np.nan, np.nan]
    want = {
        "equal": [0, 1],
        "not_equal": [1, 0],
        "less_than": [1, 0],
        "less_than_or_equal": [1, 1],
        "greater_than": [0, 0],
        "greater_than_or_equal": [0, 1],
    }
    for predicate, values in want.items():
        for ordering, nan in (("ordered", 0), ("unordered", 1)):
            out = evaluate(
                "cmpf",
                [(name, a), (name, b)],
                "i1",
                comparison_predicate=predicate,
                comparison_ordering=ordering,
            )
            assert out.astype(int).tolist() == [*values, nan, nan, nan], (predicate, ordering)


FUNCTIONS = {
    "exp": (mpmath.exp, -80, 80),
    "exp2": (lambda x: mpmath.mpf(2) ** x, -120, 120),
    "log": (mpmath.log, 1e-30, 1e30),
    "log2": (lambda x: mpmath.log(x, 2), 1e-30, 1e30),
    "sin": (mpmath.sin, -1e4, 1e4),
    "cos": (mpmath.cos, -1e4, 1e4),
    "tan": (mpmath.tan, -1e3, 1e3),
    "sinh": (mpmath.sinh, -50, 50),
    "cosh": (mpmath.cosh, -50, 50),
    "tanh": (mpmath.tanh, -10, 10),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1e-30, 1e30),
}


@pytest.mark.parametrize("name", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_math_functions_are_rounded_to_the_element_type(op: str, name: str) -> None:
    fn, low, high = FUNCTIONS[op]
    x = np.random.default_rng(5).uniform(low, high, 64).astype(DTYPES[name])
    got = evaluate(op, [(name, x)], name).astype(np.float64)
    precision = LAYOUT[name][0]
    with mpmath.workprec(300):
        for value, result in zip(x.astype(np.float64), got):
            exact = fn(mpmath.mpf(float(value)))
            _, exponent = math.frexp(float(exact))
            ulps = abs(mpmath.mpf(float(result)) - exact) / mpmath.mpf(2) ** (exponent - precision)
            assert ulps <= (0.5001 if name != "f64" else 5), (op, value, result, float(ulps))


def test_two_operand_functions() -> None:
    y, x = [1.0, -1.0, 0.0, -0.0], [0.0, -1.0, -1.0, 1.0]
    out = evaluate("atan2", [("f32", y), ("f32", x)], "f32")
    np.testing.assert_array_equal(out, np.arctan2(y, x).astype(np.float32))
    out = evaluate("fpowf", [("f32", [2.0, 9.0, 0.0, -2.0]), ("f32", [10.0, 0.5, 0.0, 3.0])], "f32")
    assert out.tolist() == [1024.0, 3.0, 1.0, -8.0]
    out = evaluate("fpowi", [("f64", [2.0, -3.0, 5.0, 0.5]), ("i8", [-2, 3, 0, -1])], "f64")
    assert out.tolist() == [0.25, -27.0, 1.0, 2.0]
    out = evaluate(
        "remf", [("f32", [5.5, -5.5, 1.0, np.inf, 3.0]), ("f32", [2.0, 2.0, 0.0, 2.0, np.inf])], "f32"
    )
    assert out[:2].tolist() == [1.5, -1.5] and np.isnan(out[2:4]).all() and out[4] == 3.0


@pytest.mark.parametrize("name", ARITHMETIC)
def test_sign_floor_and_ceil(name: str) -> None:
    x = [1.5, -1.5, 0.0, -0.0, np.inf, 2.0]
    f64 = lambda op: evaluate(op, [(name, x)], name).astype(np.float64)  # noqa: E731
    assert f64("negf").tolist() == [-1.5, 1.5, -0.0, 0.0, -np.inf, -2.0] and np.signbit(f64("negf")[2])
    assert f64("absf").tolist() == [1.5, 1.5, 0.0, 0.0, np.inf, 2.0]
    assert f64("floor").tolist() == [1.0, -2.0, 0.0, -0.0, np.inf, 2.0]
    assert f64("ceil").tolist() == [2.0, -1.0, 0.0, -0.0, np.inf, 2.0]
