"""The pass-failure handshake: the status word, who sets it, who clears it, who reads it."""

from __future__ import annotations

import os
import re
import struct
from typing import Any

import pytest
from contract.kit import command, compile_, entry
from contract.kit import module as tile_module
from contract.rules import rule
from contract.tileas import (
    BAD_LOOP,
    CONFLICT,
    CREATE,
    D08,
    D09,
    D10,
    D11,
    D13,
    FAMILY,
    GOOD_LOOP,
    NO_WAY,
    PIPELINED,
    REFUSED_PIPELINE,
    TO_LLVM,
    Run,
    consume,
    function,
    loop,
    module,
    produce,
    run,
)  # fmt: skip

from tileiras.compiler import pipeline
from tileiras.compiler.ir.passes import (
    RECORD_BYTES,
    SOFT_FAILURE,
    STATUS_OFFSET,
    Context,
    Pass,
    mark_soft_failure,
    report_fatal_error,
    run_pass,
    soft_failed,
    word_of,
)  # fmt: skip
from tileiras.compiler.ir.printer import print_op
from tileiras.compiler.passes.tileas.unspecialized_pipeline import UnspecializedPipeline
from tileiras.diag import ERROR, REMARK, WARNING, WORD_ERROR, WORD_REMARK, Diag, FatalError, Sink

WARN = Diag("T-1", WARNING, "suspicious")
SAY = Diag("T-2", ERROR, "'{name}' is refused", word=WORD_ERROR)

# A kernel whose one loop has a step that is no constant: it cannot be pipelined.
KERNEL = tile_module(
    entry(
        """      %i = cuda_tile.iota : tile<128xi32>
      %b = cuda_tile.reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %v = cuda_tile.broadcast %b : tile<1xptr<f32>> -> tile<128xptr<f32>>
      %q = cuda_tile.offset %v, %i : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
      %z = cuda_tile.constant <f32: 0.0> : tile<128xf32>
      %one = cuda_tile.constant <i32: 1> : tile<i32>
      %r = cuda_tile.for %j in (%one to %n, step STEP) : tile<i32> iter_values(%acc = %z) -> (tile<128xf32>) {
        %x, %t = cuda_tile.load_ptr_tko weak %q : tile<128xptr<f32>> -> tile<128xf32>, token
        %s = cuda_tile.addf %acc, %x rounding<nearest_even> : tile<128xf32>
        cuda_tile.continue %s : tile<128xf32>
      }
      %u = cuda_tile.store_ptr_tko weak %q, %r : tile<128xptr<f32>>, tile<128xf32> -> token""",
        args="%p: !cuda_tile.tile<ptr<f32>>, %n: !cuda_tile.tile<i32>",
    )
)


class Probe(Pass):
    """Does to every function what a test says."""

    NAME = "Probe"
    __slots__ = ("body",)

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body

    def run(self, func: Any, context: Context) -> bool:
        found = self.body(self, func, context)
        return True if found is None else bool(found)


def loops(done: Run) -> list[str]:
    """Text of every loop, by itself."""
    return [print_op(op) for op in done.context.module.walk() if op.spec.name == "for"]


class Quiet(Pass):
    """A pass without fields of its own."""

    NAME = "Quiet"
    __slots__ = ()


@rule("handshake-offset-40", "handshake-family")
@pytest.mark.parametrize("name", FAMILY)
def test_the_word_lies_at_40(name: str) -> None:
    assert STATUS_OFFSET == 0x28
    made = pipeline.BY_NAME[name].load()
    made.record[STATUS_OFFSET:] = struct.pack("<II", 0xA1B2C3D4, 0)
    assert made.status == 0xA1B2C3D4 == struct.unpack_from("<I", bytes(made.record), 40)[0]


@rule("handshake-bit-2")
def test_bit_2_is_the_flag() -> None:
    record = bytearray(RECORD_BYTES)
    mark_soft_failure(record)
    assert word_of(record) == 4 == SOFT_FAILURE
    assert soft_failed(4) and soft_failed(0xFF) and not soft_failed(3) and not soft_failed(8)


