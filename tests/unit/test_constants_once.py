"""A block of a dump has no constant twice: a frontend writes one for each use, and passes make them where they need them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink

KERNELS = (
    "softmax_backward",
    "staged_attention_full_f16",
    "staged_linear_attention_d64",
    "attention_causal_f16",
)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_stands_once_in_a_block(kernel: str) -> None:
    found: dict[str, Counter[Any]] = {}

    def look(name: str, module: Any) -> None:
        if name in ("ConvertCudaTileToTileAA", "TileASPlaceShared"):
            found[name] = Counter(
                (op.block, op.attrs["value"], op.result.type)
                for op in module.walk()
                if op.spec.name == "constant"
            )

    gpu = sm.find("sm_90")
    assert gpu is not None
    pipeline.compile_module(
        tileiras.load(BYTECODE / f"{kernel}.tilebc").op, gpu, Sink(), after=look, verify_each=True
    )
    assert len(found) == 2
    for name, constants in found.items():
        assert constants and max(constants.values()) == 1, name
