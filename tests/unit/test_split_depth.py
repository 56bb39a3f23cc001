"""Attention of 16 queries, each warp with sums of its own keys (TileAASplitDepth): right where warps have no key, and left alone
where the sum of one warp may be no number."""

from __future__ import annotations

from string import Template
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
from tileiras.compiler.passes.loops import split_depth
from tileiras.example_frames import FRAMES, USUAL

TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120"]
WARPS_ALONE = ["sm_80", "sm_120"]  # others have warpgroups or tensor memory
ROWS, KEYS, COLUMNS = 16, 128, 64


def kernel(scale: str) -> str:
    """Softmax of 16 rows, whose sum is scaled by `scale` in each step, of which it stores the sum and the total."""
    s, o, r = f"tile<{ROWS}x{KEYS}xf32>", f"tile<{ROWS}x{COLUMNS}xf32>", f"tile<{ROWS}xf32>"
    column = f"tile<{ROWS}x1xf32>"
    matrix = "tensor_view<?x64xf16, strides=[64,1]>"
    q, kv = (f"partition_view<tile=({n}x64), padding_value = zero, {matrix}>" for n in (ROWS, KEYS))
    out, row = "tensor_view<16x64xf32, strides=[64,1]>", "tensor_view<16xf32, strides=[1]>"
    outs, rows = f"partition_view<tile=(16x64), {out}>", f"partition_view<tile=(16), {row}>"
    return f"""
cuda_tile.module @m {{
  entry @k(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %v: tile<ptr<f16>>, %f: tile<ptr<f32>>, %o: tile<ptr<f32>>,
           %l: tile<ptr<f32>>, %keys: tile<i32>, %steps: tile<i32>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %n = constant <i32: {KEYS}> : tile<i32>
    %queries = constant <i32: {ROWS}> : tile<i32>
    %none = constant <f32: 0.0> : {o}
    %nought = constant <f32: 0.0> : {s}
    %empty = constant <f32: 0.0> : {r}
    %least = constant <f32: -1.0e30> : {r}
    %ones = constant <f32: 1.0> : {r}
    %masked = constant <f32: -1.0e30> : {s}
    %pq = assume div_by<16>, %q : tile<ptr<f16>>
    %pk = assume div_by<16>, %k : tile<ptr<f16>>
    %pv = assume div_by<16>, %v : tile<ptr<f16>>
    %vq = make_tensor_view %pq, shape = [%queries, 64], strides = [64, 1] : tile<i32> -> {matrix}
    %vk = make_tensor_view %pk, shape = [%keys, 64], strides = [64, 1] : tile<i32> -> {matrix}
    %vv = make_tensor_view %pv, shape = [%keys, 64], strides = [64, 1] : tile<i32> -> {matrix}
    %vf = make_tensor_view %f, shape = [16], strides = [1] : {row}
    %vo = make_tensor_view %o, shape = [16, 64], strides = [64, 1] : {out}
    %vl = make_tensor_view %l, shape = [16], strides = [1] : {row}
    %tq = make_partition_view %vq : {q}
    %tk = make_partition_view %vk : {kv}
    %tv = make_partition_view %vv : {kv}
    %tf = make_partition_view %vf : {rows}
    %to = make_partition_view %vo : {outs}
    %tl = make_partition_view %vl : {rows}
    %query, %u0 = load_view_tko weak %tq[%zero, %zero] token = %t : {q}, tile<i32> -> tile<16x64xf16>, token
    %given, %u1 = load_view_tko weak %tf[%zero] token = %t : {rows}, tile<i32> -> {r}, token
    %place = iota : tile<{KEYS}xi32>
    %sum, %top, %total = for %i in (%zero to %steps, step %one) : tile<i32>
        iter_values(%a = %none, %m = %least, %d = %empty) -> ({o}, {r}, {r}) {{
      %key, %u2 = load_view_tko weak %tk[%i, %zero] token = %t : {kv}, tile<i32> -> tile<{KEYS}x64xf16>, token
      %turned = permute %key [1, 0] : tile<{KEYS}x64xf16> -> tile<64x{KEYS}xf16>
      %s = mmaf %query, %turned, %nought : tile<16x64xf16>, tile<64x{KEYS}xf16>, {s}
      %first = muli %i, %n : tile<i32>
      %first1 = reshape %first : tile<i32> -> tile<1xi32>
      %firsts = broadcast %first1 : tile<1xi32> -> tile<{KEYS}xi32>
      %at = addi %firsts, %place : tile<{KEYS}xi32>
      %end1 = reshape %keys : tile<i32> -> tile<1xi32>
      %ends = broadcast %end1 : tile<1xi32> -> tile<{KEYS}xi32>
      %in = cmpi less_than %at, %ends, signed : tile<{KEYS}xi32> -> tile<{KEYS}xi1>
      %in1 = reshape %in : tile<{KEYS}xi1> -> tile<1x{KEYS}xi1>
      %ok = broadcast %in1 : tile<1x{KEYS}xi1> -> tile<16x{KEYS}xi1>
      %w = select %ok, %s, %masked : tile<16x{KEYS}xi1>, {s}
      %best = reduce %w dim=1 identities=[0xFF800000 : f32] : {s} -> {r}
        (%x: tile<f32>, %y: tile<f32>) {{ %z = maxf %x, %y : tile<f32>  yield %z : tile<f32> }}
      %new = maxf %m, %best : {r}
      %new1 = reshape %new : {r} -> {column}
      %news = broadcast %new1 : {column} -> {s}
      %less = subf %w, %news : {s}
      %p = exp2 %less : {s}
      %shrunk = subf %m, %new : {r}
      %factor = exp2 %shrunk : {r}
      %row = reduce %p dim=1 identities=[0.0 : f32] : {s} -> {r}
        (%x: tile<f32>, %y: tile<f32>) {{ %z = addf %x, %y : tile<f32>  yield %z : tile<f32> }}
      %kept = mulf %d, %factor : {r}
      %now = addf %kept, %row : {r}
      %begins = cmpi equal %i, %zero, signed : tile<i32> -> tile<i1>
      %begins1 = reshape %begins : tile<i1> -> tile<1xi1>
      %begun = broadcast %begins1 : tile<1xi1> -> tile<16xi1>
      %late = select %begun, %ones, %given : tile<16xi1>, {r}
      %scale1 = reshape %{scale} : {r} -> {column}
      %scales = broadcast %scale1 : {column} -> {o}
      %scaled = mulf %a, %scales : {o}
      %h = ftof %p : {s} -> tile<16x{KEYS}xf16>
      %value, %u3 = load_view_tko weak %tv[%i, %zero] token = %t : {kv}, tile<i32> -> tile<{KEYS}x64xf16>, token
      %b = mmaf %h, %value, %scaled : tile<16x{KEYS}xf16>, tile<{KEYS}x64xf16>, {o}
      continue %b, %new, %now : {o}, {r}, {r}
    }}
    %w0 = store_view_tko weak %sum, %to[%zero, %zero] token = %t : {o}, {outs}, tile<i32> -> token
    %w1 = store_view_tko weak %total, %tl[%zero] token = %t : {r}, {rows}, tile<i32> -> token
    return
  }}
}}
"""  # fmt: skip


