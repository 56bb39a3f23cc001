"""Analyses are made once and are never stale: what a pass leaves is what a new look finds."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler.ir.analyses import Analyses
from tileiras.compiler.ir.passes import Context, Pass, PassManager
from tileiras.compiler.passes.loops.shorten_steps import ShortenSteps
from tileiras.compiler.passes.tileaa.facts import Facts, facts_of
from tileiras.compiler.schedule.loops import staged_products
from tileiras.diag import CompileError, Sink

KERNELS = (
    "matmul_f16_128", "attention_causal_f16", "large_matmul_64x64x256", "staged_f16_nt", "staged_bf16_nn_128",
    "large_gelu_65536", "large_gelu_16384", "cpp_moving_pointer",
)  # fmt: skip


def plain(found: Any) -> Any:
    """A result, comparable: ops are themselves, plans are their fields."""
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    if isinstance(found, list):
        return [plain(value) for value in found]
    slots = getattr(type(found), "__slots__", None)
    return (
        {name: plain(getattr(found, name)) for name in slots} if slots and hasattr(found, "bytes") else found
    )


class Look:
    """Counts what is asked, and holds each answer that was remembered against a new one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = self.remembered = 0
        real = Analyses.get
        fresh_ones: list[Analyses] = []  # what a new look asks for itself is no look of the compiler's

        def get(analyses: Analyses, analysis: Any, func: Any) -> Any:
            known = analyses.known(analysis, func)
            if known is None:
                self.made += analysis is staged_products and analyses not in fresh_ones
            elif not isinstance(known, Facts):
                self.remembered += 1
                fresh_ones.append(Analyses(analyses.target))
                fresh = analysis(func, fresh_ones[-1])
                assert list(plain(known)) == list(plain(fresh)), "the same ops"
                if analysis is staged_products:
                    assert plain(known) == plain(fresh)
            return real(analyses, analysis, func)

        monkeypatch.setattr(Analyses, "get", get)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_remembered_is_what_a_new_look_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    look = Look(monkeypatch)
    path = bytecode_path(CASES[name])
    for target in ("sm_80", "sm_90", "sm_100"):
        tileiras.compile(path, target, emit="ptx")
    if CASES[name].family == "matmul":
        assert look.made <= 4 * 3, "a function is looked through once for each state that it is in"
        assert look.remembered > look.made


def test_a_pass_that_changes_loops_and_says_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: a step that is cut while the plan of the whole step stays."""
    monkeypatch.setattr(Analyses, "drop", lambda self, func=None: None)
    Look(monkeypatch)
    with pytest.raises(CompileError, match="AssertionError"):
        tileiras.compile(bytecode_path(CASES["large_matmul_64x64x256"]), "sm_80", emit="ptx")
    assert ShortenSteps.KEEPS_ANALYSES


class Asks(Pass):
    NAME = "Asks"
    ANCHOR = "module"
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        return context.analyses.get(facts_of, module) is context.analyses.get(facts_of, module)


class Keeps(Asks):
    NAME = "Keeps"
    KEEPS_ANALYSES = True
    __slots__ = ()


@pytest.mark.parametrize("kind", [Asks, Keeps])
def test_the_manager_drops_what_a_pass_does_not_keep(kind: type[Pass]) -> None:
    module = tileiras.load(bytecode_path(CASES["axpy_f32"])).op
    context = Context(module, None, Sink())
    assert PassManager([kind()], context).run()
    assert (context.analyses.known(facts_of, module) is not None) == kind.KEEPS_ANALYSES


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_a_change_of_one_function_keeps_what_is_known_of_the_others(gpu_name: str) -> None:
    """Several kernels of a module are pipelined: the schedule of each is still there when its turn comes."""
    program = tileiras.compile(bytecode_path(CASES["cpp_attention"]), gpu_name, emit="ptx")
    assert program.ptx.count(".visible .entry") > 10

    analyses = Analyses(None)
    one, other = object(), object()
    for func in (one, other):
        analyses.get(itself, func)  # type: ignore[arg-type]
    analyses.drop(one)  # type: ignore[arg-type]
    assert analyses.known(itself, one) is None  # type: ignore[arg-type]
    assert analyses.known(itself, other) is other  # type: ignore[arg-type]


def itself(func: Any, analyses: Analyses) -> Any:
    return func
