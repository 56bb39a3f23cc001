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


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("text", [COUNTED, BY_ELEMENTS], ids=["counted", "by elements"])
def test_a_step_that_does_not_fit_is_cut(gpu_name: str, text: str) -> None:
    (ring,) = rings(text, gpu_name)
    assert "stages of 32768 bytes" in ring and "1 stages" not in ring and "2 stages" not in ring


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


@pytest.mark.parametrize(("gpu_name", "stage"), [("sm_100", 32768 + 1024), ("sm_120", 16384)])
def test_block_scales_are_cut_with_their_operands(gpu_name: str, stage: int) -> None:
    """As far as three steps need it: words of four scales stay where tensor memory takes them."""
    program = tileiras.compile(
        bytecode_path(CASES["scaled_mxfp8_deep"]), gpu_name=gpu_name, remarks={"passed": "memory"}
    )
    (ring,) = [d.message for d in program.diagnostics if d.diag is RING]
    assert f"stages of {stage} bytes" in ring and "1 on their way" not in ring
