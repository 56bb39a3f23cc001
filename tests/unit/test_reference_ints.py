"""Integer ops and conversions against Python integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from unit.reference_kit import DTYPES, Kernel, evaluate, tile

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
TYPES = tuple(BITS)


def values(name: str, seed: int, count: int = 128) -> np.ndarray:
    """Random values, with zero, ones and the extremes among them."""
    rng = np.random.default_rng(seed)
    if name == "i1":
        return rng.integers(0, 2, count).astype(bool)
    info = np.iinfo(DTYPES[name])
    out = rng.integers(info.min, info.max, count, DTYPES[name], endpoint=True)
    out[rng.random(count) < 0.3] //= DTYPES[name](1 << (BITS[name] // 2))
    out[:6] = [info.min, info.max, 0, -1, 1, info.min]
    return out


def signed(v: int, name: str) -> int:
    bits = BITS[name]
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v


def unsigned(v: int, name: str) -> int:
    return int(v) & ((1 << BITS[name]) - 1)


def as_list(x: np.ndarray, name: str) -> list[int]:
    return [unsigned(int(v), name) for v in x]


def binary(op: str, name: str, fn, **attrs) -> None:
    a, b = values(name, 1), values(name, 2)
    if op in ("divi", "remi"):
        b = np.where(b == 0, np.asarray(1).astype(b.dtype), b)
    got = as_list(evaluate(op, [(name, a), (name, b)], name, **attrs), name)
    want = [unsigned(fn(int(x), int(y)), name) for x, y in zip(a, b)]
    assert got == want


@pytest.mark.parametrize("name", TYPES)
def test_wrapping_arithmetic(name: str) -> None:
    binary("addi", name, lambda x, y: x + y)
    binary("subi", name, lambda x, y: x - y)
    binary("muli", name, lambda x, y: x * y)
    binary("andi", name, lambda x, y: x & y)
    binary("ori", name, lambda x, y: x | y)
    binary("xori", name, lambda x, y: x ^ y)


@pytest.mark.parametrize("name", TYPES)
def test_signedness_belongs_to_the_op(name: str) -> None:
    for op, pick in (("maxi", max), ("mini", min)):
        binary(
            op, name, lambda x, y, pick=pick: pick(x, y, key=lambda v: signed(v, name)), signedness="signed"
        )
        binary(
            op,
            name,
            lambda x, y, pick=pick: pick(x, y, key=lambda v: unsigned(v, name)),
            signedness="unsigned",
        )
    a, b = values(name, 1), values(name, 2)
    for signedness, read in (("signed", signed), ("unsigned", unsigned)):
        for predicate, fn in (
            ("less_than", int.__lt__),
            ("greater_than_or_equal", int.__ge__),
            ("equal", int.__eq__),
            ("not_equal", int.__ne__),
            ("less_than_or_equal", int.__le__),
            ("greater_than", int.__gt__),
        ):
            out = evaluate(
                "cmpi", [(name, a), (name, b)], "i1", comparison_predicate=predicate, signedness=signedness
            )
            assert out.tolist() == [fn(read(int(x), name), read(int(y), name)) for x, y in zip(a, b)]


@pytest.mark.parametrize("name", TYPES[1:])
def test_division_rounds_as_asked(name: str) -> None:
    def quotient(x: int, y: int, read, rounding: str) -> int:
        x, y = read(x, name), read(y, name)
        exact, rest = divmod(x, y)  # floor
        if rounding == "positive_inf" and rest:
            return exact + 1
        if rounding == "zero" and rest and (x < 0) != (y < 0):
            return exact + 1
        return exact

    for rounding in ("zero", "negative_inf", "positive_inf"):
        binary(
            "divi",
            name,
            lambda x, y, r=rounding: quotient(x, y, signed, r),
            signedness="signed",
            rounding=rounding,
        )
        if rounding != "negative_inf":
            binary(
                "divi",
                name,
                lambda x, y, r=rounding: quotient(x, y, unsigned, r),
                signedness="unsigned",
                rounding=rounding,
            )

    def remainder(x: int, y: int) -> int:
        x, y = signed(x, name), signed(y, name)
        return (1 if x >= 0 else -1) * (abs(x) % abs(y))

    binary("remi", name, remainder, signedness="signed")
    binary("remi", name, lambda x, y: unsigned(x, name) % unsigned(y, name), signedness="unsigned")


@pytest.mark.parametrize("name", TYPES[1:])
def test_shift_amounts_are_unsigned_and_clamped(name: str) -> None:
    bits = BITS[name]
    a = values(name, 3, 64)
    b = np.array([0, 1, bits - 1, bits, bits + 1, -1, 3, 7] * 8).astype(DTYPES[name])
    amounts = [unsigned(int(v), name) for v in b]
    left = evaluate("shli", [(name, a), (name, b)], name)
    assert as_list(left, name) == [unsigned(int(x) << n, name) if n < bits else 0 for x, n in zip(a, amounts)]
    logical = evaluate("shri", [(name, a), (name, b)], name, signedness="unsigned")
    assert as_list(logical, name) == [unsigned(int(x), name) >> min(n, bits) for x, n in zip(a, amounts)]
    arithmetic = evaluate("shri", [(name, a), (name, b)], name, signedness="signed")
    assert as_list(arithmetic, name) == [
        unsigned(signed(int(x), name) >> min(n, bits), name) for x, n in zip(a, amounts)
    ]


@pytest.mark.parametrize("name", TYPES)
def test_high_half_is_unsigned(name: str) -> None:
    binary("mulhii", name, lambda x, y: (unsigned(x, name) * unsigned(y, name)) >> BITS[name])


@pytest.mark.parametrize("name", TYPES)
def test_abs_and_neg_wrap_at_the_minimum(name: str) -> None:
    a = values(name, 4)
    assert as_list(evaluate("absi", [(name, a)], name), name) == [
        unsigned(abs(signed(int(x), name)), name) for x in a
    ]
    assert as_list(evaluate("negi", [(name, a)], name), name) == [unsigned(-int(x), name) for x in a]


def test_extension_and_truncation_for_every_pair() -> None:
    for source in TYPES:
        for target in TYPES:
            a = values(source, 5)
            if BITS[target] > BITS[source]:
                for signedness, read in (("signed", signed), ("unsigned", unsigned)):
                    out = evaluate("exti", [(source, a)], target, signedness=signedness)
                    assert as_list(out, target) == [unsigned(read(int(x), source), target) for x in a]
            elif BITS[target] < BITS[source]:
                out = evaluate("trunci", [(source, a)], target)
                assert as_list(out, target) == [unsigned(int(x), target) for x in a]


def test_nibbles_pack_low_first_and_extend() -> None:
    data = np.array([0x21, 0x8F, 0x70, 0xFE, 0, 0, 0, 0], np.uint8).view(np.int8)
    for signedness, want in (
        ("signed", [1, 2, -1, -8, 0, 7, -2, -1]),
        ("unsigned", [1, 2, 15, 8, 0, 7, 14, 15]),
    ):
        k = Kernel("*i8", "*i32", "*i8")
        nibbles = k.op("unpack", [k.load(k.args[0], 8)], [tile("i4", 16)])
        k.store(k.args[1], k.op("exti", [nibbles], [tile("i32", 16)], signedness=signedness))
        k.store(k.args[2], k.op("pack", [nibbles], [tile("i8", 8)]))
        out, back = np.zeros(16, np.int32), np.zeros(8, np.int8)
        k.run(data, out, back)
        assert out[:8].tolist() == want
        np.testing.assert_array_equal(back, data)


@pytest.mark.parametrize("name", ["i1", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f4E2M1FN"])
def test_pack_and_unpack_are_little_endian_bytes(name: str) -> None:
    bits = {"i1": 1, "f4E2M1FN": 4}.get(name, np.dtype(DTYPES[name]).itemsize * 8)
    raw = np.arange(32, dtype=np.uint8) * np.uint8(37)
    k = Kernel("*i8", "*i8")
    inner = k.op("unpack", [k.load(k.args[0], 32)], [tile(name, 256 // bits)])
    k.store(k.args[1], k.op("pack", [inner], [tile("i8", 32)]))
    out = np.zeros(32, np.int8)
    k.run(raw.view(np.int8), out)
    np.testing.assert_array_equal(out.view(np.uint8), raw)


@pytest.mark.parametrize(
    "pair",
    [
        ("i32", "f32"),
        ("f64", "i64"),
        ("bf16", "i16"),
        ("f16", "bf16"),
        ("i8", "f8E4M3FN"),
        ("f8E5M2", "f8E4M3FN"),
    ],
)
def test_bitcast_keeps_bits(pair: tuple[str, str]) -> None:
    source, target = pair
    raw = np.random.default_rng(1).integers(0, 256, 64 * np.dtype(DTYPES[source]).itemsize, dtype=np.uint8)
    k = Kernel(f"*{source}", f"*{target}")
    k.store(k.args[1], k.op("bitcast", [k.load(k.args[0], 64)], [tile(target, 64)]))
    out = np.zeros(64, DTYPES[target])
    k.run(raw.view(DTYPES[source]), out)
    np.testing.assert_array_equal(out.view(np.uint8), raw)


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64", "tf32"])
@pytest.mark.parametrize("source", TYPES)
def test_integer_to_float_rounds_once(source: str, target: str) -> None:
    from fractions import Fraction

    from unit.test_reference_floats import round_exactly

    a = values(source, 6)
    for signedness, read in (("signed", signed), ("unsigned", unsigned)):
        out = evaluate("itof", [(source, a)], target, signedness=signedness, rounding_mode="nearest_even")
        exact = [read(int(x), source) for x in a]
        assert out.astype(np.float64).tolist() == [
            round_exactly(Fraction(v), target, "nearest_even") if v else 0.0 for v in exact
        ]


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64", "f8E5M2"])
def test_float_to_integer_truncates_and_saturates(source: str, target: str) -> None:
    x = np.array(
        [0.0, 0.99, -0.99, 1.5, -1.5, 100.5, -100.5, 3e4, -3e4, 5e18, 2e19, -1e19, np.inf, -np.inf, np.nan]
    )
    with np.errstate(all="ignore"):
        x = x.astype(DTYPES[source])
    bits = BITS[target]
    for signedness, low, high in (
        ("signed", -(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        ("unsigned", 0, (1 << bits) - 1),
    ):
        out = evaluate(
            "ftoi",
            [(source, x)],
            target,
            signedness=signedness,
            rounding_mode="nearest_int_to_zero",
            saturating=True,
        )
        for value, got in zip(x.astype(np.float64), as_list(out, target)):
            want = (
                int(value != 0)  # to i1: whether it is not zero; NaN is true
                if target == "i1"
                else 0
                if math.isnan(value)
                else high
                if value > high
                else low
                if value < low
                else math.trunc(value)
            )
            assert got == unsigned(want, target), (value, signedness)
