"""The initiation interval of a loop over the resources of an SM, the depth of its ring, and the remark that tells both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.schedule import interval, rings
from tileiras.compiler.schedule.interval import CORES, FUNCTIONS, L2, MUFU, SHARED, TENSOR, Interval
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.diag import Sink
from tileiras.report import model


def compiled(
    kernel: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch, attrs: Mapping[str, int] = {}
) -> tuple[list[Interval], list[str], str]:
    """The intervals that were computed, the remarks on rings, and the PTX."""
    found: list[Interval] = []

    def look(*given: object) -> Interval:
        found.append(interval.interval(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(rings, "interval", look)
    sink = Sink()
    gpu = sm.find(gpu_name)
    module = tileiras.load(Path(BYTECODE / f"{kernel}.tilebc")).op
    module.attrs.update(attrs)
    stages = pipeline.compile_module(module, gpu, sink, remarks={"passed": "all"})
    return found, [e.text for e in sink.emitted if "run ahead through" in e.text], stages.ptx


def test_a_product_of_large_tiles_is_bound_by_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,), (said,), _ = compiled("staged_bf16_nn_128", "sm_80", monkeypatch)
    # 128x128x64: 2^20 multiply-adds at 1024 a clock; 32 KiB at 64 bytes; those in, and each operand for two warp tiles, at 128
    assert found.by == {TENSOR: 1024, L2: 512, SHARED: (1 + 2) * 32768 // 128, CORES: 0, MUFU: 0}
    assert "an iteration takes 1024 clocks (tensor cores)" in said


def test_warpgroups_read_their_operands_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,), _, _ = compiled("staged_bf16_nn_128", "sm_90", monkeypatch)
    assert found.by[SHARED] == 32768 // 128


def test_addresses_are_computed_for_copies_and_not_for_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, _ = compiled("pointers_e4m3_nt", "sm_90", monkeypatch)
    assert all(step.by[CORES] < 10 for step in found), [step.by for step in found]


@pytest.mark.parametrize(("gpu_name", "alone"), [("sm_80", 4), ("sm_90", 5), ("sm_100", 4)])
def test_softmax_is_bound_by_what_threads_compute(
    gpu_name: str, alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, said, ptx = compiled("staged_quantized_attention_128", gpu_name, monkeypatch)
    step = found[0]
    assert step.bound == CORES and step.by[TENSOR] < 900 < step.clocks
    # 128x64 weights and as many scales of rows as there are
    assert 128 * 64 // 16 <= step.by[MUFU] < 128 * 64 // 16 + 16
    cost = CostModel(sm.find(gpu_name))
    assert cost.wanted(step.by[TENSOR]) == alone, "what tensor cores alone would ask for"
    stages = int(re.search(r"(\d+) stages", said[0])[1])  # type: ignore[index]
    assert stages - cost.wanted(step.clocks) in (0, 1), "one that a product of tensor memory still reads"
    assert f"an iteration takes {step.clocks} clocks (CUDA cores)" in said[0] and ptx


def test_where_products_take_twice_as_long_they_are_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    (step, *_), _, _ = compiled("staged_quantized_attention_128", "sm_120", monkeypatch)
    assert (step.bound, step.by[TENSOR]) == (TENSOR, 2 * 768)


def test_the_chosen_instruction_sets_the_clocks_of_a_product() -> None:
    """H100: 2048 multiply-adds of 16 bits a clock by wgmma, 63 per cent of them by mma.sync; reports read the same numbers."""
    cost = CostModel(sm.find("sm_90"))
    assert [cost.product_clocks(1 << 20, bits, "wgmma") for bits in (8, 16, 32)] == [256, 512, 1024]
    assert cost.product_clocks(1 << 20, 16) == (1 << 20) // 1290
    for number, gpu in model.GPUS.items():
        cost = CostModel(sm.find(f"sm_{number}"))
        assert cost.product_clocks(1 << 20, 16, "wgmma") == (2 << 20) // gpu.peak["f16"]


def test_each_resource_may_be_the_bound() -> None:
    for name in (TENSOR, L2, SHARED, CORES, MUFU):
        step = Interval({**dict.fromkeys((TENSOR, L2, SHARED, CORES, MUFU), 7), name: 9})
        assert (step.bound, step.clocks) == (name, 9)
    assert Interval({TENSOR: 0}).clocks == 1
    assert CostModel.sequences.keys() >= FUNCTIONS


def test_a_depth_that_is_cut_says_what_was_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, said, _ = compiled("staged_bf16_nn_128", "sm_80", monkeypatch)
    assert said[0].endswith("(tensor cores)"), "what was wanted fits"
    _, said, _ = compiled("staged_bf16_nn_128", "sm_80", monkeypatch, {"tt.num_stages": 8})
    assert ": 5 stages of" in said[0] and said[0].endswith("; 8 were wanted, shared memory holds no more")


SUMS = """cuda_tile.module @kernels attributes {tt.num_stages = 8 : i32} {
  entry @sums(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {
    %size = assume bounded<0, ?>, %n : tile<i32>
    %xv = make_tensor_view %x, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %yv = make_tensor_view %y, shape = [TILE], strides = [1] : tensor_view<TILExf32, strides=[1]>
    %xt = make_partition_view %xv : partition_view<tile=(TILE), tensor_view<?xf32, strides=[1]>>
    %yt = make_partition_view %yv : partition_view<tile=(TILE), tensor_view<TILExf32, strides=[1]>>
    %steps = get_index_space_shape %xt : partition_view<tile=(TILE), tensor_view<?xf32, strides=[1]>> -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<TILExf32>
    %t = make_token : token
    %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<TILExf32>) {
      %v, %t1 = load_view_tko weak %xt[%i] token = %t : partition_view<tile=(TILE), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<TILExf32>, token
      %next = addf %acc, %v : tile<TILExf32>
      continue %next : tile<TILExf32>
    }
    %t2 = store_view_tko weak %sum, %yt[%zero] token = %t : tile<TILExf32>, partition_view<tile=(TILE), tensor_view<TILExf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(("tile", "held", "stages"), [(1024, 8, 8), (4096, 32, 3), (16384, 64, 2)])
def test_loads_that_wait_in_registers_say_in_how_few_stages(tile: int, held: int, stages: int) -> None:
    gpu = sm.find("sm_90")
    assert gpu is not None
    texts = []
    for category in ("memory", "tensorcore"):
        sink = Sink()
        module = tileiras.load(SUMS.replace("TILE", str(tile))).op
        pipeline.compile_module(module, gpu, sink, remarks={"missed": category})
        texts.append([e.text for e in sink.emitted if "wait in registers" in e.text])
    said, unasked = texts
    assert not unasked and len(said) == (stages < 8)
    if said:
        assert f": {stages} of 8 stages, for each takes {held} registers a thread" in said[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kernel", "gpu_name", "why"),
    [
        (
            "staged_faded_state_128",
            "sm_120",
            r"two stages of 81920 bytes do not fit 100352 bytes beside \d+ of other buffers",
        ),
        ("staged_bf16_nn_128", "sm_75", "the target has no asynchronous copies, or they are left out"),
        ("staged_bf16_nn_128", "sm_80", None),
        ("matmul_f16_128", "sm_80", None),  # of two versions, one is fed
        ("matmul_f16_128", "sm_90", None),
        ("softmax_row_bf16", "sm_80", None),  # no product
    ],
)
def test_loads_of_products_that_wait_say_why(kernel: str, gpu_name: str, why: str | None) -> None:
    gpu = sm.find(gpu_name)
    assert gpu is not None
    for category, asked in (("all", True), ("memory", True), ("tensorcore", False)):
        sink = Sink()
        module = tileiras.load(BYTECODE / f"{kernel}.tilebc").op
        pipeline.compile_module(module, gpu, sink, remarks={"missed": category})
        said = [e.text for e in sink.emitted if "do not run ahead" in e.text]
        assert len(said) == (asked and why is not None), said
        assert not said or re.search(f"products do not run ahead: {why}", said[0]), said


def test_strong_loads_have_no_way_ahead() -> None:
    text = (Path(__file__).resolve().parents[1] / "data" / "text" / "product_loop.tileir").read_text()
    sink = Sink()
    module = tileiras.load(text.replace("load_view_tko weak", "load_view_tko relaxed device")).op
    pipeline.compile_module(module, sm.find("sm_80"), sink, remarks={"missed": "all"})
    said = [e.text for e in sink.emitted if "do not run ahead" in e.text]
    assert len(said) == 1 and "none has rows aligned to 4 bytes" in said[0], said
