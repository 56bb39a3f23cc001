"""Products of few rows: computed transposed (TileAATurnFewRows) by the target's own products, or with a part of K for each warp
(TileAASplitDepth). Right in every layout, ragged."""

from __future__ import annotations

from string import Template
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import numpy as np

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tileiras.compiler.schedule import depth_parts
from tileiras.example_frames import FRAMES, USUAL

TYPES = {"f16": np.float16, "i8": np.int8, "f8E4M3FN": ml_dtypes.float8_e4m3fn}
STEPS = 5


def kernel(m: int, n: int, k: int, elem: str, at: bool, bt: bool, start: int = 2) -> str:
    """C = 2 + A B, of which A lies with M contiguous (`at`), or B with K (`bt`)."""
    acc = "i32" if elem == "i8" else "f32"
    matrix, out = f"tensor_view<?x?x{elem}, strides=[?,1]>", f"tensor_view<?x?x{acc}, strides=[?,1]>"

    def side(name: str, rows: int, columns: int, turned: bool, row: str, column: str) -> tuple[str, str]:
        if turned:
            rows, columns, row, column = columns, rows, column, row
        view = f"partition_view<tile=({rows}x{columns}), padding_value = zero, {matrix}>"
        made = f"%t{name} = make_partition_view %v{name} : {view}"
        load = f"%l{name}, %k{name} = load_view_tko weak %t{name}[{row}, {column}] token = %t : {view}, tile<i32>"
        load += f" -> tile<{rows}x{columns}x{elem}>, token\n"
        kinds = f"tile<{rows}x{columns}x{elem}> -> tile<{columns}x{rows}x{elem}>"
        load += f"%{name} = permute %l{name} [1, 0] : {kinds}" if turned else f"%{name} = reshape %l{name} : "
        return (
            made,
            load if turned else load + f"tile<{rows}x{columns}x{elem}> -> tile<{rows}x{columns}x{elem}>",
        )

    make_a, load_a = side("a", m, k, at, "%x", "%i")
    make_b, load_b = side("b", k, n, bt, "%i", "%y")
    product = "mmai %a, %b, %acc signed unsigned" if elem == "i8" else "mmaf %a, %b, %acc"
    kinds = f"tile<{m}x{k}x{elem}>, tile<{k}x{n}x{elem}>, tile<{m}x{n}x{acc}>"
    ways = ["%depth, %rows" if at else "%rows, %depth", "%columns, %depth" if bt else "%depth, %columns"]
    stored = f"partition_view<tile=({m}x{n}), {out}>"
    begin = f"i32: {start}" if elem == "i8" else f"f32: {start}.0"
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<{elem}>>, %q: tile<ptr<{elem}>>, %o: tile<ptr<{acc}>>, %rows: tile<i32>, %depth: tile<i32>,
           %columns: tile<i32>, %sa: tile<i32>, %sb: tile<i32>, %steps: tile<i32>) {{
    %pa = assume div_by<16>, %p : tile<ptr<{elem}>>
    %qa = assume div_by<16>, %q : tile<ptr<{elem}>>
    %s1 = assume div_by<16>, %sa : tile<i32>
    %s2 = assume div_by<16>, %sb : tile<i32>
    %t = make_token : token
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = constant <{begin}> : tile<{m}x{n}x{acc}>
    %va = make_tensor_view %pa, shape = [{ways[0]}], strides = [%s1, 1] : tile<i32> -> {matrix}
    %vb = make_tensor_view %qa, shape = [{ways[1]}], strides = [%s2, 1] : tile<i32> -> {matrix}
    %vo = make_tensor_view %o, shape = [%rows, %columns], strides = [%columns, 1] : tile<i32> -> {out}
    {make_a}
    {make_b}
    %to = make_partition_view %vo : {stored}
    %d = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<{m}x{n}x{acc}>) {{
      {load_a}
      {load_b}
      %e = {product} : {kinds}
      continue %e : tile<{m}x{n}x{acc}>
    }}
    %w = store_view_tko weak %d, %to[%x, %y] token = %t : tile<{m}x{n}x{acc}>, {stored}, tile<i32> -> token
    return
  }}
}}
"""  # fmt: skip


def run(
    tile: tuple[int, int, int], elem: str, at: bool, bt: bool, gpu_name: str, start: int = 2, **more: Any
) -> str:
    """PTX of a kernel that multiplied ragged matrices by two blocks along each side."""
    m, n, k = tile
    text = kernel(m, n, k, elem, at, bt, start)
    program = tileiras.compile(text, gpu_name=gpu_name, emit="ptx", launch_abi="simt", **more)
    rows, columns, depth = m + 5, n + 16, STEPS * k - 16
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (rows, depth))
    b = rng.integers(0 if elem == "i8" else -4, 5, (depth, columns))
    given = []
    for value in (a.T if at else a, b.T if bt else b):
        padded = np.pad(value, ((0, 0), (0, -value.shape[1] % 16)))
        given.append(np.ascontiguousarray(padded.astype(TYPES[elem])))
    out = np.zeros((rows, columns), np.int32 if elem == "i8" else np.float32)
    numbers = (rows, depth, columns, given[0].shape[1], given[1].shape[1], STEPS)
    tileiras.launch(
        program, "k", (2, 2), [*given, out, *map(np.int32, numbers)], target="emulator", gpu_name=gpu_name,
        check=True, seed=1,
    )  # fmt: skip
    assert (out == a @ b + start).all()
    return program.ptx


@pytest.mark.sampled(3)
@pytest.mark.parametrize("at, bt", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_halves_in_every_layout(gpu_name: str, at: int, bt: int) -> None:
    ptx = run((32, 64, 64), "f16", bool(at), bool(bt), gpu_name)
    assert ("wgmma.mma_async" if gpu_name == "sm_90" else "tcgen05.mma") in ptx


@pytest.mark.sampled(3)
@pytest.mark.parametrize("elem", ["i8", "f8E4M3FN"])
@pytest.mark.parametrize("tile", [(16, 128, 64), (32, 256, 32)])
def test_bytes_in_tensor_memory(tile: tuple[int, int, int], elem: str) -> None:
    assert "tcgen05.mma" in run(tile, elem, False, True, "sm_100")


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_boxes_bring_them_too(gpu_name: str) -> None:
    assert "cp.async.bulk.tensor" in run((32, 128, 64), "f16", False, False, gpu_name, tensor_maps="launcher")


def read(ptx: str) -> int:
    """Loads of fragments in a step."""
    (loop,) = [loop for loop in loops_of(ptx) if "mma.sync" in loop and "cp.async" in loop]
    return loop.count("ldmatrix")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_warps_read_a_part_of_k_each(gpu_name: str) -> None:
    """16x32x256, four warps: of its part of K a warp reads 4 fragments of the left operand and 8 of the right one, no longer all
    16 of the left one."""
    assert read(run((16, 32, 256), "f16", False, True, gpu_name, start=0)) == 12


@pytest.mark.sampled(8)
@pytest.mark.parametrize("at, bt", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("elem", ["f16", "i8", "f8E4M3FN"])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_parts_of_k_in_every_layout(gpu_name: str, elem: str, at: int, bt: int) -> None:
    run((16, 32, 128), elem, bool(at), bool(bt), gpu_name, start=0)


def test_two_parts_of_k_where_all_would_be_too_many_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """64x128x64: 64 fragments of sums for each of two pairs of warps."""
    assert "mma.sync" in run((64, 128, 64), "f16", False, False, "sm_80", start=0)
    assert parts((64, 128, 64), "sm_80", 0, monkeypatch) == {2}
    assert parts((16, 32, 128), "sm_80", 0, monkeypatch) == {4}


def test_sums_that_begin_at_a_number_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts((16, 32, 128), "sm_80", 2, monkeypatch) == {1}


@pytest.mark.parametrize("at, bt", [(0, 0), (0, 1), (1, 1)])
def test_bytes_are_read_in_parts_where_they_lie_along_k(
    at: int, bt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = kernel(16, 32, 256, "i8", bool(at), bool(bt), 0)
    assert parts_of(text, "sm_80", monkeypatch) == {4 if bt and not at else 1}


def parts(tile: tuple[int, int, int], gpu_name: str, start: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Into how many parts warps divide K."""
    return parts_of(kernel(*tile, "f16", False, False, start), gpu_name, monkeypatch)


