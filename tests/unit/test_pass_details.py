"""Small decisions of three passes: kernel attributes, stages on loops, what leaves the region of a producer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from contract.tileas import (
    ANALYSIS,
    CREATE,
    D10,
    D13,
    LOAD,
    V,
    consume,
    function,
    load,
    loop,
    module,
    produce,
    run,
)

from tileiras.compiler.ir.core import Value
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.passes.nvvm.kernel_attr import KernelAttrPass
from tileiras.compiler.passes.tileas.optimize_pipeline_region import shrink
from tileiras.compiler.target import sm
from tileiras.diag import Sink

PIPELINED = produce() + "\n" + consume()
LOADED = f"%q = {CREATE}\n"


def kernel(target: str, **attrs: Any) -> Any:
    """A function after KernelAttrPass."""
    fn = SimpleNamespace(
        attrs={name.replace("_", ".", 1): value for name, value in attrs.items()},
        block="none",
        cluster="none",
        directives=None,
        features=set(),
    )
    assert KernelAttrPass().run(fn, Context(SimpleNamespace(functions=[]), sm.find(target), Sink())) is True
    return fn


def test_the_marker_of_a_kernel() -> None:
    assert kernel("sm_90", cute_kernel=True).attrs == {"nvvm.kernel": True}
    assert kernel("sm_90", cute_kernel=False).attrs == kernel("sm_90").attrs == {}


def test_the_block_is_that_of_reqntid() -> None:
    assert kernel("sm_90", nvvm_reqntid=[128, 2, 1]).block == (128, 2, 1)
    assert kernel("sm_90").block == "none", "without one the block stays"


@pytest.mark.parametrize(
    ("target", "cluster", "lines"),
    [("sm_90", (2, 1, 1), [".reqnctapercluster 2, 1, 1"]), ("sm_80", "none", [])],
)
def test_clusters_exist_from_sm_90_on(target: str, cluster: object, lines: list[str]) -> None:
    fn = kernel(target, nvvm_cluster_dim=[2, 1, 1])
    assert (fn.cluster, fn.directives) == (cluster, lines)
    assert kernel(target).cluster == ((1, 1, 1) if lines else "none")


def body(done: Any, index: int = 0) -> list[Any]:
    """Ops of a loop."""
    loops = [op for op in done.context.module.walk() if op.spec.name == "for"]
    return list(loops[index].regions[0].block.ops)


def test_stages_are_written_on_the_ops_of_a_loop() -> None:
    done = run(module(function(LOADED + loop(PIPELINED))), ANALYSIS, D10)
    assert done.ok and done.texts == [] and done.word(D10) == 0
    ops = body(done)
    assert [op.attrs.get("stage") for op in ops] == [0, 1, None], "a terminator has none"
    assert ops[0].parent.attrs["schedule"] == {"stages": 2}


def test_without_an_analysis_there_is_no_schedule() -> None:
    done = run(module(function(LOADED + loop(PIPELINED))), D10)
    assert done.texts == ["Alias is not expected here."] and done.word(D10) == 4
    assert [note.text for note in done.emitted[0].notes] == ["function 'k' has no ScheduleAnalysis"]
    assert "schedule" not in body(done)[0].parent.attrs


def test_a_loop_with_an_alias_is_left_alone() -> None:
    text = module(
        function(LOADED + loop(PIPELINED) + f"\n%p2 = {CREATE}\n" + loop(PIPELINED.replace("%q", "%p2")))
    )
    root = load(text)
    first = next(op for op in root.walk() if op.spec.name == "for").regions[0].block
    analysed = run(root, ANALYSIS, verify_each=False)
    assert analysed.ok
    pipeline = first.ops[0].operands[0]
    first.ops[0].operands[0] = Value(pipeline.type, first, 9)
    done = run(root, ANALYSIS, D10, verify_each=False)
    assert done.texts == ["Alias is not expected here."] and done.word(D10) == 4
    assert [note.text for note in done.emitted[0].notes] == [
        "operand #0 of 'nv_tileas.async.pipeline.produce_one' is not the pipeline itself"
    ]
    alias, good = body(done, 0), body(done, 1)
    assert "schedule" not in alias[0].parent.attrs and "schedule" in good[0].parent.attrs
    assert [op.attrs.get("stage") for op in alias] == [None] * 3
    assert [op.attrs.get("stage") for op in good] == [0, 1, None]


def shrunk(inner: str) -> tuple[list[str], list[str]]:
    """(in front of the producer, inside) by short names, after D13."""
    done = run(module(function(LOADED + loop(produce(producer=inner) + "\n" + consume()))), D13)
    assert done.ok and done.texts == []
    ops = body(done)
    (at,) = [i for i, op in enumerate(ops) if op.spec.name == "async.pipeline.produce_one"]
    return [op.spec.name for op in ops[:at]], [op.spec.name for op in ops[at].regions[0].block.ops]


def test_pure_ops_leave_the_region_in_order() -> None:
    two = f"%u = nv_tileas.negf %f : {V} -> {V}\n%w = nv_tileas.negf %u : {V} -> {V}\n"
    assert shrunk(two + LOAD) == (["negf", "negf"], ["load_ptr_tko", "async.pipeline.yield"])
    assert shrunk(LOAD) == ([], ["load_ptr_tko", "async.pipeline.yield"])


def test_what_needs_a_value_of_the_region_stays() -> None:
    uses = f"\n%u = nv_tileas.negf %x : {V} -> {V}\n%w = nv_tileas.negf %u : {V} -> {V}"
    assert shrunk(LOAD + uses) == ([], ["load_ptr_tko", "negf", "negf", "async.pipeline.yield"])
    free = f"\n%u = nv_tileas.negf %f : {V} -> {V}"
    assert shrunk(LOAD + free) == (["negf"], ["load_ptr_tko", "async.pipeline.yield"])


@pytest.mark.parametrize(
    ("traits", "regions", "terminator", "moves"),
    [
        (True, [], False, True),
        (False, [], False, False),
        (True, ["r"], False, False),
        (True, [], True, False),
    ],
)
def test_what_may_leave(traits: bool, regions: list[str], terminator: bool, moves: bool) -> None:
    from tileiras.compiler.ir.spec import PURE

    spec = SimpleNamespace(traits=PURE if traits else 0, is_terminator=terminator)
    inner = SimpleNamespace(spec=spec, regions=regions, operands=[], results=[])
    block = SimpleNamespace(args=[], ops=[inner])
    moved: list[Any] = []
    outer = SimpleNamespace(insert_before=lambda op, what: moved.append((op, what)))
    maker: Any = SimpleNamespace(regions=[SimpleNamespace(block=block)], block=outer)
    shrink(maker)
    assert moved == ([(maker, inner)] if moves else []) and block.ops == ([] if moves else [inner])