@rule("handshake-other-bits-free")
def test_other_bits_are_kept() -> None:
    record = bytearray(RECORD_BYTES)
    record[STATUS_OFFSET] = 0x81
    mark_soft_failure(record)
    assert word_of(record) == 0x85


@rule("handshake-padding")
def test_the_word_stays_where_a_pass_has_no_fields() -> None:
    made = Quiet()
    mark_soft_failure(made.record)
    assert len(made.record) >= 44 and struct.unpack_from("<11I", made.record)[10] == 4
    assert not any(made.record[:40])


@rule("handshake-index-5-alias")
def test_the_view_from_20() -> None:
    made = pipeline.BY_NAME[D11].load()
    done = run(module(function(BAD_LOOP)), made)
    assert list(memoryview(made.record)[20:].cast("I")) == [0, 0, 0, 0, 0, 4, 0], "a miss of a real pass"

    def store(p: Pass, func: Any, context: Context) -> None:
        if context.function == "a":
            memoryview(p.record)[20:].cast("I")[5] |= 4

    probe = Probe(store)
    done = run(module(function("", "a"), function("", "b")), probe, "TileIROperationAnalysis")
    assert done.ok and done.context.soft_failures == {("a", "Probe"): 4}, (
        "the manager reads what was stored so"
    )
    assert probe.status == 0 and not any(probe.record), "and clears it before b"


@rule("handshake-diag-before-bit")
@pytest.mark.parametrize(
    ("name", "text"), [(D11, module(function(BAD_LOOP))), (D08, CONFLICT), (D09, NO_WAY), (D10, PIPELINED)]
)
def test_the_diagnostic_comes_before_the_bit(name: str, text: str) -> None:
    made = pipeline.BY_NAME[name].load()
    seen = []
    sink = Sink()
    sink.handlers.append(lambda emitted: seen.append(made.status))
    done = run(text, made, sink=sink, verify_each=False)
    assert seen and seen[0] == 0, "the handler of the first failure sees the bit clear"
    assert done.word(name) == 4


@rule("handshake-bit-needs-diag")
@pytest.mark.parametrize(
    ("name", "text"),
    [(D11, module(function(BAD_LOOP))), (D08, CONFLICT), (D09, NO_WAY), (D10, PIPELINED), (TO_LLVM, None)],
)
def test_the_bit_has_a_reason(name: str, text: str | None) -> None:
    text = text or module(function('%u = "nv_tileas.async.wait"() : () -> !cuda_tile.token'))
    done = run(text, name, verify_each=False)
    words = [word for (_, pass_), word in done.context.soft_failures.items() if pass_ == name]
    assert words and all(soft_failed(w) for w in words) and done.emitted
    assert all(len(emitted.text) > 10 for emitted in done.emitted)


@rule("handshake-sticky-or")
def test_the_word_is_sticky() -> None:
    words = []

    class Watched(UnspecializedPipeline):
        __slots__ = ()

        def visit(self, op: Any, context: Any) -> None:
            super().visit(op, context)

        def refuse(self, loop: Any, why: str, context: Any) -> None:
            super().refuse(loop, why, context)
            words.append(self.status)

    done = run(module(function("\n".join((BAD_LOOP, GOOD_LOOP, BAD_LOOP)))), Watched())
    assert words == [4, 4] and done.word(D11) == 4, "set by the first, still set behind the good loop"
    ten = run(module(function("\n".join([BAD_LOOP] * 10))), D11)
    assert ten.texts == ["Failed to pipeline loop"] * 10 and ten.word(D11) == 4


@rule("handshake-clear-before-run")
def test_the_driver_clears_the_word() -> None:
    made = pipeline.BY_NAME[D11].load()
    mark_soft_failure(made.record)
    done = run(module(function(GOOD_LOOP)), made)
    assert made.status == 0 == done.word(D11) and not done.context.soft_failures


