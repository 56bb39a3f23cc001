"""One before and after for every pass and lowering: `*.txt` beside this file.

    # run: tileiras-opt --pass TileASMaterializeAsync
    <input>
    ---- expected: 0
    <standard output, then standard error>

`pytest tests/golden --bless` rewrites the expected part. What two runs may differ in is hidden by `normalise`: the path
of the input. PTX is also assembled where ptxas is there.
"""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path

import pytest

from tests import peers
from tileiras.compiler.pipeline import PIPELINE
from tileiras.tools import opt

HERE = Path(__file__).resolve().parent
CASES = sorted(HERE.glob("*.txt"))
MARK = "---- expected: "


class Case:
    """A golden file: command, input, expected exit code and output."""

    def __init__(self, path: Path) -> None:
        self.path = path
        head, _, rest = path.read_text(encoding="utf-8").partition("\n")
        assert head.startswith("# run: tileiras-opt"), head
        self.words = shlex.split(head.removeprefix("# run: tileiras-opt"))
        self.source, _, expected = rest.partition(MARK)
        code, _, self.expected = expected.partition("\n")
        self.code = int(code or 0)
        self.head = head

    def rewrite(self, code: int, text: str) -> None:
        self.path.write_text(f"{self.head}\n{self.source}{MARK}{code}\n{text}", encoding="utf-8")


def normalise(text: str, source: Path) -> str:
    """Hides the folder of the input."""
    return text.replace(f"{source.parent}/", "")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden(path: Path, bless: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case = Case(path)
    source = tmp_path / "input.mlir"
    source.write_text(case.source, encoding="utf-8")
    code = opt.main([str(source), *case.words])
    out, err = capfd.readouterr()
    got = normalise(out + err, source)
    if bless:
        case.rewrite(code, got)
        return
    assert code == case.code, err
    difference = difflib.unified_diff(
        case.expected.splitlines(), got.splitlines(), "expected", "got", lineterm=""
    )
    assert got == case.expected, "\n".join(difference)
    if "ptx" in case.words and (tool := peers.tool("ptxas")) is not None:
        from tileiras.toolchain import ptxas

        target = next(line.split()[1] for line in out.splitlines() if line.startswith(".target"))
        assert ptxas.assemble(out, target=target, ptxas=str(tool)).cubin[:4] == b"\x7fELF"


def test_every_pass_has_a_golden() -> None:
    named = " ".join(Case(path).head for path in CASES)
    assert [row.name for row in PIPELINE if row.name not in named] == []
