"""The PTX emulator on code that experts wrote and GPUs ran: the CuTe tutorials of NVIDIA's CUTLASS, compiled by nvcc.

Their host code does not run: each case passes what it would have (shapes, strides, tensor maps, and the run-time members
of a TiledMMA: accumulate flag and instruction descriptor). Numbers are exact: small integers. The PTX is kept beside the
sources in the peers' folder.
"""

import hashlib
import subprocess

import numpy as np
import peers
import pytest

from tileiras.run.emulator import launch, tensor_map
from tileiras.run.emulator.parse import parse

pytestmark = pytest.mark.full


def tutorial(name: str, arch: str) -> tuple[str, list[str]]:
    """(PTX, names of its kernels) of a tutorial, compiled once."""
    nvcc, tree = peers.require("nvcc"), peers.cutlass()
    source = tree / "cutlass_library" / "source"
    tutorials = source / "examples" / "cute" / "tutorial"
    include = tree / "nvidia" / "cu13" / "include"
    folders = (
        source / "include", source / "tools" / "util" / "include", include / "cccl", include, tutorials / "blackwell",
    )  # fmt: skip
    words = [
        "-std=c++17", f"-arch={arch}", "-ptx", "--expt-relaxed-constexpr", "-DCUTLASS_ARCH_MMA_SM100_SUPPORTED",
        *(f"-I{folder}" for folder in folders), str(tutorials / f"{name}.cu"),
    ]  # fmt: skip
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
    out = tree / f"{name.replace('/', '_')}.{digest}.ptx"
    if not out.exists():
        partial = out.with_suffix(".partial")
        subprocess.run([nvcc, *words, "-o", partial], check=True, capture_output=True)
        partial.rename(out)
    text = out.read_text()
    return text, [f.name for f in parse(text).funcs.values() if f.is_entry and "gemm_device" in f.name]


def words(*values: int) -> bytes:
    return np.array(values, np.int32).tobytes()


def matrices(m: int, n: int, k: int):
    rng = np.random.default_rng(m + n + k)
    return rng.integers(-2, 3, (m, k)).astype(np.float16), rng.integers(-2, 3, (n, k)).astype(np.float16)


def product(a, b):
    return a.astype(np.float32) @ b.T.astype(np.float32)


EMPTY, ONE, ZERO = b"\0", np.float16(1).tobytes(), np.float16(0).tobytes()


