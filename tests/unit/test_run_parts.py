"""Tile blocks whose loops carry more than registers hold: parts, one behind the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras
from tests import peers
from tests.corpus import check as corpus
from tests.corpus.registry import CASES
from tileiras.tools import opt

HUGE = "large_matmul_256x256x64"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", [HUGE, "museum_product_256_cubed"])
def test_parts_compute_the_same(name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = tileiras.launch

    def watched(source: object, *args: object, **options: object) -> None:
        launch(source, *args, **{**options, "check": True})  # type: ignore[arg-type]

    monkeypatch.setattr(tileiras, "launch", watched)
    assert corpus.launch_case(CASES[name], "emulator", gpu_name, 300).word == corpus.PASS


def lifted(source: str, tmp_path: Path, *more: str) -> str:
    path, out = tmp_path / "k.tileir", tmp_path / "k.tileaa"
    path.write_text(source)
    assert opt.main([str(path), "--gpu-name", "sm_90", "--pipeline-to", "tileaa", "-o", str(out), *more]) == 0
    return out.read_text()


def product(columns: int, tail: str = "") -> str:
    """A product of 128 rows over K; `tail` stands behind the store."""
    views = {
        name: f"tensor_view<{m}x{n}x{elem}, strides=[{n},1]>"
        for name, m, n, elem in (
            ("a", 128, 4096, "f16"),
            ("b", 4096, columns, "f16"),
            ("c", 128, columns, "f32"),
        )
    }
    tiles = {"a": (128, 64), "b": (64, columns), "c": (128, columns)}
    parts = {name: f"partition_view<tile=({m}x{n}), {views[name]}>" for name, (m, n) in tiles.items()}
    made = [
        line
        for name, m, n in (("a", 128, 4096), ("b", 4096, columns), ("c", 128, columns))
        for line in (
            f"%v{name} = make_tensor_view %{name}, shape = [{m}, {n}], strides = [{n}, 1] : {views[name]}",
            f"%p{name} = make_partition_view %v{name} : {parts[name]}",
        )
    ]
    acc = f"tile<128x{columns}xf32>"
    return "\n".join((
        "cuda_tile.module @m {",
        "entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {",
        "%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
        f"%start = constant <f32: 0.0> : {acc}", *made,
        f"%sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> ({acc}) {{",
        f"%x, %tx = load_view_tko weak %pa[%zero, %i] : {parts['a']}, tile<i32> -> tile<128x64xf16>, token",
        f"%y, %ty = load_view_tko weak %pb[%i, %zero] : {parts['b']}, tile<i32> -> tile<64x{columns}xf16>, token",
        f"%e = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x{columns}xf16>, {acc}",
        f"continue %e : {acc}", "}",
        f"%s = store_view_tko weak %sum, %pc[%zero, %zero] : {acc}, {parts['c']}, tile<i32> -> token",
        tail, "return", "}", "}", "",
    ))  # fmt: skip


def carried(text: str) -> set[str]:
    return set(
        re.findall(
            r"-> tensor<(\w+)xf32>", "\n".join(line for line in text.splitlines() if "aa.mmaf" in line)
        )
    )


def test_what_a_loop_carries_is_halved_until_registers_hold_it(tmp_path: Path) -> None:
    assert carried(lifted(product(256), tmp_path)) == {"128x256"}
    assert carried(lifted(product(512), tmp_path)) == {"64x512"}
    assert carried(lifted(product(1024), tmp_path)) <= {"32x1024", "1024x32"}  # or turned


def test_blocks_with_effects_that_would_come_twice_stay_whole(tmp_path: Path) -> None:
    whole = lifted(product(512, '%d = print_tko "done %d", %n : tile<i32> -> token'), tmp_path)
    assert "64x512" not in carried(whole) and "aa.for" in whole


def gated(m: int, n: int) -> str:
    """Two products of one left operand in a loop over K: gate and value of a gated unit."""
    k, depth = 32, 128
    extents = {"a": (m, depth), "b": (depth, n), "c": (depth, n), "o": (m, n)}
    tiles = {"a": (m, k), "b": (k, n), "c": (k, n), "o": (m, n)}
    elems = {"a": "f16", "b": "f16", "c": "f16", "o": "f32"}
    views = {x: f"tensor_view<{h}x{w}x{elems[x]}, strides=[{w},1]>" for x, (h, w) in extents.items()}
    parts = {x: f"partition_view<tile=({h}x{w}), {views[x]}>" for x, (h, w) in tiles.items()}
    acc, left, right = f"tile<{m}x{n}xf32>", f"tile<{m}x{k}xf16>", f"tile<{k}x{n}xf16>"
    made = [
        line
        for x, (h, w) in extents.items()
        for line in (
            f"%q{x} = assume div_by<16>, %{x} : tile<ptr<{elems[x]}>>",
            f"%v{x} = make_tensor_view %q{x}, shape = [{h}, {w}], strides = [{w}, 1] : {views[x]}",
            f"%p{x} = make_partition_view %v{x} : {parts[x]}",
        )
    ]
    return "\n".join((
        "cuda_tile.module @m {",
        f"entry @k({', '.join(f'%{x}: tile<ptr<{elems[x]}>>' for x in extents)}) {{",
        *made,
        "%zero = constant <i32: 0> : tile<i32>",
        "%one = constant <i32: 1> : tile<i32>",
        f"%steps = constant <i32: {depth // k}> : tile<i32>",
        f"%none = constant <f32: 0.0> : {acc}",
        f"%r:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%f = %none, %g = %none) -> ({acc}, {acc}) {{",
        f"  %x, %t = load_view_tko weak %pa[%zero, %i] : {parts['a']}, tile<i32> -> {left}, token",
        f"  %y, %u = load_view_tko weak %pb[%i, %zero] : {parts['b']}, tile<i32> -> {right}, token",
        f"  %z, %w = load_view_tko weak %pc[%i, %zero] : {parts['c']}, tile<i32> -> {right}, token",
        f"  %d = mmaf %x, %y, %f : {left}, {right}, {acc}",
        f"  %e = mmaf %x, %z, %g : {left}, {right}, {acc}",
        f"  continue %d, %e : {acc}, {acc}",
        "}",
        f"%h = mulf %r#0, %r#1 : {acc}",
        f"%s = store_view_tko weak %h, %po[%zero, %zero] : {acc}, {parts['o']}, tile<i32> -> token",
        "return",
        "}",
        "}",
    ))  # fmt: skip


@pytest.mark.parametrize("m, n", [(256, 128), (128, 256)])
def test_two_sums_that_registers_do_not_hold_together_run_as_parts(m: int, n: int) -> None:
    """Each of them fits: products of warpgroups were serialised, and sums spilled in each step."""
    peers.require("ptxas")
    text = gated(m, n)
    program = tileiras.compile(text, gpu_name="sm_90", launch_abi="simt")
    assert not [d.text for d in program.diagnostics if "ptxas" in str(d.text)]
    assert program.kernels["k"].spill_bytes == 0 and "wgmma.mma_async" in program.ptx
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-2, 3, s).astype(np.float16) for s in ((m, 128), (128, n), (128, n)))
    out = np.zeros((m, n), np.float32)
    tileiras.launch(program, "k", 1, [a, b, c, out], target="emulator", gpu_name="sm_90", check=True, seed=1)
    x, y, z = (v.astype(np.float32) for v in (a, b, c))
    assert (out == (x @ y) * (x @ z)).all()


def test_sums_in_tensor_memory_stay_together() -> None:
    ptx = tileiras.compile(gated(128, 256), gpu_name="sm_100", emit="ptx").ptx
    assert re.search(r"tcgen05\.alloc[^\n]*, %r\d+;", ptx) and ", 512;" in ptx
