"""What threads make of results for products further down: decay in the layout of scores, and what is rounded first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink


def asked(name: str, target: str, question: Callable[[list[Any]], Any]) -> Any:
    """The answer to a question about the ops of a kernel's loop when conversions have been hoisted."""
    found: list[Any] = []

    def after(done: str, ir: Any) -> None:
        if done == "TileASHoistConversions":
            (loop,) = [op for op in ir.walk() if op.spec.name == "for"]
            found.append(question(loop.regions[0].block.ops))

    module = tileiras.load(BYTECODE / f"{name}.tilebc").op
    pipeline.compile_module(module, sm.find(target), Sink(), after=after)
    return found[0]


def decay_moved(body: list[Any]) -> list[str]:
    """The layouts of tiles of exponentials that change them."""
    tiles = [
        op
        for op in body
        if op.spec.name == "exp" and len(op.result.type.shape) == 2 and min(op.result.type.shape) > 1
    ]
    assert tiles
    return [
        str(op.result.type)
        for op in tiles
        for user, _ in op.result.uses
        if user.spec.name == "convert_layout"
    ]


def roundings(body: list[Any]) -> list[int]:
    """How many tiles a step rounds in front of each of its products, and behind the last."""
    out = [0]
    for op in body:
        if op.spec.name == "mmaf":
            out.append(0)
        elif op.spec.name == "ftof" and op.result.type.elem.bits == 16:
            out[-1] += 1
    return out


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", ["staged_gated_delta_rule_64x128", "staged_faded_state_64"])
def test_decay_between_tokens_is_computed_where_its_scores_lie(name: str, target: str) -> None:
    """A mask in front of the loop chooses what is no decay. Rows and columns move, not the tile."""
    assert asked(name, target, decay_moved) == []


def test_results_that_registers_do_not_hold_are_rounded_for_later_products_where_they_are_made() -> None:
    """64 rows by 128 columns: corrections in f32 would wait for the fourth and the fifth product in 64 registers."""
    assert asked("staged_gated_delta_rule_64x128", "sm_90", roundings) == [1, 2, 1, 0, 1, 0]
    assert asked("staged_gated_delta_rule_64x64", "sm_90", roundings) == [1, 0, 1, 1, 2, 0]  # these fit
