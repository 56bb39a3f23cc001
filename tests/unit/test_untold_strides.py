"""Views of which no stride is promised: loops of products test whether the last one is 1, and copy ahead where it is."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.compiler.dialects.nv_tileaa.diags import VERSIONS
from tileiras.run.profile import Profile

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
VIEW = "tensor_view<?x?xf16, strides=[?,?]>"
LEFT = f"partition_view<tile=(64x32), padding_value = zero, {VIEW}>"
RIGHT = f"partition_view<tile=(32x64), padding_value = zero, {VIEW}>"
OUT = "tensor_view<64x64xf32, strides=[64,1]>"
SUMS = "tile<64x64xf32>"
KERNEL = f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %k: tile<i32>,
           %ra: tile<i32>, %ca: tile<i32>, %rb: tile<i32>, %cb: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %depth = constant <i32: 32> : tile<i32>
    %none = constant <f32: 0.0> : {SUMS}
    %av = make_tensor_view %a, shape = [%m, %k], strides = [%ra, %ca] : tile<i32> -> {VIEW}
    %bv = make_tensor_view %b, shape = [%k, %n], strides = [%rb, %cb] : tile<i32> -> {VIEW}
    %at = make_partition_view %av : {LEFT}
    %steps = divi %k, %depth signed rounding<positive_inf> : tile<i32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({SUMS}) {{
      %x, %t1 = load_view_tko weak %at[%zero, %i] : {LEFT}, tile<i32> -> tile<64x32xf16>, token
      %bt = make_partition_view %bv : {RIGHT}
      %y, %t2 = load_view_tko weak %bt[%i, %zero] : {RIGHT}, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, {SUMS}
      continue %next : {SUMS}
    }}
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : {OUT}
    %ct = make_partition_view %cv : partition_view<tile=(64x64), {OUT}>
    %t3 = store_view_tko weak %sum, %ct[%zero, %zero] : {SUMS}, partition_view<tile=(64x64), {OUT}>, tile<i32> -> token
    return
  }}
}}
"""


def copies(gpu_name: str, m: int, n: int, k: int, strides: tuple[int, int, int, int], **more: object) -> int:
    """Runs the kernel against NumPy; how many instructions for asynchronous copies of 16 bytes ran."""
    rng = np.random.default_rng(m + n + k + sum(strides))
    ra, ca, rb, cb = strides
    size = 1 + max((m - 1) * ra + (k - 1) * ca, (k - 1) * rb + (n - 1) * cb)
    a, b = (place(rng.integers(-3, 4, size + 8).astype(np.float16)) for _ in range(2))
    c, profile = place(np.full((64, 64), 7, np.float32)), Profile()
    args = [a, b, c, *map(np.int32, (m, n, k, *strides))]
    tileiras.launch(
        KERNEL, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, profile=profile, **more
    )
    want = np.zeros((64, 64), np.float32)
    left = a[np.arange(m)[:, None] * ra + np.arange(k) * ca].astype(np.float32)
    want[:m, :n] = left @ b[np.arange(k)[:, None] * rb + np.arange(n) * cb].astype(np.float32)
    np.testing.assert_array_equal(c, want)
    return sum("cp.async.cg" in line for line, _ in profile.ptx.values())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_rows_of_neighbours_are_copied_ahead(gpu_name: str) -> None:
    assert copies(gpu_name, 64, 64, 96, (96, 1, 64, 1)) > 0
    assert copies(gpu_name, 41, 53, 90, (104, 1, 72, 1), check=True) > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    "strides",
    [
        (192, 2, 64, 1),  # every other element
        (96, 1, 128, 2),
        (1, 64, 64, 1),  # columns of neighbours
        (96, 0, 64, 1),  # one column, repeated
        (97, 1, 64, 1),  # neighbours, in rows that no 16 bytes divide
    ],
)
def test_other_strides_are_right_without_copies(gpu_name: str, strides: tuple[int, int, int, int]) -> None:
    assert copies(gpu_name, 64, 64, 96, strides) == 0


def test_the_remark_names_the_strides() -> None:
    program = tileiras.compile(KERNEL, gpu_name="sm_90", emit="ptx", remarks={"analysis": "memory"})
    (said,) = [str(d) for d in program.diagnostics if d.diag is VERSIONS]
    assert "%ca is 1" in said and "%cb is 1" in said and "%ra is a multiple of 8" in said, said


@pytest.mark.parametrize(("given", "other"), [("[%rb, %cb]", "[%ca, %ra]"), ("[%ra, %ca]", "[%ca, %ca]")])
def test_a_stride_that_would_be_one_and_a_multiple_as_well_is_not_tested(given: str, other: str) -> None:
    """No numbers pass such a test: the version behind it would be code for nothing."""
    text = KERNEL.replace(given, other)
    assert text != KERNEL
    program = tileiras.compile(text, gpu_name="sm_90", emit="ptx", remarks={"analysis": "memory"})
    assert not [d for d in program.diagnostics if d.diag is VERSIONS]