def parts_of(text: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    found, decide = set(), depth_parts.parts_of_depth

    def spy(*args: Any) -> int:
        found.add(decide(*args))
        return decide(*args)

    with monkeypatch.context() as patch:
        patch.setattr(depth_parts, "parts_of_depth", spy)
        tileiras.compile(text, gpu_name=gpu_name, emit="ptx")
    return found


def test_where_neither_side_has_rows_enough_nothing_turns() -> None:
    for gpu_name, tile in (("sm_100", (32, 32, 64)), ("sm_80", (32, 64, 64))):
        ptx = run(tile, "f16", False, False, gpu_name)
        assert "tcgen05.mma" not in ptx and "mma.sync" in ptx


BACKWARD = ("staged_flash_bwd_f16_few", "staged_flash_bwd_dq_f16_few", "staged_flash_bwd_fused_f16_128")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BACKWARD)
def test_scores_of_few_rows_turn_beside_their_sums(name: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_100", emit="ptx").ptx
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    done = launch_case(CASES[name], "emulator", "sm_100", 300, check=True, seed=3)
    assert done.word == PASS, done.reason


DECODING = (
    "staged_latent_512_of_16_rows",
    "staged_latent_256_of_32_rows",
    "staged_latent_attention",
    "staged_latent_twice_256_of_16_rows",  # two stages fit
    "staged_wide_heads_256_of_32_rows",  # a queue of three slots
)


@pytest.mark.parametrize("name", DECODING)
def test_scores_whose_rows_are_reduced_have_copies_of_their_queries_in_tensor_memory(name: str) -> None:
    """Turned, the maximum of a row would meet across lanes and warps. Each warp has whole rows of the scores, and no thread reads
    an operand from shared memory."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_100", emit="ptx").ptx
    assert "mma.sync" not in ptx and "ldmatrix" not in ptx
    assert "tcgen05.st.sync.aligned.16x32bx2" in ptx.partition("tcgen05.mma")[0]
    done = launch_case(CASES[name], "emulator", "sm_100", 300, check=True, seed=3)
    assert done.word == PASS, done.reason


@pytest.mark.parametrize("name", ["staged_latent_attention", "flash_cross", "staged_latent_256_beside_128"])
def test_scores_whose_rows_are_reduced_have_copies_of_their_queries_in_registers(name: str) -> None:
    """Each warp of a warpgroup has whole rows of the scores."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma" in loop]
    assert copying and all(
        "wgmma" in loop and "ldmatrix" not in loop and "mma.sync" not in loop for loop in copying
    )
    done = launch_case(CASES[name], "emulator", "sm_90", 300, check=True, seed=3)
    assert done.word == PASS, done.reason


