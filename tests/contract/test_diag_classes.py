"""What each severity class does to output, exit code and order; nothing is left half done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract.kit import BAD_EXTI, GOOD_EXTI, NOOP, command, compile_, stub_ptxas
from contract.rules import rule

import tileiras
from tileiras import cli, remarks, terminal
from tileiras.compiler import pipeline
from tileiras.diag import ERROR, REMARK, WARNING, Diag, Emitted, Loc

LOC = Loc("k.tileir", 3, 7)


@pytest.fixture
def inject(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the pipeline emit a diagnostic on its way, as a pass that returns success() does."""
    monkeypatch.setattr(terminal, "_inputs", {})  # tests before may have read another k.tileir

    def install(diag: Diag) -> None:
        real = pipeline.compile_module

        def compile_module(module: Any, target: Any, sink: Any, **options: Any) -> Any:
            sink.emit(diag, loc=LOC)
            return real(module, target, sink, **options)

        monkeypatch.setattr(pipeline, "compile_module", compile_module)

    return install


def run(folder: Path, *flags: str) -> int:
    source = folder / "k.tileir"
    source.write_text(NOOP)
    return cli.main([str(source), "--emit=ptx", "-o", str(folder / "k.ptx"), *flags])


@rule("diag-class-warning")
def test_a_warning_is_printed_and_changes_nothing_else(inject: Any, tmp_path: Path, capsys: Any) -> None:
    inject(Diag("T", WARNING, "suspicious"))
    assert run(tmp_path) == 0
    assert capsys.readouterr().err == "k.tileir:3:7: warning: suspicious\n"
    assert (tmp_path / "k.ptx").exists()
    assert run(tmp_path, "-w") == 0 and capsys.readouterr().err == ""
    assert run(tmp_path, "--Werror") == 5 and not (tmp_path / "k.ptx").exists()
    assert capsys.readouterr().err.splitlines() == [
        "k.tileir:3:7: warning: suspicious", "error: warnings are treated as errors (--Werror)",
        "error: failed to compile Tile IR program",
    ]  # fmt: skip


@rule("diag-class-error", "exit-nonzero-iff-pm-failure")
def test_an_error_fails_the_pipeline(inject: Any, tmp_path: Path, capsys: Any) -> None:
    inject(Diag("T", ERROR, "impossible"))
    assert run(tmp_path) == 5
    assert capsys.readouterr().err.splitlines() == [
        "k.tileir:3:7: error: impossible", "error: failed to compile Tile IR program",
    ]  # fmt: skip
    assert not (tmp_path / "k.ptx").exists()


@rule("diag-class-remark", "exit-nonzero-iff-pm-failure")
@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        ([], False),
        (["--remarks=all"], True),
        (["--remarks=memory"], True),
        (["--remarks-missed=memory"], True),
        (["--remarks=tensorcore"], False),
        (["--remarks-passed=all"], False),
        (["--remarks=all", "--remarks-missed=none"], False),
    ],
)
def test_a_remark_is_printed_when_asked_for(
    inject: Any, tmp_path: Path, capsys: Any, flags: list[str], printed: bool
) -> None:
    # Printed on request only (a frontend reads this stderr); a handler of the library always receives it.
    inject(Diag("T", REMARK, "Failed to pipeline loop", kind="missed", category="memory"))
    assert run(tmp_path, *flags) == 0
    assert capsys.readouterr().err == ("k.tileir:3:7: remark: Failed to pipeline loop\n" if printed else "")
    assert [d.text for d in compile_(NOOP, remarks=True)[1]] == ["Failed to pipeline loop"]


def test_remarks_as_yaml(inject: Any, tmp_path: Path, capsys: Any) -> None:
    inject(Diag("RemarkLoop", REMARK, "Failed to pipeline loop", kind="missed", category="memory"))
    out = tmp_path / "r.yaml"
    assert run(tmp_path, "--remarks=all", "--remark-format=yaml", f"--remarks-output-file={out}") == 0
    assert capsys.readouterr().err == ""
    assert out.read_text().splitlines() == [
        "--- !Missed", "Pass:            Memory", "Name:            'RemarkLoop'",
        "DebugLoc:        { File: 'k.tileir', Line: 3, Column: 7 }", "Args:",
        "  - Remark:      'Failed to pipeline loop'", "...",
    ]  # fmt: skip
    assert run(tmp_path, "--remark-format=yaml", f"--remarks-output-file={out}") == 0
    assert out.read_text() == "", "no remark was asked for; the file of an earlier run is gone"


def test_yaml_survives_any_text() -> None:
    emitted = Emitted(Diag("T", REMARK, "it's {x}: #"), LOC, facts=(("x", "a\nb"), ("function", "k")))
    text = remarks.to_yaml([emitted])
    assert text.startswith("--- !Missed\n") and text.endswith("\n...\n")
    assert 'Remark:      "it\'s a\\nb: #"' in text and "Function:        'k'" in text


@rule("diag-emission-order", "driver-failed-to-compile")
@pytest.mark.parametrize(
    "source",
    [BAD_EXTI, "module { foo.bar }", NOOP.replace("noop", "noop(")],
    ids=["verifier", "dialect", "syntax"],
)
def test_the_generic_line_is_last(source: str, tmp_path: Path) -> None:
    done = command(tmp_path, source, "--gpu-name=sm_90")
    assert done.status == 5
    errors = [line for line in done.lines() if "error: " in line]
    assert len(errors) >= 2 and errors[-1] == done.lines()[-1] == "error: failed to compile Tile IR program"
    assert errors.count("error: failed to compile Tile IR program") == 1
    assert "k.tileir:" in errors[0]


@rule("diag-failure-keeps-ir-whole")
def test_a_failed_compile_leaves_the_module_as_it_was(tmp_path: Path) -> None:
    loaded = tileiras.load(GOOD_EXTI)
    before = str(loaded)
    ptxas = stub_ptxas(tmp_path, "echo refused >&2; exit 1")
    with pytest.raises(tileiras.CompileError) as caught:
        tileiras.compile(loaded, ptxas=str(ptxas))
    assert caught.value.exit_code == 5 and "refused" in str(caught.value)
    assert str(loaded) == before
    loaded.verify()
    assert tileiras.compile(loaded, emit="ptx").ptx == tileiras.compile(GOOD_EXTI, emit="ptx").ptx
    # and a module may be compiled for one target after another: nothing of the first sticks
    bare = tileiras.load(GOOD_EXTI.replace("nv_tileaa.compute_capability = 90 : i32, ", ""))
    text = str(bare)
    assert ".target sm_80" in tileiras.compile(bare, "sm_80", emit="ptx").ptx
    assert str(bare) == text
    assert ".target sm_90" in tileiras.compile(bare, "sm_90", emit="ptx").ptx
