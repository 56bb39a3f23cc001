"""Steps over K of tiles of pointers are cut like those of views: what is computed, carried and counted comes out the same."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.unit.test_runtime_versions import KERNEL, TARGETS, launched
from tileiras.compiler.dialects.nv_tileas.diags import RING
from tileiras.compiler.target.cost import CostModel

K = 256  # a step of both operands takes 64 KiB


def deeper(text: str) -> str:
    """The kernel with steps of K."""
    for old, new in ((r"(?<=[x<])32(?=x)", K), (r"(?<=: )32(?=>)", K), (r"(?<=: )31(?=>)", K - 1)):
        text = re.sub(old, str(new), text)
    return text


COUNTED = deeper(KERNEL)
BY_ELEMENTS = (
    COUNTED.replace("(%zero to %steps, step %one)", "(%zero to %k, step %depth)")
    .replace("%first = muli %i, %depth : tile<i32>", "%first = addi %i, %zero : tile<i32>")
)  # fmt: skip


def rings(text: str, gpu_name: str) -> list[str]:
    program = tileiras.compile(text, gpu_name=gpu_name, remarks={"passed": "memory"})
    return [d.message for d in program.diagnostics if d.diag is RING]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("text", [COUNTED, BY_ELEMENTS], ids=["counted", "by elements"])
def test_a_step_that_does_not_fit_is_cut(gpu_name: str, text: str) -> None:
    (ring,) = rings(text, gpu_name)
    assert "stages of 32768 bytes" in ring and "1 stages" not in ring and "2 stages" not in ring


@pytest.mark.sampled(12)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("text", [COUNTED, BY_ELEMENTS], ids=["counted", "by elements"])
def test_parts_of_a_step_add_up_to_it(gpu_name: str, text: str) -> None:
    assert launched(gpu_name, 64, 64, 1024, 1024, 64, (0, 0), text=text) > 0
    assert (
        launched(gpu_name, 40, 48, 600, 616, 56, (8, 0), text=text, check=True) > 0
    )  # the last step is ragged
    assert launched(gpu_name, 64, 64, 100, 104, 64, (0, 1), text=text) == 0  # slow, and less than a step


COUNTING = """
cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<ptr<i32>>, %steps: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %av = make_tensor_view %pa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
    %bv = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : partition_view<tile=(64x256), tensor_view<64x1024xf16, strides=[1024,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(256x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %sum:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %count = %zero) -> (tile<64x64xf32>, tile<i32>) {
      %x, %t1 = load_view_tko weak %at[%zero, %i] : partition_view<tile=(64x256), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x256xf16>, token
      %y, %t2 = load_view_tko weak %bt[%i, %zero] : partition_view<tile=(256x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<256x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x256xf16>, tile<256x64xf16>, tile<64x64xf32>
      %up = addi %count, %one : tile<i32>
      continue %next, %up : tile<64x64xf32>, tile<i32>
    }
    %done = store_view_tko weak %sum#0, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    %said = store_ptr_tko weak %n, %sum#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_what_counts_steps_counts_whole_ones(gpu_name: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (place(rng.integers(-3, 4, s).astype(np.float16)) for s in ((64, 1024), (1024, 64)))
    c, n = place(np.zeros((64, 64), np.float32)), place(np.zeros(1, np.int32))
    args = [a, b, c, n, np.int32(4)]
    tileiras.launch(COUNTING, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert n[0] == 4


@pytest.mark.parametrize("gpu_name", ["sm_100", "sm_120"])
def test_block_scales_are_cut_with_their_operands(gpu_name: str) -> None:
    """Down to words of four scales: tensor memory takes no less, and copies of less would go through registers."""
    program = tileiras.compile(
        bytecode_path(CASES["scaled_mxfp8_deep"]), gpu_name=gpu_name, remarks={"passed": "memory"}
    )
    (ring,) = [d.message for d in program.diagnostics if d.diag is RING]
    assert "stages of 34816 bytes" in ring


@pytest.fixture
def less_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs with 72 KiB of shared memory, for which steps of 256 are too long."""
    first = CostModel.__init__

    def less(self: CostModel, target: object) -> None:
        first(self, target)
        self.shared_bytes = 72 << 10

    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(CostModel, "__init__", less)


def check_cut(text: str, gpu_name: str) -> None:
    """The loop has stages of a half or a quarter of a step."""
    (ring,) = rings(text, gpu_name)
    assert "stages of 20480 bytes" in ring or "stages of 10240 bytes" in ring, ring


def unpacked(steps: int) -> str:
    """Four-bit weights, two to a byte along N, with a zero point and a scale for each column and step of 256."""
    k = 256 * steps
    views = {
        "a": f"tensor_view<64x{k}xf16, strides=[{k},1]>", "q": f"tensor_view<{k}x32xi8, strides=[32,1]>",
        "z": f"tensor_view<{steps}x32xi8, strides=[32,1]>", "s": f"tensor_view<{steps}x64xf16, strides=[64,1]>",
        "c": "tensor_view<64x64xf32, strides=[64,1]>",
    }  # fmt: skip
    sizes = {"a": "64x256", "q": "256x32", "z": "1x32", "s": "1x64", "c": "64x64"}
    tiles = {name: f"partition_view<tile=({sizes[name]}), {view}>" for name, view in views.items()}
    types = {name: f"tile<{sizes[name]}x{'f16' if name in 'as' else 'i8'}>" for name in "aqzs"}

    def made(name: str) -> str:
        elem, shape = views[name][12:].split(",")[0].rsplit("x", 1)[1], views[name][12:].split("x")
        width = shape[1]
        return f"""
    %{name}p = assume div_by<16>, %{name} : tile<ptr<{elem}>>
    %{name}v = make_tensor_view %{name}p, shape = [{shape[0]}, {width}], strides = [{width}, 1] : {views[name]}
    %{name}t = make_partition_view %{name}v : {tiles[name]}"""

    def nibbles(value: str, rows: int) -> str:
        flat, three = f"tile<{rows}x32xi8>", f"tile<{rows}x32x1xi8>"
        return f"""
      %{value}m = constant <i8: 15> : {flat}
      %{value}h = constant <i8: 4> : {flat}
      %{value}0 = andi %{value}, %{value}m : {flat}
      %{value}1 = shri %{value}, %{value}h unsigned : {flat}
      %{value}2 = reshape %{value}0 : {flat} -> {three}
      %{value}3 = reshape %{value}1 : {flat} -> {three}
      %{value}4 = cat %{value}2, %{value}3 dim = 2 : {three}, {three} -> tile<{rows}x32x2xi8>
      %{value}5 = reshape %{value}4 : tile<{rows}x32x2xi8> -> tile<{rows}x64xi8>
      %{value}6 = itof %{value}5 signed : tile<{rows}x64xi8> -> tile<{rows}x64xf16>"""

    def loaded(name: str, value: str, at: str, token: str) -> str:
        return f"""
      %{value}, %{token} = load_view_tko weak %{name}t[{at}] : {tiles[name]}, tile<i32> -> {types[name]}, token"""

    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %q: tile<ptr<i8>>, %z: tile<ptr<i8>>, %s: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>{"".join(made(name) for name in "aqzsc")}
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {{\
{loaded("a", "x", "%zero, %i", "t1")}{loaded("q", "w", "%i, %zero", "t2")}{loaded("z", "o", "%i, %zero", "t3")}\
{loaded("s", "f", "%i, %zero", "t4")}{nibbles("w", 256)}{nibbles("o", 1)}
      %o7 = broadcast %o6 : tile<1x64xf16> -> tile<256x64xf16>
      %f7 = broadcast %f : tile<1x64xf16> -> tile<256x64xf16>
      %y = subf %w6, %o7 : tile<256x64xf16>
      %y1 = mulf %y, %f7 : tile<256x64xf16>
      %next = mmaf %x, %y1, %acc : tile<64x256xf16>, tile<256x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }}
    %done = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, {tiles["c"]}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_89", "sm_90", "sm_120"])
def test_steps_of_weights_whose_bytes_hold_two_columns_are_cut(gpu_name: str, less_shared: None) -> None:
    text = unpacked(3)
    check_cut(text, gpu_name)
    rng = np.random.default_rng(1)
    a, s = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((64, 768), (3, 64)))
    q, z = (place(rng.integers(-128, 128, shape).astype(np.int8)) for shape in ((768, 32), (3, 32)))
    c = place(np.zeros((64, 64), np.float32))

    def columns(packed: np.ndarray) -> np.ndarray:
        bits = packed.view(np.uint8)
        return np.stack((bits & 15, bits >> 4), -1).reshape(len(bits), 64).astype(np.float32)

    args = [a, q, z, s, c, np.int32(3)]
    tileiras.launch(text, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, check=True)
    weights = (columns(q) - np.repeat(columns(z), 256, 0)) * np.repeat(s.astype(np.float32), 256, 0)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ weights)


def neighbours(steps: int) -> str:
    """Four-bit weights, two to a byte along K."""
    k = 256 * steps
    a, q, c = (
        f"64x{k}xf16, strides=[{k},1]",
        f"64x{k // 2}xi8, strides=[{k // 2},1]",
        "64x64xf32, strides=[64,1]",
    )
    at, qt, ct = (
        f"partition_view<tile=({tile}), tensor_view<{view}>>"
        for tile, view in (("64x256", a), ("64x128", q), ("64x64", c))
    )
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %q: tile<ptr<i8>>, %c: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %m = constant <i8: 15> : tile<64x128xi8>
    %h = constant <i8: 4> : tile<64x128xi8>
    %ap = assume div_by<16>, %a : tile<ptr<f16>>
    %qp = assume div_by<16>, %q : tile<ptr<i8>>
    %cp = assume div_by<16>, %c : tile<ptr<f32>>
    %av = make_tensor_view %ap, shape = [64, {k}], strides = [{k}, 1] : tensor_view<{a}>
    %qv = make_tensor_view %qp, shape = [64, {k // 2}], strides = [{k // 2}, 1] : tensor_view<{q}>
    %cv = make_tensor_view %cp, shape = [64, 64], strides = [64, 1] : tensor_view<{c}>
    %at = make_partition_view %av : {at}
    %qt = make_partition_view %qv : {qt}
    %ct = make_partition_view %cv : {ct}
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {{
      %x, %t1 = load_view_tko weak %at[%zero, %i] : {at}, tile<i32> -> tile<64x256xf16>, token
      %w, %t2 = load_view_tko weak %qt[%zero, %i] : {qt}, tile<i32> -> tile<64x128xi8>, token
      %w0 = andi %w, %m : tile<64x128xi8>
      %w1 = shri %w, %h unsigned : tile<64x128xi8>
      %w2 = reshape %w0 : tile<64x128xi8> -> tile<64x128x1xi8>
      %w3 = reshape %w1 : tile<64x128xi8> -> tile<64x128x1xi8>
      %w4 = cat %w2, %w3 dim = 2 : tile<64x128x1xi8>, tile<64x128x1xi8> -> tile<64x128x2xi8>
      %w5 = reshape %w4 : tile<64x128x2xi8> -> tile<64x256xi8>
      %w6 = itof %w5 signed : tile<64x256xi8> -> tile<64x256xf16>
      %y = permute %w6 [1, 0] : tile<64x256xf16> -> tile<256x64xf16>
      %next = mmaf %x, %y, %acc : tile<64x256xf16>, tile<256x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }}
    %done = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, {ct}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_89", "sm_90", "sm_120"])
def test_steps_of_weights_whose_bytes_hold_two_neighbours_along_k_are_cut(
    gpu_name: str, less_shared: None
) -> None:
    text = neighbours(3)
    check_cut(text, gpu_name)
    rng = np.random.default_rng(1)
    a = place(rng.integers(-2, 3, (64, 768)).astype(np.float16))
    q = place(rng.integers(-128, 128, (64, 384)).astype(np.int8))
    c = place(np.zeros((64, 64), np.float32))
    args = [a, q, c, np.int32(3)]
    tileiras.launch(text, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, check=True)
    bits = q.view(np.uint8)
    weights = np.stack((bits & 15, bits >> 4), -1).reshape(64, 768).astype(np.float32)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ weights.T)
