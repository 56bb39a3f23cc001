"""`tileiras --explain`: every diagnostic of the catalogue has cause and remedy, and none that does not exist has one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tileiras import cli
from tileiras import explain as explain_module
from tileiras.example_frames import FRAMES, USUAL, framed
from tileiras.explain import explain, table

ROOT = Path(__file__).resolve().parents[2]
ROOMS = [ROOT / name for name in ("tileiras", "nvcc_shim", "setuptools_ext")]


def catalogue() -> set[str]:
    """The codes of all rows: `Diag("CT-0001", ...)`, and rooms' helpers that number theirs: `_rule(1, ...)`."""
    found: set[str] = set()
    for path in (path for room in ROOMS for path in room.rglob("*.py")):
        text = path.read_text()
        if "Diag(" not in text:
            continue
        tree = ast.parse(text)
        helpers: dict[str, str] = {}
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call) and n.args):
                if getattr(call.func, "id", "") == "Diag" and isinstance(call.args[0], ast.JoinedStr):
                    prefix = call.args[0].values[0]
                    assert isinstance(prefix, ast.Constant)
                    helpers[function.name] = str(prefix.value)
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args):
            name, first = getattr(call.func, "id", ""), call.args[0]
            if isinstance(first, ast.Constant) and first.value and name == "Diag":
                found.add(str(first.value))
            elif isinstance(first, ast.Constant) and name in helpers:
                found.add(f"{helpers[name]}{first.value:04d}")
    return found


def test_every_code_has_cause_and_remedy() -> None:
    known, codes = table(), catalogue()
    assert len(codes) > 250 and {"CT-0001", "AS-0104", "DRV-0201", "RUN-0001", "GlobalAccess"} <= codes
    assert set(known) == codes
    for code, text in known.items():
        cause, remedy = text.split("\n")
        assert cause.startswith("cause: ") and remedy.startswith("remedy: "), code


def test_the_command_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--explain", "ct-0011"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CT-0011\ncause: ") and "\nremedy: " in out
    assert cli.main(["--explain=CT-0001", "no-such-file"]) == 0


def test_an_unknown_code_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--explain", "CT-011"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "no diagnostic has the code 'CT-011'; did you mean CT-0" in said.err
    assert explain("zzzz")[1].startswith("no diagnostic has the code 'zzzz'; codes look like ")


def test_the_code_stands_in_the_last_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "k.tileir"
    bad.write_text("cuda_tile.module @m { entry @k() { nonsense } }\n")
    words = [str(bad), "--gpu-name=sm_90", "-o", str(tmp_path / "out")]
    assert cli.main(words) == 5
    plain = capsys.readouterr().err
    assert "--explain" not in plain
    assert cli.main([*words, "--diagnostic-codes"]) == 5
    coded = capsys.readouterr().err
    assert coded.startswith(plain) and coded[len(plain) :].startswith("note: code IR-000")
    assert cli.main([*words[1:], "/no/file", "--diagnostic-codes"]) == 1
    assert "note: code DRV-0101; tileiras --explain DRV-0101" in capsys.readouterr().err


def test_a_frame_stands_around_what_an_example_is_about() -> None:
    changed = ["-     %y = negi %x : tile<f32>", "+     %y = negf %x : tile<f32>"]
    lines = framed("\n".join(["in: kernel(%x: tile<f32>)", "  $ tileiras k.tileir", *changed])).split("\n")
    above = ["  $ tileiras k.tileir", "  cuda_tile.module @m {", "    entry @k(%x: tile<f32>) {"]
    assert lines == [*above, *changed, "      return", "    }", "  }"]
    sides = framed("in: matmul width=2|16").split("\n")
    assert [line[0] for line in sides if "div_by<2>" in line or "%width = assume div_by<16>" in line] == [
        "-",
        "+",
    ]
    script = framed(
        "in: script\n-     %i = iota : tile<3xi32>\n+     %i = iota : tile<4xi32>\n  tileiras.load(kernel)"
    )
    assert script.endswith("  '''\n  tileiras.load(kernel)") and "      return" in script


def test_every_frame_has_an_example() -> None:
    used = {name for text in explain_module._sources() for name in re.findall(r"^in: (\w+)", text, re.M)}
    assert used == FRAMES.keys() == USUAL.keys()
