"""What a loop of copies does not change is computed in front of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.lower.tileas_to_nvvm.invariants import hoist_invariants, of_address, scaled_stride
from tileiras.compiler.nvvm.code import Addr, Label, Reg
from tileiras.compiler.target import sm
from tileiras.diag import Sink


def loop() -> tuple[list[object], Label, int, dict[str, Reg]]:
    r = {
        name: Reg(name[0], n) for n, name in enumerate(("d0", "d1", "d2", "d3", "d4", "r0", "r1", "r2", "p0"))
    }
    head = Label(1)
    code: list[object] = [
        ("setp.ge.s32", r["p0"], (r["r0"], r["r1"]), None),
        head,
        ("mul.lo.s64", r["d1"], (r["d0"], 6), None),  # from outside alone
        ("cvt.u64.u32", r["d2"], (r["r0"],), None),  # from the loop's counter
        ("add.s64", r["d3"], (r["d1"], 8), None),  # from what is moved
        ("add.s64", r["d4"], (r["d3"], r["d2"]), None),
        ("setp.gt.u32", r["p0"], (r["r1"], 3), None),  # conditions stay
        ("ld.global.u32", r["r2"], (Addr(r["d3"], 0),), None),  # so does what reads memory
        ("cp.async.cg.shared.global", None, (Addr(r["r2"], 0), Addr(r["d4"], 0), 16), None),
    ]
    return code, head, 2, r


@pytest.mark.parametrize("room, moved", [(8, 2), (2, 2), (1, 0)])
def test_what_does_not_change_goes_in_front(room: int, moved: int) -> None:
    code, head, start, r = loop()
    before = list(code)
    hoist_invariants(code, head, start, {r["r0"]}, room)
    assert code.index(head) == 1 + moved
    assert code[1 : 1 + moved] == [before[2], before[4]][:moved]
    left = [record for record in before[2:] if record not in code[1 : 1 + moved]]
    rest = code[2 + moved :]
    assert sorted(map(str, rest)) == sorted(map(str, left))
    assert rest[-3:] == before[-3:]  # what comes back stands in front of what reads it


def test_what_is_written_twice_stays() -> None:
    code, head, start, r = loop()
    code.append(("add.s64", r["d1"], (r["d0"], 1), None))
    before = list(code)
    hoist_invariants(code, head, start, {r["r0"]}, 8)
    assert code == before


def test_only_shifted_strides_move_where_that_is_asked_for() -> None:
    code, head, start, r = loop()
    shift = ("shl.b64", r["d1"], (r["d0"], 7), None)
    code[2] = shift
    before = list(code)
    hoist_invariants(code, head, start, {r["r0"]}, 8, scaled_stride)
    assert code == [before[0], shift, head, *before[3:]], "what is computed from it stays"


def test_addresses_alone_move_where_that_is_asked_for() -> None:
    code, head, start, r = loop()
    narrow = ("mul.lo.u32", Reg("r", 9), (r["r1"], 5), None)
    code.insert(2, narrow)
    before = list(code)
    hoist_invariants(code, head, start, {r["r0"]}, 8, of_address)
    assert code == [before[0], before[3], before[5], head, narrow, before[4], *before[6:]]


def test_a_loop_over_slices_computes_what_is_left_of_an_extent_in_front_of_it() -> None:
    source = (BYTECODE / "gate_gradients.tilebc").read_bytes()
    ptx = tileiras.compile(source, gpu_name="sm_90", emit="ptx").ptx
    assert ptx is not None
    lines = [line.strip() for line in ptx.splitlines()]
    label = next(n for n, line in enumerate(lines) if line.startswith("$L"))
    end = next(n for n, line in enumerate(lines) if line.endswith(f"bra {lines[label][:-1]};"))
    assert any(line.startswith("min.s64") for line in lines[:label])
    assert not any(line.startswith(("min.s64", "max.s64")) for line in lines[label:end])


@pytest.mark.parametrize("name", ["staged_biased_attention_128", "staged_attention_f16"])
def test_strides_of_a_loop_of_wgmma_are_shifted_in_front_of_it(name: str) -> None:
    ptx = tileiras.compile((BYTECODE / f"{name}.tilebc").read_bytes(), gpu_name="sm_90", emit="ptx").ptx
    lines = [line.strip() for line in ptx.splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("wgmma.mma_async"))
    label = max(n for n in range(first) if lines[n].startswith("$L") and lines[n].endswith(":"))
    end = next(n for n in range(first, len(lines)) if lines[n].endswith(f"bra {lines[label][:-1]};"))
    body = lines[label:end]
    made = {re.split(r"[ ,;]+", line)[1] for line in body if re.match(r"[a-z][a-z0-9.]* %", line)}
    shifts = [line for line in body if line.startswith("shl.b64")]
    assert not [line for line in shifts if re.split(r"[ ,;]+", line)[2] not in made]


def is_statistics(op: Any) -> bool:
    """Whether an op reads a row of f32 from its stage: those of queries, which the loop over steps does change."""
    return (
        op.spec.name == "load_shared" and op.result.type.elem.name == "f32" and min(op.result.type.shape) == 1
    )


@pytest.mark.parametrize(("kernel", "threads"), [("64x64_d128", False), ("128x64_d64", True)])
def test_what_all_loops_leave_as_it_is_goes_in_front_of_all_of_them(kernel: str, threads: bool) -> None:
    """Keys and values of a group of heads: the loop over steps is in one over heads, which changes neither."""
    loops: list[Any] = []
    before: list[str] = []
    inside: list[str] = []

    def after(name: str, ir: Any) -> None:
        if name == "TileASWarpgroupProducts":
            loops.extend(op for op in ir.walk() if op.spec.name == "for")
            ops = loops[0].block.ops
            before.extend(op.spec.name for op in ops[: ops.index(loops[0])])
            inside.extend(op.spec.name for op in loops[0].walk() if not is_statistics(op))

    module = tileiras.load(BYTECODE / f"staged_keys_of_groups_{kernel}.tilebc").op
    pipeline.compile_module(module, sm.find("sm_90"), Sink(), after=after)
    assert len(loops) == 2
    assert not {"store_shared", "convert_layout", "load_shared"} & set(inside)
    assert before.count("store_shared") + before.count("convert_layout") >= 2
    assert threads == ("convert_layout" in before), "keys stay in registers where these have room"
