"""Sums in tensor memory that a loop looks at, scales and adds to in each step, as the state of linear attention."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras

SIZE = 64
SQUARE = f"tensor_view<{SIZE}x{SIZE * 3}xf16, strides=[{SIZE * 3},1]>"
TILE = f"partition_view<tile=({SIZE}x{SIZE}), {SQUARE}>"
RESULT = f"tensor_view<{SIZE}x{SIZE}xf32, strides=[{SIZE},1]>"
WHOLE, SUM = f"partition_view<tile=({SIZE}x{SIZE}), {RESULT}>", f"tile<{SIZE}x{SIZE}xf32>"
HALF = f"tile<{SIZE}x{SIZE}xf16>"


def viewed(name: str, type: str, shape: int, part: str) -> str:
    return f"""
    %q{name} = assume div_by<16>, %{name} : tile<ptr<{"f32" if part == WHOLE else "f16"}>>
    %v{name} = make_tensor_view %q{name}, shape = [{SIZE}, {shape}], strides = [{shape}, 1] : {type}
    %t{name} = make_partition_view %v{name} : {part}
    """


STATE = f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>, %o: tile<ptr<f32>>, %p: tile<ptr<f32>>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 3> : tile<i32>
    %none = constant <f32: 0.0> : {SUM}
    %half = constant <f32: 0.5> : {SUM}
    {"".join(viewed(x, SQUARE, SIZE * 3, TILE) for x in "abc")}{"".join(viewed(x, RESULT, SIZE, WHOLE) for x in "op")}
    %r:2 = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%state = %none, %read = %none) -> ({SUM}, {SUM}) {{
      %x, %u = load_view_tko weak %ta[%zero, %k] token = %t : {TILE}, tile<i32> -> {HALF}, token
      %y, %w = load_view_tko weak %tb[%zero, %k] token = %t : {TILE}, tile<i32> -> {HALF}, token
      %z, %s = load_view_tko weak %tc[%zero, %k] token = %t : {TILE}, tile<i32> -> {HALF}, token
      %low = ftof %state : {SUM} -> {HALF}
      %more = mmaf %x, %low, %read : {HALF}, {HALF}, {SUM}
      %less = mulf %state, %half : {SUM}
      %next = mmaf %y, %z, %less : {HALF}, {HALF}, {SUM}
      continue %next, %more : {SUM}, {SUM}
    }}
    %d = store_view_tko weak %r#0, %to[%zero, %zero] token = %t : {SUM}, {WHOLE}, tile<i32> -> token
    %e = store_view_tko weak %r#1, %tp[%zero, %zero] token = %t : {SUM}, {WHOLE}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_a_sum_that_is_looked_at_and_scaled_is_whole_before_its_product(gpu_name: str) -> None:
    """What the sum was looked at for waits at a barrier; the scaling behind it has to be waited for as well."""
    program = tileiras.compile(STATE, gpu_name=gpu_name, launch_abi="simt", emit="ptx")
    assert ("tcgen05.mma" in program.ptx) == (gpu_name == "sm_100")
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(-1, 2, (SIZE, SIZE * 3)).astype(np.float16) for _ in range(3))
    state, read = np.zeros((2, SIZE, SIZE), np.float32)
    for k in range(3):
        x, y, z = (m[:, SIZE * k : SIZE * k + SIZE].astype(np.float32) for m in (a, b, c))
        state, read = state * 0.5 + y @ z, read + x @ state
    for seed in range(3):
        out, seen = np.full((2, SIZE, SIZE), 7, np.float32)
        args = [a, b, c, out, seen]
        tileiras.launch(program, "k", 1, args, target="emulator", gpu_name=gpu_name, check=True, seed=seed)
        assert (out == state).all() and (seen == read).all()
