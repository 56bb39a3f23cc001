"""Random kernels around tensor products: machine code and interpreter agree bit for bit, whoever feeds the tensor cores.

What once failed is kept in tests/data/fuzz_products. Every third program runs under the race check, and where there
are tensor maps, every second one takes them. Pairs of CTAs have programs of their own, all of which they multiply as one,
whether that pays or not.
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

import tileiras
from tests.corpus.fuzz_pairs import TYPES, draw_pairs
from tests.corpus.fuzz_products import differences, draw_program
from tileiras.compiler.passes.loops import cluster_worth
from tileiras.settings import PARTS

KEPT = sorted((Path(__file__).parent / "data" / "fuzz_products").glob("*.tileir"))
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
MAPS = {"launch_abi": "simt", "tensor_maps": "launcher"}


def check(text: str, gpu_name: str, **more: Any) -> None:
    if gpu_name == "sm_80" and "f8E" in text:
        gpu_name = "sm_89"  # the first that has 8-bit floats
    found = differences(text, gpu_name, **more)
    assert not found, "\n".join([*found, text])


@pytest.mark.sampled(12)
@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_what_once_failed(path: Path, gpu_name: str) -> None:
    check(path.read_text(), gpu_name, check=True)
    if gpu_name in ("sm_90", "sm_100"):
        check(path.read_text(), gpu_name, check=True, **MAPS)


@pytest.mark.sampled(3)
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


# ---- pairs of CTAs that multiply as one
PAIRED = ("sm_100", "sm_103", "sm_110")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Clusters wherever CTAs can share a tile block; why one CTA would have been chosen."""
    reasons: list[str] = []
    slower = cluster_worth.slower

    def asked(division: Any, target: Any) -> None:
        reasons.append(slower(division, target) or "")

    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(cluster_worth, "slower", asked)
    return reasons


def pairs(choose: Any, gpu_name: str, long: bool = False) -> str:
    types = tuple(t for t in TYPES if t != "i8" or gpu_name != "sm_103")  # which has no such instruction
    return draw_pairs(choose, types, long)


def multiplied_as_one(text: str, gpu_name: str) -> bool:
    program = tileiras.compile(text, gpu_name=gpu_name, emit="ptx", **MAPS)
    return program.kernels["k"].cluster[0] > 1 and "tcgen05.mma.cta_group::2" in program.ptx


def has_no_room(text: str, gpu_name: str) -> bool:
    """Whether sums that are exchanged behind a tile, of two products of 512x32, leave no room for stages of the next one: warps
    that only copy are promised by the shapes alone."""
    said = tileiras.compile(
        text, gpu_name=gpu_name, emit="ptx", remarks={"missed": "memory"}, **MAPS
    ).diagnostics
    return any(d.diag.code == "AS-0315" and "no room for its exchange" in d.message for d in said)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(9))
def test_fixed_pairs(seed: int, always: list[str]) -> None:
    gpu_name = PAIRED[seed % 3]
    text = pairs(random.Random(seed).choice, gpu_name)
    assert multiplied_as_one(text, gpu_name), text
    check(text, gpu_name, check=seed % 2 == 1, seed=seed, **MAPS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [15, 2, 4])
def test_pairs_that_were_not_promised(seed: int, always: list[str]) -> None:
    """The model declines them, because their steps might be cut."""
    gpu_name = PAIRED[seed % 3]
    text = pairs(random.Random(seed).choice, gpu_name, long=True)
    assert multiplied_as_one(text, gpu_name), text
    assert set(always) == {cluster_worth.SLOWER}
    check(text, gpu_name, check=True, seed=seed, **MAPS)


@pytest.mark.full
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("gpu_name", PAIRED)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_pairs(gpu_name: str, long: bool, always: list[str], data: st.DataObject) -> None:
    text = pairs(lambda items: data.draw(st.sampled_from(list(items))), gpu_name, long)
    assert long or multiplied_as_one(text, gpu_name) or has_no_room(text, gpu_name), text
    check(text, gpu_name, check=True, seed=len(text), **MAPS)
