"""The engine: handlers, bodies in flight, the guard byte, severity words."""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from contract.kit import BAD_EXTI, GOOD_EXTI, NOOP, compile_, entry, module
from contract.rules import rule

from tileiras import diag, program
from tileiras.capi.record import GUARD, encode
from tileiras.compiler import source
from tileiras.diag import ERROR, NOTE, REMARK, WARNING, Diag, Emitted, InFlight, Loc, Sink, pack, unpack

LOC = Loc("k.tileir", 3, 7)
TEXTS = {NOTE: "a note", WARNING: "a warning", ERROR: "an error", REMARK: "a remark"}


def some_op() -> Any:
    """An operation with a location, from text."""
    return source.load(NOOP, Sink(), file="k.tileir").regions[0].block.ops[0]


@rule("diag-single-body", "driver-strings-through-engine")
@pytest.mark.parametrize(
    ("data", "gpu", "code"),
    [(b"\0" * 16, "sm_90", 3), (NOOP, "sm_999", 2), (BAD_EXTI, None, 5)],
    ids=["code 3", "code 2", "code 5"],
)
def test_everything_travels_through_the_engine(data: Any, gpu: str | None, code: int, capfd: Any) -> None:
    def attempt(**callback: Any) -> int:
        status, handle = program.tileirasProgramCreate(data, gpu_name=gpu, **callback)
        return status or program.tileirasProgramCompile(handle)

    seen: list[str] = []
    assert attempt(diagnostic=lambda record, text, user: seen.append(text)) == code
    assert capfd.readouterr() == ("", ""), "a registered handler consumes everything"
    assert seen
    assert attempt() == code
    out, err = capfd.readouterr()
    assert out == "" and err.splitlines() == "\n".join(seen).splitlines()


@rule("diag-handler-owner")
def test_handlers_belong_to_one_context() -> None:
    seen: list[str] = []
    a, b = Sink(), Sink()
    a.handlers.append(lambda emitted: seen.append("a"))
    b.handlers.append(lambda emitted: seen.append("b"))
    a.error(LOC, "x").report()
    assert seen == ["a"]
    b.error(LOC, "x").report()
    assert seen == ["a", "b"]


