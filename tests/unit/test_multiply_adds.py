"""Products by multiply-add whose operands wait in shared memory: fed, and read in whole words of 16 bytes without conflicts.

Their numbers, and races, are held to by tests/unit/test_staged_products.py and the corpus.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tests.tile_text import matmul
from tileiras.compiler.layout.convert import bank_conflicts
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.shared import BANK_GROUPS, arrange
from tileiras.compiler.target import fma
from tileiras.compiler.target.cost import CostModel

FORMS = ["staged_f32_nn", "staged_f32_nt", "staged_f32_tn", "staged_f32_deep"]


def ptx(source: str | Path, gpu_name: str, **options: object) -> str:
    text = tileiras.compile(source, gpu_name=gpu_name, emit="ptx", **options).ptx
    assert text is not None
    return text


def loop_of(text: str) -> str:
    (loop,) = [each for each in loops_of(text) if "fma.rn.f32" in each]
    return loop


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", FORMS)
def test_operands_run_ahead_and_are_read_where_they_land(name: str, gpu_name: str) -> None:
    loop = loop_of(ptx(bytecode_path(CASES[name]), gpu_name))
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop
    assert "ld.global" not in loop and "st.shared" not in loop and loop.count("bar.sync") == 1
    assert loop.count("ld.shared") == loop.count("ld.shared.v4.b32") > 0


def test_threads_have_as_many_rows_as_columns() -> None:
    """64 sums of a thread: 16 words for 64 multiply-adds, by two warps for 64x64."""
    text = ptx(bytecode_path(CASES["staged_f32_nt"]), "sm_90")
    assert ".reqntid 64," in text
    loop = loop_of(text)
    assert loop.count("fma.rn.f32") == 64 * 16 and loop.count("ld.shared.v4.b32") == (8 + 8) * 16 // 4


def test_long_steps_are_cut() -> None:
    loop = loop_of(ptx(bytecode_path(CASES["staged_f32_deep"]), "sm_90"))
    assert loop.count("fma.rn.f32") == CostModel.step_multiplications


def test_operands_that_no_copy_brings_are_exchanged() -> None:
    """One stage asked for: nothing waits, and no thread holds all of K of its rows and columns."""
    text = matmul(64, 64, 32, "f32")
    asked = text.replace("cuda_tile.module @m", "cuda_tile.module @m attributes {tt.num_stages = 1 : i32}", 1)
    assert asked != text
    loop = loop_of(ptx(asked, "sm_90"))
    assert "cp.async" not in loop and "st.shared" in loop
    assert "cp.async" in loop_of(ptx(text, "sm_90"))


@pytest.mark.parametrize("depth", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize(("m", "n", "log2_warps"), [(64, 64, 1), (128, 128, 3), (16, 32, 1), (128, 8, 1)])
def test_lanes_reach_all_banks(m: int, n: int, log2_warps: int, near: bool, which: int, depth: int) -> None:
    result = fma.accumulator_layout((m, n), log2_warps, (near, near))
    shape = (m, depth) if which == 0 else (depth, n)
    along = which if near else 1 - which  # contiguous: along rows or columns, or along K
    layout = fma.operand_layout(shape, which, result, (m, n))
    line = [k for k in range(layout.bits) if arrange(shape, along, 4)[k] in BANK_GROUPS] if near else []
    columns = arrange(shape, along, 4, lines=line)
    assert bank_conflicts([apply(columns, column) for column in layout.lane], 16) == 1


def test_a_remark_tells_once_of_a_product_in_slices() -> None:
    program = tileiras.compile(
        bytecode_path(CASES["staged_f32_nt"]), gpu_name="sm_90", emit="ptx", remarks="all"
    )
    said = [d.code for d in program.diagnostics]
    assert said.count("NoTensorCore") == 1
    assert any(re.search("run ahead through shared memory", d.text) for d in program.diagnostics)


def test_operands_that_two_products_read_are_exchanged() -> None:
    """Parts of complex numbers: fragments of all of K would wait in registers from one product to the other."""
    (loop,) = loops_of(ptx(bytecode_path(CASES["mm_complex_f32"]), "sm_90"))
    assert "st.shared" in loop and loop.count("fma.rn.f32") < CostModel.step_multiplications


def test_copies_leave_room_for_blocks_that_exchange_in_turn() -> None:
    """What a loop computes is exchanged by the product: while one block does, others multiply. Two stages and the exchange
    take 48 KiB, of which sm_90 has four, and sm_120 two."""
    text = matmul(64, 64, 32, "f32")
    product = re.search(r"mmaf (%\w+),", text)
    assert product is not None
    left = product[1]
    squared = f"%squared = mulf {left}, {left} : tile<64x32xf32>\n"
    line = next(each for each in text.splitlines() if "mmaf" in each)
    text = text.replace(line, squared + line.replace(f"mmaf {left},", "mmaf %squared,"))
    assert "cp.async" in loops_of(ptx(text, "sm_90"))[0]
    assert "cp.async" not in loops_of(ptx(text, "sm_120"))[0]
