"""Recurrent layers: their products take nothing that a step loads, and the input that a product is added to is copied ahead."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_input_of_a_recurrent_layer_is_on_its_way_a_step_ahead(gpu_name: str) -> None:
    text = tileiras.compile(bytecode_path(CASES["staged_recurrent"]), gpu_name=gpu_name).ptx
    (loop,) = [each for each in loops_of(text) if "mma.sync" in each]
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop and "ld.global" not in loop
