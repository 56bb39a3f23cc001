"""Hundreds of loops in one another compile, print and run; beyond the limit there is an error that names the place."""

from __future__ import annotations

import sys

import pytest
from contract.kit import NOOP

import tileiras
from tileiras.compiler.ir.depth import MAX_REGIONS
from tileiras.diag import CompileError

DEPTH = 300


def loops(count: int) -> str:
    """A kernel that stores 1 after one turn of every loop."""
    lines = [
        "cuda_tile.module @m {",
        "entry @k(%x: tile<ptr<i32>>, %n: tile<i32>) {",
        "%z = constant <i32: 0> : tile<i32>",
        "%o = constant <i32: 1> : tile<i32>",
    ]
    value = "%z"
    for i in range(count):
        carried = f"iter_values(%a{i} = {value}) -> (tile<i32>)"
        lines.append(f"%r{i} = for %i{i} in (%z to %n, step %o) : tile<i32> {carried} {{")
        value = f"%a{i}"
    lines.append(f"%s = addi {value}, %o : tile<i32>")
    value = "%s"
    for i in reversed(range(count)):
        lines += [f"continue {value} : tile<i32>", "}"]
        value = f"%r{i}"
    lines += [f"%t = store_ptr_tko weak %x, {value} : tile<ptr<i32>>, tile<i32> -> token", "return", "}", "}"]
    return "\n".join(lines)


def ifs(count: int) -> str:
    opened = "if %c {\n" * count
    return f"cuda_tile.module @m {{ entry @k(%c: tile<i1>) {{\n{opened}{'yield }' * count}\nreturn\n}} }}"


@pytest.mark.parametrize("text", [loops(DEPTH), ifs(DEPTH)], ids=["for", "if"])
def test_deep_regions_go_all_the_way(text: str) -> None:
    module = tileiras.load(text)
    data = module.to_bytecode()
    assert str(tileiras.load(data)).count("\n") == str(module).count("\n")
    assert "entry k" in tileiras.compile(data, gpu_name="sm_90", emit="ptx").ptx


def test_deep_loops_run() -> None:
    numpy = pytest.importorskip("numpy")
    for count, target in ((DEPTH, "reference"), (70, "emulator")):
        x = numpy.zeros(1, numpy.int32)
        tileiras.launch(loops(count), "k", (1, 1, 1), [x, numpy.int32(1)], target=target, gpu_name="sm_90")
        assert x[0] == 1


def test_the_generic_form() -> None:
    from tileiras.compiler.source import load, to_text
    from tileiras.diag import Sink

    generic = to_text(load(ifs(DEPTH), Sink()), generic=True)
    assert to_text(load(generic, Sink()), generic=True) == generic


@pytest.mark.parametrize("text", [loops(20_000), ifs(20_000)], ids=["for", "if"])
def test_beyond_the_limit(text: str) -> None:
    with pytest.raises(CompileError, match=f"nesting is deeper than {MAX_REGIONS} levels") as caught:
        tileiras.load(text)
    assert caught.value.exit_code == 5


def test_plain_programs_leave_pythons_limit_alone() -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1500)
    try:
        tileiras.compile(NOOP, gpu_name="sm_90", emit="ptx")
        assert sys.getrecursionlimit() == 1500
    finally:
        sys.setrecursionlimit(before)


def test_jumps_of_a_loop_are_found_below_any_number_of_ifs() -> None:
    """Layout inference asks for them with no more room on the stack than Python gives."""
    from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
    from tileiras.compiler.ir.core import Block, Op, Region
    from tileiras.compiler.lower.tileaa_to_tileas.infer import _jumps

    def around(name: str, *inner: Op) -> Op:
        block = Block()
        for op in inner:
            block.append(op)
        return Op(BY_NAME[name], regions=[Region([block])])

    deep = Op(BY_NAME["continue"])
    inside = deep
    for _ in range(3000):
        inside = around("if", inside)
    other, last = around("loop", Op(BY_NAME["continue"])), Op(BY_NAME["continue"])
    loop = around("loop", inside, other, last)
    assert _jumps(loop, "continue") == [deep, last], "not those of a loop inside"