def test_cp_async_and_mma_sync_for_sm_80():
    text, (entry,) = tutorial("sgemm_sm80", "sm_80")
    m, n, k = 256, 128, 192
    a, b = matrices(m, n, k)
    for launching in ({}, {"check": True, "seed": 1}):
        c = np.zeros((n, m), np.float16)
        params = [
            words(m, n, k), EMPTY, a, words(k), EMPTY, EMPTY, EMPTY, b, words(k), EMPTY, EMPTY, EMPTY,
            c, words(m), EMPTY, EMPTY, ONE, ZERO,
        ]  # fmt: skip
        report = launch(
            text, entry, (m // 128, n // 128), 128, params, dynamic_shared_bytes=98304, **launching
        )
        assert (c.T == product(a, b)).all() and report.findings == []


@pytest.mark.parametrize("k_major", [False, True])
def test_wgmma_fed_by_cp_async_for_sm_90(k_major):
    text, entries = tutorial("hopper/wgmma_sm90", "sm_90a")
    m, n, k = 256, 128, 192
    a, b = matrices(m, n, k)
    for launching in ({}, {"check": True, "seed": 1}):
        c = np.zeros((n, m), np.float16)
        x, y = (a, b) if k_major else (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T))
        params = [
            words(m, n, k), EMPTY, x, words(x.shape[1]), EMPTY, EMPTY, y, words(y.shape[1]), EMPTY, EMPTY,
            c, words(m), words(1, 0), ONE, ZERO,
        ]  # fmt: skip
        report = launch(
            text, entries[k_major], (m // 128, n // 128), 128, params, dynamic_shared_bytes=98304, **launching
        )
        if not launching:
            assert (c.T == product(a, b)).all()
        else:  # the tutorial has no barrier between cp.async.wait_all and wgmma: other threads' copies may be under way
            assert "shared-memory race" in {f.kind for f in report.findings}


@pytest.mark.parametrize("k_major", [False, True])
@pytest.mark.parametrize("shape", [(256, 128, 256), (200, 104, 232)])
def test_wgmma_fed_by_bulk_tensor_copies_for_sm_90(k_major, shape):
    """A ragged product reads zeros beyond its tensors, and writes a padded C."""
    text, entries = tutorial("hopper/wgmma_tma_sm90", "sm_90a")
    m, n, k = shape
    a, b = matrices(m, n, k)
    for launching in ({}, *({"check": True, "seed": s} for s in range(3))):
        c = np.zeros((-(-n // 128) * 128, -(-m // 256) * 256), np.float16)
        x, y = (a, b) if k_major else (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T))
        box = (128, 64) if k_major else (8, 64)
        params = [
            words(m, n, k), EMPTY, x, tensor_map(x, box) + bytes(128), y, tensor_map(y, box) + bytes(128),
            c, words(c.shape[1]), words(1, 0), ONE, ZERO,
        ]  # fmt: skip
        report = launch(
            text, entries[k_major], (c.shape[1] // 128, c.shape[0] // 128), 128, params,
            dynamic_shared_bytes=99328, cluster=(2, 1, 1), memory=[x, y], **launching,
        )  # fmt: skip
        assert (c.T[:m, :n] == product(a, b)).all() and report.findings == []


BLACKWELL = {
    # name: (shapes, cluster, boxes of A and B)
    "01_mma_sm100": ([(256, 512, 256)], (1, 1, 1), None),
    "02_mma_tma_sm100": ([(256, 512, 256), (200, 408, 232)], (1, 1, 1), ((128, 64), (256, 64))),
    "03_mma_tma_multicast_sm100": ([(512, 1024, 128)], (4, 4, 1), ((32, 64), (64, 64))),
    "04_mma_tma_2sm_sm100": ([(512, 1024, 128)], (4, 4, 1), ((32, 64), (64, 64))),
    "05_mma_tma_epi_sm100": ([(512, 1024, 128), (456, 1000, 120)], (4, 4, 1), ((32, 64), (64, 64))),
}
# What the tutorials leave out and their GPUs forgave: they use registers of tcgen05.ld without its wait, so that pairs of CTAs
# free what these loads may still be reading, and the first hands stores to the asynchronous proxy without a fence.
KNOWN = {"tcgen05.ld in flight", "missing proxy fence"}


def is_known(finding) -> bool:
    freed = finding.kind == "tensor-memory race" and "freeing of tensor memory" in str(finding)
    return freed or finding.kind in KNOWN


def tensor(rows: int, columns: int, x: np.ndarray | None) -> bytes:
    """A row-major tensor as kernels take it: its shape, and the stride and pointer of one in global memory."""
    if x is None:
        return words(rows, columns, 0)
    return words(rows, columns, x.shape[1]) + bytes(4) + x.ctypes.data.to_bytes(8, "little")


@pytest.mark.parametrize("name", BLACKWELL)
@pytest.mark.parametrize("seed", [None, 1])
def test_tcgen05_for_sm_100(name, seed):
    text, (entry,) = tutorial(f"blackwell/{name}", "sm_100a")
    shapes, cluster, boxes = BLACKWELL[name]
    rows = 256 if name[:2] in ("04", "05") else 128  # of one product; its columns are 256
    atom = words(1 << 4 | 256 >> 3 << 17 | rows >> 4 << 24, 1)  # instruction descriptor, accumulate
    for m, n, k in shapes if seed is None else shapes[-1:]:
        a, b = matrices(m, n, k)
        mt, nt = 128 * cluster[0], 256 * cluster[1]
        padded = (-(-m // mt) * mt, -(-n // nt) * nt) if name[:2] != "05" else (m, n)
        rng = np.random.default_rng(1)
        c, d = rng.integers(-3, 4, padded).astype(np.float32), np.zeros(padded, np.float32)

        first, last = (
            name[:2] == "01",
            name[:2] == "05",
        )  # which tensors are in global memory, which behind maps
        params = [
            tensor(m, k, a if first else None), tensor(n, k, b if first else None),
            *(tensor(m, n, None if last else x) for x in (c, d)), EMPTY,
        ]  # fmt: skip
        maps = [tensor_map(x, box) + bytes(128) for x, box in zip((a, b), boxes or ())]
        if last:
            params.append(EMPTY)
            maps += [tensor_map(x, (128, 32)) + bytes(128) for x in (c, d)]
        params += [atom, EMPTY, *maps, 2.0, 3.0]
        report = launch(
            text, entry, (-(-m // mt) * cluster[0], -(-n // nt) * cluster[1]), 128, params, memory=[a, b, c, d],
            dynamic_shared_bytes=200000, cluster=cluster, check=seed is not None, seed=seed,
        )  # fmt: skip
        assert (d[:m, :n] == 2 * product(a, b) + 3 * c[:m, :n]).all()
        assert [f for f in report.findings if not is_known(f)] == []
