"""Loops with two versions: each block takes the fast one exactly where its data are aligned, and both are right.

A product through tiles of pointers, as exporters of pointer languages write it: rows modulo the height, pointers that step along
K or are computed, masked at every edge, nothing promised about bases, strides and edges.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.compiler.dialects.nv_tileaa.diags import VERSIONS
from tileiras.run.profile import Profile

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
M, N, K = 64, 64, 32

KERNEL = """
cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %k: tile<i32>,
           %lda: tile<i32>, %ldb: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %depth = constant <i32: 32> : tile<i32>
    %less = constant <i32: 31> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %nil = constant <f16: 0.0> : tile<64x32xf16>
    %nothing = constant <f16: 0.0> : tile<32x64xf16>
    %long = iota : tile<64xi32>
    %short = iota : tile<32xi32>
    %mr = reshape %m : tile<i32> -> tile<1xi32>
    %mb = broadcast %mr : tile<1xi32> -> tile<64xi32>
    %around = remi %long, %mb signed : tile<64xi32>
    %r = reshape %around : tile<64xi32> -> tile<64x1xi32>
    %rows = broadcast %r : tile<64x1xi32> -> tile<64x32xi32>
    %s = reshape %short : tile<32xi32> -> tile<1x32xi32>
    %cols = broadcast %s : tile<1x32xi32> -> tile<64x32xi32>
    %d = reshape %short : tile<32xi32> -> tile<32x1xi32>
    %down = broadcast %d : tile<32x1xi32> -> tile<32x64xi32>
    %w = reshape %long : tile<64xi32> -> tile<1x64xi32>
    %across = broadcast %w : tile<1x64xi32> -> tile<32x64xi32>
    %lar = reshape %lda : tile<i32> -> tile<1x1xi32>
    %lab = broadcast %lar : tile<1x1xi32> -> tile<64x32xi32>
    %lbr = reshape %ldb : tile<i32> -> tile<1x1xi32>
    %lbb = broadcast %lbr : tile<1x1xi32> -> tile<32x64xi32>
    %ra = muli %rows, %lab : tile<64x32xi32>
    %oa = addi %ra, %cols : tile<64x32xi32>
    %ar = reshape %a : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %ab = broadcast %ar : tile<1x1xptr<f16>> -> tile<64x32xptr<f16>>
    %pa = offset %ab, %oa : tile<64x32xptr<f16>>, tile<64x32xi32> -> tile<64x32xptr<f16>>
    %nr = reshape %n : tile<i32> -> tile<1x1xi32>
    %nb = broadcast %nr : tile<1x1xi32> -> tile<32x64xi32>
    %inn = cmpi less_than %across, %nb, signed : tile<32x64xi32> -> tile<32x64xi1>
    %br = reshape %b : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %bb = broadcast %br : tile<1x1xptr<f16>> -> tile<32x64xptr<f16>>
    %rounded = addi %k, %less : tile<i32>
    %steps = divi %rounded, %depth signed : tile<i32>
    %by = constant <i32: 32> : tile<64x32xi32>
    %sum:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %at = %pa)
        -> (tile<64x64xf32>, tile<64x32xptr<f16>>) {
      %first = muli %i, %depth : tile<i32>
      %left = subi %k, %first : tile<i32>
      %lr = reshape %left : tile<i32> -> tile<1x1xi32>
      %la = broadcast %lr : tile<1x1xi32> -> tile<64x32xi32>
      %lb = broadcast %lr : tile<1x1xi32> -> tile<32x64xi32>
      %ma = cmpi less_than %cols, %la, signed : tile<64x32xi32> -> tile<64x32xi1>
      %mk = cmpi less_than %down, %lb, signed : tile<32x64xi32> -> tile<32x64xi1>
      %mbb = andi %mk, %inn : tile<32x64xi1>
      %fr = reshape %first : tile<i32> -> tile<1x1xi32>
      %fb = broadcast %fr : tile<1x1xi32> -> tile<32x64xi32>
      %kb = addi %down, %fb : tile<32x64xi32>
      %rb = muli %kb, %lbb : tile<32x64xi32>
      %ob = addi %rb, %across : tile<32x64xi32>
      %pb = offset %bb, %ob : tile<32x64xptr<f16>>, tile<32x64xi32> -> tile<32x64xptr<f16>>
      %x, %t1 = load_ptr_tko weak %at, %ma, %nil : tile<64x32xptr<f16>>, tile<64x32xi1>, tile<64x32xf16> -> tile<64x32xf16>, token
      %y, %t2 = load_ptr_tko weak %pb, %mbb, %nothing : tile<32x64xptr<f16>>, tile<32x64xi1>, tile<32x64xf16> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %on = offset %at, %by : tile<64x32xptr<f16>>, tile<64x32xi32> -> tile<64x32xptr<f16>>
      continue %next, %on : tile<64x64xf32>, tile<64x32xptr<f16>>
    }
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %done = store_view_tko weak %sum#0, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


