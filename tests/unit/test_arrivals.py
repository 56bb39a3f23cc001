"""Rings that threads fill by cp.async and tcgen05 reads: stages have mbarriers, and their loop no barrier."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus import check as corpus
from tests.corpus.case import Case
from tests.corpus.cases.staged import operands, weights
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.unit.test_roles import kernel, product, store, sum_over

ARRIVE = "cp.async.mbarrier.arrive.noinc.shared::cta.b64"
OPTIONS: dict[str, Any] = {"launch_abi": "simt", "emit": "ptx", "gpu_name": "sm_100", "lineinfo": True}
# several types, ragged extents, a nest of loops, one step, a wide tile, two sums, a step that may not run at all, pointers
TAKEN = (
    "staged_bf16_nn_128", "staged_bf16_one_step", "staged_f16_nt", "staged_f16_wide", "staged_e4m3_nt", "staged_i8_nn",
    "staged_persistent", "staged_batched_wide", "staged_split_k",
)  # fmt: skip
WAIT = r"\$L\d+:\n\tmbarrier\.try_wait[^\n]*\n[^\n]*bra[^\n]*\n"


def run_case(case: Case, monkeypatch: pytest.MonkeyPatch, seed: int) -> str:
    """What the formula of a corpus case says about a run under the race check."""
    launch = tileiras.launch

    def watched(source: Any, *args: Any, **options: Any) -> None:
        program = tileiras.compile(source, **OPTIONS)
        assert "mbarrier.arrive" in program.ptx
        launch(program, *args, **{**options, "check": True, "seed": seed})

    monkeypatch.setattr(tileiras, "launch", watched)
    return corpus.launch_case(case, "emulator", "sm_100", 300).word


@pytest.mark.parametrize("name", ("staged_bf16_one_step", "staged_e4m3_nt", "staged_persistent"))
def test_sums_are_right_and_no_access_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_case(CASES[name], monkeypatch, 4) == corpus.PASS


@pytest.mark.full
@pytest.mark.parametrize("name", TAKEN)
def test_no_order_races(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        with monkeypatch.context() as patch:
            assert run_case(CASES[name], patch, seed) == corpus.PASS


@pytest.mark.parametrize("name", ("staged_bf16_nn_128", "staged_persistent", "staged_e4m3_nt"))
def test_their_loops_have_no_barrier(name: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS).ptx
    loop = ptx[ptx.index("tcgen05.mma") : ptx.rindex(ARRIVE)]
    assert "bar.sync" not in loop and "cp.async.cg" in loop
    assert "cp.async.wait_group" not in ptx and "cp.async.commit_group" not in ptx
    assert ptx.count("fence.proxy.async") >= 1


@pytest.mark.parametrize("disable", ("cp.async", "tcgen05"))
def test_without_the_parts_there_is_none(disable: str) -> None:
    ptx = tileiras.compile(bytecode_path(CASES["staged_bf16_nn_128"]), **OPTIONS, disable=(disable,)).ptx
    assert ARRIVE not in ptx


def test_what_threads_look_at_keeps_its_barrier() -> None:
    ptx = tileiras.compile(bytecode_path(CASES["staged_attention_f16"]), **OPTIONS).ptx
    assert ARRIVE not in ptx and "cp.async.wait_group" in ptx


BUGS = {
    "copies are not fenced": (r"(bra[^\n]*\n)\tfence\.proxy\.async\.shared::cta;\n", r"\1"),
    "a stage is read before its copies have landed": (WAIT + r"(?=\tfence\.proxy)", ""),
    "a stage is overwritten before products have read it": (
        r"(tcgen05\.commit(?:[^\n]*\n)+?)" + WAIT + r"(?=(?:(?!try_wait|bar\.sync)[^\n]*\n)*?[^\n]*cp\.async\.c)", r"\1",
    ),
    "products do not release their stage": (r"\ttcgen05\.commit[^\n]*\n", ""),
    "copies of the loop do not arrive": (rf"(\ttcgen05\.mma(?:[^\n]*\n)+?)[^\n]*{re.escape(ARRIVE)}[^\n]*\n", r"\1"),
}  # fmt: skip


# ---- loops longer than their ring, entered once and again; test_roles.py has the kernels
def run(
    program: tileiras.Program, n: int, m: int, extents: tuple[int, int, int], seed: int
) -> tuple[Any, ...]:
    """(blocks of 64 x 64 that a kernel makes, its operands, padded)."""
    rows, depth, columns = extents
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((rows, 352), (depth, 352)))
    out = np.full((max(1, m), 64, 64), 7, np.float32)
    args = [a, b, out, *map(np.int32, (rows, depth, columns, 352, max(1, m), n, m))]
    tileiras.launch(program, "k", 1, args, target="emulator", gpu_name="sm_100", check=True, seed=seed)
    padded = np.zeros((rows + 64, 704), np.float32), np.zeros((704, columns + 64), np.float32)
    padded[0][:rows, :depth] = a[:, :depth]
    padded[1][:depth, :columns] = b[:, :columns]
    return out, *padded


NEST = f"""
    for %j in (%zero to %m, step %one) : tile<i32> {{
      %more = addi %n, %j : tile<i32>
      {sum_over("d", "zero", "more", "%j")} {store("%d", "%j")}
      continue
    }}"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("extents", [(64, 352, 64), (50, 345, 61)])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 6, 7, 11])
