"""Rows of a tile whose stride is known at run time: one address, and an instruction for each other that multiplies and adds."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras

TEXT = """cuda_tile.module @m {
entry @k(%x: tile<ptr<f32>>, %o: tile<ptr<f32>>, %m: tile<STRIDE>, %n: tile<STRIDE>, %p: tile<STRIDE>) {
  %xa = assume div_by<16>, %x : tile<ptr<f32>>
  %oa = assume div_by<16>, %o : tile<ptr<f32>>
  %pa = assume div_by<16>, %p : tile<STRIDE>
  %na = assume div_by<16>, %n : tile<STRIDE>
  %xv = make_tensor_view %xa, shape = [%m, %na], strides = [%pa, 1] : tile<STRIDE> -> tensor_view<?x?xf32, strides=[?,1]>
  %ov = make_tensor_view %oa, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
  %xp = make_partition_view %xv : XT
  %op = make_partition_view %ov : OT
  %i, %j, %z = get_tile_block_id : tile<i32>
  %c = constant <i32: 0> : tile<i32>
  %v, %r = load_view_tko weak %xp[%i, %j] : XT, tile<i32> -> tile<32x64xf32>, token
  %d = store_view_tko weak %v, %op[%c, %c] : tile<32x64xf32>, OT, tile<i32> -> token
  return } }"""
TEXT = TEXT.replace(
    "XT", "partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>"
)
TEXT = TEXT.replace("OT", "partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>")


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_each_row_is_one_multiplication_from_the_first(gpu_name: str) -> None:
    """Four rows a thread: three multiples of the stride, none of them shifted in 64 bits, and the column added once."""
    text = TEXT.replace("STRIDE", "i32")
    ptx = tileiras.compile(text, gpu_name, emit="ptx").ptx
    stride = re.search(r"ld\.param\.u32 (%r\d+), \[k_param_4\]", ptx)[1]  # type: ignore[index]
    apart = re.findall(rf"mul\.wide\.s32 (%d\d+), {stride}, (\d+);", ptx)
    assert sorted(int(bytes_) for _, bytes_ in apart) == [8 * 4, 16 * 4, 24 * 4]
    made = dict(re.findall(r"add\.s64 (%d\d+), %d\d+, (%d\d+);", ptx))
    loads = re.findall(r"ld\.global\.v4\.b32 \{[^}]*\}, \[(%d\d+)", ptx)
    assert len(loads) == 4 and {made.get(p) for p in loads} >= {d for d, _ in apart}


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("element", "stride"), [("i32", 80), ("i64", 80), ("i32", 64)])
def test_tiles_at_every_edge(gpu_name: str, element: str, stride: int) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (50, stride)).astype(np.float32)
    for block in ((0, 0), (1, 0), (1, 1)):
        text = TEXT.replace("STRIDE", element).replace("%xp[%i, %j]", f"%xp[%i{block[0]}, %i{block[1]}]")
        text = text.replace(
            "%c = constant",
            "%i0 = constant <i32: 0> : tile<i32>\n  %i1 = constant <i32: 1> : tile<i32>\n  %c = constant",
        )
        rows, columns = (slice(n * size, (n + 1) * size) for n, size in zip(block, (32, 64)))
        want = np.zeros((32, 64), np.float32)
        part = x[rows, columns]
        want[: part.shape[0], : part.shape[1]] = part
        for target in ("reference", "emulator"):
            out = np.full((32, 64), 77, np.float32)
            number = np.int64 if element == "i64" else np.int32
            more = {"gpu_name": gpu_name, "check": True} if target == "emulator" else {}
            tileiras.launch(
                text,
                "k",
                (1, 1, 1),
                [x, out, number(50), number(stride), number(stride)],
                target=target,
                **more,
            )
            assert (out == want).all()
