"""Products with a batch dimension: where warpgroups and tensor memory multiply them, and where they stay whole."""

import pytest

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES

BY_BATCH = ("batches", "batches_of_four", "batches_of_few_rows", "batches_attention")
WHOLE = ("batches_too_small", "batches_with_one_left", "batches_added")
OWN = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}


def products(name: str, gpu_name: str, **more: object) -> set[str]:
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx", **more).ptx
    return {word for word in OWN.values() if f"{word}." in ptx}


@pytest.mark.parametrize("gpu_name", OWN)
@pytest.mark.parametrize("name", BY_BATCH)
def test_a_batch_is_multiplied_by_the_targets_own_instruction(name: str, gpu_name: str) -> None:
    assert products(name, gpu_name) == {OWN[gpu_name]}


@pytest.mark.parametrize("gpu_name", ("sm_90", "sm_100"))
@pytest.mark.parametrize("name", WHOLE)
def test_batches_that_would_be_computed_or_copied_twice_or_have_too_few_rows_stay_whole(
    name: str, gpu_name: str
) -> None:
    assert products(name, gpu_name) == {"mma.sync"}


def test_short_steps_stay_whole_for_warpgroups_which_would_issue_more_than_mma_sync_reads() -> None:
    assert products("batches_of_short_steps", "sm_90") == {"mma.sync"}
    assert products("batches_of_short_steps", "sm_100") == {"tcgen05.mma"}


def test_batches_stay_whole_without_these_instructions() -> None:
    for gpu_name, part in (("sm_90", "wgmma"), ("sm_100", "tcgen05")):
        assert products("batches", gpu_name, disable=(part,)) == {"mma.sync"}


@pytest.mark.parametrize("gpu_name", ("sm_90", "sm_100"))
def test_what_is_assumed_of_the_kernel_holds_for_each_batch_so_that_bulk_copies_bring_operands(
    gpu_name: str,
) -> None:
    ptx = tileiras.compile(
        bytecode_path(CASES["batches"]), gpu_name, launch_abi="simt", tensor_maps="launcher", emit="ptx"
    ).ptx
    assert "cp.async.bulk.tensor." in ptx and "cp.async.cg" not in ptx
