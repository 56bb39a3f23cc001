"""Accumulators of 64 rows in tensor memory whose rows are reduced: two threads share a row, and one shuffle is enough."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import tileiras
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler.lower.tileas_to_nvvm.tensor_memory_moves import _pieces
from tileiras.compiler.target import tcgen05
from tileiras.compiler.target.cost import CostModel


def ptx_of(name: str) -> str:
    return tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_100", emit="ptx").ptx


@pytest.mark.parametrize("log2_warps", [2, 3])
@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256, 512])
def test_what_one_instruction_moves_lies_together(columns: int, log2_warps: int) -> None:
    shape = (64, columns)
    assert tcgen05.fits(shape, log2_warps)
    layout = tcgen05.layout_of(shape, log2_warps, rows_of_halves=True)
    assert sorted([*layout.reg, *layout.lane, *layout.warp]) == [1 << n for n in range(layout.bits)]
    moved = []
    for first, form, registers, (other,) in _pieces(layout, shape, CostModel.chunk_registers):
        held = [layout.reg_table[r] & columns - 1 for r in registers]
        assert held == list(range(first, first + len(held))) and form == f"16x32bx2.x{len(held)}"
        assert other >= len(held)
        moved += registers
    assert sorted(moved) == list(range(layout.num_regs))


def test_rows_that_are_reduced_and_rows_that_are_not() -> None:
    reduced, stays = ptx_of("staged_flash_window_64"), ptx_of("staged_flash_bwd_f16_64")
    assert "tcgen05.ld.sync.aligned.16x32bx2" in reduced and "16x256b" not in reduced
    assert (
        reduced.count("shfl.sync.bfly") < 8
    )  # of a maximum and a sum; of two rows in four threads it were twice eight
    assert "tcgen05.ld.sync.aligned.16x256b" in stays and "16x32bx2" not in stays


@pytest.mark.sampled(2)
@pytest.mark.parametrize("maps", [False, True])
def test_sixteen_columns_of_scores_in_eight_warps(maps: bool) -> None:
    """Sums of 512 columns take eight warps, each of which has eight columns of 64x16 scores."""
    case = CASES["staged_latent_512_few"]
    assert "tcgen05.mma" in ptx_of(case.name) and "mma.sync" not in ptx_of(case.name)
    more = {"launch_abi": "simt", "tensor_maps": "launcher"} if maps else {}
    done = launch_case(case, "emulator", "sm_100", 300, check=True, seed=5, **more)
    assert done.word == PASS, done.reason


def test_scores_and_their_gradient_take_eight_warps_where_four_would_spill() -> None:
    case = CASES["staged_flash_bwd_bf16_wide"]
    ptx = ptx_of(case.name)
    assert "tcgen05.mma" in ptx and "mma.sync" not in ptx and ".reqntid 256" in ptx
    assert ".reqntid 128" in ptx_of("staged_flash_bwd_bf16_128")
    done = launch_case(case, "emulator", "sm_100", 300, check=True, seed=2)
    assert done.word == PASS, done.reason
