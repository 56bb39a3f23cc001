"""Statistics of rows, which scores of attention's backward pass are compared with: copied ahead beside queries where products
read their operands by themselves, once for all threads."""

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

# (kernel, target); the scores' rows are keys or, in the fused pass, queries
TAKEN = (
    ("staged_flash_bwd_fused_bf16_64", "sm_90"),
    ("staged_flash_bwd_bf16_128", "sm_90"),
    ("staged_flash_bwd_f16_64", "sm_90"),
    ("staged_keys_of_groups_128x64_d64", "sm_90"),
    ("staged_keys_of_groups_128x64_d64", "sm_100"),
)
FED = r"wgmma\.mma|tcgen05\.mma|mma\.sync"


def multiplying(name: str, gpu_name: str) -> list[str]:
    """The loops of a kernel that multiply."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx").ptx
    found = [loop for loop in loops_of(ptx) if re.search(FED, loop)]
    assert found
    return found


@pytest.mark.parametrize("name, gpu_name", TAKEN)
def test_no_step_waits_for_loads_of_statistics(name: str, gpu_name: str) -> None:
    assert not any("ld.global" in loop for loop in multiplying(name, gpu_name))


def test_where_warps_read_all_operands_from_shared_memory_statistics_stay_in_registers() -> None:
    for gpu_name in ("sm_80", "sm_120"):
        assert any("ld.global" in loop for loop in multiplying("staged_flash_bwd_bf16_128", gpu_name))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name, gpu_name", TAKEN)
def test_gradients_are_right_and_no_access_races(name: str, gpu_name: str) -> None:
    done = launch_case(CASES[name], "emulator", gpu_name, 300, check=True, seed=6)
    assert done.word == PASS, done.reason