@rule("handshake-clear-at-run-entry", "handshake-per-instance", "handshake-inspect-after-run")
def test_one_instance_two_functions() -> None:
    made = pipeline.BY_NAME[D11].load()
    both = module(function(BAD_LOOP, "a"), function(GOOD_LOOP, "b"))
    done = run(both, made)
    assert made.status == 0, "the second run began with zero"
    assert done.context.soft_failures == {("a", D11): 4}
    assert done.word(D11, "a") == 4 and done.word(D11, "b") == 0
    clean = run(module(function(GOOD_LOOP)), D11)
    assert clean.context.soft_failures == {}


@rule("handshake-per-instance")
def test_the_reader_asks_for_its_own_function() -> None:
    pipe = f"%q = {CREATE}\n"
    bad = function(pipe + loop(produce() + "\n" + consume(), step="%hi"), "a")
    good = function(pipe + loop(produce() + "\n" + consume()), "b")
    done = run(module(bad, good), D11, D13)
    visits = [event for event in done.trace if event[0] == "visit"]
    alone = run(module(good), D11, D13)
    assert len(visits) == len([event for event in alone.trace if event[0] == "visit"]) > 0, "only b is shrunk"


@rule("handshake-wrapper-keeps-result")
def test_the_wrapper_returns_the_walk_result() -> None:
    done = run(module(function("")), D11)
    context = done.context
    func = context.module.regions[0].block.ops[0]
    assert run_pass(Probe(lambda p, f, c: p.miss(c, SAY, f, name="k")), func, context) is True
    assert run_pass(Probe(lambda p, f, c: False), func, context) is False
    assert context.lookup("Probe", "k") is not None


@rule(
    "handshake-no-upward-propagation",
    "handshake-path-soft",
    "handshake-partial-function",
    "pass-d11-always-success",
)
def test_a_soft_miss_stops_nothing() -> None:
    three = "\n".join((BAD_LOOP, GOOD_LOOP, BAD_LOOP, GOOD_LOOP, BAD_LOOP))
    done = run(module(function(three)), D11, D13)
    assert done.ok and done.started() == [D11], "D13 has no region to work on"
    assert done.texts == ["Failed to pipeline loop"] * 3 and done.word(D11) == 4
    after = run(module(function(three)), D11, "TileIROperationAnalysis", "ConvertTileFuncToLLVM")
    assert after.ok and after.started()[-1] == "ConvertTileFuncToLLVM"


@rule("handshake-partial-function", "pass-d11-leaves-loop")
def test_refused_loops_stay_and_others_are_pipelined() -> None:
    pipe = f"%q = {CREATE}\n"
    body = produce() + "\n" + consume()
    refused = run(module(function(pipe + loop(body, step="%hi"))))
    alone = run(module(function(pipe + loop(body, step="%hi"))), D11)
    assert alone.ir == refused.ir, "textually unchanged"
    text = module(
        function(pipe + loop(body, step="%hi") + f"\n%q2 = {CREATE}\n" + loop(body.replace("%q", "%q2")))
    )
    before, done = run(text), run(text, D11)
    assert loops(done)[0] == loops(before)[0]
    assert loops(done)[1] != loops(before)[1] and "nv_tileas.if" in loops(done)[1]
    assert done.word(D11) == 4 and done.ok


@rule("handshake-lift-required")
def test_a_required_pass_is_lifted() -> None:
    text = module(function(BAD_LOOP))
    done = run(text, D11, "TileIROperationAnalysis", required=frozenset((D11,)))
    assert not done.ok and done.started() == [D11]
    assert done.texts == ["Failed to pipeline loop", f"the result of the pass {D11} on 'k' is required"]
    assert run(text, D11, "TileIROperationAnalysis").ok

    class Needed(UnspecializedPipeline):
        REQUIRED = True
        __slots__ = ()

    own = run(text, Needed(), "TileIROperationAnalysis")
    assert not own.ok and own.started() == [D11] and own.texts == done.texts, "a pass that says so itself"
    good = module(function(GOOD_LOOP))
    for case in (run(good, D11, "TileIROperationAnalysis", required=frozenset((D11,))),
                 run(good, Needed(), "TileIROperationAnalysis"),
                 run(text, D11, "TileIROperationAnalysis", required=frozenset((D08,)))):  # fmt: skip
        assert case.ok and case.started()[-1] == "TileIROperationAnalysis", "without the bit, or another's"