def launched(
    gpu_name: str,
    m: int,
    n: int,
    k: int,
    lda: int,
    ldb: int,
    skew: tuple[int, int],
    text: str = KERNEL,
    types: tuple[type, type] = (np.float16, np.float32),
    **more: object,
) -> int:
    """Runs the kernel against NumPy; how many asynchronous copies of 16 bytes it issued."""
    rng = np.random.default_rng(m + n + k + lda + ldb)
    flat = [rng.integers(-3, 4, size + 8).astype(types[0]) for size in (m * lda + k, k * ldb + n)]
    a, b = (place(x)[s:] for x, s in zip(flat, skew))
    c, profile = place(np.full((M, N), 7, types[1])), Profile()
    args = [a, b, c, *map(np.int32, (m, n, k, lda, ldb))]
    tileiras.launch(
        text, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, profile=profile, **more
    )
    rows = np.arange(M) % m
    left = a[rows[:, None] * lda + np.arange(k)].astype(np.float32)
    right = np.zeros((k, N), np.float32)
    right[:, :n] = b[np.arange(k)[:, None] * ldb + np.arange(n)]
    np.testing.assert_array_equal(c, left @ right)
    return sum("cp.async.cg" in line for line, _ in profile.ptx.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_aligned_data_take_the_fast_version(gpu_name: str) -> None:
    assert launched(gpu_name, 64, 64, 96, 96, 64, (0, 0)) > 0
    assert launched(gpu_name, 40, 48, 104, 112, 56, (8, 0), check=True) > 0  # ragged, in whole chunks


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("sizes", "skew"),
    [
        ((64, 64, 96, 96, 64), (1, 0)),
        ((64, 64, 96, 96, 64), (0, 4)),
        ((64, 64, 96, 97, 64), (0, 0)),
        ((64, 64, 96, 96, 68), (0, 0)),
        ((64, 64, 90, 96, 64), (0, 0)),
        ((64, 61, 96, 96, 64), (0, 0)),
    ],
    ids=["a", "b", "rows of a", "rows of b", "edge of k", "edge of n"],
)
def test_one_fact_that_fails_takes_the_slow_version(
    gpu_name: str, sizes: tuple[int, int, int, int, int], skew: tuple[int, int]
) -> None:
    assert launched(gpu_name, *sizes, skew) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", [1, 2])
def test_operands_of_the_slow_version_race_with_nothing(gpu_name: str, seed: int) -> None:
    assert launched(gpu_name, 60, 61, 150, 151, 63, (1, 3), check=True, seed=seed) == 0


BYTES = KERNEL.replace("f16", "i8").replace("<i8: 0.0>", "<i8: 0>").replace("<f32: 0.0>", "<i32: 0>")
BYTES = BYTES.replace("f32", "i32").replace("mmaf %x, %y, %acc :", "mmai %x, %y, %acc signed signed :")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_bytes_of_the_slow_version_race_with_nothing(gpu_name: str) -> None:
    given = (gpu_name, 60, 61, 150, 151, 63, (1, 3), BYTES, (np.int8, np.int32))
    assert launched(*given, check=True, seed=1) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("text", ["pointers", "views", "bytes"])
def test_operands_of_the_slow_version_are_stored_side_by_side(text: str, gpu_name: str) -> None:
    """All loads of a step may be under way between two barriers, and products read what was stored."""
    source = {"pointers": KERNEL, "views": VIEWS, "bytes": BYTES}[text]
    ptx = tileiras.compile(source, gpu_name=gpu_name, emit="ptx").ptx
    loops = [
        part for part in re.split(r"^\$L\d+:$", ptx, flags=re.M) if "mma.sync" in part and "ld.global" in part
    ]
    assert len(loops) == 1
    before, loads, products = loops[0].split("bar.sync")
    assert "ld.global" not in before + products and "st.shared" not in before + products
    assert "ld.global" in loads and "st.shared" in loads and "mma.sync" not in loads
    last, first = loads.rindex("ld.global"), loads.index("st.shared")
    assert first < last  # the second operand is loaded when the first one may have been stored
    assert "ldmatrix" in products


