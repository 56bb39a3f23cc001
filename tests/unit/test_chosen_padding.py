"""A bias that ends with minus infinity is copied ahead like operands, where that costs no block of an SM."""

from __future__ import annotations

from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink


def loops_behind(pass_name: str, gpu_name: str) -> list[list[Any]]:
    """The ops of each loop of attention beside such a bias, behind a pass."""
    found: list[list[Any]] = []

    def after(name: str, ir: Any) -> None:
        if name == pass_name:
            found.extend(list(op.regions[0].block.ops) for op in ir.walk() if op.spec.name == "for")

    module = tileiras.load(BYTECODE / "staged_ending_bias.tilebc").op
    pipeline.compile_module(module, sm.find(gpu_name), Sink(), after=after)
    return found


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_steps_within_the_bias_choose_nothing(gpu_name: str) -> None:
    whole, last = ([op.spec.name for op in ops] for ops in loops_behind("TileASUnmaskedSteps", gpu_name))
    assert whole.count("async.copy_view") == last.count("async.copy_view") == 3
    assert "load_view_tko" not in whole + last
    tiles = [
        [op for op in ops if op.spec.name == "select" and op.result.type.shape]
        for ops in loops_behind("TileASUnmaskedSteps", gpu_name)
    ]
    assert not tiles[0] and tiles[1]


def test_where_copies_would_cost_a_block_the_load_pads_by_itself() -> None:
    (ops,) = loops_behind("TileASUnmaskedSteps", "sm_80")
    (load,) = [op for op in ops if op.spec.name == "load_view_tko"]
    assert load.operand("view").type.padding == "neg_inf"
    assert not [op for op in ops if op.spec.name == "select" and op.result.type.shape]
