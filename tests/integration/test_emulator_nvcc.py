"""The PTX emulator on PTX that this project did not generate: CUDA C++ compiled by NVIDIA's nvcc, compared with NumPy.

Sources lie in tests/data/emulator; the PTX is generated when the test runs, for two architectures.
"""

import math
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import peers
import pytest

from tileiras.run.emulator import EmulatorError, launch

DATA = Path(__file__).parents[1] / "data" / "emulator"
ARCHS = ("sm_80", "sm_90")


@pytest.fixture(scope="session")
def ptx(tmp_path_factory):
    """ptx(name, arch): the PTX of a source file, compiled once."""
    nvcc = peers.require("nvcc")
    folder = tmp_path_factory.mktemp("ptx")

    def build(name: str, arch: str, *flags: str) -> str:
        out = folder / f"{name}.{arch}{len(flags)}.ptx"
        if not out.exists():
            subprocess.run(
                [nvcc, f"-arch={arch}", "-ptx", *flags, str(DATA / f"{name}.cu"), "-o", str(out)], check=True
            )
        return out.read_text()

    return build


@pytest.fixture(params=ARCHS)
def arch(request):
    return request.param


def test_vector_add(ptx, arch):
    n = 100_003
    a, b = np.random.default_rng(0).random((2, n), np.float32)
    c = np.zeros(n, np.float32)
    report = launch(ptx("simt", arch), "vadd", -(-n // 256), 256, [a, b, c, n])
    assert (c == a + b).all()
    assert report.executed["st.global.b32"] + report.executed["st.global.f32"] == n


def test_integer_corners(ptx, arch):
    rng = np.random.default_rng(1)
    special = np.array(
        [0, 1, -1, 2, -2, 7, -7, 2**31 - 1, -(2**31), 0x55555555, 0x80000001 - 2**32, 31, 32, 33], np.int64
    )
    grid = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    noise = rng.integers(-(2**31), 2**31, (2, 300))
    x, y = np.concatenate([grid, noise], 1).astype(np.int32)
    n = x.size
    out = np.zeros((n, 24), np.int64)
    launch(ptx("simt", arch), "int_corners", -(-n // 128), 128, [x, y, out, n])

    def s32(v):
        return (v + 2**31) % 2**32 - 2**31

    def s64(v):
        return (v + 2**63) % 2**64 - 2**63

    def trunc(p, q):
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    for i in range(n):
        p, q = int(x[i]), int(y[i])
        up, uq = p % 2**32, q % 2**32
        lx, ly = s64(p << 32 | uq), s64((q << 17) ^ up)
        overflow = p == -(2**31) and q == -1
        both = up | uq << 32
        shift = p % 2**32
        sel = 0x7531  # CUDA's intrinsic ignores the sign bits of a selector
        byte = [both >> 8 * (sel >> 4 * k & 7) & 255 for k in range(4)]
        wide = (uq << 32 | up) << (shift & 31) >> 32 & 0xFFFFFFFF
        bytes_p = np.array([p], np.int32).view(np.int8).astype(int)
        bytes_q = np.array([q], np.int32).view(np.int8).astype(int)
        want = [
            p + q,
            s32(p * q),
            (0 if overflow else trunc(p, q)) if q else 7,
            (0 if overflow else p - trunc(p, q) * q) if q else 7,
            up // uq if uq else 7,
            up % uq if uq else 7,
            p * q >> 32,
            up * uq >> 32,
            lx * ly >> 64,
            s64((lx % 2**64) * (ly % 2**64) >> 64),
            32 - up.bit_length(),
            bin(lx % 2**64).count("1"),
            int(f"{up:032b}"[::-1], 2),
            (uq & -uq).bit_length(),
            s32(p << (q & 31)),
            p >> (q & 31),
            up >> (uq & 31),
            wide,
            (uq << 32 | up) >> min(shift & 63, 32) & 0xFFFFFFFF,
            sum(b << 8 * k for k, b in enumerate(byte)),
            abs(p - q) + 5,
            trunc(lx, ly | 1) if ly else 7,
            s32(int((bytes_p * bytes_q).sum()) + 11),
            s32(min(p, q) % 2**32 ^ max(up, uq)),
        ]
        got = [int(v) for v in out[i]]
        for j in (12, 17, 18, 19, 20, 23):  # 32-bit results that C widened by sign or by zero
            got[j] %= 2**32
            want[j] %= 2**32
        if want[21] == 2**63:
            want[21] = got[21]
        assert got == want, (p, q)


def test_reduction_with_shuffles(ptx, arch):
    n = 50_000
    x = np.random.default_rng(2).integers(-8, 8, n).astype(np.float32)
    out = np.zeros(12, np.float32)
    launch(ptx("simt", arch), "reduce_sum", 12, 192, [x, out, n])
    assert out.sum() == x.sum()


def test_transpose_through_shared_memory(ptx, arch):
    x = np.arange(70 * 101, dtype=np.float32).reshape(70, 101)
    y = np.zeros((101, 70), np.float32)
    report = launch(ptx("simt", arch), "transpose", (4, 3), (32, 8), [x, y, 70, 101], check=True, seed=0)
    assert (y == x.T).all()
    assert report.findings == []


def test_tiled_matmul(ptx, arch):
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (50, 40)).astype(np.float32)
    b = rng.integers(-4, 5, (40, 70)).astype(np.float32)
    c = np.zeros((50, 70), np.float32)
    launch(ptx("simt", arch), "matmul", (5, 4), (16, 16), [a, b, c, 50, 70, 40])
    assert (c == a @ b).all()


def collatz(i: int, v: int) -> int:
    count = 0
    while v != 1:
        v = 3 * v + 1 if v & 1 else v >> 1
        count += 1
        if count > 500:
            break
    extra = 0
    for a in range(i % 5):
        for b in range(a, 7):
            if b == i % 7:
                continue
            if a * b > 11:
                break
            extra += a * 3 + b
    k = i % 9
    if k == 5:
        return -1
    if k == 0:
        extra += 100
    elif k == 1:
        extra = (extra ^ 77) * 3
    elif k == 2:
        extra *= 3
    elif k == 3:
        extra -= 1000
    elif k == 4:
        extra = -extra
    elif k == 7:
        extra <<= 2
    else:
        extra += 5
    return count * 1000 + extra


def test_divergence(ptx, arch):
    n = 700
    x = np.random.default_rng(4).integers(1, 100_000, n).astype(np.uint32)
    out = np.zeros(n, np.int32)
    launch(ptx("simt", arch), "collatz", 6, 128, [x, out, n])
    assert out.tolist() == [collatz(i, int(v)) for i, v in enumerate(x)]


def test_histogram(ptx, arch):
    x = np.random.default_rng(5).integers(0, 256, 20_000).astype(np.uint8)
    bins = np.zeros(256, np.uint32)
    report = launch(ptx("simt", arch), "histogram", 5, 160, [x, bins, x.size], check=True, seed=1)
    assert (bins == np.bincount(x, minlength=256)).all()
    assert report.findings == []


def test_atomics(ptx, arch):
    n = 256
    i32 = np.array([5, 5], np.int32)
    u32 = np.array([0, 0xFFFFFFFF, 0, 0, 3, 0, 9], np.uint32)
    u64, f32, f64 = np.zeros(2, np.uint64), np.zeros(4, np.float32), np.zeros(1)
    order = np.full(n, -1, np.int32)
    launch(ptx("simt", arch), "atomics", 2, 128, [i32, u32, u64, f32, f64, order])
    t = np.arange(n)
    inc, dec = 0, 3
    for _ in range(n):
        inc = 0 if inc >= 10 else inc + 1
        dec = 7 if dec == 0 or dec > 7 else dec - 1
    assert i32.tolist() == [-50, max(5, (t * 37 % 101).max())]
    assert u32.tolist() == [0xFFFFFFFF, 0xFFFFFF00, np.bitwise_xor.reduce(t), inc, dec, n, 9 + 3 * n]
    assert u64.tolist() == [int(t.sum()) << 20, (n - 1) ** 2]
    assert f32.tolist() == [16.0] * 4 and f64[0] == n / 2
    assert sorted(order) == list(range(n))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("check", [False, True])
def test_spin_lock_between_ctas(ptx, arch, check):
    n = 6 if check else 40
    lock, count, order = np.zeros(1, np.int32), np.zeros(2, np.int32), np.full(n, -1, np.int32)
    launch(ptx("simt", arch), "spin_lock", n, 64, [lock, count, order], check=check, seed=3)
    assert count.tolist() == [n, n * 64]
    assert sorted(order) == list(range(n))


def test_ctas_that_wait_for_later_ones(ptx, arch):
    n = 900
    flags, out = np.zeros(n, np.int32), np.zeros(n, np.int32)
    launch(ptx("simt", arch), "chain", n, 64, [flags, out])
    assert out.tolist() == list(range(n, 0, -1))


def test_printf(ptx, arch, capsys):
    name = np.frombuffer(b"stra\xc3\x9fe\0", np.uint8).copy()
    report = launch(ptx("simt", arch), "say", 1, 32, [3, np.float32(1.5), name])
    want = [
        f"hello {t} of 3: {1.5 * t:5.2f}|ab    |{t * 77:x} {t << 40} {chr(65 + t)} {-5 * t} % {1.5:e} straße\n"
        for t in range(3)
    ]
    assert report.printed == want
    assert capsys.readouterr().out == "".join(want)


def test_calls(ptx, arch):
    out, out2 = np.zeros(64), np.zeros(64, np.float32)
    seed = np.zeros(1, np.dtype([("a", "f8"), ("b", "i4"), ("c", "i2", 3), ("pad", "i2", 3)]))
    seed["a"], seed["b"], seed["c"] = 1.5, 7, [[1, 2, 3]]

    def mix(p, k):
        a, b, c = p
        if k & 1:
            return a * k, b, c
        c = list(c)
        c[k % 3] = k * 5
        return a, b + k, c

    launch(ptx("simt", arch), "calls", 1, 64, [seed.tobytes(), out, out2])
    weights = [1, 10, 100, 1000]
    for t in range(64):
        a, b, c = mix(mix((1.5, 7, [1, 2, 3]), t), t // 2)
        assert out[t] == a + b + c[0] + 2 * c[1] + 3 * c[2]
        assert out2[t] == (-(t + 0.5) if t % 3 == 0 else 2 * (t + 0.5)) * weights[t & 3]


def test_votes(ptx, arch):
    v = np.random.default_rng(6).integers(0, 10, 64).astype(np.int32)
    out = np.zeros((64, 8), np.uint32)
    launch(ptx("simt", arch), "votes", 1, 64, [v, out])
    for t in range(64):
        w = v[t // 32 * 32 :][:32]
        lane = t % 32
        ballot = sum(1 << i for i in range(32) if w[i] > 3)
        up = w[lane - 3] if lane % 8 >= 3 else w[lane]
        same = sum(1 << i for i in range(32) if w[i] == w[lane])
        odd = int((w & 1).sum())
        assert out[t, :6].tolist() == [
            ballot,
            (w == 9).any() + 2 * (w < 10).all(),
            w[t * 7 % 32],
            up,
            w.sum(),
            same,
        ]
        assert (
            out[t, 6] == (0xFFFFFFFF + 1 + 1000 * int((v > 4).sum()) + 100000 * int((v == 8).any())) % 2**32
        )
        assert out[t, 7] == (odd if w[lane] & 1 else 100 + 32 - odd)


def test_scan_in_dynamic_shared_memory(ptx, arch):
    x = np.arange(1, 251, dtype=np.int32)
    out = np.zeros(250, np.int32)
    report = launch(
        ptx("simt", arch), "scan", 1, 256, [x, out, 250], dynamic_shared_bytes=1024, check=True, seed=4
    )
    assert (out == np.cumsum(x)).all()
    assert report.findings == []


def test_local_arrays(ptx, arch):
    x = np.random.default_rng(7).integers(-9, 9, 16).astype(np.int32)
    out = np.zeros((32, 16), np.int32)
    launch(ptx("simt", arch), "local_array", 1, 32, [x, out])
    for t in range(32):
        assert (out[t] == np.sort(x * t)[x & 15]).all()


def ulps(got, want):
    """Largest distance in units of the last place of want's type, where finite."""
    want = want.astype(got.dtype)
    with np.errstate(all="ignore"):
        d = np.abs(got.astype(np.longdouble) - want.astype(np.longdouble)) / np.spacing(np.abs(want)).astype(
            np.longdouble
        )
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return float(np.where(same, 0, d).max())


def test_single_precision_math(ptx, arch):
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal(0, 30, 500), [1e6, -3e5, 1e-30, 0.5, 1.0, 1e20]]).astype(np.float32)
    out = np.zeros((x.size, 16), np.float32)
    launch(ptx("math", arch), "mathf", 4, 128, [x, out, x.size])
    d = x.astype(np.float64)
    p = np.abs(d)
    erf = np.array([math.erf(v) for v in d])
    third = float(np.float32(3.7))
    want = [
        np.sin(d), np.cos(d), np.exp((x * np.float32(0.1)).astype(np.float64)), np.log(p), np.sqrt(p), np.tanh(d),
        p ** float(np.float32(1.7)), d / third, 1 / np.sqrt(p), erf, np.arctan2(d, 2), np.cbrt(d), np.log1p(p),
        np.floor(d), np.rint(d), np.fmod(d, float(np.float32(1.3))),
    ]  # fmt: skip
    for j, w in enumerate(want):
        limit = 0 if j in (4, 7, 13, 14, 15) else 6
        assert ulps(out[:, j], w) <= limit, j


def test_double_precision_math(ptx, arch):
    rng = np.random.default_rng(9)
    x = np.concatenate([rng.normal(0, 30, 300), [1e6, -3e5, 1e-30, 0.5, 1.0, 1e22]])
    out = np.zeros((x.size, 12))
    launch(ptx("math", arch), "mathd", 3, 128, [x, out, x.size])
    p = np.abs(x)
    want = [
        [math.sin(v) for v in x], [math.cos(v) for v in x], np.exp(x * 0.1), np.log(p), np.sqrt(p), np.tanh(x), p**1.7,
        x / 3.7, np.cbrt(x), [math.erf(v) for v in x], np.arctan2(x, 2), [exact_fma(v, v, -1.0) for v in x],
    ]  # fmt: skip
    for j, w in enumerate(want):
        limit = 0 if j in (4, 7, 11) else 4
        assert ulps(out[:, j], np.array(w)) <= limit, j


def exact_fma(a, b, c):
    from fractions import Fraction

    return float(Fraction(a) * Fraction(b) + Fraction(c))


def directed(value, kind, mode):
    """A Fraction rounded to f32 in a directed mode."""
    from fractions import Fraction

    near = np.float32(float(value))  # within one step either way
    options = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    options = [o for o in options if np.isfinite(o)]
    if mode == "rz":
        mode = "rd" if value > 0 else "ru"
    if mode == "rd":
        return max((o for o in options if Fraction(float(o)) <= value), default=np.float32(-np.inf))
    return min((o for o in options if Fraction(float(o)) >= value), default=np.float32(np.inf))


def test_directed_rounding(ptx, arch):
    from fractions import Fraction

    rng = np.random.default_rng(10)
    a, b = (rng.normal(0, 1, (2, 200)) * 2.0 ** rng.integers(-30, 30, (2, 200))).astype(np.float32)
    out = np.zeros((200, 16), np.float32)
    launch(ptx("math", arch), "rounding", 2, 128, [a, b, out, 200])
    for i in range(200):
        x, y = Fraction(float(a[i])), Fraction(float(b[i]))
        exact = [x + y] * 3 + [x * y] * 3 + [x / y] * 3 + [None] * 3 + [x * y + x, x * y + y, x * y + 1]
        modes = ["rz", "ru", "rd"] * 5
        for j, (value, mode) in enumerate(zip(exact, modes)):
            if value is None:
                root = out[i, j]
                square = Fraction(float(root)) ** 2
                other = np.nextafter(root, np.float32(np.inf if mode != "ru" else 0))
                assert square <= abs(x) if mode != "ru" else square >= abs(x), (i, j)
                assert (
                    (Fraction(float(other)) ** 2 > abs(x))
                    if mode != "ru"
                    else (Fraction(float(other)) ** 2 < abs(x))
                )
            else:
                assert out[i, j] == directed(value, np.float32, mode), (i, j)


@pytest.mark.parametrize("kind", ["halves", "bhalves"])
def test_half_precision(ptx, arch, kind):
    from fractions import Fraction

    rng = np.random.default_rng(11)
    dtype = np.float16 if kind == "halves" else ml_dtypes.bfloat16
    a, b = (rng.normal(0, 1, (2, 400)) * 2.0 ** rng.integers(-9, 9, (2, 400))).astype(dtype)
    out = np.zeros((400, 8), dtype)
    launch(ptx("math", arch), kind, 4, 128, [a, b, out, 400])

    def fma(x, y, z):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        return nearest(exact, dtype)

    for i in range(400):
        x, y = a[i], b[i]
        tail = [fma(x, x, y), fma(y, y, x)]
        if kind == "halves":
            want = [x + y, x * y, fma(x, y, x), max(x, y), min(x, y), x - y, *tail]
        else:
            want = [fma(x, y, y), fma(x, y, x), max(x, y), min(x, y), -x, abs(y), *tail]
        assert out[i].astype(np.float64).tolist() == [float(w) for w in want], i


def nearest(value, dtype):
    """A Fraction rounded to nearest even in a 16-bit type."""
    from fractions import Fraction

    if value == 0:
        return 0.0
    info = ml_dtypes.finfo(dtype)
    x, e = abs(value), 0
    while Fraction(2) ** (e + 1) <= x:
        e += 1
    while Fraction(2) ** e > x:
        e -= 1
    unit = Fraction(2) ** (max(e, int(info.minexp)) - int(info.nmant))
    y = float(round(x / unit) * unit)
    y = math.inf if y > float(info.max) else y
    return y if value > 0 else -y


def test_conversions(ptx, arch):
    rng = np.random.default_rng(12)
    x = np.concatenate(
        [
            rng.normal(0, 1, 300) * 2.0 ** rng.integers(-5, 40, 300),
            [0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 1e20, -1e20, 65519, 65520, 1e-8],
        ]
    ).astype(np.float32)
    out = np.zeros((x.size, 12), np.int64)
    launch(ptx("math", arch), "conversions", 3, 128, [x, out, x.size])
    d = x.astype(np.float64)

    def clamp(v, lo, hi):
        return [min(max(int(t), lo), hi) for t in v]

    lo, hi = -(2**31), 2**31 - 1
    want = [
        clamp(np.rint(d), lo, hi), clamp(np.trunc(d), lo, hi), clamp(np.ceil(d), lo, hi), clamp(np.floor(d), lo, hi),
        clamp(np.trunc(d), 0, 2**32 - 1), clamp(np.rint(d), -(2**63), 2**63 - 1),
        [v - 2**64 if v >> 63 else v for v in clamp(np.trunc(d), 0, 2**64 - 1)],
    ]  # fmt: skip
    for j, w in enumerate(want):
        got = out[:, j] % 2**32 if j == 4 else out[:, j]
        assert got.tolist() == w, j
    with np.errstate(over="ignore"):
        half = d.astype(np.float16)
        half = np.where(np.abs(half.astype(np.float64)) > np.abs(d), np.nextafter(half, np.float16(0)), half)
    assert (out[:, 7] == half.view(np.uint16)).all()


def test_gemm_with_cp_async_ldmatrix_and_mma(ptx, arch):
    rng = np.random.default_rng(13)
    a = rng.integers(-3, 4, (128, 96)).astype(np.float16)
    b = rng.integers(-3, 4, (96, 128)).astype(np.float16)
    c = np.zeros((128, 128), np.float32)
    report = launch(ptx("mma", arch), "gemm_f16", (2, 2), 128, [a, b, c, 128, 128, 96], check=True, seed=5)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    assert report.findings == []


def test_mma_fragments(ptx, arch):
    rng = np.random.default_rng(14)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(-128, 128, (8, 32)).astype(np.int8)
    d = np.zeros((16, 8), np.int32)
    launch(ptx("mma", arch), "mma_s8", 1, 32, [a, b, d])
    assert (d == a.astype(int) @ b.T.astype(int) + 1).all()
    a, b = rng.integers(-99, 99, (16, 8)).astype(np.float32), rng.integers(-99, 99, (8, 8)).astype(np.float32)
    d = np.zeros((16, 8), np.float32)
    launch(ptx("mma", arch), "mma_tf32", 1, 32, [a, b, d])
    assert (d == a @ b.T + 0.5).all()
    a, b = rng.integers(-99, 99, (8, 4)).astype(np.float64), rng.integers(-99, 99, (8, 4)).astype(np.float64)
    d = np.zeros((8, 8))
    launch(ptx("mma", arch), "mma_f64", 1, 32, [a, b, d])
    assert (d == a @ b.T + 0.25).all()


def test_cp_async_fills_with_zeros(ptx, arch):
    x = np.arange(1, 302, dtype=np.int32)
    out = np.zeros(512, np.int32)
    launch(ptx("mma", arch), "zfill", 1, 128, [x, out, x.size])
    want = np.zeros(512, np.int32)
    want[:301] = x
    assert (out == want[np.arange(512) ^ 5]).all()


def test_out_of_bounds_names_everything(ptx, arch):
    a, b, c = np.zeros(100, np.float32), np.zeros(100, np.float32), np.zeros(99, np.float32)
    with pytest.raises(EmulatorError) as error:
        launch(ptx("simt", arch), "vadd", 1, 128, [a, b, c, 100])
    text = str(error.value)
    assert (
        "out of bounds" in text and "st.global" in text and "thread (99, 0, 0)" in text and "PTX line" in text
    )
    assert "vadd_param_2" in text


BUGS = {
    "shared_race": "shared-memory race", "loop_race": "shared-memory race", "global_race": "global-memory race",
    "uninitialised": "uninitialised shared memory", "misaligned": "misaligned", "divergent": "barrier divergence",
    "no_wait": "shared-memory race", "last_block": "global-memory race",
}  # fmt: skip


GRIDS = {"global_race": 2, "last_block": 2}


@pytest.mark.parametrize("name", [*BUGS, "out_of_bounds"])
def test_planted_bugs_are_found(ptx, arch, name):
    def kinds(*flags):
        found = set()
        for seed in range(5):
            x, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
            report = launch(
                ptx("bugs", arch, *flags), name, GRIDS.get(name, 1), 128, [x, out], check=True, seed=seed
            )
            found |= {f.kind for f in report.findings}
        return found

    if name == "out_of_bounds":
        with pytest.raises(
            EmulatorError, match=r"out of bounds: 4-byte store .*out_of_bounds_param_1.*thread \(56, 0, 0\)"
        ):
            kinds()
    else:
        assert BUGS[name] in kinds()
    assert kinds("-DFIXED") == set()


@pytest.mark.parametrize("check", [False, True])
def test_clusters(ptx, check):
    x, out = np.arange(8 * 64, dtype=np.int32), np.zeros(8 * 64, np.int32)
    report = launch(ptx("cluster", "sm_90"), "ring", 8, 64, [x, out], check=check, seed=2)
    assert report.findings == []
    for b in range(8):
        partner = b // 4 * 4 + (b + 1) % 4
        assert (out.reshape(8, 64)[b] == x.reshape(8, 64)[partner][np.arange(64) ^ 1] * 10 + b % 4).all()


@pytest.mark.parametrize("check", [False, True])
def test_mbarrier_pipeline(ptx, check):
    x, out = np.random.default_rng(15).integers(0, 99, (10, 32)).astype(np.int32), np.zeros(32, np.int32)
    report = launch(ptx("cluster", "sm_90"), "pipeline", 1, 64, [x, out, 10], check=check, seed=3)
    assert report.findings == []
    assert (out == (x[:, ::-1] * np.arange(1, 11)[:, None]).sum(0)).all()


# fragments, cooperative groups, bytes: their headers include those of CCCL
def with_headers():
    return "-std=c++17", f"-I{peers.cutlass() / 'nvidia' / 'cu13' / 'include' / 'cccl'}"


@pytest.mark.full
def test_fragments_of_halves(ptx, arch):
    m, n, k = 64, 48, 80
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c, d = rng.integers(-3, 4, (m, n)).astype(np.float32), np.zeros((m, n), np.float32)
    for launching in ({}, {"check": True, "seed": 1}):
        d[...] = 0
        report = launch(
            ptx("fragments", arch, *with_headers()), "half_tiles", 6, 64, [a, b, c, d, n, k], **launching
        )
        assert (d == np.maximum(a.astype(np.float32) @ b.astype(np.float32).T, 0) + c).all()
        assert report.findings == []


@pytest.mark.full
def test_fragments_of_bytes_and_doubles(ptx, arch):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-128, 128, (8, 16)).astype(np.int8), rng.integers(-128, 128, (32, 16)).astype(np.int8)
    d = np.zeros((8, 32), np.int32)
    launch(ptx("fragments", arch, *with_headers()), "byte_tile", 1, 32, [a, b, d])
    assert (d == a.astype(np.int32) @ b.astype(np.int32).T + 1).all()
    x, y, z = rng.integers(-9, 9, (8, 4)) / 4, rng.integers(-9, 9, (4, 8)) / 4, np.zeros((8, 8))
    launch(ptx("fragments", arch, *with_headers()), "double_tile", 1, 32, [x, y, z])
    assert (z.T == x @ y + 0.5).all()


@pytest.mark.full
@pytest.mark.parametrize("seed", [None, 1])
def test_cooperative_groups(ptx, arch, seed):
    n = 256
    x, y = np.random.default_rng(5).integers(-50, 50, n).astype(np.int32), np.zeros((5, n), np.int32)
    report = launch(
        ptx("groups", arch, *with_headers()),
        "groups",
        2,
        128,
        [x, y, n],
        **({} if seed is None else {"check": True, "seed": seed}),
    )
    assert report.findings == []
    assert (y[0] == np.repeat(x.reshape(-1, 8).sum(1), 8)).all()
    assert (y[1] == np.repeat(x.reshape(-1, 32).max(1), 32)).all()
    odd = (x & 1).reshape(-1, 32)
    rank = odd.cumsum(1) - 1 + 100 * odd.sum(1, keepdims=True)
    assert (y[2] == np.where(odd == 1, rank, -1).ravel()).all()
    kinds = (x & 3).reshape(-1, 32)
    assert (y[3] == (kinds[:, :, None] == kinds[:, None, :]).sum(2).ravel()).all()
    assert (y[4] == np.repeat(x.reshape(-1, 128).sum(1), 128)).all()


@pytest.mark.full
def test_intrinsics_on_bytes(ptx, arch):
    n = 1000
    x, y = np.random.default_rng(6).integers(0, 1 << 32, (2, n)).astype(np.uint32)
    out = np.zeros((18, n), np.uint32)
    launch(ptx("fragments", arch, *with_headers()), "bytes", -(-n // 128), 128, [x, y, out, n])

    def parts(dtype):
        return (v.view(dtype).reshape(n, -1).astype(np.int64) for v in (x, y))

    def joined(v, dtype):
        return np.ascontiguousarray(v.astype(dtype)).view(np.uint32).ravel()

    a, b = parts(np.uint8)
    sa, sb = parts(np.int8)
    ha, hb = parts(np.int16)
    u, v = (w.astype(np.uint64) for w in (x, y))
    wide = parts(np.uint16)
    ua, _ = wide
    want = [
        joined(a + b, np.uint8), joined(a - b, np.uint8), joined(abs(a - b), np.uint8), joined(np.maximum(a, b), np.uint8),
        joined(np.minimum(sa, sb), np.int8), joined((a + b + 1) >> 1, np.uint8), joined(np.where(a > b, 255, 0), np.uint8),
        abs(a - b).sum(1), joined(np.clip(sa + sb, -128, 127), np.int8), joined(abs(ha - hb), np.uint16),
        joined(ha + hb, np.int16),
        joined(np.maximum(ha, hb), np.int16), ((a * b).sum(1) + 7) & 0xFFFFFFFF, (ua[:, 0] * b[:, 0] + ua[:, 1] * b[:, 1] + 7),
        joined(np.stack([a[:, 0], b[:, 0], a[:, 1], b[:, 1]], 1), np.uint8),
        (v << np.uint64(13) | u >> np.uint64(19)) & np.uint64(0xFFFFFFFF),
        [int(f"{int(w):032b}"[::-1], 2) for w in x],
        abs(x.view(np.int32).astype(np.int64) - y.view(np.int32)) + 3 & 0xFFFFFFFF,
    ]  # fmt: skip
    for k, w in enumerate(want):
        assert (out[k] == np.asarray(w).astype(np.uint32)).all(), k
