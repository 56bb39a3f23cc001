"""What moves between layouts is as little as may be: rows and columns instead of what is made of them, bytes instead of what they
become, and nothing of what can be loaded as it is wanted."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("ml_dtypes")
import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


def tileas(text: str, gpu_name: str, tmp_path: Any) -> str:
    """The schedule of a kernel."""
    source, out = tmp_path / "k.tileir", tmp_path / "k.tileas"
    source.write_text(text)
    assert opt.main([str(source), "--gpu-name", gpu_name, "--pipeline-to", "tileas", "-o", str(out)]) == 0
    return str(out.read_text())


def scaled() -> str:
    """i8 rows by i8 rows, times a scale of each row and one of each column."""
    return """
cuda_tile.module @m {
  entry @k(%a: tile<ptr<i8>>, %b: tile<ptr<i8>>, %s: tile<ptr<f32>>, %t: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <i32: 0> : tile<64x128xi32>
    %ap = assume div_by<16>, %a : tile<ptr<i8>>
    %bp = assume div_by<16>, %b : tile<ptr<i8>>
    %cp = assume div_by<16>, %c : tile<ptr<f32>>
    %av = make_tensor_view %ap, shape = [64, 192], strides = [192, 1] : tensor_view<64x192xi8, strides=[192,1]>
    %bv = make_tensor_view %bp, shape = [128, 192], strides = [192, 1] : tensor_view<128x192xi8, strides=[192,1]>
    %sv = make_tensor_view %s, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %tv = make_tensor_view %t, shape = [128], strides = [1] : tensor_view<128xf32, strides=[1]>
    %cv = make_tensor_view %cp, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
    %at = make_partition_view %av : partition_view<tile=(64x64), tensor_view<64x192xi8, strides=[192,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(128x64), tensor_view<128x192xi8, strides=[192,1]>>
    %st = make_partition_view %sv : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %tt = make_partition_view %tv : partition_view<tile=(128), tensor_view<128xf32, strides=[1]>>
    %ct = make_partition_view %cv : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x128xi32>) {
      %x, %t1 = load_view_tko weak %at[%zero, %i] : partition_view<tile=(64x64), tensor_view<64x192xi8, strides=[192,1]>>, tile<i32> -> tile<64x64xi8>, token
      %y, %t2 = load_view_tko weak %bt[%zero, %i] : partition_view<tile=(128x64), tensor_view<128x192xi8, strides=[192,1]>>, tile<i32> -> tile<128x64xi8>, token
      %z = permute %y [1, 0] : tile<128x64xi8> -> tile<64x128xi8>
      %next = mmai %x, %z, %acc signed signed : tile<64x64xi8>, tile<64x128xi8>, tile<64x128xi32>
      continue %next : tile<64x128xi32>
    }
    %u, %t3 = load_view_tko weak %st[%zero] : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    %v, %t4 = load_view_tko weak %tt[%zero] : partition_view<tile=(128), tensor_view<128xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
    %u1 = reshape %u : tile<64xf32> -> tile<64x1xf32>
    %v1 = reshape %v : tile<128xf32> -> tile<1x128xf32>
    %u2 = broadcast %u1 : tile<64x1xf32> -> tile<64x128xf32>
    %v2 = broadcast %v1 : tile<1x128xf32> -> tile<64x128xf32>
    %w = mulf %u2, %v2 : tile<64x128xf32>
    %f = itof %sum signed : tile<64x128xi32> -> tile<64x128xf32>
    %r = mulf %f, %w : tile<64x128xf32>
    %done = store_view_tko weak %r, %ct[%zero, %zero] : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_a_product_of_two_scales_is_made_where_the_sums_lie(gpu_name: str, tmp_path: Any) -> None:
    text = tileas(scaled(), gpu_name, tmp_path)
    product = re.search(r"(%\d+) = nv_tileas\.(?:mulf|fma)", text)
    assert product is not None
    behind = text[product.start() :]
    assert f"convert_layout {product[1]} " not in behind
    rng = np.random.default_rng(3)
    a, b = (place(rng.integers(-8, 8, (rows, 192)).astype(np.int8)) for rows in (64, 128))
    s, t = (place(rng.integers(1, 5, (rows,)).astype(np.float32)) for rows in (64, 128))
    c = place(np.zeros((64, 128), np.float32))
    args = [a, b, s, t, c, np.int32(3)]
    tileiras.launch(scaled(), "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(c, (a.astype(np.int32) @ b.T.astype(np.int32)) * (s[:, None] * t[None, :]))


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_what_rows_say_is_moved_in_front_of_the_loop(gpu_name: str, tmp_path: Any) -> None:
    """The statistics of a row of queries, in the layout of its scores."""
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    source, out = bytecode_path(CASES["staged_flash_bwd_dq_f16_64"]), tmp_path / "k.tileas"
    assert opt.main([str(source), "--gpu-name", gpu_name, "--pipeline-to", "tileas", "-o", str(out)]) == 0
    inside = False
    moved = []
    for line in out.read_text().splitlines():
        inside = inside or "nv_tileas.for " in line
        if inside and 'plan = "shared"' in line and "xf32" in line:
            moved.append(line)
        if inside and "nv_tileas.continue" in line:
            break
    assert inside and not moved


def few_rows() -> str:
    """Sixteen rows times weights of bytes, (N, K)."""
    a, b, c = "16x384xf16, strides=[384,1]", "128x384xi8, strides=[384,1]", "16x128xf32, strides=[128,1]"
    at, bt, ct = (
        f"partition_view<tile=({tile}), tensor_view<{view}>>"
        for tile, view in (("16x128", a), ("128x128", b), ("16x128", c))
    )
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<i8>>, %c: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x128xf32>
    %ap = assume div_by<16>, %a : tile<ptr<f16>>
    %bp = assume div_by<16>, %b : tile<ptr<i8>>
    %cp = assume div_by<16>, %c : tile<ptr<f32>>
    %av = make_tensor_view %ap, shape = [16, 384], strides = [384, 1] : tensor_view<{a}>
    %bv = make_tensor_view %bp, shape = [128, 384], strides = [384, 1] : tensor_view<{b}>
    %cv = make_tensor_view %cp, shape = [16, 128], strides = [128, 1] : tensor_view<{c}>
    %at = make_partition_view %av : {at}
    %bt = make_partition_view %bv : {bt}
    %ct = make_partition_view %cv : {ct}
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<16x128xf32>) {{
      %x, %t1 = load_view_tko weak %at[%zero, %i] : {at}, tile<i32> -> tile<16x128xf16>, token
      %w, %t2 = load_view_tko weak %bt[%zero, %i] : {bt}, tile<i32> -> tile<128x128xi8>, token
      %v = itof %w signed : tile<128x128xi8> -> tile<128x128xf16>
      %y = permute %v [1, 0] : tile<128x128xf16> -> tile<128x128xf16>
      %next = mmaf %x, %y, %acc : tile<16x128xf16>, tile<128x128xf16>, tile<16x128xf32>
      continue %next : tile<16x128xf32>
    }}
    %old, %t3 = load_view_tko weak %ct[%zero, %zero] : {ct}, tile<i32> -> tile<16x128xf32>, token
    %new = addf %sum, %old : tile<16x128xf32>
    %done = store_view_tko weak %new, %ct[%zero, %zero] token = %t3 : tile<16x128xf32>, {ct}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_weights_of_few_rows_are_read_as_bytes_and_what_is_added_as_fragments(
    gpu_name: str, tmp_path: Any
) -> None:
    text = tileas(few_rows(), gpu_name, tmp_path)
    moved = [line for line in text.splitlines() if "nv_tileas.convert_layout" in line and "scratch" in line]
    if gpu_name in ("sm_80", "sm_120"):  # the others multiply transposed, from shared memory
        assert not moved
    rng = np.random.default_rng(5)
    a = place(rng.integers(-3, 4, (16, 384)).astype(np.float16))
    b = place(rng.integers(-9, 10, (128, 384)).astype(np.int8))
    c = place(rng.integers(-9, 10, (16, 128)).astype(np.float32))
    want = a.astype(np.float32) @ b.T.astype(np.float32) + c
    args = [a, b, c, np.int32(3)]
    tileiras.launch(few_rows(), "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(c, want)
