"""Kernels of Tile C++ 13.5 that earlier releases cannot write, by three witnesses: interpreter, machine code, NumPy."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes as ml
import numpy as np

import tileiras
from tests.corpus.versions import CPP_VERSION, LATER, path_of

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def powi(rng: Any) -> Any:
    x, e = rng.uniform(-2, 2, 64).astype("f4"), rng.integers(-6, 9, 64).astype("i4")
    x[:4], e[:4] = [0, -0.0, np.inf, -1], [0, 3, -2, -(2**31)]
    with np.errstate(all="ignore"):
        return [x, e, np.zeros(64, "f4")], {2: np.power(x.astype("f8"), e)}, 1, 1e-6


def insert(rng: Any) -> Any:
    x = rng.integers(-99, 99, 128).astype("i4")
    want = x[:64].copy()
    want[32:48] = x[100:116]
    return [x, np.zeros(64, "i4"), np.int32(2)], {1: want}, 1, 0


def casts(rng: Any) -> Any:
    c = rng.uniform(-300, 300, 64).astype("f4")
    c[:9] = [3e9, -3e9, np.nan, np.inf, -np.inf, 2147483520, -2147483648, 4294967040, 0.5]
    with np.errstate(all="ignore"):
        whole, half = np.trunc(np.nan_to_num(c.astype("f8"), nan=0)), c.astype("f2")
        cut = np.where(np.abs(half.astype("f4")) > np.abs(c), np.nextafter(half, np.float16(0)), half)
    cut = np.where(np.isinf(c), half, cut)
    away = ((c.view("u4").astype("u8") + 0x1000) & 0xFFFFE000).astype("u4").view("f4")
    want = {1: np.clip(whole, -(2**31), 2**31 - 1), 2: np.clip(whole, -128, 127), 3: np.clip(whole, 0, 2**32 - 1), 4: cut,
            5: np.where(np.isfinite(c), away, c)}  # fmt: skip
    return [c, *(np.zeros(64, d) for d in ("i4", "i1", "u4", "f2", "f4"))], want, 1, 0


def repack(rng: Any) -> Any:
    x = rng.integers(0, 2**32, (4, 16), dtype="u4")
    wide = x[0::2].astype("u8") | x[1::2].astype("u8") << np.uint64(32)
    return [x, np.zeros((4, 64), "u1"), np.zeros((2, 16), "u8")], {1: x.view("u1"), 2: wide}, 1, 0


def view_atomics(rng: Any) -> Any:
    x = np.arange(70, dtype="i4")
    return [x, np.ones(70, "f4"), np.int32(70)], {0: x + x % 32, 1: np.full(70, 0.5)}, 3, 0


def scaled8(rng: Any) -> Any:
    a = rng.uniform(-3, 3, (32, 64)).astype(ml.float8_e4m3fn)
    b = rng.uniform(-3, 3, (64, 16)).astype(ml.float8_e4m3fn)
    sa, sb = ((2.0 ** rng.integers(-3, 4, s)).astype(ml.float8_e8m0fnu) for s in ((32, 2), (2, 16)))
    left = a.astype("f8") * np.repeat(sa.astype("f8"), 32, 1)
    right = b.astype("f8") * np.repeat(sb.astype("f8"), 32, 0)
    return [a, sa, b, sb, np.zeros((32, 16), "f4")], {4: left @ right}, 1, 1e-4


def scaled4(rng: Any) -> Any:
    a, b = (rng.integers(0, 256, (16, 32)).astype("u1") for _ in range(2))
    sa, sb = (rng.uniform(0.5, 2, s).astype(ml.float8_e4m3fn) for s in ((16, 4), (4, 16)))
    x, y = (np.stack([FP4[p & 15], FP4[p >> 4]], -1).reshape(16, 64) for p in (a, b))
    left = x * np.repeat(sa.astype("f8"), 16, 1)
    right = y.T * np.repeat(sb.astype("f8"), 16, 0)
    return [a, sa, b, sb, np.zeros((16, 16), "f4")], {4: left @ right}, 1, 1e-4


def e8m0(rng: Any) -> Any:
    x = rng.uniform(0.01, 900, 64).astype("f4")
    x[:6] = [1, 2, 3, 1e-40, 1.5e38, 3e38]
    up = np.clip(2.0 ** np.ceil(np.log2(x.astype("f8"))), 2.0**-127, 2.0**127)
    return [x, np.zeros(64, ml.float8_e8m0fnu), np.zeros(64, "f4")], {2: up}, 1, 0


def fp4(rng: Any) -> Any:
    x = rng.uniform(-7, 7, 64).astype("f4")
    x[:5] = [0.25, 0.75, 5, 100, -0.2]
    return [x, np.zeros(32, "u1"), np.zeros(64, "f4")], {2: x.astype(ml.float4_e2m1fn).astype("f4")}, 1, 0


CASES = (powi, insert, casts, repack, view_atomics, scaled8, scaled4, e8m0, fp4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("target", "gpu_name"), [("reference", "sm_100"), ("emulator", "sm_100"), ("emulator", "sm_80")]
)
def test_later_kernels(case: Any, target: str, gpu_name: str) -> None:
    arguments, want, blocks, tolerance = case(np.random.default_rng(3))
    path = path_of(f"cpp_{LATER}", CPP_VERSION)
    tileiras.launch(
        path, f"later_{case.__name__}", (blocks, 1, 1), arguments, target=target, gpu_name=gpu_name
    )
    for k, expected in want.items():
        got = arguments[k].astype("f8")
        if arguments[k].dtype.kind in "iu":
            assert (arguments[k] == np.asarray(expected).astype(arguments[k].dtype)).all(), k
        else:
            np.testing.assert_allclose(got, np.asarray(expected, "f8"), rtol=tolerance, atol=tolerance)
