"""Where the mbarriers of a ring of stages lie, and what room queues take."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import tileiras
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
from tileiras.compiler.schedule import loops, queue
from tileiras.compiler.target import sm
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

    monkeypatch.setattr(loops, "plan_queue", plan)
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
    scratch_bytes = loops.scratch_bytes

    def keep(*given: Any) -> int:
        kept.append(scratch_bytes(*given))
        return kept[-1]

    def after(name: str, ir: Any) -> None:
        if name == "TileASPlaceShared":
            inside = [op for loop in ir.walk() if loop.spec.name == "for" for op in loop.walk()]
            taken.extend(
                op.attrs["scratch"][1] for op in inside if op.spec.name == "reduce" and "scratch" in op.attrs
            )

    monkeypatch.setattr(loops, "scratch_bytes", keep)
    module = tileiras.load(BYTECODE / "staged_gated_state.tilebc").op
    pipeline.compile_module(module, sm.find("sm_90"), Sink(), after=after)
    assert taken == kept == [2048]
