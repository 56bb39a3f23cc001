"""TileAALoadOnce: what the products of a step load twice is loaded once, and what only looks like it twice."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tileiras.compiler import pipeline

ROWS = "partition_view<tile=(64x32), tensor_view<128x64xf16, strides=[64,1]>>"
TURNED = "partition_view<tile=(32x64), tensor_view<128x64xf16, strides=[64,1]>, dim_map=[1, 0]>"
PADDED = TURNED.replace(", tensor_view", ", padding_value = zero, tensor_view")
OUT = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
LOAD = f"load_view_tko weak %tt[%one, %zero] token=%t : {TURNED}, tile<i32> -> tile<32x64xf16>, token"


def kernel(second: str = LOAD, between: str = "", behind: str = "") -> str:
    """C = X Y of 64x32 and 32x64, X rows 0 to 63 and columns 32 to 63 of A, Y what the second load brings."""
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %also = constant <i32: 1> : tile<i32>
    %fours = constant <f16: 4.0> : tile<64x32xf16>
    %av = make_tensor_view %a, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : {ROWS}
    %tt = make_partition_view %av : {TURNED}
    %pt = make_partition_view %av : {PADDED}
    %ct = make_partition_view %cv : {OUT}
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %t = make_token : token
    %x, %tx = load_view_tko weak %at[%zero, %one] token=%t : {ROWS}, tile<i32> -> tile<64x32xf16>, token
    {between}
    %y, %ty = {second}
    %z = mmaf %x, %y, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    {behind}
    %done = store_view_tko weak %z, %ct[%zero, %zero] token=%t : tile<64x64xf32>, {OUT}, tile<i32> -> token
    return
  }}
}}
"""


def is_joined(source: str, gpu_name: str = "sm_90") -> bool:
    """Whether a kernel loads once. The assertion is about what it computes."""
    done = tileiras.compile(
        source, gpu_name=gpu_name, emit="ptx", remarks={"passed": "all"}, launch_abi="simt"
    )
    a = np.random.default_rng(0).integers(-4, 5, (128, 64)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    wide = a.astype(np.float32)
    right = wide[:64, 32:] if "%one, %zero" in source or "%also, %zero" in source else wide[:64, :32]
    if "weak %fours, %at[%zero, %one]" in source:
        right = np.full_like(right, 4)
    tileiras.launch(done, "k", 1, [a, out], target="emulator", gpu_name=gpu_name, check=True, seed=1)
    assert (out == wide[:64, 32:] @ right.T).all()
    return any("it is loaded once" in d.message for d in done.diagnostics)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_tile_and_its_transpose_are_one_load(gpu_name: str) -> None:
    assert is_joined(kernel(), gpu_name)


def test_places_are_compared_by_what_they_are() -> None:
    assert is_joined(kernel(LOAD.replace("%one, %zero", "%also, %zero")))


def test_who_waits_for_either_load_waits_for_the_one() -> None:
    wait = f"%w = store_view_tko weak %fours, %at[%one, %zero] token=%ty : tile<64x32xf16>, {ROWS}, tile<i32> -> token"
    assert is_joined(kernel(behind=wait))


OTHERS = {
    "another place": {"second": LOAD.replace("%one, %zero", "%zero, %zero")},
    "another padding": {"second": LOAD.replace("%tt", "%pt").replace(TURNED, PADDED)},
    "another token": {"second": LOAD.replace("token=%t", "token=%tx")},
    "in order with others": {"second": LOAD.replace("load_view_tko weak", "load_view_tko relaxed device")},
    "a store in between": {
        "between": f"%w = store_view_tko weak %fours, %at[%zero, %one] token=%tx : tile<64x32xf16>, {ROWS}, tile<i32> -> token",
        "second": LOAD.replace("token=%t", "token=%w"),
    },
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_may_be_something_else_is_loaded_again(what: str) -> None:
    assert not is_joined(kernel(**OTHERS[what]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name, copies", [("staged_latent_twice_512", 36), ("staged_latent_twice_256", 9)])
def test_a_latent_that_is_loaded_as_keys_and_as_values_is_copied_once(
    name: str, copies: int, gpu_name: str
) -> None:
    case = CASES[name]
    ptx = tileiras.compile(bytecode_path(case), gpu_name=gpu_name, emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma" in loop]
    in_steps = (
        gpu_name == "sm_120" and copies == 36
    )  # slots as small as a step: each of them is loaded for itself
    assert copying and all((loop.count("cp.async.cg") == copies) != in_steps for loop in copying)
    done = launch_case(case, "emulator", gpu_name, 300, check=True, seed=5)
    assert done.word == PASS, done.reason


@pytest.mark.parametrize("rows", ["512", "256_of_16_rows", "512_of_64_rows"])
def test_three_products_of_three_loads_are_right_in_tensor_memory(
    rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two scores that go on and sums, of which two stages do not fit: in a queue, a product read what was on its way."""
    compile_module = pipeline.compile_module

    def without(*args: Any, **options: Any) -> Any:
        return compile_module(*args, **{**options, "skip": ("TileAALoadOnce",)})

    monkeypatch.setattr(pipeline, "compile_module", without)
    done = launch_case(CASES[f"staged_latent_twice_{rows}"], "emulator", "sm_100", 300, check=True, seed=5)
    assert done.word == PASS, done.reason


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("rows, inside", [(100, "true, false"), (128, "false, true")])
def test_what_a_load_promises_of_a_dimension_stays_with_that_dimension(
    rows: int, inside: str, gpu_name: str
) -> None:
    """The last tile of so many rows, times itself. The turned load comes first: of 100 rows only its columns are inside."""
    view = f"tensor_view<{rows}x64xf16, strides=[64,1]>"
    plain = f"partition_view<tile=(64x32), padding_value = zero, {view}>"
    turned = f"partition_view<tile=(32x64), padding_value = zero, {view}, dim_map=[1, 0]>"
    source = f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %av = make_tensor_view %a, shape = [{rows}, 64], strides = [64, 1] : {view}
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : {plain}
    %tt = make_partition_view %av : {turned}
    %ct = make_partition_view %cv : {OUT}
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %t = make_token : token
    %y, %ty = load_view_tko weak %tt[%zero, %one] token=%t inbounds = [{inside}] : {turned}, tile<i32> -> tile<32x64xf16>, token
    %x, %tx = load_view_tko weak %at[%one, %zero] token=%t : {plain}, tile<i32> -> tile<64x32xf16>, token
    %z = mmaf %x, %y, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    %done = store_view_tko weak %z, %ct[%zero, %zero] token=%t : tile<64x64xf32>, {OUT}, tile<i32> -> token
    return
  }}
}}
"""
    options: Any = {"emit": "ptx", "remarks": {"passed": "all"}, "launch_abi": "simt"}
    done = tileiras.compile(source, gpu_name=gpu_name, **options)
    assert any("it is loaded once" in d.message for d in done.diagnostics)
    a = np.random.default_rng(0).integers(-4, 5, (rows, 64)).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    tileiras.launch(done, "k", 1, [a, out], target="emulator", gpu_name=gpu_name, check=True, seed=1)
    tile = np.zeros((64, 32), np.float32)
    tile[: rows - 64] = a[64:, :32]
    assert (out == tile @ tile.T).all()
