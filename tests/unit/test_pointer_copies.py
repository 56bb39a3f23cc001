"""Tiles of pointers that feed products: which are copied asynchronously, how wide, and what their loops carry.

The corpus family `pointers` holds the numbers against formulas on every target, test_staged_products.py the order of accesses.
"""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of, loops_that_arrive

TENSOR = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}


def kernel(name: str, gpu_name: str) -> str:
    """The PTX of one kernel."""
    text = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name).ptx
    return next(p for p in text.split(".visible .entry ")[1:] if p.startswith(CASES[name].entry + "("))


def loop_of(text: str) -> str:
    return text[text.index("cp.async.wait_group") : text.rindex("cp.async.commit_group")]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize("name", ["pointers_bf16_nn_128", "pointers_f16_nt"])
def test_both_operands_travel_by_copies_of_16_bytes(name: str, gpu_name: str) -> None:
    text = kernel(name, gpu_name)
    assert TENSOR[gpu_name] in text and "cp.async.cg.shared.global" in text and "ld.global" not in text
    if gpu_name == "sm_100":  # copies arrive on mbarriers
        assert "cp.async.mbarrier.arrive" in text and "cp.async.wait_group" not in text
        return
    if gpu_name == "sm_90":  # there, too, and the loop has no barrier
        for loop in loops_that_arrive(text):
            assert "bar.sync" not in loop and "st.shared" not in loop
        return
    loop = loop_of(text)
    assert "cp.async.cg.shared.global" in loop and "cp.async.wait_group 0" not in loop
    assert loop.count("bar.sync") == 1 and "st.shared" not in loop


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_elements_that_are_converted_lie_in_shared_memory_as_they_were_loaded(gpu_name: str) -> None:
    text = kernel("pointers_tf32_nn", gpu_name)
    loop = text[text.index("cp.async.wait_group") : text.rindex("mma.sync")]
    assert "cp.async.cg.shared.global" in loop and "st.shared" not in loop and loop.count("bar.sync") == 1


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_pointers_that_step_are_carried_as_far_ahead_as_their_copies(gpu_name: str) -> None:
    text = kernel("cpp_pointers_stepping", gpu_name)
    loop = loops_that_arrive(text)[0] if gpu_name == "sm_90" else loop_of(text)
    assert "cp.async.cg.shared.global" in loop and "ld.global" not in loop and "st.shared" not in loop
    front, behind = text.split(loop)
    pointers = re.findall(r"cp\.async\.cg\.shared\.global \[[^]]*\], \[(%d\d+)\]", loop)
    assert pointers and all(re.search(rf"add\.s64 %d\d+, {p}, ", loop + behind) for p in pointers)
    # the loop begins where the copies in front of it end, steps of 64 bytes
    (start,) = re.findall(rf"mov\.b64 {pointers[0]}, (%d\d+);", front)
    ((base, distance),) = re.findall(rf"add\.s64 {start}, (%d\d+), (\d+);", front)
    assert int(distance) == 64 * len(re.findall(rf"\[{base}(?:\+\d+)?\], 16", front)) > 64


@pytest.mark.parametrize("name", ["pointers_gathered_rows", "pointers_convolution"])
def test_rows_of_a_list_are_turned_to_the_copying_threads_once(name: str) -> None:
    loop = loop_of(kernel(name, "sm_80"))
    assert "cp.async.cg.shared.global" in loop and "st.shared" not in loop and loop.count("bar.sync") == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize("name", ["pointers_listed_rows", "pointers_listed_rows_bf16_wide"])
