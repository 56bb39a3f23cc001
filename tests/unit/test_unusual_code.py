"""What becomes of the forms in tests/corpus/python/unusual.py."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras  # noqa: E402
from tests.corpus.case import place  # noqa: E402
from tests.corpus.export import bytecode_path  # noqa: E402
from tests.corpus.registry import CASES  # noqa: E402


def ptx(name: str, gpu_name: str) -> str:
    return tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name).ptx


def test_sums_that_only_products_look_at_are_carried_in_32_bits() -> None:
    """One of the two products: the other one's sum is compared in every step."""
    text = ptx("nested_sums_of_16_bits", "sm_90")
    assert "wgmma.mma_async" in text and "f32.f16.f16" in text
    assert (
        "wgmma.mma_async"
        not in tileiras.compile(
            bytecode_path(CASES["nested_sums_of_16_bits"]), gpu_name="sm_90", opt_level=0
        ).ptx
    )


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_addresses_of_neighbours_make_no_chain_long(gpu_name: str) -> None:
    """Four gathers and ten operations an element: all of it at once, in accesses of 16 bytes."""
    text = ptx("bilinear_samples", gpu_name)
    assert text.count("ld.global.v4.b32") == 8 and text.count("st.global.v4.b32") == 2
    assert not any(line.lstrip().startswith("bra") for line in text.splitlines())


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
def test_a_mask_that_waits_in_shared_memory_is_read_as_scores_lie(gpu_name: str) -> None:
    assert "st.shared.u8" not in ptx("masked_attention", gpu_name)
    assert "st.shared.v4.u8" not in ptx("masked_attention", gpu_name)


SLICED = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %all = iota : tile<1024xi32>
    %some = extract %all[%n] : tile<1024xi32> -> tile<512xi32>
    %places = iota : tile<512xi32>
    %p1 = reshape %pa : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p2 = broadcast %p1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %p3 = offset %p2, %some : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %x, %t = load_ptr_tko weak %p3 : tile<512xptr<f32>> -> tile<512xf32>, token
    %q1 = reshape %qa : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q2 = broadcast %q1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %q3 = offset %q2, %places : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %u = store_ptr_tko weak %q3, %x : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("number", [0, 1])
def test_a_slice_of_neighbours_has_neighbours(number: int) -> None:
    assert "ld.global.v4.b32" in tileiras.compile(SLICED, gpu_name="sm_80").ptx
    x, y = place(np.arange(1024, dtype=np.float32)), place(np.zeros(512, np.float32))
    tileiras.launch(SLICED, "k", 1, [x, y, np.int32(number)], target="emulator", gpu_name="sm_80")
    np.testing.assert_array_equal(y, x[512 * number :][:512])


# A round of Philox: both halves of a product of 32 bits by a constant, the upper one by way of 64 bits.
HALVES = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %at = iota : tile<128xi32>
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %p2 = broadcast %p1 : tile<1xptr<i32>> -> tile<128xptr<i32>>
    %p3 = offset %p2, %at : tile<128xptr<i32>>, tile<128xi32> -> tile<128xptr<i32>>
    %x, %t = load_ptr_tko weak %p3 : tile<128xptr<i32>> -> tile<128xi32>, token
    %m = constant <i32: -766435501> : tile<128xi32>
    %w = constant <i64: 3528531795> : tile<128xi64>
    %bits = constant <i64: 32> : tile<128xi64>
    %x64 = exti %x unsigned : tile<128xi32> -> tile<128xi64>
    %all = muli %x64, %w : tile<128xi64>
    %up = shri %all, %bits unsigned : tile<128xi64>
    %high = trunci %up : tile<128xi64> -> tile<128xi32>
    %low = muli %x, %m : tile<128xi32>
    %y = subi %high, %low : tile<128xi32>
    %u = store_ptr_tko weak %p3, %y token = %t : tile<128xptr<i32>>, tile<128xi32> -> token
    return
  }
}"""


def test_both_halves_of_a_product_are_one_instruction() -> None:
    text = tileiras.compile(HALVES, gpu_name="sm_80").ptx
    assert text.count("mul.wide.u32") == 1 and "mul.lo" not in text
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 128).astype(np.int32)
    x[:3] = -1, 0, -(2**31)
    whole = x.astype(np.uint32).astype(np.uint64) * 3528531795
    want = (whole >> 32).astype(np.uint32) - whole.astype(np.uint32)
    tileiras.launch(HALVES, "k", 1, [x], target="emulator", gpu_name="sm_80")
    np.testing.assert_array_equal(x.view(np.uint32), want)


INTERLEAVED = """
cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %aa = assume div_by<16>, %a : tile<ptr<f16>>
    %ba = assume div_by<16>, %b : tile<ptr<f16>>
    %ca = assume div_by<16>, %c : tile<ptr<f16>>
    %av = make_tensor_view %aa, shape = [2048], strides = [1] : tensor_view<2048xf16, strides=[1]>
    %bv = make_tensor_view %ba, shape = [2048], strides = [1] : tensor_view<2048xf16, strides=[1]>
    %cv = make_tensor_view %ca, shape = [4096], strides = [1] : tensor_view<4096xf16, strides=[1]>
    %ap = make_partition_view %av : partition_view<tile=(2048), tensor_view<2048xf16, strides=[1]>>
    %bp = make_partition_view %bv : partition_view<tile=(2048), tensor_view<2048xf16, strides=[1]>>
    %cp = make_partition_view %cv : partition_view<tile=(4096), tensor_view<4096xf16, strides=[1]>>
    %x, %t1 = load_view_tko weak %ap[%zero] token=%t
      : partition_view<tile=(2048), tensor_view<2048xf16, strides=[1]>>, tile<i32> -> tile<2048xf16>, token
    %y, %t2 = load_view_tko weak %bp[%zero] token=%t
      : partition_view<tile=(2048), tensor_view<2048xf16, strides=[1]>>, tile<i32> -> tile<2048xf16>, token
    %x2 = reshape %x : tile<2048xf16> -> tile<2048x1xf16>
    %y2 = reshape %y : tile<2048xf16> -> tile<2048x1xf16>
    %xy = cat %x2, %y2 dim = 1 : tile<2048x1xf16>, tile<2048x1xf16> -> tile<2048x2xf16>
    %z = reshape %xy : tile<2048x2xf16> -> tile<4096xf16>
    %t3 = store_view_tko weak %z, %cp[%zero] token=%t1
      : tile<4096xf16>, partition_view<tile=(4096), tensor_view<4096xf16, strides=[1]>>, tile<i32> -> token
    return
  }
}"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_two_planes_are_stored_interleaved_in_whole_vectors(gpu_name: str) -> None:
    """A thread has neighbours of both: no store of 16 bits, nothing through shared memory."""
    text = tileiras.compile(INTERLEAVED, gpu_name=gpu_name).ptx
    assert text.count("st.global.v4.b32") == 4 and text.count("st.global") == 4
    assert "shared" not in text
    x, y = np.arange(2048).astype("f2"), -np.arange(2048).astype("f2")
    z = np.zeros(4096, "f2")
    tileiras.launch(INTERLEAVED, "k", 1, [x, y, z], target="emulator", gpu_name=gpu_name)
    np.testing.assert_array_equal(z, np.stack([x, y], 1).reshape(-1))
