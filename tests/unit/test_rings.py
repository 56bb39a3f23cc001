"""Where the mbarriers of a ring of stages lie, and what room queues take."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import tileiras
from tests.corpus import check as corpus
from tests.corpus.registry import CASES
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.dialects.nv_tileas.rings import (
    BUFFER_BYTES,
    MAX_DEPTH,
    MBARRIER_BYTES,
    RESERVED_BYTES,
    STAGE_UNIT,
    place_of,
    span_of,
)
from tileiras.compiler.schedule import queue, rings
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.diag import Sink


def test_mbarriers_of_stages_of_any_size_lie_apart_in_the_room_that_is_kept_for_them() -> None:
    for stage in range(STAGE_UNIT, BUFFER_BYTES + 1, STAGE_UNIT):
        stages = min(MAX_DEPTH, BUFFER_BYTES // stage)
        places = [place_of(k, stage) for k in range(stages)]
        assert all(place % MBARRIER_BYTES == 0 for place in places)
        assert all(b - a >= MBARRIER_BYTES for a, b in pairwise(places))
        assert places[-1] + MBARRIER_BYTES == span_of(stage, stages)
        assert (
            2 * span_of(stage, stages) <= RESERVED_BYTES
        )  # where readers release stages, there are two rows


@pytest.mark.parametrize(
    ("kernel", "gpu_name"),
    [("staged_attention_full_f16", "sm_120"), ("staged_flash_bwd_bf16_128", "sm_86"),
     ("staged_linear_attention_d128", "sm_86")],
)  # fmt: skip
def test_a_queue_keeps_to_the_room_that_scratch_leaves(
    kernel: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[queue.Queue, int]] = []

    def plan(products: Any, members: Any, room: int, *more: Any, **named: Any) -> queue.Queue | None:
        planned = queue.plan_queue(products, members, room, *more, **named)
        if planned is not None:
            found.append((planned, room))
        return planned

    monkeypatch.setattr(rings, "plan_queue", plan)
    module = tileiras.load(BYTECODE / f"{kernel}.tilebc").op
    pipeline.compile_module(module, sm.find(gpu_name), Sink())
    assert found
    for planned, room in found:
        assert planned.slots == planned.parts * planned.ahead + planned.held
        assert planned.slots * planned.piece <= room < (planned.slots + planned.parts) * planned.piece


def test_a_ring_leaves_the_room_in_which_warps_reduce(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that are kept beside the stages are those that reductions of the loop take later on: no conversion takes more."""
    kept: list[int] = []
    taken: list[int] = []
    scratch_bytes = rings.scratch_bytes

    def keep(*given: Any) -> int:
        kept.append(scratch_bytes(*given))
        return kept[-1]

    def after(name: str, ir: Any) -> None:
        if name == "TileASPlaceShared":
            inside = [op for loop in ir.walk() if loop.spec.name == "for" for op in loop.walk()]
            taken.extend(
                op.attrs["scratch"][1] for op in inside if op.spec.name == "reduce" and "scratch" in op.attrs
            )

    monkeypatch.setattr(rings, "scratch_bytes", keep)
    module = tileiras.load(BYTECODE / "staged_gated_state.tilebc").op
    pipeline.compile_module(module, sm.find("sm_90"), Sink(), after=after)
    assert taken == kept == [2048]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(4))
def test_of_two_slots_one_lands_while_a_product_of_warpgroups_reads_the_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What attention of 64 rows with 512 columns has room for, under the race check; here 16 KiB for slots of 8."""
    found: list[queue.Queue | None] = []

    def plan(*args: Any, **named: Any) -> queue.Queue | None:
        found.append(queue.plan_queue(*args, **named))
        return found[-1]

    class Small(CostModel):
        def __init__(self, target: Any) -> None:
            super().__init__(target)
            self.shared_bytes = 16 << 10

    launch = tileiras.launch

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = tileiras.compile(source, gpu_name="sm_90")
        assert "wgmma.mma_async" in program.ptx and "cp.async" in program.ptx
        launch(source, *args, **{**options, "check": True, "seed": seed})

    monkeypatch.setattr(rings, "plan_queue", plan)
    monkeypatch.setattr(rings, "CostModel", Small)
    monkeypatch.setattr(tileiras, "launch", watched)
    case = CASES["staged_attention_causal_bf16"]
    assert corpus.launch_case(case, "emulator", "sm_90", 300).word == corpus.PASS
    assert (
        all(planned is not None and (planned.ahead, planned.slots) == (1, 2) for planned in found) and found
    )


def one_stage(name: str, target: str) -> tuple[list[int], list[int], list[str]]:
    """(what the waits of a kernel's loop leave under way, behind how many products each copy stands, names of all ops) when
    pipelines are lowered."""
    names: list[str] = []
    waits: list[int] = []

    def after(done: str, ir: Any) -> None:
        if done == "TileASLowerPipelines":
            inside = [op for loop in ir.walk() if loop.spec.name == "for" for op in loop.walk()]
            names.extend(op.spec.name for op in inside)
            waits.extend(op.attrs["pending"] for op in inside if op.spec.name == "async.wait_group")

    module = tileiras.load(BYTECODE / f"{name}.tilebc").op
    pipeline.compile_module(module, sm.find(target), Sink(), after=after)
    copies = [n for n, op in enumerate(names) if op == "async.copy_view"]
    products = [n for n, op in enumerate(names) if op == "mmaf"]
    return waits, [sum(p < c for p in products) for c in copies], names


def test_of_one_stage_a_part_is_filled_again_while_products_take_another() -> None:
    """Keys that are turned by their positions, and values: two stages of 64 KiB do not fit a GPU of 99."""
    waits, copies, names = one_stage("staged_turned_keys_128x64_d128", "sm_120")
    assert waits == [1, 1], "each wait leaves the other part on its way"
    assert "load_view_tko" not in names
    assert copies == [2, 2, 2, 2, 3]


def test_of_one_stage_of_warpgroups_each_tile_is_filled_again_when_it_is_read() -> None:
    """The delta rule: W for the first of five products, U in registers behind it, Q for the next two, K for the second and the
    last. What lands where another tile has been read shares its barrier."""
    waits, copies, names = one_stage("staged_delta_rule_bf16", "sm_90")
    assert waits == [3, 2, 1]
    assert copies == [1, 1, 3, 5]
    assert names.count("barrier") == 5
