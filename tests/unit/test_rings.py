"""Where the mbarriers of a ring of stages lie."""

from __future__ import annotations

from itertools import pairwise

from tileiras.compiler.dialects.nv_tileas.rings import (
    BUFFER_BYTES,
    MAX_DEPTH,
    MBARRIER_BYTES,
    RESERVED_BYTES,
    STAGE_UNIT,
    place_of,
    span_of,
)


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
