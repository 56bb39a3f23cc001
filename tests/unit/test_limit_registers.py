"""Words that are alive at once (nvvm/pressure.py), and the registers that LimitRegisters allows by them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras import archs
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.nvvm.pressure import pressure
from tileiras.compiler.nvvm.text import parse_module
from tileiras.compiler.passes.nvvm.limit_registers import LimitRegisters
from tileiras.compiler.target import sm
from tileiras.diag import Sink

LOAD = "%d1 = ld.param.u64 [k_param_0]\n"


def function(body: str, gpu_name: str = "sm_90", block: int = 128, attributes: str = "") -> Any:
    """A kernel of records in PTX's words."""
    text = f""" {gpu_name} {{
      func @k(u64 "ptr<f32>") block {block}, 1, 1 attributes {{nvvm.kernel{attributes}}} {{
        {LOAD}{body}
        ret
      }}
    }}"""
    return parse_module(text, 0, sm.find)[0].functions[0]


def words(count: int, again: bool = True, more: str = "") -> str:
    """So many registers that are loaded in front of a loop and stored in it, one of them its counter."""
    rows = [f"%r{i} = ld.global.b32 [%d1+{4 * i}]" for i in range(1, count + 1)]
    rows += ["$L1:"] if again else []
    rows += [f"st.global.b32 [%d1+{4 * i}], %r{i}" for i in range(1, count + 1)]
    rows += [more, "%r1 = add.s32 %r1, 1", "%p1 = setp.lt.s32 %r1, 9"]
    return "\n".join([*rows, "@%p1 bra $L1" if again else ""])


def limit(fn: Any, gpu_name: str = "sm_90") -> int | None:
    context = Context(SimpleNamespace(functions=[fn]), sm.find(gpu_name), Sink())
    assert LimitRegisters().run(fn, context)
    found: int | None = fn.attrs.get("nvvm.maxnreg")
    return found


@pytest.mark.parametrize(
    "body, alive",
    [
        ("%r1 = ld.global.b32 [%d1]\nst.global.b32 [%d1], %r1", 1),
        ("%d2 = ld.global.b64 [%d1]\nst.global.b64 [%d1], %d2", 2),  # two words
        ("%r1 = mov.u32 7\n%r2 = mov.u32 %tid.x\nst.global.b32 [%d1], %r1\nst.global.b32 [%d1], %r2", 0),  # free
        ("%h1 = ld.global.b16 [%d1]\n%h2 = ld.global.b16 [%d1+2]\n%r1 = mov.b32 {%h1, %h2}\nst.global.b32 [%d1], %r1", 2),
        # halves of a word that is alive as well are that word
        ("%r1 = ld.global.b32 [%d1]\n{%h1, %h2} = mov.b32 %r1\nst.global.b16 [%d1], %h1\nst.global.b16 [%d1], %h2\n"
         "st.global.b32 [%d1], %r1", 1),
        # one after the other
        ("%r1 = ld.global.b32 [%d1]\nst.global.b32 [%d1], %r1\n%r2 = ld.global.b32 [%d1]\nst.global.b32 [%d1], %r2", 1),
        # what a guarded record writes keeps its old value where the guard is false
        ("%r1 = ld.global.b32 [%d1]\n%r2 = ld.global.b32 [%d1+4]\n%p1 = setp.eq.s32 %r2, 0\n@%p1 %r1 = add.s32 %r2, 1\n"
         "st.global.b32 [%d1], %r1", 2),
        # carried around the loop: read at its head, alive at its end
        ("%r1 = ld.global.b32 [%d1]\n%r2 = ld.global.b32 [%d1+4]\n$L1:\nst.global.b32 [%d1], %r1\n%r3 = ld.global.b32 [%d1]\n"
         "%r2 = add.s32 %r2, %r3\n%p1 = setp.lt.s32 %r2, 9\n@%p1 bra $L1", 3),
        # dead behind a return
        ("%r1 = ld.global.b32 [%d1]\n%r2 = ld.global.b32 [%d1+4]\n%p1 = setp.eq.s32 %r2, 0\n@%p1 bra $L2\n"
         "st.global.b32 [%d1], %r2\nret\n$L2:\nst.global.b32 [%d1], %r1", 2),
    ],
)  # fmt: skip
def test_words_alive_at_once(body: str, alive: int) -> None:
    assert pressure(function(body).code) == alive


def test_a_loop_with_as_many_words_as_leave_room() -> None:
    assert [limit(function(words(n))) for n in (19, 20, 26, 27)] == [None, 32, 32, None]
    assert limit(function(words(26), "sm_120"), "sm_120") == 40  # 1,536 threads an SM
    assert limit(function(words(26, again=False))) is None  # no loop


@pytest.mark.parametrize("number, threads", [(row[0], row[2]) for row in archs.ROWS])
def test_every_target_is_held_to_the_threads_of_its_row(number: int, threads: int) -> None:
    name = f"sm_{number}"
    assert limit(function(words(26), name), name) == 65536 // threads & -8


def test_what_is_left_alone() -> None:
    assert limit(function(words(26), attributes=", nvvm.maxnreg = 64")) == 64  # asked for
    assert limit(function(words(26), attributes=", nvvm.minctasm = 2")) is None
    assert limit(function(words(26), attributes=", nvvm.cluster_dim = [2, 1, 1]")) is None
    assert limit(function(words(26), block=96)) is None  # 2,048 is no multiple
    assert limit(function(words(25, more="%d2 = ld.global.f64 [%d1]\n%d3 = sqrt.rn.f64 %d2"))) is None
    filled = function(words(26))
    filled.shared_bytes = 16 << 10  # 16 blocks do not fit
    assert limit(filled) is None


def test_line_information_changes_no_limit() -> None:
    data = bytecode_path(CASES["fft_four_step"]).read_bytes()
    for more in ({}, {"lineinfo": True}):
        program = tileiras.compile(data, gpu_name="sm_90", emit="ptx", **more)
        assert ".maxnreg 32" in program.ptx


def test_a_long_chain_takes_time_by_its_length() -> None:
    rows = [f"%r{i + 1} = add.s32 %r{i}, 1" for i in range(1, 3000)]
    assert (
        pressure(
            function("%r1 = ld.global.b32 [%d1]\n" + "\n".join(rows) + "\nst.global.b32 [%d1], %r3000").code
        )
        == 1
    )
