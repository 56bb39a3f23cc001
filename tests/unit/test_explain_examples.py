"""Examples of `--explain`: what has - says the very code, what has + in its place does not.

An example is a command over k.tileir, or a script of the Python interface. A code that no input brings about has a
reason in place of an example.
"""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests import peers
from tileiras import cli
from tileiras.diag import ERROR, CompileError, Emitted, Sink
from tileiras.explain import UNREACHED, examples, sides, table

EXAMPLES = {code: text for code, text in examples().items() if not text.startswith(UNREACHED)}
REASONS = {code: text for code, text in examples().items() if text.startswith(UNREACHED)}


def main_of(command: str) -> Callable[[list[str]], int]:
    """The function behind a command of this package: tileiras-opt is tileiras.tools.opt."""
    if command == "tileiras":
        return cli.main
    return importlib.import_module(
        "tileiras.tools." + command.removeprefix("tileiras-").replace("-", "_")
    ).main


def codes(emitted: Iterable[Emitted]) -> Iterator[tuple[str, int]]:
    for one in emitted:
        yield one.code, one.severity
        yield from codes(one.notes)


def run(
    command: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[bool, dict[str, int]]:
    """(whether it failed, code -> severity of all that was said)."""
    said: dict[str, int] = {}
    deliver, render = Sink.deliver, Emitted.render

    def shown(self: Emitted) -> str:
        said.update(codes([self]))
        return render(self)

    def recorded(self: Sink, emitted: Emitted) -> Emitted:
        said.update(codes([emitted]))
        return deliver(self, emitted)

    words = shlex.split(command)
    with monkeypatch.context() as patch:
        patch.setattr(Sink, "deliver", recorded)
        patch.setattr(Emitted, "render", shown)
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            patch.setenv(name, value)
        if words[0] == "python":
            (folder / words[1]).write_text(text)
            try:
                exec(compile(text, words[1], "exec"), {"__name__": "__main__"})
            except CompileError as failure:
                said.update(codes(failure.diagnostics))
                return True, said
            except SystemExit as ended:
                return bool(ended.code), said
            return False, said
        (folder / "k.tileir").write_text(text)
        if words[0] == "tileiras" and "-o" not in words:
            words += ["-o", "k.out"]
        try:
            return main_of(words[0])(words[1:]) != 0, said
        except CompileError as failure:
            said.update(codes(failure.diagnostics))
            return True, said


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_says_its_code_and_the_remedied_one_does_not(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    (refused, wrong), (accepted, right) = sides(EXAMPLES[code])
    if "ptxas" in refused + accepted + wrong + right or "--emit=cubin" in refused:
        peers.require("ptxas")
    failed, said = run(refused, wrong, tmp_path, monkeypatch)
    assert code in said, (said, capfd.readouterr().err)
    assert failed == (ERROR in said.values())
    failed, unsaid = run(accepted, right, tmp_path, monkeypatch)
    assert code not in unsaid and not failed, (unsaid, capfd.readouterr().err)


def test_every_code_has_an_example_or_a_reason_why_not() -> None:
    assert set(EXAMPLES) | set(REASONS) == set(table())
    assert all(re.search("^[-+] ", text, re.M) for text in EXAMPLES.values())
    assert all(len(reason) > len(UNREACHED) + 20 and "\n" not in reason for reason in REASONS.values())


def test_the_command_shows_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--explain", "CT-0052"]) == 0
    assert "\n-     %i = iota : tile<100xi32>\n" in capsys.readouterr().out


def test_the_command_shows_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--explain", "DRV-0505"]) == 0
    assert "\nno example: " in capsys.readouterr().out
