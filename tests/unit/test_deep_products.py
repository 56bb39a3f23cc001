"""Products whose operands are too deep for the registers: parts of K in a loop, on both witnesses and in NumPy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tile_text import Kernel, matmul, tile  # noqa: E402

import tileiras  # noqa: E402

WITNESSES = [
    ("reference", "sm_80"),
    ("emulator", "sm_80"),
    pytest.param("emulator", "sm_75", marks=pytest.mark.full),
]
everywhere = pytest.mark.parametrize(("target", "gpu_name"), WITNESSES)
M, N, K = 128, 256, 128
LOOPED = 64  # mma.sync of the whole product at once: 128 and more a thread


def numbers(*shape: int, seed: int = 0) -> np.ndarray:  # type: ignore[name-defined]
    return np.random.default_rng(seed).integers(-4, 4, shape).astype(np.float16)


def launch(source: str, args: list, target: str, gpu_name: str) -> None:
    tileiras.launch(source, "k", grid=(1, 1, 1), args=args, target=target, gpu_name=gpu_name)


def products(source: str) -> int:
    return tileiras.compile(source, gpu_name="sm_80").ptx.count("mma.sync")


@everywhere
@pytest.mark.parametrize("elem", ["f16", "i8"])
def test_depth_becomes_a_loop(elem: str, target: str, gpu_name: str) -> None:
    a, b = numbers(M, 4 * K), numbers(4 * K, N, seed=1)
    kind, out = (np.int8, np.int32) if elem == "i8" else (np.float16, np.float32)
    c = np.zeros((M, N), out)
    source = matmul(M, N, K, elem)
    launch(source, [a.astype(kind), b.astype(kind), c], target, gpu_name)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert products(source) <= LOOPED


def one_product(between: str = "") -> str:
    """C = A @ half(B): A stored as [K, M] and transposed, B as f32. `between` loads and product: more lines."""
    k = Kernel()
    a = k.load((K, M), "f16")
    a = k.let(f"permute {a} [1, 0] : {tile((K, M), 'f16')} -> {tile((M, K), 'f16')}")
    b = k.let(f"ftof {k.load((K, N), 'f32')} : {tile((K, N), 'f32')} -> {tile((K, N), 'f16')}")
    zero = k.let(f"constant <f32: 0.0> : {tile((M, N), 'f32')}")
    if between:
        k.lines.append(between)
    c = k.let(f"mmaf {a}, {b}, {zero} : {tile((M, K), 'f16')}, {tile((K, N), 'f16')}, {tile((M, N), 'f32')}")
    k.store(c, (M, N), "f32")
    return k.text()


@everywhere
@pytest.mark.parametrize("overwritten", [False, True])
def test_computed_operands_and_writes_between(overwritten: bool, target: str, gpu_name: str) -> None:
    """A load does not move past a store: what is multiplied is what was there before it."""
    store = """%h = constant <f16: 7.0> : tile<f16>
    %s = store_ptr_tko weak %p0, %h : tile<ptr<f16>>, tile<f16> -> token"""
    source = one_product(store if overwritten else "")
    a, b, c = numbers(K, M), numbers(K, N, seed=1).astype(np.float32), np.zeros((M, N), np.float32)
    want = a.T.astype(np.float32) @ b
    launch(source, [a, b, c], target, gpu_name)
    assert (c == want).all()
    assert (products(source) <= LOOPED) is not overwritten
    assert (a[0, 0] == 7) == overwritten