def outcome(scale: str, keys: int, target: str, gpu_name: str, steps: int = 0) -> tuple[Any, Any, Any]:
    """What a kernel stored, and what NumPy computes."""
    rng = np.random.default_rng(keys)
    q = rng.standard_normal((ROWS, COLUMNS)).astype(np.float16)
    k, v = (rng.standard_normal((keys, COLUMNS)).astype(np.float16) for _ in range(2))
    factors = np.where(np.arange(ROWS) % 2, np.inf, 1).astype(np.float32)
    sums, totals = np.zeros((ROWS, COLUMNS), np.float32), np.zeros(ROWS, np.float32)
    steps = steps or -(-keys // KEYS)
    tileiras.launch(
        kernel(scale), "k", 1, [q, k, v, factors, sums, totals, np.int32(keys), np.int32(steps)], target=target,
        gpu_name=gpu_name, **({"check": True, "seed": 1} if target == "emulator" else {}),
    )  # fmt: skip
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    return sums, totals, (weights @ v.astype(np.float64), weights.sum(1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("keys", [1, 40, 128, 300])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_warps_without_a_key(gpu_name: str, keys: int) -> None:
    sums, totals, (want, total) = outcome("factor", keys, "emulator", gpu_name)
    np.testing.assert_allclose(sums, want, rtol=2e-3, atol=2e-3 * np.abs(want).max())
    np.testing.assert_allclose(totals, total, rtol=1e-3)


def split(text: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the pass makes a difference to a kernel."""
    ptx = tileiras.compile(text, gpu_name=gpu_name, emit="ptx").ptx
    with monkeypatch.context() as patch:
        patch.setattr(split_depth, "_worthwhile", lambda *_: None)
        return tileiras.compile(text, gpu_name=gpu_name, emit="ptx").ptx != ptx


@pytest.mark.parametrize("gpu_name", WARPS_ALONE)
def test_only_what_stays_finite_is_split(gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert split(kernel("factor"), gpu_name, monkeypatch)
    assert not split(kernel("late"), gpu_name, monkeypatch)


def barriers(text: str, gpu_name: str) -> int:
    """Of the loop that multiplies."""
    (loop,) = [
        loop
        for loop in loops_of(tileiras.compile(text, gpu_name=gpu_name, emit="ptx").ptx)
        if "mma.sync" in loop
    ]
    return loop.count("bar.sync")


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu_name", WARPS_ALONE)
def test_totals_of_exponentials_meet_behind_the_loop(gpu_name: str) -> None:
    """Only maxima cross shared memory in a step (TileAASumsBehind), and totals, too, where what scales them may be infinite."""
    joined = kernel("factor")
    assert barriers(joined, gpu_name) == 2
    assert barriers(joined.replace("mulf %d, %factor", "mulf %d, %given"), gpu_name) == 4


def test_infinity_times_a_warp_without_keys_is_infinite() -> None:
    got = outcome("late", 40, "emulator", "sm_90", 2)[0]
    assert np.isinf(got[1::2]).all() and np.isfinite(got[::2]).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_a_kernel_of_the_corpus(gpu_name: str) -> None:
    done = launch_case(CASES["attention_full_f16"], "emulator", gpu_name, 300, check=True, seed=3)
    assert done.word == PASS, done.reason


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_warps_share_out_the_depth_of_scores_whose_queries_are_too_many_for_registers(gpu_name: str) -> None:
    """16 rows of 576 columns, 32 keys, four warps: each reads its part of the keys (18 times ldmatrix), its columns of the values
    (16) and scores (2) in the loop, and of the queries none. All queries were 36 more. On sm_90 warpgroups read values and
    scores."""
    case = CASES["staged_latent_512_of_16_rows"]
    ptx = tileiras.compile(bytecode_path(case), gpu_name=gpu_name, emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma.sync" in loop]
    read = 18 if gpu_name == "sm_90" else 36
    assert copying and all(loop.count("ldmatrix") == read for loop in copying)
    assert all(("wgmma" in loop) == (gpu_name == "sm_90") for loop in copying)
    done = launch_case(case, "emulator", gpu_name, 300, check=True, seed=5)
    assert done.word == PASS, done.reason


def test_two_warpgroups_share_out_depth_and_keys() -> None:
    """32 rows of 576 columns, 32 keys: four parts of K by two of the keys, each with its queries in registers (9 times ldmatrix
    for keys); four warps had no room for them beside 128 sums of a thread, and stayed with mma.sync."""
    case = CASES["staged_latent_twice_512_of_32_rows"]
    ptx = tileiras.compile(bytecode_path(case), gpu_name="sm_90", emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma.sync" in loop]
    assert copying and all(loop.count("ldmatrix") == 9 and "wgmma" in loop for loop in copying)
    done = launch_case(case, "emulator", "sm_90", 300, check=True, seed=5)
    assert done.word == PASS, done.reason


def test_warps_that_hold_all_queries_share_out_keys() -> None:
    case = CASES["staged_latent_attention"]  # 16 rows of 160 columns
    ptx = tileiras.compile(bytecode_path(case), gpu_name="sm_80", emit="ptx").ptx
    copying = [loop for loop in loops_of(ptx) if "cp.async" in loop and "mma.sync" in loop]
    assert copying and all(loop.count("bar.sync") == 4 for loop in copying)


@pytest.mark.parametrize("rows", [32, 64])
def test_only_few_rows_are_read_whole_by_each_warp(rows: int) -> None:
    """Of 64 rows a warp has some, whatever their depth, and nothing is said."""
    text = Template(FRAMES["attend"]).substitute({**USUAL["attend"], "rows": rows, "keys": 64, "heads": 512})
    found = tileiras.compile(text, gpu_name="sm_80", emit="ptx", remarks={"missed": "all"}).diagnostics
    assert any("reads all queries" in d.message for d in found) == (rows == 32)


def in_f64() -> str:
    """Attention of 16 rows whose softmax is computed in f64, with totals that begin at 1."""
    text = Template(FRAMES["attend"]).substitute({"rows": "16", "keys": "128", "heads": "64"})
    start, end = text.index("      %r = reduce %s"), text.index("      %ph = ftof")
    softmax = text[start:end]
    for old, new in (
        ("xf32>", "xf64>"), ("tile<f32>", "tile<f64>"), (": f32]", ": f64]"), ("0xff800000", "0xfff0000000000000"),
        ("%s dim", "%sw dim"), ("subf %s,", "subf %sw,"),
        ("%a1 = mulf %acc, %s2 : tile<16x64xf64>",
         "%s3 = ftof %s2 : tile<16x64xf64> -> tile<16x64xf32>\n %a1 = mulf %acc, %s3 : tile<16x64xf32>"),
    ):  # fmt: skip
        softmax = softmax.replace(old, new)
    text = f"{text[:start]}%sw = ftof %s : tile<16x128xf32> -> tile<16x128xf64>\n{softmax}{text[end:]}"
    for old, new in (
        ("%ph = ftof %p : tile<16x128xf32>", "%ph = ftof %p : tile<16x128xf64>"),
        ("tile<16xf32>, tile<16xf32>", "tile<16xf64>, tile<16xf64>"),
        ("%low = constant <f32: 0xff800000> : tile<16xf32>", "%low = constant <f64: 0xfff0000000000000> : tile<16xf64>"),
        ("%empty = constant <f32: 0.0> : tile<16xf32>", "%empty = constant <f64: 1.0> : tile<16xf64>"),
        ("%n1 = reshape %norm", "%n0 = ftof %norm : tile<16xf64> -> tile<16xf32>\n %n1 = reshape %n0"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_totals_of_f64_that_begin_at_a_number_stay_whole(gpu_name: str) -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.uniform(-1, 1, (256, 64)).astype(np.float16) for _ in range(3))
    out = np.zeros((256, 64), np.float32)
    program = tileiras.compile(in_f64(), gpu_name=gpu_name, emit="ptx", launch_abi="simt")
    arguments = [q, k, v, out, np.int32(256)]
    tileiras.launch(
        program, "attend", 16, arguments, target="emulator", gpu_name=gpu_name, check=True, seed=1
    )
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    p = np.exp(scores - scores.max(1, keepdims=True))
    assert np.allclose(out, p @ v.astype(np.float64) / p.sum(1, keepdims=True), rtol=5e-3, atol=5e-3)
