"""Keys and values of 2^16 elements, which no registers hold, travel through shared memory in parts, not through local memory."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of

NAME = "staged_wide_heads_512_by_128_keys"


def local_bytes(**options: object) -> int:
    """Of local memory, that a thread has tiles in."""
    ptx = tileiras.compile(bytecode_path(CASES[NAME]), emit="ptx", **options).ptx
    return sum(int(size) for size in re.findall(r"\.local [^\n]*\[(\d+)\]", ptx))


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_their_copies_run_ahead_of_products(gpu_name: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES[NAME]), gpu_name=gpu_name, emit="ptx").ptx
    loops = [loop for loop in loops_of(ptx) if "mma.sync" in loop]
    assert loops and all("cp.async.cg" in loop and "ld.global" not in loop for loop in loops)
    assert local_bytes(gpu_name=gpu_name) == 0


def test_without_copies_they_are_cut_into_slices() -> None:
    assert local_bytes(gpu_name="sm_120", disable=("cp.async",)) > 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("part", [(), ("cp.async",)])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_attention_over_them_is_right(
    gpu_name: str, part: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEIRAS_DISABLE", ",".join(part))
    done = launch_case(CASES[NAME], "emulator", gpu_name, 300, check=True, seed=2)
    assert done.word == PASS, done.reason
