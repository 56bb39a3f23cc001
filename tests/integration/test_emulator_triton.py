"""The PTX emulator on what Triton makes of kernels: mma.sync and cp.async, wgmma, tcgen05, mma.sync with block scales,
tensor maps made on the GPU, warp roles.

Triton compiles without a GPU (triton_kernels/build.py); its PTX is kept beside it. It is a large wheel, so nothing installs it
but `python tests/peers.py install --release triton`; without it these tests are skipped.
"""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import peers
import pytest

from tileiras.run.emulator import launch

pytestmark = pytest.mark.full

SOURCES = Path(__file__).parent / "triton_kernels"
ARCHS = (80, 90, 100, 120)
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
# Triton's registers of tcgen05.ld are used before their wait; its warps write the same bytes to one place without a barrier
# (states of warp roles, zeros of a histogram); on sm_120, warps of one warpgroup execute different setmaxnreg.
KNOWN = {"tcgen05.ld in flight", "setmaxnreg"}


def built(case: str, arch: int) -> tuple[str, dict]:
    """(PTX, description) of a kernel, made once."""
    tree = peers.triton()
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.py")))).hexdigest()[
        :12
    ]
    folder = tree / f"kernels.{digest}"
    folder.mkdir(exist_ok=True)
    ptx = folder / f"{case}.{arch}.ptx"
    if not ptx.exists():
        env = {**os.environ, "PYTHONPATH": str(tree), "TRITON_CACHE_DIR": str(folder / "cache")}
        words = [sys.executable, SOURCES / "build.py", folder, case, str(arch)]
        subprocess.run(words, check=True, capture_output=True, env=env)
    return ptx.read_text(), json.loads(ptx.with_suffix(".json").read_text())


def placed(x: np.ndarray) -> np.ndarray:
    """A copy at a multiple of 64, which the kernels were promised."""
    raw = np.zeros(x.nbytes + 64, np.uint8)
    at = -raw.ctypes.data % 64
    out = raw[at : at + x.nbytes].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


def run(case: str, arch: int, grid, params: list, seed, known=KNOWN) -> None:
    text, meta = built(case, arch)
    grid = (*grid, 1, 1)[:3]
    scratch = placed(np.zeros(max(1, meta["scratch"]) * math.prod(grid), np.uint8))
    (threads,) = re.findall(r"\.reqntid (\d+)", text)
    report = launch(
        text, meta["name"], grid, int(threads), [*params, scratch, 0], dynamic_shared_bytes=meta["shared"],
        **({} if seed is None else {"check": True, "seed": seed}),
    )  # fmt: skip
    assert {f.kind for f in report.findings} <= known, report.findings


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def whole(rng, shape, dtype) -> np.ndarray:
    return placed(rng.integers(-2, 3, shape).astype(dtype))


each_arch = pytest.mark.parametrize("arch", ARCHS)
each_seed = pytest.mark.parametrize("seed", [None, 1])
PRODUCTS = {  # case: (type of operands, of the result, tile)
    "matmul_f16": (np.float16, np.float16, (64, 64)),
    "matmul_f16_big": (np.float16, np.float16, (128, 128)),
    "matmul_bf16": (BF16, BF16, (128, 64)),
    "matmul_f32": (np.float32, np.float32, (64, 64)),
    "matmul_f64": (np.float64, np.float64, (32, 32)),
    "matmul_i8": (np.int8, np.int32, (64, 64)),
    "matmul_e4m3": (E4M3, np.float16, (64, 64)),
    "matmul_e5m2": (E5M2, np.float16, (64, 64)),
}


