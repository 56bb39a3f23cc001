"""TileAAShortenSteps: loops of other steps than one and other bounds than from zero up go round as often as before."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tileiras.compiler.pipeline import compile_module
from tileiras.compiler.source import load_text
from tileiras.compiler.target import sm
from tileiras.diag import Sink

M, N, K, DEPTH = 64, 64, 256, 4
A, B, C = f"tile<{M}x{K}xf16>", f"tile<{K}x{N}xf16>", f"tile<{M}x{N}xf32>"
CT = f"partition_view<tile=({M}x{N}), tensor_view<{M}x{N}xf32, strides=[{N},1]>>"


def at(name: str, pitch: int, rows: int, columns: int, along: int) -> str:
    """Addresses of the tile number %k along a dimension of an array."""
    shape = f"{rows}x{columns}"
    number = "first" if along == 0 else "none"
    other = "none" if along == 0 else "first"
    return f"""
      %r{name} = iota : tile<{rows}xi32>
      %r1{name} = reshape %r{name} : tile<{rows}xi32> -> tile<{rows}x1xi32>
      %r2{name} = broadcast %r1{name} : tile<{rows}x1xi32> -> tile<{shape}xi32>
      %c{name} = iota : tile<{columns}xi32>
      %c1{name} = reshape %c{name} : tile<{columns}xi32> -> tile<1x{columns}xi32>
      %c2{name} = broadcast %c1{name} : tile<1x{columns}xi32> -> tile<{shape}xi32>
      %n{name} = reshape %{number} : tile<i32> -> tile<1x1xi32>
      %n1{name} = broadcast %n{name} : tile<1x1xi32> -> tile<{shape}xi32>
      %o{name} = reshape %{other} : tile<i32> -> tile<1x1xi32>
      %o1{name} = broadcast %o{name} : tile<1x1xi32> -> tile<{shape}xi32>
      %row{name} = addi %r2{name}, %n1{name} : tile<{shape}xi32>
      %column{name} = addi %c2{name}, %o1{name} : tile<{shape}xi32>
      %w{name} = constant <i32: {pitch}> : tile<{shape}xi32>
      %far{name} = muli %row{name}, %w{name} : tile<{shape}xi32>
      %place{name} = addi %far{name}, %column{name} : tile<{shape}xi32>
      %p1{name} = reshape %p{name} : tile<ptr<f16>> -> tile<1x1xptr<f16>>
      %p2{name} = broadcast %p1{name} : tile<1x1xptr<f16>> -> tile<{shape}xptr<f16>>
      %at{name} = offset %p2{name}, %place{name} : tile<{shape}xptr<f16>>, tile<{shape}xi32> -> tile<{shape}xptr<f16>>
      %v{name}, %t{name} = load_ptr_tko weak %at{name} : tile<{shape}xptr<f16>> -> tile<{shape}xf16>, token"""


def kernel(how: str, step: int) -> str:
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %lo: tile<i32>, %hi: tile<i32>) {{
    %pA = assume div_by<16>, %a : tile<ptr<f16>>
    %pB = assume div_by<16>, %b : tile<ptr<f16>>
    %none = constant <i32: 0> : tile<i32>
    %step = constant <i32: {step}> : tile<i32>
    %deep = constant <i32: {K}> : tile<i32>
    %cv = make_tensor_view %c, shape = [{M}, {N}], strides = [{N}, 1] : tensor_view<{M}x{N}xf32, strides=[{N},1]>
    %ct = make_partition_view %cv : {CT}
    %zero = constant <f32: 0.0> : {C}
    %all = for {how}%k in (%lo to %hi, step %step) : tile<i32> iter_values(%sum = %zero) -> ({C}) {{
      %first = muli %k, %deep : tile<i32>
      {at("A", K * DEPTH, M, K, 1)}
      {at("B", N, K, N, 0)}
      %z = mmaf %vA, %vB, %sum : {A}, {B}, {C}
      continue %z : {C}
    }}
    %u = store_view_tko weak %all, %ct[%none, %none] : {C}, {CT}, tile<i32> -> token
    return
  }}
}}"""


def shortened(text: str) -> bool:
    """Whether the pass takes less of K at a time."""
    found: list[bool] = []

    def after(name: str, module: Any) -> None:
        if name == "TileAAShortenSteps":
            products = [op for op in module.walk() if op.spec.name == "mmaf"]
            found.append(all(op.operands[0].type.shape[1] < K for op in products))

    sink = Sink()
    compile_module(load_text(text, sink, "k.mlir"), sm.find("sm_80"), sink, after=after)
    return found == [True]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("how", ["", "unsigned "], ids=["signed", "unsigned"])
