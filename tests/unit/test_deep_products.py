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
STAGED = 256  # of one step whose operands wait in shared memory: taken in slices, not looped over


def numbers(*shape: int, seed: int = 0) -> np.ndarray:  # type: ignore[name-defined]
    return np.random.default_rng(seed).integers(-4, 4, shape).astype(np.float16)


def launch(source: str, args: list, target: str, gpu_name: str) -> None:
    tileiras.launch(source, "k", grid=(1, 1, 1), args=args, target=target, gpu_name=gpu_name)


def products(source: str, gpu_name: str) -> int:
    return tileiras.compile(source, gpu_name=gpu_name).ptx.count("mma.sync")


@pytest.mark.sampled(3)
@everywhere
@pytest.mark.parametrize("elem", ["f16", "i8"])
def test_depth_becomes_a_loop_or_slices(elem: str, target: str, gpu_name: str) -> None:
    a, b = numbers(M, 4 * K), numbers(4 * K, N, seed=1)
    kind, out = (np.int8, np.int32) if elem == "i8" else (np.float16, np.float32)
    c = np.zeros((M, N), out)
    source = matmul(M, N, K, elem)
    launch(source, [a.astype(kind), b.astype(kind), c], target, gpu_name)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert products(source, gpu_name) <= (STAGED if gpu_name != "sm_75" else LOOPED)


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
    assert (products(source, gpu_name) <= LOOPED) is not overwritten
    assert (a[0, 0] == 7) == overwritten


def in_place(n: int, depth: int, ordered: bool) -> str:
    """A = A @ B for n x n tiles; with `ordered` the store waits for all loads of A."""
    k = Kernel()
    a, a_type = k.partition(k.pointer("f16"), (n, depth), "f16", (n, n))
    b, b_type = k.partition(k.pointer("f16"), (depth, n), "f16", (n, n))
    c, c_type = k.partition("%v1", (n, n), "f16")
    t = tile((n, n), "f32")
    k.lines += [
        f"%zero = constant <f32: 0.0> : {t}",
        "%low = constant <i32: 0> : tile<i32>",
        f"%high = constant <i32: {n // depth}> : tile<i32>",
        "%one = constant <i32: 1> : tile<i32>",
        "%start = make_token : token",
        f"%r, %last = for %i in (%low to %high, step %one) : tile<i32> "
        f"iter_values(%acc = %zero, %t = %start) -> ({t}, token) {{",
        f"%x, %t1 = load_view_tko weak {a}[%low, %i] token = %t : {a_type}, tile<i32> -> {tile((n, depth), 'f16')}, token",
        f"%y, %t2 = load_view_tko weak {b}[%i, %low] token = %t : {b_type}, tile<i32> -> {tile((depth, n), 'f16')}, token",
        f"%z = mmaf %x, %y, %acc : {tile((n, depth), 'f16')}, {tile((depth, n), 'f16')}, {t}",
        "%both = join_tokens %t1, %t2 : token",
        f"continue %z, %both : {t}, token",
        "}",
        f"%h = ftof %r : {t} -> {tile((n, n), 'f16')}",
        f"%s = store_view_tko weak %h, {c}[%low, %low]{' token = %last' if ordered else ''} : "
        f"{tile((n, n), 'f16')}, {c_type}, tile<i32> -> token",
    ]
    return k.text()


@everywhere
def test_wide_accumulators_run_in_slices(target: str, gpu_name: str) -> None:
    """The loop runs once per slice of its accumulator, and a store that waits for it runs after all of them."""
    n = 256
    source = in_place(n, 64, ordered=True)
    a = np.random.default_rng(0).integers(-1, 2, (n, n)).astype(np.float16)
    b = np.random.default_rng(1).integers(-1, 2, (n, n)).astype(np.float16)
    want = a.astype(np.float32) @ b.astype(np.float32)
    launch(source, [a, b], target, gpu_name)
    assert (a == want).all()
    assert products(source, gpu_name) <= LOOPED


@everywhere
@pytest.mark.parametrize(
    ("m", "n", "depth", "elem"), [(256, 256, 64, "f16"), (256, 256, 32, "f32"), (512, 256, 32, "f16")]
)
def test_products_beyond_the_register_file(
    m: int, n: int, depth: int, elem: str, target: str, gpu_name: str
) -> None:
    kind = {"f16": np.float16, "f32": np.float32}[elem]
    a, b = numbers(m, 4 * depth).astype(kind), numbers(4 * depth, n, seed=1).astype(kind)
    c = np.zeros((m, n), np.float32)
    launch(matmul(m, n, depth, elem), [a, b, c], target, gpu_name)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