def test_loops_of_any_length(n: int, extents: tuple[int, int, int]) -> None:
    program = tileiras.compile(kernel(sum_over("d", "zero", "n", "%zero") + store("%d", "%zero")), **OPTIONS)
    assert ARRIVE in program.ptx
    for seed in range(3):
        out, a, b = run(program, n, 0, extents, seed)
        assert (out[0] == product(a, b, 0, n)).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n, m", [(0, 3), (1, 4), (5, 3), (6, 2), (7, 3), (3, 0)])
def test_nests(n: int, m: int) -> None:
    program = tileiras.compile(kernel(NEST), **OPTIONS)
    assert ARRIVE in program.ptx
    for seed in range(3):
        out, a, b = run(program, n, m, (60 * max(1, m), 352, 64), seed)
        for j in range(m):
            assert (out[j] == product(a, b, 0, n + j, j)).all()


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    program = tileiras.compile(kernel(NEST), **OPTIONS)
    right = program.ptx
    program.ptx = re.sub(*BUGS[bug], right, count=1)
    assert program.ptx != right
    found = 0
    for seed in range(20):
        try:
            out, a, b = run(program, 11, 2, (128, 352, 64), seed)
            found += not all((out[j] == product(a, b, 0, 11, j)).all() for j in range(2))
        except tileiras.LaunchError:
            found += 1
    assert found >= 18


# ---- operands that threads store
@pytest.mark.parametrize(
    "name, barriers", [("staged_dequantized", 0), ("staged_converted_tf32_nt", 0), ("staged_tf32_nn", 1)]
)
def test_stored_operands_are_waited_for_by_one_warp(name: str, barriers: int) -> None:
    """What is transposed on its way is read by others than have copied it."""
    ptx = tileiras.compile(bytecode_path(CASES[name]), **OPTIONS).ptx
    loop = ptx[ptx.index("tcgen05.st") : ptx.rindex("tcgen05.mma")]
    loop = loop[loop.index("cp.async.wait_group") :]
    assert loop.count("bar.sync") == barriers and "mbarrier.arrive.shared" in loop


TRANSPOSED = kernel(NEST).replace(
    "%e = mmaf %x, %y, %acc", "%v = addf %y, %y : tile<32x64xf16>\n      %e = mmaf %x, %v, %acc"
)
# steps enough to come round the ring several times; every thread reads what it has copied
OWN = (
    replace(CASES["staged_converted_tf32_nt"], inputs=operands(80, 112, 1040, "f32", "f32", "nt")),
    replace(CASES["staged_converted_w8a16_nn"], inputs=weights(80, 144, 1040, "nn")),
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("n, m", [(0, 2), (1, 4), (5, 3), (7, 3), (10, 2)])
def test_nests_of_operands_that_are_transposed(n: int, m: int) -> None:
    program = tileiras.compile(TRANSPOSED, **OPTIONS)
    loop = program.ptx[program.ptx.index("cp.async.wait_group") : program.ptx.rindex("tcgen05.mma")]
    assert "mbarrier.arrive.shared" in loop and loop.count("bar.sync") == 1
    for seed in range(2):
        out, a, b = run(program, n, m, (60 * m, 352, 64), seed)
        for j in range(m):
            assert (out[j] == 2 * product(a, b, 0, n + j, j)).all()


@pytest.mark.full
@pytest.mark.parametrize("case", OWN, ids=lambda case: case.name)
def test_long_loops_of_operands_that_are_converted(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        with monkeypatch.context() as patch:
            assert run_case(case, patch, seed) == corpus.PASS


STORED_BUGS = {
    "what was stored is not fenced": (r"\tfence\.proxy\.async\.shared::cta;\n(?=\tbar\.warp\.sync)", ""),
    "a product does not wait for operands": (WAIT + r"(?=(?:(?!try_wait|bar\.sync)[^\n]*\n)*?\ttcgen05\.mma)", ""),
    "nobody arrives": (r"\t@%p\d+ mbarrier\.arrive\.shared::cta\.b64 _, [^;]+;\n", ""),
    "an operand is stored again before the product has read it": (
        WAIT + r"(?=(?:(?!try_wait|bar\.sync)[^\n]*\n)*?\tst\.shared[^\n]*\n(?:[^\n]*\n)*?\tbar\.warp\.sync)", "",
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("bug", STORED_BUGS)
def test_planted_bugs_of_stored_operands_are_found(bug: str) -> None:
    program = tileiras.compile(TRANSPOSED, **OPTIONS)
    right = program.ptx
    program.ptx = re.sub(*STORED_BUGS[bug], right, count=1)
    assert program.ptx != right
    found = 0
    for seed in range(20):
        try:
            out, a, b = run(program, 11, 2, (128, 352, 64), seed)
            found += not all((out[j] == 2 * product(a, b, 0, 11, j)).all() for j in range(2))
        except tileiras.LaunchError:
            found += 1
    assert found >= 18
