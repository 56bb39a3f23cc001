"""Three witnesses, bit by bit: the interpreter, the emulated PTX, native code; on random and special values."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from unit.reference_kit import DTYPES, Kernel, tile
from unit.test_reference_floats import samples
from unit.test_reference_ints import BITS, values

from tileiras.run import launch

pytestmark = pytest.mark.full

FLOATS, INTS = ("f16", "bf16", "f32", "f64"), ("i1", "i8", "i16", "i32", "i64")
COUNT = 256
WITNESSES = ("emulator", "cpu") if importlib.util.find_spec("llvmlite") else ("emulator",)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0]


def floats(name: str, seed: int) -> np.ndarray:
    """Random bit patterns, with the special values in another order for each seed."""
    x = samples(name, COUNT, seed).copy()
    x[: len(SPECIAL)] = np.roll(SPECIAL, seed * 3).astype(x.dtype)
    return x


def operands(name: str, count: int) -> list[tuple[str, np.ndarray]]:
    make = values if name in INTS else None
    return [(name, make(name, seed, COUNT) if make else floats(name, seed)) for seed in range(2, 2 + count)]


def assert_agree(op: str, inputs: list[tuple[str, np.ndarray]], result: str, **attrs: Any) -> None:
    k = Kernel(*(f"*{elem}" for elem, _ in inputs), f"*{result}")
    loaded = [k.load(arg, COUNT) for arg in k.args[:-1]]
    k.store(k.args[-1], k.op(op, loaded, [tile(result, COUNT)], **attrs))
    module, outs = k.module(), {}
    for target in ("reference", *WITNESSES):
        out = outs[target] = np.zeros(COUNT, DTYPES[result])
        launch(module, "k", 1, [*(x.astype(DTYPES[e]) for e, x in inputs), out], target, "sm_90")
    want = outs["reference"]
    for target in WITNESSES:
        got = outs[target]
        same = got.view(np.uint8).reshape(COUNT, -1) == want.view(np.uint8).reshape(COUNT, -1)
        bad = ~same.all(1)
        if want.dtype.kind not in "iub":
            bad &= ~(np.isnan(want.astype(np.float64)) & np.isnan(got.astype(np.float64)))
        if bad.any():
            i = int(np.argmax(bad))
            args = ", ".join(str(x[i]) for _, x in inputs)
            pytest.fail(
                f"{op}({args}) {attrs}: reference {want[i]}, {target} {got[i]}; {int(bad.sum())} differ"
            )


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("mode", ["nearest_even", "zero", "negative_inf", "positive_inf"])
@pytest.mark.parametrize(
    "op,arity", [("addf", 2), ("subf", 2), ("mulf", 2), ("divf", 2), ("fma", 3), ("sqrt", 1)]
)
def test_arithmetic(op: str, arity: int, mode: str, name: str) -> None:
    assert_agree(op, operands(name, arity), name, rounding_mode=mode)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", ["maxf", "minf", "negf", "absf", "floor", "ceil", "remf"])
def test_other_float_ops(op: str, name: str) -> None:
    assert_agree(op, operands(name, 2 if op in ("maxf", "minf", "remf") else 1), name)
    if op in ("maxf", "minf"):
        assert_agree(op, operands(name, 2), name, propagate_nan=True)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("ordering", ["ordered", "unordered"])
def test_float_comparisons(ordering: str, name: str) -> None:
    for predicate in (
        "equal",
        "not_equal",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
    ):
        attrs = {"comparison_predicate": predicate, "comparison_ordering": ordering}
        assert_agree("cmpf", operands(name, 2), "i1", **attrs)


@pytest.mark.parametrize("name", INTS)
def test_integer_ops(name: str) -> None:
    a, b = operands(name, 2)
    nonzero = (name, np.where(b[1] == 0, np.ones_like(b[1]), b[1]))
    for op in ("addi", "subi", "muli", "andi", "ori", "xori", "mulhii", "shli"):
        assert_agree(op, [a, b], name)
    for op in ("absi", "negi"):
        assert_agree(op, [a], name)
    for signedness in ("signed", "unsigned"):
        for op in ("maxi", "mini", "shri"):
            assert_agree(op, [a, b], name, signedness=signedness)
        for predicate in ("equal", "less_than", "greater_than_or_equal"):
            assert_agree("cmpi", [a, b], "i1", comparison_predicate=predicate, signedness=signedness)
        if name == "i1":
            continue
        assert_agree("remi", [a, nonzero], name, signedness=signedness)
        for rounding in ("zero", "negative_inf", "positive_inf"):
            if (signedness, rounding) != ("unsigned", "negative_inf"):
                assert_agree("divi", [a, nonzero], name, signedness=signedness, rounding=rounding)


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("name", INTS)
def test_conversions_of_integers(name: str, signedness: str) -> None:
    for target in INTS:
        if BITS[target] > BITS[name]:
            assert_agree("exti", operands(name, 1), target, signedness=signedness)
        elif BITS[target] < BITS[name]:
            assert_agree("trunci", operands(name, 1), target)
    for other in FLOATS:
        assert_agree("itof", operands(name, 1), other, signedness=signedness, rounding_mode="nearest_even")
        attrs = {"signedness": signedness, "rounding_mode": "nearest_int_to_zero", "saturating": True}
        assert_agree("ftoi", operands(other, 1), name, **attrs)


@pytest.mark.parametrize("source", [*FLOATS, "tf32", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("target", [*FLOATS, "tf32", "f8E4M3FN", "f8E5M2"])
def test_conversions_of_floats(source: str, target: str) -> None:
    if source == target:
        pytest.skip("not a conversion")
    x = (
        floats("f32" if source == "tf32" else source, 2)
        if source[:2] != "f8"
        else np.arange(256, dtype=np.uint8)
    )
    assert_agree("ftof", [(source, x.view(DTYPES[source]))], target, rounding_mode="nearest_even")
