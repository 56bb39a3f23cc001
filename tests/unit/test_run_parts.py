"""Tile blocks whose loops carry more than registers hold: parts, one behind the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import tileiras
from tests.corpus import check as corpus
from tests.corpus.registry import CASES
from tileiras.tools import opt

HUGE = "large_matmul_256x256x64"


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
