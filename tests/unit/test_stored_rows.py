"""16-bit results of products are stored in 16 bytes, through shared memory."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink


@pytest.mark.parametrize("name", ["staged_bf16_nn_128", "staged_f16_nt"])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_results_leave_in_16_bytes(name: str, gpu_name: str) -> None:
    ptx = tileiras.compile((BYTECODE / f"{name}.tilebc").read_bytes(), gpu_name=gpu_name).ptx
    assert set(re.findall(r"st\.global\.[\w.]+", ptx)) == {"st.global.v4.b32"}
    assert ("stmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx) == (gpu_name != "sm_80")


@pytest.mark.parametrize(
    ("name", "crosses"), [("staged_running_states_11", True), ("staged_retained_128", False)]
)
def test_rows_of_tensor_memory_cross_shared_memory_where_two_stages_leave_room(
    name: str, crosses: bool
) -> None:
    """Sums come a row a thread. What a loop stores is turned, so that lanes write one line, or else its ring would not fit."""
    found: list[bool] = []

    def after(name: str, ir: Any) -> None:
        if name == "ConvertTileAAToTileAS":
            loops = [op for op in ir.walk() if op.spec.name == "for"]
            for op in (op for loop in loops for op in loop.walk() if op.spec.name == "store_view_tko"):
                tile = op.operand("tile").type
                found.append(any(column & tile.shape[-1] - 1 for column in tile.layout.lane))

    module = tileiras.load(BYTECODE / f"{name}.tilebc").op
    ptx = pipeline.compile_module(module, sm.find("sm_100"), Sink(), after=after).ptx
    assert found and set(found) == {crosses}
    assert "tcgen05.mma" in ptx