@each_seed
@each_arch
@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case, arch, seed, rng):
    if case == "matmul_e4m3" and arch < 89:
        pytest.skip("Triton has no e4m3 there")
    dtype, out, tile = PRODUCTS[case]
    m, n, k = (72, 48, 48) if case == "matmul_f64" else (200, 144, 112)
    a, b, c = whole(rng, (m, k), dtype), whole(rng, (k, n), dtype), placed(np.zeros((m, n), out))
    run(case, arch, [-(-m // tile[0]) * -(-n // tile[1])], [a, b, c, m, n, k, k, n, n], seed)
    assert (c == (a.astype(np.float64) @ b.astype(np.float64)).astype(out)).all()


@each_seed
@each_arch
@pytest.mark.parametrize("case", ["boxes", "boxes_ws"])
def test_products_by_tensor_maps_made_on_the_gpu(case, arch, seed, rng):
    m, n, k = 320, 256, 208
    a, b, c = whole(rng, (m, k), np.float16), whole(rng, (n, k), np.float16), np.zeros((m, n), np.float16)
    run(case, arch, [2], [a, b, c, m, n, k], seed, KNOWN | {"shared-memory race"})
    assert (c == (a.astype(np.float32) @ b.astype(np.float32).T)).all()


@each_seed
@each_arch
@pytest.mark.parametrize("case", ["scaled_e4m3", "scaled_e2m1", "scaled_nvfp4"])
def test_products_with_block_scales(case, arch, seed, rng):
    if case != "scaled_e2m1" and arch < 89:
        pytest.skip("Triton has no e4m3 there")
    m, n, k, vector = 128, 128, 256, 16 if case == "scaled_nvfp4" else 32
    operands, values, scales, factors = [], [], [], []
    for rows in (m, n):
        if case == "scaled_e4m3":
            x = whole(rng, (rows, k), E4M3)
            operands.append(x)
            values.append(x.astype(np.float64))
        else:
            codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
            operands.append(placed(codes[:, ::2] | codes[:, 1::2] << 4))
            values.append(E2M1[codes])
        if vector == 16:
            s = rng.choice([0.5, 1, 1.5, 2], (rows, k // vector)).astype(E4M3)
            factors.append(s.astype(np.float64))
        else:
            s = rng.integers(124, 131, (rows, k // vector)).astype(np.uint8)
            factors.append(2.0 ** (s.astype(np.int64) - 127))
        scales.append(placed(s))
    c = np.zeros((m, n), np.float32)
    run(case, arch, [1], [operands[0], scales[0], operands[1], scales[1], c, k], seed)
    left, right = (v * np.repeat(f, vector, 1) for v, f in zip(values, factors))
    assert np.allclose(c, left @ right.T, rtol=1e-5, atol=1e-5)


@each_seed
@each_arch
@pytest.mark.parametrize("case", ["attention", "attention_causal", "attention_boxes", "attention_ws"])
def test_attention(case, arch, seed, rng):
    by_boxes = case in ("attention_boxes", "attention_ws")
    heads, rows, depth, tile = 2, 256 if by_boxes else 200, 64, 64 if case == "attention" else 128
    q, k, v = (placed(rng.standard_normal((heads, rows, depth)).astype(np.float16)) for _ in range(3))
    o, sums, scale = placed(np.zeros_like(q)), np.zeros((heads, rows), np.float32), np.float32(0.125)
    params = [q, k, v, o, scale, rows, heads] if by_boxes else [q, k, v, o, sums, scale, rows]
    known = KNOWN | {"shared-memory race"} if case == "attention_ws" else KNOWN
    run(case, arch, [-(-rows // tile), heads], params, seed, known)
    s = np.einsum("htd,hsd->hts", q.astype(np.float64), k.astype(np.float64)) * 0.125
    if case == "attention_causal":
        s = np.where(np.tri(rows, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    assert np.abs(o - p / p.sum(-1, keepdims=True) @ v.astype(np.float64)).max() < 4e-3


@each_seed
@each_arch
def test_layer_norm(arch, seed, rng):
    rows, n = 5, 777
    x, y = rng.standard_normal((rows, n)).astype(np.float16), np.zeros((rows, n), np.float16)
    w, b = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    mean, rstd = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    run("layer_norm", arch, [rows], [x, y, w, b, mean, rstd, n, n, np.float32(1e-5)], seed)
    xf = x.astype(np.float64)
    want = (xf - xf.mean(1, keepdims=True)) / np.sqrt(xf.var(1, keepdims=True) + 1e-5) * w + b
    assert np.abs(y - want).max() < 6e-3


@each_seed
@each_arch
def test_layer_norm_backward_sums_behind_a_lock(arch, seed, rng):
    rows, n = 11, 200
    x, dy = (rng.standard_normal((rows, n)).astype(np.float16) for _ in range(2))
    w, xf = rng.standard_normal(n).astype(np.float32), x.astype(np.float64)
    mean, rstd = xf.mean(1, keepdims=True), 1 / np.sqrt(xf.var(1, keepdims=True) + 1e-5)
    dx, dw, lock = np.zeros((rows, n), np.float32), np.zeros((4, n), np.float32), np.zeros(8, np.int32)
    params = [dy, x, w, mean.astype(np.float32).ravel(), rstd.astype(np.float32).ravel(), dx, dw, lock, n]
    run("layer_norm_bwd", arch, [rows], params, seed)
    xh, wdy = (xf - mean) * rstd, w * dy.astype(np.float64)
    want = (wdy - (xh * (xh * wdy).mean(1, keepdims=True) + wdy.mean(1, keepdims=True))) * rstd
    assert np.allclose(dx, want, atol=1e-4) and np.allclose(dw.sum(0), (dy * xh).sum(0), atol=1e-3)


@each_seed
@each_arch
def test_softmax_of_persistent_programs(arch, seed, rng):
    x = rng.standard_normal((11, 200)).astype(np.float32)
    o = np.zeros_like(x)
    run("softmax", arch, [3], [o, x, 11, 200], seed)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(o, e / e.sum(1, keepdims=True), atol=1e-6)


@each_seed
@each_arch
def test_histogram_sort_scan_gather_and_atomics(arch, seed, rng):
    n = 512
    x, i = rng.integers(0, 64, n).astype(np.int32), np.arange(n)
    h, a = np.zeros(64, np.int32), np.zeros(64, np.int32)
    s, c, g = (np.zeros(n, np.int32) for _ in range(3))
    run("mix", arch, [1], [x, h, s, c, g, a], seed, {"shared-memory race"})
    assert (h == np.bincount(x, minlength=64)).all() and (s == np.sort(x)).all()
    assert (c == np.cumsum(x)).all() and (g == x[i * 7 % n]).all()
    assert a[0] == x.argmax() and a[1] == np.bitwise_xor.reduce(x) and a[10] == x.max()
    assert (a[2:10] == np.bincount(x & 7)).all()
    assert (a[16:24].view(np.float32) == np.bincount(x & 7, x)).all()
    assert np.abs(a[24:28].view(np.float16) - np.bincount(x & 7, x)).max() < 40  # sums of f16, in any order
    assert (a[32:34].view(np.float32) == [x[x & 1 == p].max() - 20 for p in (0, 1)]).all()


@pytest.mark.parametrize("arch", ARCHS[1:])
def test_elementary_functions_and_conversions(arch, rng):
    n = 256
    x, y = (rng.standard_normal(n) * 2).astype(np.float32), np.zeros((16, n), np.float32)
    run("floats", arch, [1], [x, y], 1)
    v = x.astype(np.float64)
    want = [
        np.exp(v), np.log(abs(v) + 0.5), np.sin(v), (abs(v) + 0.5) ** -0.5, [math.erf(u) for u in v], np.floor(v) + np.ceil(v),
        1 / (1 + np.exp(-v)), v / (abs(v) + 1), *(x.astype(t).astype(np.float64) for t in (E4M3, E5M2, BF16)),
    ]  # fmt: skip
    assert all(np.allclose(got, w, rtol=2e-5, atol=2e-6) for got, w in zip(y, want))
    assert 0 <= y[11].min() < y[11].max() < 1 and abs(y[12].mean()) < 0.3
    assert np.allclose(y[13], np.cumprod(np.full(n, 1.001)), rtol=1e-5) and (y[14] == x[::-1]).all()
    assert np.allclose(y[15], v * v + v, rtol=1e-5)
