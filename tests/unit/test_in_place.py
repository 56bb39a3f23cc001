"""Values that a loop with wgmma carries are computed in their own registers, where that changes nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of
from tileiras.compiler.lower.tileas_to_nvvm import control
from tileiras.compiler.lower.tileas_to_nvvm.in_place import compute_in_place
from tileiras.compiler.nvvm.code import Addr, Label, Reg

ACC, NEW, FACTOR, OTHER, KEPT = (Reg("r", n) for n in range(1, 6))
WIDE = Reg("d", 1)
MUL = ("mul.rn.f32", NEW, (ACC, FACTOR), None)
PRODUCT = ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", (NEW,), (WIDE, WIDE), None)
COPY = ("mov.b32", ACC, (NEW,), None)
IN_PLACE = [
    ("mul.rn.f32", ACC, (ACC, FACTOR), None),
    (PRODUCT[0], (ACC,), (WIDE, WIDE), None),
]


def rewritten(*body: Any, carried: set[Reg] | None = None) -> list[Any]:
    code = [("mov.b32", ACC, (0,), None), Label(1), *body]
    compute_in_place(code, 2, carried or {ACC})
    return code[2:]


def unchanged(*body: Any, carried: set[Reg] | None = None) -> bool:
    return rewritten(*body, carried=carried) == list(body)


def test_a_scaled_accumulator_stays_where_it_is() -> None:
    assert rewritten(MUL, PRODUCT, COPY) == IN_PLACE


def test_what_replaced_a_record_is_told() -> None:
    code = [MUL, PRODUCT, COPY]
    assert compute_in_place(code, 0, {ACC}) == list(zip((MUL, PRODUCT), IN_PLACE))


def test_addresses_and_guards_are_renamed() -> None:
    place = ("st.shared.b32", None, (Addr(NEW, 4), OTHER), None)
    (_, _, (_, _, (address, _), _)) = rewritten(MUL, PRODUCT, place, COPY)
    assert (address.base, address.offset_bytes) == (ACC, 4)


def test_the_old_value_is_read_later() -> None:
    assert unchanged(MUL, PRODUCT, ("add.rn.f32", OTHER, (ACC, FACTOR), None), COPY)


def test_the_old_value_goes_to_another_register() -> None:
    assert unchanged(MUL, PRODUCT, COPY, ("mov.b32", KEPT, (ACC,), None), carried={ACC, KEPT})


def test_the_old_value_is_a_guard_later() -> None:
    old, new = Reg("p", 1), Reg("p", 2)
    flip = ("and.pred", new, (old, old), None)
    late = ("st.shared.b32", None, (Addr(OTHER, 0), OTHER), (old, True))
    assert unchanged(PRODUCT, flip, late, ("mov.pred", old, (new,), None), carried={old})


def test_the_tensor_cores_may_still_read_the_old_value() -> None:
    reads = (PRODUCT[0], (OTHER,), ((ACC, ACC, ACC, ACC), WIDE), None)
    assert unchanged(reads, MUL, PRODUCT, COPY)


def test_the_register_is_written_elsewhere() -> None:
    assert unchanged(("mov.b32", ACC, (0,), (Reg("p", 1), False)), MUL, PRODUCT, COPY)


def test_a_value_from_in_front_of_the_loop_is_copied() -> None:
    assert unchanged(PRODUCT, ("mov.b32", ACC, (OTHER,), None))


def test_a_value_goes_to_one_of_two_registers() -> None:
    code = rewritten(MUL, PRODUCT, COPY, ("mov.b32", KEPT, (NEW,), None), carried={ACC, KEPT})
    assert code == [*IN_PLACE, ("mov.b32", KEPT, (ACC,), None)]


def test_branches_forward_are_no_obstacle() -> None:
    skip = [
        ("bra", None, (Label(7),), Reg("p", 1)),
        ("st.shared.b32", None, (Addr(OTHER, 0), OTHER), None),
        Label(7),
    ]
    assert [r for r in rewritten(*skip, MUL, PRODUCT, COPY) if r.__class__ is tuple][2:] == IN_PLACE


def test_a_branch_that_leaves_or_repeats_is_one() -> None:
    leaves = ("bra", None, (Label(9),), Reg("p", 1))
    assert unchanged(MUL, PRODUCT, leaves, COPY)
    again = Label(8)
    assert unchanged(again, MUL, PRODUCT, ("bra", None, (Label(8),), Reg("p", 1)), COPY)


def test_a_wait_that_repeats_is_none() -> None:
    wait = [Label(8), ("add.s32", OTHER, (FACTOR, KEPT), None), ("bra", None, (Label(8),), Reg("p", 1))]
    body = [*wait, MUL, PRODUCT, COPY]
    code = list(body)
    compute_in_place(code, 0, {ACC})
    assert code == [*wait, *IN_PLACE]
    reads = [wait[0], ("add.s32", OTHER, (ACC, KEPT), None), wait[2]]
    assert unchanged(*reads, MUL, PRODUCT, COPY)


def waiting(text: str) -> int:
    """Virtual registers written in front of a kernel's loop with products and read first behind it, by warps that multiply."""
    (loop,) = [loop for loop in loops_of(text) if "mma" in loop]
    front, behind = text.split(loop)
    behind = behind.split("setmaxnreg.dec")[0]  # warps that copy begin there
    registers = [set(re.findall(r"%[phrd]\d+", part)) for part in (front, loop, behind)]
    return len((registers[0] & registers[2]) - registers[1])


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_what_is_needed_behind_a_loop_with_products_is_computed_there(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait beside the accumulators."""
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    data = bytecode_path(CASES["staged_attention_causal_bf16"])
    text = tileiras.compile(data, gpu_name=gpu, emit="ptx").ptx
    monkeypatch.setattr(control, "multiplies", lambda code, start, opcodes="": False)
    assert waiting(text) < waiting(tileiras.compile(data, gpu_name=gpu, emit="ptx").ptx)
