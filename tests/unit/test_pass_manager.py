"""The manager by itself: what it clears, says and keeps, with passes of the test's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tileiras.compiler.ir.passes import (
    RECORD_BYTES,
    STATUS_OFFSET,
    Context,
    Pass,
    PassManager,
    functions_of,
    run_pass,
    word_of,
)
from tileiras.compiler.source import load
from tileiras.diag import ERROR, Diag, Loc, Sink

MISS = Diag("T", ERROR, "no way", "test")
PLACE = Loc("k.tileir", 3, 7)
KERNEL = SimpleNamespace(name="k", loc=PLACE)


class Probe(Pass):
    """Does what a test says."""

    NAME = "Probe"
    OPTIONS = (("depth", 2, "how deep"),)
    __slots__ = ("body",)

    def __init__(self, body: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.body = body

    def run(self, anchor: Any, context: Context) -> bool:
        return self.body(self) is not False


class Needed(Probe):
    """A pass whose miss stops the pipeline."""

    REQUIRED = True
    __slots__ = ()


def soft(p: Pass) -> None:
    p.record[STATUS_OFFSET] |= 4


def manager(*passes: Pass, **options: Any) -> PassManager:
    context = Context(SimpleNamespace(functions=[KERNEL]), None, Sink())
    return PassManager(passes, context, **options)


def ended(done: PassManager) -> tuple[bool, list[str]]:
    """(result, messages) of a run."""
    return done.run(), [emitted.text for emitted in done.context.sink.emitted]


def test_options_are_those_of_the_pass() -> None:
    assert Probe().options == {"depth": 2} and Probe(depth=3).options == {"depth": 3}
    with pytest.raises(KeyError, match="width"):
        Probe(width=1)
    with pytest.raises(NotImplementedError):
        Pass().run(KERNEL, manager().context)


def test_a_run_starts_with_a_clear_word_and_touches_nothing_else() -> None:
    p = Probe(lambda p: None)
    assert p.hard is False
    p.record[:] = b"\xff" * RECORD_BYTES
    assert word_of(p.record) == 0xFFFFFFFF
    p.signal_failure()
    run_pass(p, KERNEL, manager().context)
    assert p.record == b"\xff" * STATUS_OFFSET + bytes(4) + b"\xff" * 4 and p.hard is False


@pytest.mark.parametrize("body", [lambda p: False, Pass.signal_failure])
def test_a_silent_failure_names_the_pass_and_the_function(body: Any) -> None:
    seen: list[str] = []
    done = manager(
        Probe(body), Probe(lambda p: seen.append("later")), after=lambda name, ir: seen.append(name)
    )
    assert ended(done) == (False, ["the pass Probe failed on 'k'"]) and seen == []
    assert done.context.sink.emitted[0].loc is PLACE


@pytest.mark.parametrize(("kind", "required"), [(Needed, frozenset()), (Probe, frozenset(["Probe"]))])
def test_a_silent_miss_of_a_required_pass(kind: Any, required: frozenset[str]) -> None:
    done = manager(kind(soft), required=required)
    assert ended(done) == (False, ["the result of the pass Probe on 'k' is required"])
    assert done.context.sink.emitted[0].loc is PLACE
    assert ended(manager(kind(lambda p: None), required=required)) == (True, []), "no miss"


def test_a_miss_of_another_pass_goes_on() -> None:
    seen: list[str] = []
    done = manager(Probe(soft), required=frozenset(["Other"]), after=lambda name, ir: seen.append(name))
    assert ended(done) == (True, []) and seen == ["Probe"]
    found = done.lookup("Probe", "k")
    assert found is not None and (found.name, found.word, found.soft_failed) == ("Probe", 4, True)


@pytest.mark.parametrize("kind", [Probe, Needed])
def test_what_a_pass_has_said_is_not_said_again(kind: Any) -> None:
    def body(p: Pass) -> bool:
        p.miss(done.context, MISS, KERNEL)
        return kind is Needed

    done = manager(kind(body))
    assert ended(done) == (False, ["no way"]) and kind(body).lift(KERNEL, done.context) is False


def test_times_are_kept_for_every_pass() -> None:
    done = manager(Probe(lambda p: None), Needed(lambda p: None))
    assert done.verify_each is False and done.context.function == "" and done.context.opt_level == 3
    assert done.run() and done.context.function == "k"
    assert [name for name, _ in done.times] == ["Probe", "Probe"]
    assert all(0 <= seconds < 60 for _, seconds in done.times), "a length, no point in time"


def test_globals_are_no_functions() -> None:
    text = "cuda_tile.module @m { global @g <f32: [1.0, 2.0]> : tile<2xf32> entry @k() { return } }"
    module = load(text, Sink())
    assert len(module.regions[0].block.ops) == 2
    assert [op.attrs["sym_name"] for op in functions_of(module)] == ["k"]