def test_loops_that_begin_beyond_their_end_do_nothing(how: str, step: int) -> None:
    text = kernel(how, step)
    assert shortened(text)
    rng = np.random.default_rng(1)
    a = place(rng.integers(-2, 3, (M, K * DEPTH)).astype(np.float16))
    b = place(rng.integers(-2, 3, (K * DEPTH, N)).astype(np.float16))
    for low, high in ((3, 1), (1, 4), (2, 2)):
        want = np.zeros((M, N), np.float32)
        for k in range(low, high, step):
            part = slice(k * K, (k + 1) * K)
            want += a[:, part].astype(np.float32) @ b[part].astype(np.float32)
        c = place(np.full((M, N), -7, np.float32))
        args = [a, b, c, np.int32(low), np.int32(high)]
        tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80")
        assert np.array_equal(np.array(c), want), (low, high)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_tiles_that_the_counter_does_not_number_along_k_are_cut(gpu_name: str) -> None:
    """Blocks of a sparse matrix, and the rows beside them that a list names: 64 KiB a step, of which no three fit."""
    text = tileiras.compile(bytecode_path(CASES["pointers_sparse_blocks"]), gpu_name=gpu_name).ptx
    (loop,) = [each for each in loops_of(text) if "mma.sync" in each]
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop and "st.shared" not in loop


@pytest.mark.parametrize(("gpu_name", "threads", "kilobytes"), [("sm_90", 256, 48), ("sm_120", 128, 24)])
def test_operands_of_several_loads_are_cut(gpu_name: str, threads: int, kilobytes: int) -> None:
    """A sum of two arrays times a row of factors: 48 KiB a step, of which no three fit on sm_120; on sm_90 four do, as warpgroups
    have the left operand in registers."""
    text = tileiras.compile(bytecode_path(CASES["staged_sums_on_the_way"]), gpu_name=gpu_name).ptx
    (loop,) = [each for each in loops_of(text) if "mma" in each]
    assert loop.count("cp.async.cg") * threads * 16 == kilobytes << 10 and "cp.async.wait_group 0" not in loop


def test_pointers_of_several_loads_of_an_operand_are_cut() -> None:
    text = kernel("", 1)
    second = at("R", K * DEPTH, M, K, 1)
    text = text.replace("%b: tile<ptr<f16>>,", "%b: tile<ptr<f16>>, %r: tile<ptr<f16>>,")
    text = text.replace("%none = ", "%pR = assume div_by<16>, %r : tile<ptr<f16>>\n    %none = ", 1)
    text = text.replace(
        "      %z = mmaf %vA", f"      {second}\n      %x = addf %vA, %vR : {A}\n      %z = mmaf %x"
    )
    assert shortened(text)
    rng = np.random.default_rng(2)
    a, r = (place(rng.integers(-2, 3, (M, K * DEPTH)).astype(np.float16)) for _ in range(2))
    b = place(rng.integers(-2, 3, (K * DEPTH, N)).astype(np.float16))
    out = place(np.full((M, N), -7, np.float32))
    args = [a, b, r, out, np.int32(0), np.int32(DEPTH)]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80")
    assert np.array_equal(out, (a + r).astype(np.float32) @ b.astype(np.float32))


def test_the_number_of_a_tile_has_no_sign_where_it_is_counted_in_parts() -> None:
    """Rows of B in each step: tile 200 in eight bits, beside the tile of A that the counter numbers."""
    rows = 201 * K
    av, bv = (
        f"tensor_view<{M}x{K * DEPTH}xf16, strides=[{K * DEPTH},1]>",
        f"tensor_view<{rows}x{N}xf16, strides=[{N},1]>",
    )
    at, bt = f"partition_view<tile=({M}x{K}), {av}>", f"partition_view<tile=({K}x{N}), {bv}>"
    text = f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %at: tile<i8>) {{
    %pA = assume div_by<16>, %a : tile<ptr<f16>>
    %pB = assume div_by<16>, %b : tile<ptr<f16>>
    %va = make_tensor_view %pA, shape = [{M}, {K * DEPTH}], strides = [{K * DEPTH}, 1] : {av}
    %vb = make_tensor_view %pB, shape = [{rows}, {N}], strides = [{N}, 1] : {bv}
    %vc = make_tensor_view %c, shape = [{M}, {N}], strides = [{N}, 1] : tensor_view<{M}x{N}xf32, strides=[{N},1]>
    %ta = make_partition_view %va : {at}
    %tb = make_partition_view %vb : {bt}
    %tc = make_partition_view %vc : {CT}
    %none = constant <i8: 0> : tile<i8>
    %one = constant <i8: 1> : tile<i8>
    %end = constant <i8: {DEPTH}> : tile<i8>
    %zero = constant <f32: 0.0> : {C}
    %all = for %k in (%none to %end, step %one) : tile<i8> iter_values(%sum = %zero) -> ({C}) {{
      %x, %t = load_view_tko weak %ta[%none, %k] : {at}, tile<i8> -> {A}, token
      %y, %u = load_view_tko weak %tb[%at, %none] : {bt}, tile<i8> -> {B}, token
      %z = mmaf %x, %y, %sum : {A}, {B}, {C}
      continue %z : {C}
    }}
    %w = store_view_tko weak %all, %tc[%none, %none] : {C}, {CT}, tile<i8> -> token
    return
  }}
}}"""
    assert shortened(text)
    rng = np.random.default_rng(0)
    a, b = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((M, K * DEPTH), (rows, N)))
    out = np.zeros((M, N), np.float32)
    tileiras.launch(text, "k", grid=(1,), args=[a, b, out, np.int8(-56)], target="emulator", gpu_name="sm_80")
    want = a.astype(np.float32).reshape(M, DEPTH, K).sum(1) @ b[200 * K :].astype(np.float32)
    assert np.array_equal(out, want)