@rule("diag-engine-mutex")
def test_handlers_never_overlap_in_time() -> None:
    sink = Sink()
    spans: list[tuple[float, float]] = []

    def slow(emitted: Emitted) -> bool:
        start = time.monotonic()
        time.sleep(0.002)
        spans.append((start, time.monotonic()))
        return True

    sink.handlers.append(slow)
    threads = [
        threading.Thread(target=lambda: [sink.error(LOC, "x").report() for _ in range(5)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans.sort()
    assert len(spans) == 30 and sink.errors == 30
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_the_mutex_is_recursive() -> None:
    sink = Sink()
    seen: list[str] = []

    def handler(emitted: Emitted) -> bool:
        seen.append(emitted.text)
        if emitted.text == "outer":
            sink.error(LOC, "inner").report()
        return True

    sink.handlers.append(handler)
    sink.error(LOC, "outer").report()
    assert seen == ["outer", "inner"]


@rule("diag-handler-order")
def test_handlers_are_asked_in_order_of_registration() -> None:
    calls: list[str] = []
    sink = Sink(lambda emitted: calls.append("default"))
    for name in ("first", "second", "third"):
        sink.handlers.append(lambda emitted, name=name: calls.append(name))  # type: ignore[misc]
    sink.error(LOC, "x").report()
    assert calls == ["first", "second", "third", "default"]


@rule("diag-handler-consume")
def test_true_consumes(capsys: Any) -> None:
    calls: list[str] = []
    sink = Sink(diag.print_to_stderr)
    for name, answer in (("first", False), ("second", True), ("third", False)):
        sink.handlers.append(lambda emitted, name=name, answer=answer: calls.append(name) or answer)  # type: ignore[misc, func-returns-value]
    sink.error(LOC, "x").report()
    assert calls == ["first", "second"]
    assert capsys.readouterr().err == ""
    sink.handlers[1] = lambda emitted: False
    sink.error(LOC, "x").report()
    assert capsys.readouterr().err == "k.tileir:3:7: error: x\n"


@rule("diag-default-handler", "diag-default-sink")
def test_default_handler(capsys: Any) -> None:
    sink = Sink(diag.print_to_stderr)
    for severity in (WARNING, ERROR, REMARK):
        sink.diagnostic(None, severity, TEXTS[severity]).append(" with ", 4, " arguments ", 0.5).report()
    with sink.error(None, "parent") as body:
        body.note("a note")
    out, err = capsys.readouterr()
    assert out == "", "the default sink is the process's error stream"
    assert err.splitlines() == [
        "warning: a warning with 4 arguments 0.5", "error: an error with 4 arguments 0.5",
        "remark: a remark with 4 arguments 0.5", "error: parent", "note: a note",
    ]  # fmt: skip
    lines: list[str] = []
    Sink(lambda emitted: lines.append(emitted.render())).error(None, "elsewhere").report()
    assert lines == ["error: elsewhere"] and capsys.readouterr().err == ""


@rule("diag-class-note")
def test_a_note_is_printed_with_its_parent_only(capsys: Any) -> None:
    sink = Sink(diag.print_to_stderr)
    sink.emit(Diag("T", NOTE, "alone"))
    assert capsys.readouterr().err == "" and sink.emitted == []
    with sink.error(LOC, "parent") as body:
        sink.emit(Diag("T", NOTE, "from elsewhere"), loc=LOC)  # attached to the body in flight
        body.note("explicit")
    assert capsys.readouterr().err.splitlines() == [
        "k.tileir:3:7: error: parent", "k.tileir:3:7: note: from elsewhere", "k.tileir:3:7: note: explicit",
    ]  # fmt: skip
    assert sink.errors == 1


def test_a_note_finds_only_bodies_in_flight() -> None:
    """One whose body was flushed or moved away has no parent left: it is dropped, and said nowhere."""
    stray = Diag("T", NOTE, "stray")
    sink = Sink()
    with sink.error(LOC, "one") as body:
        sink.emit(stray)
    sink.emit(stray)
    assert (
        [note.text for note in body.body.notes] == ["stray"]
        and sink.open == []
        and sink.emitted == [body.body]
    )
    first = sink.error(LOC, "two")
    second = first.move()
    sink.emit(stray)
    other = threading.Thread(
        target=lambda: sink.emit(stray)
    )  # the body of one thread is no parent in another
    other.start()
    other.join()
    assert first.body.notes == [] and len(second.body.notes) == 1 and sink.open == [second]
    second.report()
    sink.emit(stray)
    assert len(second.body.notes) == 1 and sink.open == []


def test_what_is_emitted_whole_has_been_flushed() -> None:
    """A handler may keep a body: its guard says that the engine has had it, so that no second flush follows."""
    guards: list[int] = []
    sink = Sink()
    sink.handlers.append(lambda emitted: guards.append(bytes(encode(emitted).memory)[GUARD]))
    emitted = sink.emit(Diag("T", ERROR, "x"), loc=LOC)
    assert guards == [1] and emitted.flushed == 1 and sink.emitted == [emitted]
    InFlight(sink, emitted).report()
    assert guards == [1]


def test_an_operation_by_name_and_the_input_as_a_place() -> None:
    sink = Sink()
    assert (
        sink.emit(Diag("T", ERROR, "x"), "cuda_tile.addf", LOC).render()
        == f"{LOC}: error: 'cuda_tile.addf' op x"
    )
    assert sink.emit(Diag("T", ERROR, "x"), loc=diag.UNKNOWN).render() == "error: x"
    with sink.op_error(some_op(), "y") as body:
        body.note("at its parent").note("elsewhere", Loc("other", 1, 1))
    assert (body.body.severity, body.body.word, sink.errors) == (ERROR, 0x103, 3)
    assert [str(note.loc) for note in body.body.notes] == [str(some_op().loc), "other:1:1"]
    sink.file = "k.tilebc"
    assert sink.emit(Diag("T", ERROR, "x"), loc=diag.UNKNOWN).render() == "k.tilebc: error: x"
    assert sink.emit(Diag("T", ERROR, "x")).render() == "error: x", "the driver's own have no place"
    assert sink.emit(Diag("T", ERROR, "x"), loc=LOC).render() == f"{LOC}: error: x"
    inlined = Loc(callers=(LOC,))
    assert sink.emit(Diag("T", ERROR, "x"), loc=inlined).render().splitlines() == [
        "k.tilebc: error: x",
        f"k.tilebc: note: called from {LOC}",
    ]


@rule("diag-raii-flush")
def test_flushed_at_the_end_of_the_scope() -> None:
    sink = Sink()
    seen: list[str] = []
    sink.handlers.append(lambda emitted: seen.append(emitted.text) or True)  # type: ignore[func-returns-value]
    with sink.error(LOC, "expects ") as body:
        body.append(3, " coordinates")
        assert seen == []
        body.append(", but got ", 2)
        assert seen == []
    assert seen == ["expects 3 coordinates, but got 2"]


@rule("diag-raii-flush")
def test_flushed_when_the_scope_ends_by_an_exception() -> None:
    sink = Sink()
    with pytest.raises(KeyError), sink.error(LOC, "said before"):
        raise KeyError
    assert [emitted.text for emitted in sink.emitted] == ["said before"]


@rule("diag-raii-moved-from")
def test_a_moved_from_wrapper_does_not_flush() -> None:
    sink = Sink()
    first = sink.error(LOC, "x")
    second = first.move()
    assert first.body.loc is None, "the move clears the location pointer"
    first.report()
    assert sink.emitted == []
    second.report()
    first.report()
    assert sink.emitted == [second.body] and second.body.loc is LOC


@rule("diag-guard-byte")
def test_flushed_once() -> None:
    sink = Sink()
    seen: list[int] = []
    sink.handlers.append(lambda emitted: seen.append(encode(emitted).memory[GUARD]) or True)  # type: ignore[func-returns-value]
    with sink.error(LOC, "x") as body:
        assert encode(body.body).memory[GUARD] == 0
        body.report()
    assert len(seen) == 1
    memory = encode(body.body).memory
    assert memory[207] == seen[0] != 0 and GUARD == 207, "the guard is the last byte of the body"


@rule("diag-guard-corruption")
def test_a_corrupted_guard_drops_or_doubles() -> None:
    sink = Sink()
    with sink.error(LOC, "dropped") as body:
        body.body.flushed = 0x5A
    assert sink.emitted == []
    with sink.error(LOC, "doubled") as body:
        body.report()
        body.body.flushed = 0
    assert [emitted.text for emitted in sink.emitted] == ["doubled", "doubled"]


@rule("diag-three-constructors")
def test_three_constructors() -> None:
    sink = Sink()
    op = some_op()
    bodies = {
        "emitOpError": sink.op_error(op, "x"),
        "emitError": sink.error(LOC, "x"),
        **{f"generic {word:#x}": sink.diagnostic(LOC, word, "x") for word in (0x101, 0x104, 0x302, 0x503, 2)},
    }
    assert unpack(bodies["emitOpError"].body.word)[:2] == (ERROR, True)
    assert bodies["emitOpError"].body.loc == op.loc and bodies["emitOpError"].body.op == "cuda_tile.entry"
    assert unpack(bodies["emitError"].body.word) == (ERROR, False, False)
    for name, flight in bodies.items():
        if name.startswith("generic"):
            assert flight.body.word == int(name.split()[1], 16)
    makers = [
        name for name in vars(Sink)
        if not name.startswith("_") and getattr(getattr(Sink, name), "__annotations__", {}).get("return") == InFlight.__name__
    ]  # fmt: skip
    assert sorted(makers) == ["diagnostic", "error", "op_error"]


@rule("diag-emitoperror-word", "diag-severity-0x103")
def test_a_verifier_failure_carries_0x103() -> None:
    code, found, _ = compile_(BAD_EXTI)
    assert code == 5
    assert found[0].op == "cuda_tile.exti" and found[0].word == 0x103 == 259
    assert unpack(259) == (ERROR, True, False)
    assert found[-1].word == 0x103, "driver code 5"
    assert compile_(GOOD_EXTI)[:2] == (0, [])


@rule("diag-op-prefix-rendering")
def test_op_prefix() -> None:
    verifier = compile_(BAD_EXTI)[1][0]
    text = "exti requires the result width to be strictly greater than the input width"
    assert verifier.text == text
    assert verifier.render().splitlines()[0] == f"k.tileir:5:7: error: 'cuda_tile.exti' op {text}"
    for found in (compile_(b"\0" * 16)[1], compile_(NOOP, "sm_1")[1], [compile_(BAD_EXTI)[1][-1]]):
        for emitted in found:
            assert "op " not in emitted.render() and not emitted.op


@rule("diag-severity-layout")
def test_layout_of_the_word() -> None:
    assert pack(ERROR, op_prefix=True, trace=False) == 0x103
    assert pack(WARNING, op_prefix=True, trace=True) == 0x302
    assert unpack(0x302) == (WARNING, True, True)
    for severity in (NOTE, WARNING, ERROR, REMARK):
        for prefix in (False, True):
            for trace in (False, True):
                word = pack(severity, prefix, trace)
                assert unpack(word) == (severity, prefix, trace)
                assert (word & 0xFF, word >> 8 & 1, word >> 9 & 1) == (severity, prefix, trace)


@rule("diag-severity-words")
def test_the_canonical_words() -> None:
    assert diag.SEVERITY_WORDS == {0x101, 0x103, 0x104, 0x302, 0x503}
    named = {value for name, value in vars(diag).items() if name.startswith("WORD_")}
    assert named == diag.SEVERITY_WORDS
    said = {
        emitted.word
        for source, target in ((BAD_EXTI, None), (b"\0" * 16, None), (NOOP, "sm_1"))
        for found in compile_(source, target)[1]
        for emitted in (found, *found.notes)
    }
    assert said == {0x101, 0x103, 0x104, 0x503}, "0x302 and 0x503 of call traces have no calls to trace"


@rule("diag-severity-words")
def test_every_diagnostic_of_the_sources_has_a_canonical_word() -> None:
    """Or the bare class, as parts of a message about a file have; what the driver ends with is always canonical."""
    package = Path(diag.__file__).parent
    files = [*package.glob("*.py"), *package.rglob("diags.py"), *(package / "compiler").rglob("*.py")]
    found: dict[str, Diag] = {}
    for path in dict.fromkeys(files):
        if path.stem in ("__main__", "__init__") or "Diag(" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        values = vars(importlib.import_module(name)).values()
        found.update((value.code, value) for value in values if isinstance(value, Diag))
    assert len(found) > 200
    wrong = [d.code for d in found.values() if d.word not in (*diag.SEVERITY_WORDS, d.severity)]
    assert not wrong, wrong
    assert not [
        code for code, d in found.items() if d.word & 0xFF != d.severity and d.word != diag.WORD_REMARK
    ]
    ends = [d for code, d in found.items() if code.startswith(("DRV-", "API-")) and d.severity == ERROR]
    assert len(ends) > 20 and not [d.code for d in ends if d.word not in diag.SEVERITY_WORDS]


@rule("diag-severity-0x101")
def test_0x101_is_a_note_with_op_prefix() -> None:
    assert unpack(0x101) == (NOTE, True, False)
    (note,) = compile_(BAD_EXTI)[1][0].notes
    assert note.word == 0x101 and note.render().startswith("k.tileir:5:7: note: 'cuda_tile.exti' op ")


@rule("diag-severity-0x104")
def test_0x104_is_a_remark_and_the_word_of_code_3() -> None:
    assert unpack(0x104) == (REMARK, True, False)
    code, found, _ = compile_(b"\0" * 16)
    assert code == 3 and {emitted.word for emitted in found} == {0x104}
    # The code comes from the call site; the line is always printed, with `error: `.
    assert found[-1].render().endswith("error: input does not correspond to Tile IR bytecode")
    remark = Diag("T", REMARK, "Failed to pipeline loop")
    assert Emitted(remark, LOC, "nv_tileas.for").word == 0x104


@rule("diag-severity-0x302")
def test_0x302_marks_a_step_of_a_call_trace() -> None:
    from tileiras.capi import record

    assert unpack(0x302) == (WARNING, True, True)
    inlined = Emitted(Diag("T", ERROR, "x"), Loc("inner", 1, 2, callers=(Loc("outer", 3, 4),)))
    assert inlined.render().splitlines()[1] == "inner:1:2: note: called from outer:3:4"
    memory = encode(inlined).memory
    table = int.from_bytes(memory[record.NOTES : record.NOTES + 8], "little")
    child = int.from_bytes(memory[table : table + 8], "little")
    assert memory[record.NOTE_COUNT] == 1
    assert int.from_bytes(memory[child + 0x10 : child + 0x12], "little") == 0x302


@rule("diag-severity-0x503")
def test_0x503_is_every_rejection_with_code_2() -> None:
    assert unpack(0x503)[:2] == (ERROR, True)
    assert 0x503 & ~(0xFF | diag.OP_PREFIX_BIT) == diag.DRIVER_BIT == 0x400
    for options in ({"gpu_name": "sm_999"}, {"opt_level": 4}, {"host_os": "plan9"}, {"host_arch": "vax"},
                    {"device_debug": True}, {"launch_abi": "fast"}, {"sanitize": "thread"}):  # fmt: skip
        code, found, _ = compile_(NOOP, **options)  # type: ignore[arg-type]
        assert code == 2 and [emitted.word for emitted in found] == [0x503], options


@rule("diag-names-the-slot")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%a = cuda_tile.constant <i32: 1> : !cuda_tile.tile<3xi32>", ["3"]),
        ("%a = cuda_tile.bogus", ["cuda_tile.bogus"]),
        ("%a = foo.bar", ["foo"]),
        ("%a = cuda_tile.addf %nowhere, %nowhere : !cuda_tile.tile<f32>", ["nowhere"]),
        (
            "%a = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<8xf32>\n"
            "%b = cuda_tile.reshape %a : !cuda_tile.tile<8xf32> -> !cuda_tile.tile<16xf32>",
            ["8", "16"],
        ),
        (
            "%a = cuda_tile.constant <f32: 1.0> : !cuda_tile.tile<8xf32>\n"
            "%b = cuda_tile.reshape %a : !cuda_tile.tile<8xf32> -> !cuda_tile.tile<4xf32>",
            ["8", "4"],
        ),
    ],
)
def test_messages_name_what_is_wrong(body: str, expected: list[str]) -> None:
    code, found, _ = compile_(module(entry(body)))
    assert code == 5
    said = " ".join(emitted.message for emitted in [found[0], *found[0].notes])
    for word in expected:
        assert word in said, said
    assert found[0].loc is not None and found[0].loc.line >= 4, "and where it is"