TURNED = {
    "staged_latent_twice_512": "copies take 240 registers of a thread",
    "staged_latent_256_of_32_rows": "copies take 912 clocks, and keys come in 576",
    "staged_wide_heads_512_of_16_rows": "copies take 192 registers; keys and values queue",
    "staged_wide_heads_256_of_32_rows": "copies take 192 registers; two warpgroups share 128 keys",
}


@pytest.mark.parametrize("name", TURNED)
def test_scores_of_which_copies_do_not_pay_multiply_transposed(name: str) -> None:
    """Keys are rows of the product; only maxima and exponentials cross shared memory, sums of exponentials behind the loop."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma" in loop]
    assert copying and all(
        "wgmma" in loop and "ldmatrix" not in loop and "mma.sync" not in loop for loop in copying
    )
    assert all(loop.count("bar.sync") <= 4 for loop in copying)
    done = launch_case(CASES[name], "emulator", "sm_90", 300, check=True, seed=3)
    assert done.word == PASS, done.reason


ATTEND = Template(FRAMES["attend"]).substitute({**USUAL["attend"], "rows": "32"})
WARPS = "optimization_hints = <default = {num_worker_warps_per_cta = 8}>"


def attend(source: str, gpu_name: str) -> str:
    """PTX of attention of 32 rows that was right."""
    program = tileiras.compile(source, gpu_name=gpu_name, emit="ptx", launch_abi="simt")
    rng = np.random.default_rng(0)
    q, k, v = (rng.uniform(-1, 1, (300, 128)).astype(np.float16) for _ in range(3))
    out = np.zeros((300, 128), np.float32)
    args = [q, k, v, out, np.int32(300)]
    tileiras.launch(program, "attend", (10,), args, target="emulator", gpu_name=gpu_name, check=True, seed=1)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.exp(np.pad(q @ k.T, ((0, 0), (0, 84))))  # keys beyond the last one are zeros
    np.testing.assert_allclose(out, scores[:, :300] @ v / scores.sum(1, keepdims=True), rtol=2e-3, atol=2e-3)
    return program.ptx


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_scores_of_few_rows_stay_where_a_hint_wants_more_warps(gpu_name: str) -> None:
    assert "mma.sync" not in attend(ATTEND, gpu_name)
    hinted = attend(ATTEND.replace(") {", f") {WARPS} {{", 1), gpu_name)
    assert "tcgen05.mma" not in hinted and "wgmma" not in hinted and "mma.sync" in hinted


def test_copies_of_queries_that_registers_do_not_hold_are_read_as_fragments() -> None:
    """Where more blocks are to reside, queries wait in shared memory, as 32 rows, which no descriptor makes 64: an error."""
    blocks = "optimization_hints = <default = {occupancy = 6}>"
    ptx = attend(ATTEND.replace(") {", f") {blocks} {{", 1), "sm_90")
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma" in loop]
    assert copying and all("ldmatrix" in loop and "wgmma" in loop for loop in copying)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_warps_share_out_keys_where_rows_are_too_few_for_all(gpu_name: str) -> None:
    """32 rows of queries, four warps: each has all rows, and reads a quarter of the keys (8 times ldmatrix) and of
    the values (8), whose scores cross shared memory (8). Two by two they would read halves (16 and 16, and 4)."""
    case = CASES["flash_cross"]
    ptx = tileiras.compile(bytecode_path(case), gpu_name=gpu_name, emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma.sync" in loop]
    assert copying and all(loop.count("ldmatrix") == 24 for loop in copying)
    once = 4 + (gpu_name == "sm_120")  # maxima and scores, and a second wait; totals meet behind the loop
    assert all(loop.count("bar.sync") == once for loop in copying)
    done = launch_case(case, "emulator", gpu_name, 300, check=True, seed=3)
    assert done.word == PASS, done.reason


def test_accumulators_of_64_rows_share_columns_beside_those_of_128() -> None:
    """Three scores of 64x128 and two sums of 128x128: 640 columns alone, of 512."""
    case = CASES["staged_flash_bwd_fused_wide"]
    ptx = tileiras.compile(bytecode_path(case), gpu_name="sm_100", emit="ptx").ptx
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx
    done = launch_case(case, "emulator", "sm_100", 300, check=True, seed=3)
    assert done.word == PASS, done.reason


VIEWS = (
    "partition_view<tile=(16x64), tensor_view<16x512xf16, strides=[512,1]>>",
    "partition_view<tile=(128x128), tensor_view<512x128xf16, strides=[128,1]>>",
    "partition_view<tile=(16x128), tensor_view<16x128xf32, strides=[128,1]>>",
)
HALVES = f"""
cuda_tile.module @m attributes {{tt.num_warps = 8 : i32}} {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %out: tile<ptr<f32>>, %steps: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %va = make_tensor_view %pa, shape = [16, 512], strides = [512, 1] : tensor_view<16x512xf16, strides=[512,1]>
    %vb = make_tensor_view %pb, shape = [512, 128], strides = [128, 1] : tensor_view<512x128xf16, strides=[128,1]>
    %vo = make_tensor_view %out, shape = [16, 128], strides = [128, 1] : tensor_view<16x128xf32, strides=[128,1]>
    %ta = make_partition_view %va : {VIEWS[0]}
    %tb = make_partition_view %vb : {VIEWS[1]}
    %to = make_partition_view %vo : {VIEWS[2]}
    %start = constant <f32: 0.0> : tile<16x128xf32>
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<16x128xf32>) {{
      %x, %t0 = load_view_tko weak %ta[%zero, %i] : {VIEWS[0]}, tile<i32> -> tile<16x64xf16>, token
      %tile = divi %i, %two signed : tile<i32>
      %part = remi %i, %two signed : tile<i32>
      %y, %t1 = load_view_tko weak %tb[%tile, %zero] : {VIEWS[1]}, tile<i32> -> tile<128x128xf16>, token
      %half = extract %y[%part, %zero] : tile<128x128xf16> -> tile<64x128xf16>
      %next = mmaf %x, %half, %acc : tile<16x64xf16>, tile<64x128xf16>, tile<16x128xf32>
      continue %next : tile<16x128xf32>
    }}
    %t2 = store_view_tko weak %sum, %to[%zero, %zero] : tile<16x128xf32>, {VIEWS[2]}, tile<i32> -> token
    return
  }}
}}
"""


def test_a_half_of_a_loaded_tile_leaves_room_for_its_exchange() -> None:
    """Two buffers for the operand that is computed, where the block of the tile goes through shared memory as well, did not
    fit beside the stages: an error on sm_100."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((16, 512)).astype(np.float16)
    b = rng.standard_normal((512, 128)).astype(np.float16)
    out = np.zeros((16, 128), np.float32)
    tileiras.launch(HALVES, "k", (1, 1, 1), [a, b, out, 8], target="emulator", gpu_name="sm_100", check=True)
    np.testing.assert_allclose(out, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-3, atol=1e-3)