@rule("handshake-lookup")
def test_results_are_looked_up_by_name() -> None:
    done = run(module(function(BAD_LOOP)), D11)
    record = done.manager.lookup(D11, "k")
    assert record is not None and record.name == D11 and record.word & 4 and record.soft_failed
    assert done.manager.lookup("TileASNothing", "k") is None and done.manager.lookup(D11, "other") is None


@rule("handshake-downstream-choice", "pass-d13-reads-d11", "pass-d13-silent")
def test_d13_skips_what_d11_refused() -> None:
    text = REFUSED_PIPELINE
    done = run(text, D08, D11, D13)
    assert not [event for event in done.trace if event[0] == "visit"]
    assert done.word(D13) == 0 and done.ok
    assert done.ir == run(text, D08, D11).ir
    assert done.texts == ["Failed to pipeline loop"], "nothing from D13"


@rule("handshake-ignoring-is-legal")
def test_ignoring_the_bit_is_legal() -> None:
    (d13,) = [pipeline.BY_NAME[D13].load(**{"ignore-predecessor": True})]
    ignoring = run(REFUSED_PIPELINE, D08, D11, d13)
    assert [event for event in ignoring.trace if event[0] == "visit"], "it walked"
    assert ignoring.ok and ignoring.ir == run(REFUSED_PIPELINE, D08, D11, D13).ir


@rule("handshake-same-bit-both-severities")
def test_error_and_remark_set_the_same_bit() -> None:
    error, remark = run(CONFLICT, D08), run(module(function(BAD_LOOP)), D11)
    assert error.word(D08) == remark.word(D11) == 4
    assert error.emitted[0].word == WORD_ERROR == 259 and remark.emitted[0].word == WORD_REMARK


@rule("handshake-classes-and-bit")
def test_a_warning_sets_nothing() -> None:
    def warn(p: Pass, func: Any, context: Context) -> None:
        context.sink.emit(WARN, loc=func.loc)

    done = run(module(function("")), Probe(warn))
    assert done.ok and done.word("Probe") == 0 and done.texts == ["suspicious"]
    remark = run(module(function(BAD_LOOP)), D11)
    assert remark.word(D11) == 4 and remark.emitted[0].severity == REMARK


@rule(
    "handshake-usable-artifact",
    "handshake-path-soft",
    "handshake-no-upward-propagation",
    "exit-fm-soft-handshake",
    "pass-d11-always-success",
    "pass-d11-failed-to-pipeline",
)
def test_the_kernel_still_compiles() -> None:
    text = KERNEL.replace("STEP", "%n")
    code, found, program = compile_(text, remarks=True)
    assert code == 0 and [e.text for e in found if e.severity == REMARK] == ["Failed to pipeline loop"]
    assert ".visible .entry k(" in program.ptx
    # The same loop with a constant step is no miss: the remark is about the shape.
    assert compile_(KERNEL.replace("STEP", "%one"), remarks=True)[1] == []


@rule("handshake-partial-function", "pass-d11-leaves-loop")
def test_one_refused_loop_of_two_leaves_the_other_alone() -> None:
    """A real compile: the loop with a constant step gives the same code beside one that cannot be pipelined."""
    first, second = KERNEL.index("      %r = "), KERNEL.index("      %u = ")
    again = KERNEL[first:second].replace("%r", "%r2").replace("%z)", "%r)")
    two = KERNEL[:second] + again + KERNEL[second:].replace("%q, %r :", "%q, %r2 :")
    refused = two.replace("STEP", "%one", 1).replace("STEP", "%n", 1)
    code, found, program = compile_(refused, remarks=True)
    assert code == 0 and [e.text for e in found] == ["Failed to pipeline loop"]
    assert compile_(two.replace("STEP", "%one"), remarks=True)[1] == []
    alone = compile_(KERNEL.replace("STEP", "%one"))[2].ptx
    body = alone[alone.index("$L1:") : alone.index("$L2:")]
    shape = re.sub(r"%\w+|\$L\d+", "_", body)
    assert shape in re.sub(r"%\w+|\$L\d+", "_", program.ptx)


