"""Rows and columns beside sums, scales and a bias, cross shared memory together, and nothing crosses it that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tileiras.compiler import pipeline
from tileiras.compiler.source import load
from tileiras.compiler.target import sm
from tileiras.diag import Sink

if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SUMS, ROWS, COLUMNS = "tile<128x256xf32>", "tile<128x1xf32>", "tile<1x256xf32>"
VIEWS = {
    "a": ("?x64xf16, strides=[64,1]", "128x32"),
    "b": ("64x?xf16, strides=[256,1]", "32x256"),
    "u": ("?x1xf32, strides=[1,1]", "128x1"),
    "v": ("1x?xf32, strides=[256,1]", "1x256"),
    "w": ("1x?xf32, strides=[256,1]", "1x256"),
    "c": ("?x?xf32, strides=[256,1]", "128x256"),
}
SHAPES = {"a": "%m, 64", "b": "64, %n", "u": "%m, 1", "v": "1, %n", "w": "1, %n", "c": "%m, %n"}


def text() -> str:
    """Sums times a scale of each row and one of each column, with a bias."""
    entry = ", ".join(f"%{name}: tile<ptr<{'f16' if name in 'ab' else 'f32'}>>" for name in VIEWS)
    lines = [f"cuda_tile.module @m {{ entry @k({entry}, %m: tile<i32>, %n: tile<i32>) {{"]
    lines += ["%i:3 = get_tile_block_id : tile<i32>", "%zero = constant <i32: 0> : tile<i32>"]
    lines += ["%one = constant <i32: 1> : tile<i32>", "%two = constant <i32: 2> : tile<i32>"]
    types = {}
    for name, (view, tile) in VIEWS.items():
        type = f"tensor_view<{view}>"
        types[name] = f"partition_view<tile=({tile}), padding_value = zero, {type}>"
        strides = view.partition("strides=")[2].replace(",", ", ")
        element = "f16" if name in "ab" else "f32"
        sizes = [word for word in SHAPES[name].split(", ") if word[0] == "%"]
        lines += [
            f"%{name}p = assume div_by<16>, %{name} : tile<ptr<{element}>>",
            f"%{name}v = make_tensor_view %{name}p, shape = [{SHAPES[name]}], strides = {strides}"
            f" : {'tile<i32> -> ' if sizes else ''}{type}",
            f"%{name}t = make_partition_view %{name}v : {types[name]}",
        ]
    lines += [f"%none = constant <f32: 0.0> : {SUMS}"]
    lines += [
        f"%sum = for %k in (%zero to %two, step %one) : tile<i32> iter_values(%s = %none) -> ({SUMS}) {{"
    ]
    lines += [
        f"%x, %t0 = load_view_tko weak %at[%i#0, %k] : {types['a']}, tile<i32> -> tile<128x32xf16>, token",
        f"%y, %t1 = load_view_tko weak %bt[%k, %zero] : {types['b']}, tile<i32> -> tile<32x256xf16>, token",
        f"%next = mmaf %x, %y, %s : tile<128x32xf16>, tile<32x256xf16>, {SUMS}",
        f"continue %next : {SUMS}",
        "}",
    ]

    def small(name: str, tile: str) -> list[str]:
        place = "%i#0, %zero" if tile == ROWS else "%zero, %zero"
        return [
            f"%{name}x, %{name}k = load_view_tko weak %{name}t[{place}] : {types[name]}, tile<i32> -> {tile}, token",
            f"%{name}s = broadcast %{name}x : {tile} -> {SUMS}",
        ]

    lines += [
        *small("u", ROWS),
        *small("v", COLUMNS),
        f"%scale = mulf %us, %vs : {SUMS}",
        *small("w", COLUMNS),
    ]
    lines += [f"%scaled = mulf %sum, %scale : {SUMS}", f"%all = addf %scaled, %ws : {SUMS}"]
    lines += [f"%t9 = store_view_tko weak %all, %ct[%i#0, %zero] : {SUMS}, {types['c']}, tile<i32> -> token"]
    return "\n".join([*lines, "}", "}", ""])


def ops(gpu_name: str) -> list[Op]:
    """All ops of the kernel's nv_tileas text."""
    sink = Sink()
    module = load(text().encode(), sink, file="k.mlir")
    tileas = pipeline.compile_module(module, sm.find(gpu_name), sink).tileas
    assert tileas is not None
    return list(tileas.walk())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_scaled_sums_with_a_bias_are_right_at_edges(gpu_name: str) -> None:
    rng = np.random.default_rng(5)
    m, n = 168, 256 - 24
    a: Any = rng.integers(-3, 4, (m, 64)).astype(np.float16)
    b: Any = rng.integers(-3, 4, (64, 256)).astype(np.float16)
    u, v, w = (rng.integers(-4, 5, size).astype(np.float32) for size in (m, 256, 256))
    c: Any = np.full((m, 256), 7, np.float32)
    args = [a, b, u, v, w, c, m, n]
    tileiras.launch(text(), "k", 2, args, target="emulator", gpu_name=gpu_name, check=True)
    want = (a.astype(np.float32) @ b.astype(np.float32)) * (u[:, None] * v) + w
    want[:, n:] = 7
    assert (c == want).all()


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_nothing_changes_its_layout_for_nobody(gpu_name: str) -> None:
    assert [
        op for op in ops(gpu_name) if "convert_layout" in op.name and not any(r.uses for r in op.results)
    ] == []


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_what_changes_its_layout_does_so_together(gpu_name: str) -> None:
    found = ops(gpu_name)
    (joined,) = [op for op in found if op.spec.name == "convert_layouts"]
    assert len(joined.results) >= 2
    small = [
        op for op in found if op.attr("plan") == "shared" and op.results and op.results[0].type.layout.inv
    ]  # type: ignore[attr-defined]
    assert [op for op in small if op.spec.name == "convert_layout"] == []