AROUND = KERNEL.replace("%ldb: tile<i32>)", "%ldb: tile<i32>, %start: tile<i32>)").replace(
    "%w = reshape %long :",
    """%sr = reshape %start : tile<i32> -> tile<1xi32>
    %sb = broadcast %sr : tile<1xi32> -> tile<64xi32>
    %from = addi %sb, %long : tile<64xi32>
    %n1 = reshape %n : tile<i32> -> tile<1xi32>
    %n64 = broadcast %n1 : tile<1xi32> -> tile<64xi32>
    %back = remi %from, %n64 signed : tile<64xi32>
    %w = reshape %back :""",
).replace(
    "%inn = cmpi",
    """%lowest = constant <i32: 0> : tile<32x64xi32>
    %behind = cmpi greater_than_or_equal %across, %lowest, signed : tile<32x64xi32> -> tile<32x64xi1>
    %before = cmpi""",
).replace(
    "%br = reshape", "%inn = andi %behind, %before : tile<32x64xi1>\n    %br = reshape"
)  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("start", "n", "fast"), [(64, 48, True), (0, 8, True), (-24, 16, False), (8, 48, True), (4, 48, False)]
)
def test_columns_that_begin_again_count_up_in_chunks_where_they_are_not_negative(
    gpu_name: str, start: int, n: int, fast: bool
) -> None:
    rng = np.random.default_rng(7)
    m, k, lda, ldb = 64, 64, 64, 64
    a, b = (place(rng.integers(-3, 4, size).astype(np.float16)) for size in (m * lda, k * ldb))
    c, profile = place(np.full((M, N), 7, np.float32)), Profile()
    args = [a, b, c, *map(np.int32, (m, n, k, lda, ldb, start))]
    tileiras.launch(AROUND, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, profile=profile)
    cols = np.fmod(start + np.arange(N), n)
    right = np.where(cols < 0, 0, b[np.arange(k)[:, None] * ldb + cols.clip(0)]).astype(np.float32)
    np.testing.assert_array_equal(c, a.reshape(m, lda).astype(np.float32) @ right)
    assert any("cp.async.cg" in line for line, _ in profile.ptx.values()) == fast


def test_a_remark_names_what_is_tested() -> None:
    program = tileiras.compile(KERNEL, gpu_name="sm_80", remarks={"analysis": "memory"})
    (said,) = [r.message for r in program.diagnostics if r.diag is VERSIONS]
    for name in ("%a is a multiple of 16", "%b is a multiple of 16", "%lda is a multiple of 8", "%n is"):
        assert name in said
    assert "%m is" not in said


@pytest.mark.parametrize("remarks", ["none", "tensorcore"])
def test_who_does_not_ask_is_told_nothing(remarks: str) -> None:
    program = tileiras.compile(KERNEL, gpu_name="sm_80", emit="ptx", remarks=remarks)
    assert not any(r.diag is VERSIONS for r in program.diagnostics)


VIEWS = """cuda_tile.module @kernels {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %k: tile<i32>, %lda: tile<i32>, %ldb: tile<i32>) {
    %size = assume bounded<0, ?>, %k : tile<i32>
    %av = make_tensor_view %a, shape = [64, %size], strides = [%lda, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[?,1]>
    %bv = make_tensor_view %b, shape = [%size, 64], strides = [%ldb, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[?,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %less = constant <i32: 31> : tile<i32>
    %depth = constant <i32: 32> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %up = addi %k, %less : tile<i32>
    %steps = divi %up, %depth signed : tile<i32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %x, %t1 = load_view_tko weak %at[%zero, %i] : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%i, %zero] : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[?,1]>>, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %done = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("lda", "ldb", "skew", "fast"),
    [(96, 64, (0, 0), True), (104, 72, (8, 16), True),
     (96, 64, (4, 0), False), (96, 64, (0, 4), False), (100, 64, (0, 0), False), (96, 68, (0, 0), False)],
)  # fmt: skip
def test_views_are_tested_for_all_16_bytes(lda: int, ldb: int, skew: tuple[int, int], fast: bool) -> None:
    """Eight bytes are not enough, of a pointer as of a stride."""
    rng = np.random.default_rng(lda + ldb)
    flat = [rng.integers(-3, 4, size + 32).astype(np.float16) for size in (64 * lda, 90 * ldb)]
    a, b = (place(x)[s:] for x, s in zip(flat, skew))
    c, profile = place(np.full((M, N), 7, np.float32)), Profile()
    args = [a, b, c, *map(np.int32, (90, lda, ldb))]
    tileiras.launch(VIEWS, "k", grid=1, args=args, target="emulator", gpu_name="sm_80", profile=profile)
    left, right = a[: 64 * lda].reshape(64, lda)[:, :90], b[: 90 * ldb].reshape(90, ldb)[:, :64]
    np.testing.assert_array_equal(c, left.astype(np.float32) @ right.astype(np.float32))
    assert any("cp.async.cg" in line for line, _ in profile.ptx.values()) == fast