@rule("exit-fm-soft-handshake")
def test_the_command_ends_with_0_and_says_so_when_asked(tmp_path: Any) -> None:
    text = KERNEL.replace("STEP", "%n")
    quiet = command(tmp_path, text, "--emit=ptx", output="k.ptx")
    assert (quiet.status, quiet.err) == (0, "") and (tmp_path / "k.ptx").exists()
    told = command(tmp_path, text, "--emit=ptx", "--remarks=all", output="k.ptx")
    assert told.status == 0 and "remark: Failed to pipeline loop" in told.err


@rule("handshake-path-signal")
def test_signalled_failure_ends_the_walk_then_the_pipeline() -> None:
    seen = []

    def body(p: Pass, func: Any, context: Context) -> None:
        for op in func.regions[0].block.ops[:2]:
            seen.append(op.spec.name)
            context.sink.emit(SAY, loc=op.loc, name=op.spec.name)
            p.signal_failure()

    done = run(module(function("")), Probe(body), D11, "TileIROperationAnalysis")
    assert seen == ["constant", "constant"], "both are visited"
    assert not done.ok and done.started() == ["Probe"] and done.context.soft_failures == {}


@rule("handshake-path-fatal", "handshake-not-for-fatal")
def test_a_fatal_error_leaves_at_once(monkeypatch: Any, tmp_path: Any) -> None:
    def body(p: Pass, func: Any, context: Context) -> None:
        raise report_fatal_error("sentinel pointer escaped its scope")

    sink = Sink()
    with pytest.raises(FatalError, match="sentinel"):
        run(module(function("")), Probe(body), D11, sink=sink)
    assert sink.emitted == []

    class Row(pipeline.Row):
        __slots__ = ()

        def load(self, **options: Any) -> Pass:
            return Probe(body)

    monkeypatch.setattr(
        pipeline, "PIPELINE", (*pipeline.PIPELINE[:4], Row("tileas", "Probe", "", ""), *pipeline.PIPELINE[4:])
    )
    from tileiras import cli

    source = tmp_path / "k.tileir"
    source.write_text(KERNEL.replace("STEP", "%one"))

    def abort() -> None:
        raise SystemExit(134)

    monkeypatch.setattr(os, "abort", abort)
    with pytest.raises(SystemExit) as ended:
        cli.main([str(source), "--emit=ptx", "-o", str(tmp_path / "k.ptx")])
    assert ended.value.code == 134 and not (tmp_path / "k.ptx").exists()


@rule("handshake-choice-rule")
def test_three_paths_by_severity() -> None:
    soft = run(module(function(BAD_LOOP)), D11)
    assert soft.ok and soft.context.soft_failures
    signal = run(module(function(""), attrs=""), "ConvertTileFuncToLLVM", target=None, verify_each=False)
    assert not signal.ok and not signal.context.soft_failures


@rule("handshake-default-severity")
@pytest.mark.parametrize(("name", "text"), [(D08, CONFLICT), (D09, NO_WAY), (D10, PIPELINED)])
def test_refusals_are_errors_but_for_d11(name: str, text: str) -> None:
    done = run(text, name)
    assert not done.ok, "Errors fail the pipeline at its end"
    assert {(e.severity, e.word) for e in done.emitted} == {(ERROR, WORD_ERROR)}
    refused = run(module(function(BAD_LOOP)), D11)
    assert refused.ok and refused.emitted[0].severity == REMARK