def test_rows_that_a_list_names_are_loaded_an_iteration_before_their_copies(name: str, gpu_name: str) -> None:
    (loop,) = [loop for loop in loops_of(kernel(name, gpu_name)) if "cp.async.cg.shared.global" in loop]
    assert "cp.async.wait_group 0" not in loop and "st.shared" not in loop
    assert loop.count("bar.sync") == ("cp.async.wait_group" in loop)
    loaded = re.findall(r"ld\.global\.b32 (%r\d+), ", loop)
    carried = dict(re.findall(r"mov\.b32 (%r\d+), (%r\d+);", loop))
    rows = [r for r, value in carried.items() if carried.get(value) in loaded]
    assert loaded and len(rows) == len(loaded)  # by the threads that copy, for the next iteration
    assert all(re.search(rf"setp\.lt\.u32 %p\d+, {r}, ", loop) for r in rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize("name", ["pointers_rows_through_view", "pointers_listed_through_view"])
def test_rows_that_a_view_takes_by_number_travel_by_copies_of_16_bytes(name: str, gpu_name: str) -> None:
    text = kernel(name, gpu_name)
    assert TENSOR[gpu_name] in text
    (loop,) = [loop for loop in loops_of(text) if "cp.async.cg.shared.global" in loop]
    assert "cp.async.wait_group 0" not in loop and "st.shared" not in loop and "ld.shared.u16" not in loop
    assert loop.count("bar.sync") == ("cp.async.wait_group" in loop)  # numbers are where they are needed


def test_rows_that_begin_anywhere_are_not_copied() -> None:
    for text in kernel("pointers_rows_from_anywhere", "sm_80").split("cp.async.")[1:]:
        assert not text.startswith("ca.shared.global")
    assert "ld.global.b16" in kernel("pointers_rows_from_anywhere", "sm_80")


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("cpp_pointers_stepping", {"16"}),
        ("cpp_pointers_stepping_narrow", {"4", "8", "16"}),
        ("cpp_pointers_stepping_unaligned", {"16"}),
    ],
)
def test_copies_are_as_wide_as_the_facts_allow_or_a_test_finds(name: str, widths: set[str]) -> None:
    copies = re.findall(
        r"cp\.async\.c[ag]\.shared\.global \[[^]]*\], \[[^]]*\], (\d+)", kernel(name, "sm_80")
    )
    assert set(copies) == widths


def test_only_zeros_can_be_filled_in_by_a_copy() -> None:
    text = kernel("pointers_other_padding", "sm_80")
    assert "cp.async.cg.shared.global" in text and "ld.global" in text


# Two loads a step, the second one 64 bytes behind the first; a step moves by 72 bytes.
STAGGERED = """
cuda_tile.module @m {
  entry @k(%a0: tile<ptr<f16>>, %b0: tile<ptr<f16>>, %c: tile<ptr<f32>>, %steps: tile<i32>) {
    %a = assume div_by<16>, %a0 : tile<ptr<f16>>
    %b = assume div_by<16>, %b0 : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %i64 = iota : tile<64xi32>
    %i32 = iota : tile<32xi32>
    %r = reshape %i64 : tile<64xi32> -> tile<64x1xi32>
    %rows = broadcast %r : tile<64x1xi32> -> tile<64x32xi32>
    %s = reshape %i32 : tile<32xi32> -> tile<1x32xi32>
    %cols = broadcast %s : tile<1x32xi32> -> tile<64x32xi32>
    %pitch = constant <i32: 320> : tile<64x32xi32>
    %ra = muli %rows, %pitch : tile<64x32xi32>
    %oa = addi %ra, %cols : tile<64x32xi32>
    %ar = reshape %a : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %ab = broadcast %ar : tile<1x1xptr<f16>> -> tile<64x32xptr<f16>>
    %pa = offset %ab, %oa : tile<64x32xptr<f16>>, tile<64x32xi32> -> tile<64x32xptr<f16>>
    %far = constant <i32: 32> : tile<64x32xi32>
    %near = constant <i32: 4> : tile<64x32xi32>
    %bv = make_tensor_view %b, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<128x64xf16, strides=[64,1]>>
    %sum:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %at = %pa)
        -> (tile<64x64xf32>, tile<64x32xptr<f16>>) {
      %behind = offset %at, %far : tile<64x32xptr<f16>>, tile<64x32xi32> -> tile<64x32xptr<f16>>
      %x1, %t1 = load_ptr_tko weak %at : tile<64x32xptr<f16>> -> tile<64x32xf16>, token
      %x2, %t2 = load_ptr_tko weak %behind : tile<64x32xptr<f16>> -> tile<64x32xf16>, token
      %x = addf %x2, %x1 : tile<64x32xf16>
      %y, %t3 = load_view_tko weak %bt[%i, %zero] : partition_view<tile=(32x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %on = offset %behind, %near : tile<64x32xptr<f16>>, tile<64x32xi32> -> tile<64x32xptr<f16>>
      continue %next, %on : tile<64x64xf32>, tile<64x32xptr<f16>>
    }
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %done = store_view_tko weak %sum#0, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("gpu_name", TENSOR)
def test_what_is_computed_from_carried_pointers_is_aligned_as_they_are_in_every_step(gpu_name: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (place(rng.integers(-3, 4, s).astype(np.float16)) for s in ((64, 320), (128, 64)))
    c = place(np.zeros((64, 64), np.float32))
    tileiras.launch(STAGGERED, "k", grid=1, args=[a, b, c, np.int32(4)], target="emulator", gpu_name=gpu_name)
    left = np.concatenate([a[:, 36 * i : 36 * i + 32] + a[:, 36 * i + 32 : 36 * i + 64] for i in range(4)], 1)
    np.testing.assert_array_equal(c, left.astype(np.float32) @ b.astype(np.float32))
