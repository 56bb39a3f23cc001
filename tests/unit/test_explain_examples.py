"""Examples of `--explain`: what has - says the very code, what has + in its place does not.

An example is a command over k.tileir, or a script of the Python interface. A code that no input brings about has a
reason in place of an example.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import tileiras
from tests import peers
from tileiras import cli
from tileiras.diag import ERROR, CompileError, Emitted, Refusal, Sink
from tileiras.explain import UNREACHED, examples, sides, table

EXAMPLES = {code: text for code, text in examples().items() if not text.startswith(UNREACHED)}
REASONS = {code: text for code, text in examples().items() if text.startswith(UNREACHED)}


def main_of(command: str) -> Callable[[list[str]], int]:
    """The function behind a command of this package: tileiras-opt is tileiras.tools.opt."""
    if command == "tileiras":
        return cli.main
    name = "worker" if command == "tile-build" else command.removeprefix("tileiras-").replace("-", "_")
    return importlib.import_module(f"tileiras.tools.{name}").main


def codes(emitted: Iterable[Emitted]) -> Iterator[tuple[str, int]]:
    for one in emitted:
        yield one.code, one.severity
        yield from codes(one.notes)


def prepare(commands: list[str], text: str, folder: Path) -> list[str]:
    """The words of the last command, when those before it have run and the kernel lies where it looks."""
    words = shlex.split(commands[-1])
    names = re.findall(r"(?<![\w/])k\.(?:tileir|py|json|ptx|txt)\b", " ".join(commands))
    name = "k.tileir" if "k.tileir" in names else (names or ["k.tileir"])[0]
    (folder / name).write_text(text)
    for command in commands[:-1]:
        first, *rest = shlex.split(command)
        if first.startswith("tileiras"):
            assert main_of(first)([*rest, *(("-o", "k.out") if first == "tileiras" else ())]) == 0
        else:
            path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            subprocess.run(["sh", "-c", command], check=True, cwd=folder, env={**os.environ, "PATH": path})
    return words


def run(
    commands: list[str],
    text: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
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

    words = prepare(commands, text, folder)
    capfd.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(Sink, "deliver", recorded)
        patch.setattr(Emitted, "render", shown)
        patch.setenv("TILEIRAS_DIAGNOSTIC_CODES", "1")
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            patch.setenv(name, value)
        failed, last = execute(words, text, said)
    for note in re.findall(r"^note: code ([\w, -]+);", last + capfd.readouterr().err, re.M):
        said.update(dict.fromkeys(note.split(", "), ERROR))
    return failed, said


def execute(words: list[str], text: str, said: dict[str, int]) -> tuple[bool, str]:
    """(whether it failed, what an exception says)."""
    if words[0] in ("tileiras-nvcc", "tileiras-cutile") or words[:2] == ["tileiras-run", "k.py"]:
        # These become another program, or change this process.
        program = Path(sys.executable).with_name(words[0])
        done = subprocess.run([program, *words[1:]], capture_output=True, text=True)
        return done.returncode != 0, done.stderr
    if words[0] == "tileiras" and "-o" not in words:
        words += ["-o", "k.out"]
    try:
        if words[0] == "python":
            exec(compile(text, words[1], "exec"), {"__name__": "__main__"})
            return False, ""
        return main_of(words[0])(words[1:]) != 0, ""
    except CompileError as failure:
        said.update(codes(failure.diagnostics))
        return True, str(failure)
    except SystemExit as ended:
        return bool(ended.code), str(ended.code)
    except Refusal as failure:
        said.update(codes([failure.emitted]))
        return True, ""
    except Exception as failure:  # setuptools' own
        return True, str(failure)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_says_its_code_and_the_remedied_one_does_not(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    (refused, wrong), (accepted, right) = sides(EXAMPLES[code])
    line = " ".join(refused + accepted)
    if "ptxas" in line + wrong + right or "--emit=cubin" in line:
        peers.require("ptxas")
    if "tileiras-nvcc" in line:
        monkeypatch.setenv("TILEIRAS_NVCC", str(peers.require("nvcc")))
    failed, said = run(refused, wrong, tmp_path, monkeypatch, capfd)
    assert code in said, (said, capfd.readouterr().err)
    assert failed == (ERROR in said.values())
    failed, unsaid = run(accepted, right, tmp_path, monkeypatch, capfd)
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


def test_too_much_shared_memory_names_the_line_of_the_op_that_takes_most() -> None:
    script = EXAMPLES["DRV-0503"].partition("import tileiras\n")[2].partition("\n- ")[0]
    names: dict[str, Callable[[int], str]] = {}
    exec("\n".join(line[2:] for line in script.splitlines()), names)
    text = names["kernel"](17)
    with pytest.raises(CompileError) as failure:
        tileiras.compile(text, "sm_75", emit="ptx")
    (error, *_) = failure.value.diagnostics
    assert error.code == "DRV-0503" and error.loc is not None
    assert "reduce" in text.splitlines()[error.loc.line - 1]
