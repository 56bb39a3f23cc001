"""Random kernels around tensor products: machine code and interpreter agree bit for bit, whoever feeds the tensor cores.

What once failed is kept in tests/data/fuzz_products. Every third program runs under the race check, and where there
are tensor maps, every second one takes them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus.fuzz_products import differences, draw_program
from tileiras.settings import PARTS

KEPT = sorted((Path(__file__).parent / "data" / "fuzz_products").glob("*.tileir"))
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
MAPS = {"launch_abi": "simt", "tensor_maps": "launcher"}


def check(text: str, gpu_name: str, **more: Any) -> None:
    if gpu_name == "sm_80" and "f8E" in text:
        gpu_name = "sm_89"  # the first that has 8-bit floats
    found = differences(text, gpu_name, **more)
    assert not found, "\n".join([*found, text])


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_what_once_failed(path: Path, gpu_name: str) -> None:
    check(path.read_text(), gpu_name)
    if gpu_name in ("sm_90", "sm_100"):
        check(path.read_text(), gpu_name, **MAPS)


@pytest.mark.parametrize("seed", range(12))
def test_fixed_programs(seed: int) -> None:
    gpu_name = TARGETS[seed % len(TARGETS)]
    maps = MAPS if gpu_name in ("sm_90", "sm_100") and seed % 8 > 3 else {}
    check(draw_program(random.Random(seed).choice), gpu_name, check=seed % 3 == 0, seed=seed, **maps)


@pytest.mark.full
@pytest.mark.parametrize("part", ["", "maps", *PARTS])
@pytest.mark.parametrize("gpu_name", TARGETS)
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(gpu_name: str, part: str, data: st.DataObject) -> None:
    text = draw_program(lambda items: data.draw(st.sampled_from(list(items))))
    more: dict[str, Any] = MAPS if part in ("maps", "bulk", "roles") else {}
    if part in PARTS:
        more = {**more, "disable": [part]}
    check(text, gpu_name, **more)
