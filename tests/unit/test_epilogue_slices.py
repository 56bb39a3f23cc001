"""A tile that is loaded beside the sums of a product is taken in slices of rows with them, where memory allows it; or in parts of
each thread's registers, where sums are stored as they lie, and rows and columns both belong to warps."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.compiler import pipeline
from tileiras.compiler.passes.tileas.epilogue import Epilogue
from tileiras.compiler.source import load
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.diag import Sink

M, N, K = 64, 128, 32
C = "tensor_view<128x128xf16, strides=[128,1]>"
PC = f"partition_view<tile=({M}x{N}), padding_value = zero, {C}>"
TILE = f"tile<{M}x{N}xf16>"


def kernel(
    loaded: str, token: str, between: str = "", index: str = "%i", begin: str = "", end: str = ""
) -> str:
    """`out = 2 * A @ B + loaded`; the store waits for `token`. `begin`, `end`: what stands around load and store."""
    va, vb = "tensor_view<128x32xf16, strides=[32,1]>", "tensor_view<32x128xf16, strides=[128,1]>"
    a, b = f"partition_view<tile=({M}x{K}), {va}>", f"partition_view<tile=({K}x{N}), {vb}>"
    sums = f"tile<{M}x{N}xf32>"
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f16>>, %o: tile<ptr<f16>>) {{
    %z = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %i, %j, %l = get_tile_block_id : tile<i32>
    %nil = constant <f32: 0.0> : {sums}
    %none = constant <f16: 0.0> : {TILE}
    %two = constant <f32: 2.0> : {sums}
    %ap = assume div_by<16>, %a : tile<ptr<f16>>
    %bp = assume div_by<16>, %b : tile<ptr<f16>>
    %cp = assume div_by<16>, %c : tile<ptr<f16>>
    %op = assume div_by<16>, %o : tile<ptr<f16>>
    %va = make_tensor_view %ap, shape = [128, 32], strides = [32, 1] : {va}
    %vb = make_tensor_view %bp, shape = [32, 128], strides = [128, 1] : {vb}
    %vc = make_tensor_view %cp, shape = [128, 128], strides = [128, 1] : {C}
    %vo = make_tensor_view %op, shape = [128, 128], strides = [128, 1] : {C}
    %pa = make_partition_view %va : {a}
    %pb = make_partition_view %vb : {b}
    %pc = make_partition_view %vc : {PC}
    %po = make_partition_view %vo : {PC}
    %x, %t = load_view_tko weak %pa[%i, %z] : {a}, tile<i32> -> tile<{M}x{K}xf16>, token
    %y, %u = load_view_tko weak %pb[%z, %z] : {b}, tile<i32> -> tile<{K}x{N}xf16>, token
    %s = mmaf %x, %y, %nil : tile<{M}x{K}xf16>, tile<{K}x{N}xf16>, {sums}
    {begin}
    %low, %read = load_view_tko weak {loaded}[{index}, %z] : {PC}, tile<i32> -> {TILE}, token
    {between}
    %old = ftof %low : {TILE} -> {sums}
    %wide = fma %two, %s, %old : {sums}
    %r = ftof %wide : {sums} -> {TILE}
    %w = store_view_tko weak %r, %po[%i, %z] token = {token} : {TILE}, {PC}, tile<i32> -> token
    {end}
    return
  }}
}}
"""


APART = kernel("%pc", "%t")  # nothing orders the store behind the load
IN_PLACE = kernel("%po", "%read")  # the tile that is stored
ORDERED = kernel("%pc", "%read")  # another tensor, which may lie in the same memory
ELSEWHERE = kernel("%po", "%read", index="%one")  # another tile of the tensor that is stored
STORED = kernel(
    "%pc",
    "%t",
    f"%v = store_view_tko weak %none, %pc[%i, %z] token = %read : {TILE}, {PC}, tile<i32> -> token",
)
CHAINED = kernel(  # the store waits for the tile by way of another load
    "%pc",
    "%t2",
    f"%l2, %t2 = load_view_tko weak %pc[%one, %z] token = %read : {PC}, tile<i32> -> {TILE}, token",
)
BRANCH = kernel(  # the sums come from in front of a branch, and go elsewhere, too
    "%po",
    "%read",
    begin="%first = cmpi equal %i, %z, signed : tile<i32> -> tile<i1>\nif %first {",
    end=f"""}} else {{
    %only = ftof %s : tile<{M}x{N}xf32> -> {TILE}
    %v = store_view_tko weak %only, %po[%i, %z] token = %t : {TILE}, {PC}, tile<i32> -> token
    }}""",
)


def in_f32(source: str) -> str:
    """The same kernel with sums that are stored as they lie."""
    sums = f"tile<{M}x{N}xf32>"
    for line in (
        f"%old = ftof %low : {TILE} -> {sums}\n", f"%r = ftof %wide : {sums} -> {TILE}\n",
        f"%only = ftof %s : {sums} -> {TILE}\n",
    ):  # fmt: skip
        source = source.replace(line, "")
    source = source.replace("%two, %s, %old", "%two, %s, %low").replace("weak %r,", "weak %wide,")
    source = source.replace("weak %only,", "weak %s,").replace("<f16: 0.0>", "<f32: 0.0>")
    source = source.replace(TILE, sums).replace(C, C.replace("f16", "f32"))
    return source.replace("%c: tile<ptr<f16>>, %o: tile<ptr<f16>>", "%c: tile<ptr<f32>>, %o: tile<ptr<f32>>").replace(
        "%c : tile<ptr<f16>>", "%c : tile<ptr<f32>>").replace("%o : tile<ptr<f16>>", "%o : tile<ptr<f32>>")  # fmt: skip


