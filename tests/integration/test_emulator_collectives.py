"""The PTX emulator on CUTLASS's collectives: whole GEMMs of `kernel::GemmUniversal` as its builders put them together.

nvcc compiles a source of ours (collectives/*.cu) with CUTLASS's headers to PTX and to a program, once, beside the peers'
sources. The program gets the addresses of arrays and prints how the kernel is launched and the bytes of its parameters; it
encodes tensor maps as docs/ptx-emulator.md says. Numbers are exact: small integers, or few bits. Each product runs whole
and ragged, without a seed and with checks.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import peers
import pytest

from tileiras.run.emulator import launch
from tileiras.run.emulator.parse import parse

pytestmark = pytest.mark.full

SOURCES = Path(__file__).parent / "collectives"
ROWS, COLUMNS = "layout::RowMajor", "layout::ColumnMajor"
HALVES = dict.fromkeys(("ELEMENT_A", "ELEMENT_B", "ELEMENT_C", "ELEMENT_D"), "half_t")
PRODUCT = HALVES | {
    "LAYOUT_A": ROWS,
    "LAYOUT_B": COLUMNS,
    "LAYOUT_C": ROWS,
    "SMS": "4",
    "CLUSTER": "_1, _1, _1",
}
HOPPER = PRODUCT | {"TARGET": "Sm90", "TILE": "_128, _128, _64"}
BLACKWELL = PRODUCT | {"TARGET": "Sm100", "TILE": "_128, _128, _64"}
COOPERATIVE = {
    "SCHEDULE": "KernelTmaWarpSpecializedCooperative",
    "EPILOGUE": "epi::TmaWarpSpecializedCooperative",
}
F4, F8 = "nv_float4_t<float_e2m1_t>", "mx_float8_t<float_e4m3_t>"
SCALED = {"OPCLASS": "arch::OpClassBlockScaledTensorOp", "SCALED": "1"}
FOURS = {"ELEMENT_A": F4, "ELEMENT_B": F4, "ALIGN_A": "32", "ALIGN_B": "32"}
CASES = {
    # name: (architecture, macros of gemm.cu)
    "hopper pingpong, TMA store through stmatrix, cluster 2x1": ("sm_90a", HOPPER | {
        "TILE": "_64, _128, _64", "CLUSTER": "_2, _1, _1", "LAYOUT_C": COLUMNS,
        "SCHEDULE": "KernelTmaWarpSpecializedPingpong", "EPILOGUE": "epi::TmaWarpSpecialized"}),
    "hopper cooperative, cluster 2x1": ("sm_90a", HOPPER | COOPERATIVE | {"CLUSTER": "_2, _1, _1"}),
    "blackwell, one SM": ("sm_100a", BLACKWELL | {
        "SCHEDULE": "KernelTmaWarpSpecialized1SmSm100", "EPILOGUE": "epi::TmaWarpSpecialized1Sm"}),
    "blackwell, two SMs": ("sm_100a", BLACKWELL | {
        "TILE": "_256, _128, _64", "CLUSTER": "_2, _1, _1",
        "SCHEDULE": "KernelTmaWarpSpecialized2SmSm100", "EPILOGUE": "epi::TmaWarpSpecialized2Sm"}),
    "geforce, four bits with scales": ("sm_120a", PRODUCT | SCALED | FOURS | {
        "TARGET": "Sm120", "TILE": "_128, _128, _128", "ELEMENT_C": "bfloat16_t", "ELEMENT_D": "bfloat16_t"}),
    "blackwell, four bits with scales": ("sm_100a", BLACKWELL | SCALED | FOURS | {
        "TILE": "_128, _128, _256", "ELEMENT_C": "float", "ELEMENT_D": "float"}),
    "hopper eight bits, cluster 2x1": ("sm_90a", HOPPER | {
        "ELEMENT_A": "float_e4m3_t", "ELEMENT_B": "float_e5m2_t", "ELEMENT_C": "bfloat16_t", "ELEMENT_D": "bfloat16_t",
        "TILE": "_64, _128, _128", "CLUSTER": "_2, _1, _1", "LAYOUT_C": COLUMNS,
        "SCHEDULE": "KernelTmaWarpSpecializedPingpongFP8FastAccum", "EPILOGUE": "epi::TmaWarpSpecialized"}),
    "hopper stream-K": ("sm_90a", HOPPER | COOPERATIVE | {
        "LAYOUT_C": COLUMNS, "SCHEDULER": "StreamKScheduler", "STREAM_K": "1"}),
    "hopper fed by cp.async": ("sm_90a", HOPPER | {
        "LAYOUT_C": COLUMNS, "SCHEDULE": "KernelCpAsyncWarpSpecialized", "EPILOGUE": "epi::NoSmemWarpSpecialized",
        "ALIGN_A": "4", "ALIGN_B": "4"}),
    "hopper tf32, pingpong": ("sm_90a", HOPPER | {
        "ELEMENT_A": "tfloat32_t", "ELEMENT_B": "tfloat32_t", "ELEMENT_C": "float", "ELEMENT_D": "float",
        "TILE": "_64, _128, _32", "SCHEDULE": "KernelTmaWarpSpecializedPingpong", "EPILOGUE": "epi::TmaWarpSpecialized"}),
    "blackwell, eight bits with scales": ("sm_100a", BLACKWELL | SCALED | {
        "ELEMENT_A": F8, "ELEMENT_B": F8, "TILE": "_128, _128, _128", "ELEMENT_C": "float", "ELEMENT_D": "float"}),
    "ampere multistage": ("sm_80", {
        "SOURCE": "gemm80.cu", "ELEMENT_A": "tfloat32_t", "ELEMENT_B": "tfloat32_t", "ELEMENT_D": "float",
        "TILE": "128, 128, 16", "WARP_TILE": "64, 64, 16", "INSTRUCTION": "16, 8, 8",
        "SWIZZLE": "GemmIdentityThreadblockSwizzle<>", "STAGES": "4", "SPLITS": "1", "SMS": "4"}),
}  # fmt: skip
DTYPES = {
    "half_t": np.float16, "bfloat16_t": ml_dtypes.bfloat16, "float": np.float32, "tfloat32_t": np.float32,
    F8: ml_dtypes.float8_e4m3fn, "float_e4m3_t": ml_dtypes.float8_e4m3fn, "float_e5m2_t": ml_dtypes.float8_e5m2,
}  # fmt: skip
# What CUTLASS leaves out and its GPUs forgave: epilogues of sm_100 use registers of tcgen05.ld before its wait; the mbarrier that
# tells of freed tensor memory is initialised behind the last fence.mbarrier_init, and the cluster arrives relaxed;
# no fence hands what cp.async wrote to wgmma, nor the zeros stored where rows of a tile lie beyond the matrix, where multistage
# leaves what was there.
KNOWN = {
    "sm_100a": {"tcgen05.ld in flight"},
    "blackwell, two SMs": {"tcgen05.ld in flight", "shared-memory race"},
    "hopper fed by cp.async": {"missing proxy fence"},
    "ampere multistage": {"uninitialised shared memory"},
}


def built(name: str) -> tuple[str, Path]:
    """(PTX, program that prints parameters) of a case, made once."""
    nvcc, tree = peers.require("nvcc"), peers.cutlass()
    home = Path(nvcc).parents[1]
    arch, macros = CASES[name]
    text = "".join(f"#define {k} {v}\n" for k, v in macros.items())
    text += f'#include "{macros.get("SOURCE", "gemm.cu")}"\n'
    source, include = tree / "cutlass_library" / "source", tree / "nvidia" / "cu13" / "include"
    number = arch.removeprefix("sm_")
    words = [
        "-std=c++17", "-w", "--expt-relaxed-constexpr", f"-gencode=arch=compute_{number},code=compute_{number}",
        "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", "-DCUTLASS_ARCH_MMA_SM100_SUPPORTED", "-Xcompiler=-O0",
        *(f"-I{folder}" for folder in (source / "include", source / "tools" / "util" / "include", include / "cccl", include,
                                       SOURCES)),
        f"-L{home / 'lib'}",
    ]  # fmt: skip
    parts = [*words, text, *(path.read_text() for path in sorted(SOURCES.iterdir()))]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
    folder = tree / f"collective.{digest}"
    if not folder.exists():
        partial = tree / f"collective.{digest}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "kept").mkdir(parents=True)
        (partial / "case.cu").write_text(text)
        command = [
            nvcc,
            *words,
            "-keep",
            f"-keep-dir={partial / 'kept'}",
            partial / "case.cu",
            "-o",
            partial / "host",
        ]
        subprocess.run(command, check=True, capture_output=True)
        (partial / "kept" / "case.ptx").rename(partial / "case.ptx")
        shutil.rmtree(partial / "kept")
        partial.rename(folder)
    return (folder / "case.ptx").read_text(), folder / "host"


def run(name, shape, a, b, c, want, scales=(), **launching):
    """Launches a case on operands as bytes; alpha is 2, beta 3."""
    text, host = built(name)
    (entry,) = [f.name for f in parse(text).funcs.values() if f.is_entry]
    d, workspace = np.zeros_like(c), np.zeros(1 << 20, np.uint8)
    arrays = [a, b, c, d, workspace]
    places = [str(x.ctypes.data) for x in arrays]
    words = [str(host), *map(str, shape), "1", *places, "2", "3", *(str(x.ctypes.data) for x in scales)]
    numbers, params = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
    n = [int(word) for word in numbers.split()]
    assert n[10] <= workspace.size
    report = launch(
        text, entry, n[:3], n[3:6], [bytes.fromhex(params)], memory=[*arrays, *scales], dynamic_shared_bytes=n[9],
        cluster=n[6:9] if max(n[6:9]) > 1 else None, **launching,
    )  # fmt: skip
    assert (d == want).all()
    assert {f.kind for f in report.findings} <= KNOWN.get(name, KNOWN.get(CASES[name][0], set()))


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def operand(element: str, rows: int, k: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """(bytes in memory, values) of a row-major operand."""
    if element == F4:
        codes = rng.integers(0, 16, (rows, k)).astype(np.uint8)
        return np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4), E2M1[codes]
    x = rng.integers(-2, 3, (rows, k)).astype(DTYPES[element])
    return x, x.astype(np.float64)


def block_scales(element: str, rows: int, k: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """(bytes, values for each element) of scales of 16 or 32 elements: 128 rows by 4 scales are 512 bytes, in order of K."""
    vector = 16 if element == F4 else 32
    blocks = -(-k // vector)
    if element == F4:
        values = rng.choice([0.5, 1, 1.5, 2], (rows, blocks))
        codes = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    else:
        codes = rng.integers(125, 130, (rows, blocks)).astype(np.uint8)
        values = 2.0 ** (codes.astype(np.int64) - 127)
    across = -(-blocks // 4)
    out = np.zeros(-(-rows // 128) * across * 512, np.uint8)
    r, c = np.ix_(np.arange(rows), np.arange(blocks))
    at = (r // 128 * across + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4
    out[at] = codes
    return out, np.repeat(values, vector, 1)[:, :k]


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", CASES)
def test_collectives(name, seed):
    _, macros = CASES[name]
    scaled = "SCALED" in macros
    ragged = (200, 136, 288 if scaled else 144)
    if "STREAM_K" in macros:  # six tiles, whose sums are shared out to four CTAs
        ragged = (328, 200, 712)
    for m, n, k in ((256, 128, 128), ragged) if seed is None else (ragged,):
        rng = np.random.default_rng(m + n + k)
        (a, av), (b, bv) = (
            operand(macros[e], rows, k, rng) for e, rows in (("ELEMENT_A", m), ("ELEMENT_B", n))
        )
        scales = []
        if scaled:
            (sa, sv), (sb, tv) = (
                block_scales(macros[e], rows, k, rng) for e, rows in (("ELEMENT_A", m), ("ELEMENT_B", n))
            )
            av, bv, scales = av * sv, bv * tv, [sa, sb]
        c = rng.integers(-2, 3, (m, n)).astype(DTYPES[macros["ELEMENT_D"]])
        want = (2 * (av @ bv.T) + 3 * c.astype(np.float64)).astype(np.float32).astype(c.dtype)
        if macros.get("LAYOUT_C") == COLUMNS:
            c, want = np.ascontiguousarray(c.T), want.T
        launching = {} if seed is None else {"check": True, "seed": seed}
        run(name, (m, n, k), a, b, c, want, scales, **launching)
