"""Loads of a product's loop that tokens put behind accesses of the iteration before: copied early, but not too early.

Tile IR's memory model orders accesses of a tile block by tokens alone, and what a token puts behind an acquire may read what
another block has released. So copies of the next step stand behind atomics with acquire and behind stores that the loads may
read, with a barrier between; relaxed atomics, which order nothing else, are passed.
"""

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.planted_ptx import findings
from tests.ptx_loops import loops_of
from tests.tile_text import matmul

GPUS = ("sm_80", "sm_90", "sm_100", "sm_120")
STEPS = r"cp\.async\.cg|cp\.async\.wait_group|bar\.sync|st\.global|atom\.relaxed|fence\.acq_rel|ld\.global"


def steps(source: object, gpu: str) -> list[str]:
    """What the loop of a kernel's products does with memory, in order; equal neighbours once."""
    ptx = tileiras.compile(source, gpu_name=gpu, emit="ptx").ptx
    loop = next(found for found in loops_of(ptx) if "mma" in found)
    found = re.findall(STEPS, loop)
    return [step for n, step in enumerate(found) if n == 0 or found[n - 1] != step]


@pytest.mark.parametrize("gpu", GPUS)
def test_copies_stand_behind_the_store_that_they_may_read(gpu: str) -> None:
    got = steps(bytecode_path(CASES["staged_in_place"]), gpu)
    assert got[:2] == ["cp.async.wait_group", "bar.sync"]
    assert got[-3:] == ["st.global", "bar.sync", "cp.async.cg"], got


@pytest.mark.parametrize("gpu", GPUS)
def test_copies_stand_behind_an_acquire_and_its_barrier(gpu: str) -> None:
    got = steps(bytecode_path(CASES["staged_flash_bwd_fused_bf16_64"]), gpu)
    behind = ["fence.acq_rel", "atom.relaxed", "fence.acq_rel", "bar.sync", "cp.async.cg"]
    if gpu in ("sm_80", "sm_120"):  # where threads load statistics of rows
        behind.append("ld.global")
    at = len(got) - len(behind)
    assert got[at:] == behind and "ld.global" not in got[:at], got


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_copies_that_follow_an_iteration_have_one_stage(gpu: str) -> None:
    """64 keys and queries of 128 columns: keys, values, and one stage of queries and gradients, 16 KiB each."""
    path = bytecode_path(CASES["staged_flash_bwd_fused_whole_128"])
    program = tileiras.compile(path, gpu_name=gpu, remarks={"passed": "memory"})
    assert any("1 stage of 32768 bytes" in str(d) for d in program.diagnostics), program.diagnostics
    (kernel,) = program.kernels.values()
    assert kernel.static_shared + kernel.dynamic_shared <= 72 << 10
    got = steps(path, gpu)
    assert got[:2] == ["cp.async.wait_group", "bar.sync"] and got[-3:-1] == ["bar.sync", "cp.async.cg"], got


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", ["staged_flash_bwd_fused_whole_128", "staged_flash_bwd_fused_bf16_64"])
def test_four_warps_multiply_where_copies_wait_for_the_step_before(name: str, gpu: str) -> None:
    """What is read of shared memory counts in full there, and eight warps read more of it."""
    program = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu)
    assert ".reqntid 128, 1, 1" in program.ptx


def without_the_barrier_of_the_stage(text: str) -> str:
    """No barrier between what an iteration reads of its stage and the copies that overwrite it."""
    loop = text[text.rindex("cp.async.wait_group") : text.rindex("cp.async.cg")]
    start = text.rindex("cp.async.wait_group")
    first = loop.index("cp.async.cg")
    at = loop.rindex("bar.sync", 0, first)
    return text[: start + at] + "//" + text[start + at :]


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_copies_into_a_stage_that_is_read_are_a_race(gpu: str) -> None:
    kernel = f"staged_in_place:{gpu}"
    assert "race" in findings(kernel, without_the_barrier_of_the_stage, 0)


@pytest.mark.parametrize("gpu", GPUS)
def test_copies_pass_relaxed_atomics(gpu: str) -> None:
    got = steps(bytecode_path(CASES["staged_flash_bwd_fused_relaxed"]), gpu)
    assert got.index("cp.async.cg") < got.index("atom.relaxed") == len(got) - 1, got


def without_the_last_barrier(text: str) -> str:
    """No barrier between a step's stores and the copies of the next one."""
    at = text.rindex("bar.sync", 0, text.rindex("cp.async.cg"))
    assert "st.global" not in text[at : text.rindex("cp.async.cg")]
    return text[:at] + "//" + text[at:]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", GPUS)
def test_without_the_barrier_it_is_a_race(gpu: str) -> None:
    kernel = f"staged_in_place:{gpu}"
    assert all(findings(kernel, lambda text: text, seed) == "" for seed in range(3))
    assert "race" in findings(kernel, without_the_last_barrier, 0)


def chained(order: str) -> str:
    """A product whose second load waits for the first one's token, beside a store to where no load reads; that waits for both.
    `order`: "loads", or "store", where the second load waits for the store of its own iteration."""
    text = matmul(128, 128, 64, "f16")
    loads = re.findall(r"(%\S+), (%\S+) = (load_view_tko weak \S+\[.*?\]) : ", text)
    assert len(loads) == 2
    (_, first, _), (_, _, load) = loads
    text = text.replace(load, f"{load} token = {first if order == 'loads' else '%said'}")
    at = text.index("\n", text.index(first)) + 1
    return text[:at] + f'%said = print_tko "step" token={first} : -> token\n' + text[at:]


def test_loads_do_not_wait_for_each_other() -> None:
    """A load that waits for another one may be copied with it; one that waits for an access of its own iteration may not."""
    assert "cp.async.cg" in steps(chained("loads"), "sm_80")
    assert "cp.async.cg" not in steps(chained("store"), "sm_80")