def taken_apart(source: str, gpu_name: str) -> list[int]:
    """What the loads and stores of a kernel's last nv_tileas text say of the parts in which they go."""
    sink = Sink()
    made = pipeline.compile_module(load(source.encode(), sink, file="k.mlir"), sm.find(gpu_name), sink).tileas
    return [op.attrs["apart"] for op in made.walk() if "apart" in op.attrs]


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of slices that were made, with limits at which these tiles are worth it."""
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(CostModel, "epilogue_registers", 16)
    monkeypatch.setattr(CostModel, "epilogue_slice", 8)
    made: list[int] = []
    build = Epilogue.build

    def watched(self: Epilogue, context: object) -> None:
        made.append(1 << self.cut)
        build(self, context)  # type: ignore[arg-type]

    monkeypatch.setattr(Epilogue, "build", watched)
    return made


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("source", [APART, IN_PLACE], ids=["apart", "in place"])
def test_slices_are_the_same_sums(source: str, gpu_name: str, slices: list[int]) -> None:
    rng = np.random.default_rng(0)
    a, b = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((128, 32), (32, 128)))
    c, o = (place(rng.integers(-9, 9, (128, 128)).astype(np.float16)) for _ in range(2))
    want = 2 * (a.astype(np.float32) @ b.astype(np.float32)) + (c if source is APART else o)
    tileiras.launch(source, "k", grid=2, args=[a, b, c, o], target="emulator", gpu_name=gpu_name, check=True)
    assert slices and min(slices) > 1
    np.testing.assert_array_equal(o, want)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_slices_in_a_branch_behind_the_sums(gpu_name: str, slices: list[int]) -> None:
    rng = np.random.default_rng(1)
    a, b = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((128, 32), (32, 128)))
    c, o = (place(rng.integers(-9, 9, (128, 128)).astype(np.float16)) for _ in range(2))
    product = a.astype(np.float32) @ b.astype(np.float32)
    want = np.concatenate((2 * product[:M] + o[:M], product[M:]))
    tileiras.launch(BRANCH, "k", grid=2, args=[a, b, c, o], target="emulator", gpu_name=gpu_name, check=True)
    assert slices and min(slices) > 1
    np.testing.assert_array_equal(o, want)


@pytest.mark.parametrize(
    "source", [ORDERED, ELSEWHERE, STORED, CHAINED], ids=["ordered", "elsewhere", "stored", "chained"]
)
def test_what_may_be_overwritten_is_loaded_first(source: str, slices: list[int]) -> None:
    tileiras.compile(source, gpu_name="sm_100", emit="ptx")
    assert not slices


def test_a_slice_is_stored_before_all_are_loaded(slices: list[int]) -> None:
    text = tileiras.compile(APART, gpu_name="sm_100", emit="ptx", disable=("tcgen05",)).ptx
    behind = text[text.rindex("mma.sync") :]
    order = re.findall(r"\b(ld|st)\.global", behind)
    assert slices
    assert order.index("st") < len(order) - order[::-1].index("ld") - 1


def test_few_registers_are_not_sliced(slices: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CostModel, "epilogue_registers", 192)
    tileiras.compile(APART, gpu_name="sm_100", emit="ptx", disable=("tcgen05",))
    assert not slices


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
@pytest.mark.parametrize("source", [APART, IN_PLACE, BRANCH], ids=["apart", "in place", "branch"])
def test_parts_of_registers_are_the_same_sums(source: str, gpu_name: str, slices: list[int]) -> None:
    rng = np.random.default_rng(2)
    a, b = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((128, 32), (32, 128)))
    c, o = (place(rng.integers(-9, 9, (128, 128)).astype(np.float32)) for _ in range(2))
    product = a.astype(np.float32) @ b.astype(np.float32)
    want = 2 * product + (c if source is APART else o)
    if source is BRANCH:
        want[M:] = product[M:]
    text = in_f32(source)
    assert taken_apart(text, gpu_name) == [8, 1]
    tileiras.launch(text, "k", grid=2, args=[a, b, c, o], target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(o, want)


@pytest.mark.parametrize("source", [APART, IN_PLACE], ids=["apart", "in place"])
def test_a_part_is_stored_while_the_next_one_is_loaded(source: str, slices: list[int]) -> None:
    text = tileiras.compile(in_f32(source), gpu_name="sm_80", emit="ptx").ptx
    behind = text[text.rindex("mma.sync") :]
    assert behind.count("bar.sync") <= 1  # in front of all parts, not between them
    order = "".join(word[0] for word in re.findall(r"\b(ld|st)\.global", behind))
    runs = [len(run) for run in re.findall("l+|s+", order)]
    part = CostModel.epilogue_slice // 2  # instructions of two f32
    assert runs[0] == 2 * part and set(runs[1:-1]) == {part} and runs[-1] == 2 * part


@pytest.mark.parametrize("source", [ORDERED, ELSEWHERE, STORED], ids=["ordered", "elsewhere", "stored"])
def test_what_may_be_overwritten_is_loaded_whole(source: str, slices: list[int]) -> None:
    assert not taken_apart(in_f32(source), "sm_80")
