"""Examples of `--explain`: the lines with - raise the very code, with those of + in their place nothing does.

`WITHOUT` says why the other codes have no example: a prefix or a code, and the reason.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tileiras import cli
from tileiras.diag import Emitted, Sink
from tileiras.explain import examples, sides, table

EXAMPLES = examples()
# Prefix or code -> why no command line of `tileiras` with one text shows it.
WITHOUT = {
    "AA-": "only a text of nv_tileaa leads there, which tileiras-opt takes",
    "AS-": "only a text of nv_tileas leads there, which tileiras-opt takes",
    "CU-": "only a text of the cute forms leads there, which tileiras-opt takes",
    "CN-": "only a text of the cute forms leads there, which tileiras-opt takes",
    "NV-": "only a text of nvvm leads there, which tileiras-opt takes",
    "PM-": "said by the pass manager around another failure, or to tileiras-opt",
    "OPT-": "said by tileiras-opt",
    "API-": "said by the C library",
    "FN-": "said by functions of the Python interface",
    "RUN-": "said by a launch",
    "BC-": "a fault of bytes, which no text shows",
    "TC-": "depends on the toolkit and the machine",
    "TRACE": "one step of another message",
    "IR-0009": "a note of a redefinition in generic form",
    "IR-0010": "a note of an input in generic form",
    "CT-0050": "both element types are those of one value in text",
    "CT-010": "the range of a hint depends on the release that is stood in for",
    "SRC-0001": "a file that cannot be opened by a tool that splits its input",
    "SRC-0002": "bytes that are no UTF-8, which no text shows",
    "DRV-0005": "the last line of every failure",
    "DRV-0102": "depends on the memory of the machine",
    "DRV-020": "an option of another form than --emit=ptx takes",
    "DRV-050": "a limit, a defect or a request of another form than --emit=ptx",
}
# Remarks tell what was made of a kernel; they are no failures.
REMARKS = ("Exchange", "Global", "Hint", "Kernel", "Layout", "NoTensorCore", "Registers", "TensorCore")


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_raises_its_code_and_the_remedied_one_none(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    seen: list[set[str]] = []
    deliver = Sink.deliver

    def recorded(self: Sink, emitted: Emitted) -> Emitted:
        seen[-1].update([emitted.code, *(note.code for note in emitted.notes)])
        return deliver(self, emitted)

    monkeypatch.setattr(Sink, "deliver", recorded)
    for command, kernel in sides(EXAMPLES[code]):
        (tmp_path / "k.tileir").write_text(kernel)
        words = shlex.split(command)
        assert words[0] == "tileiras"
        words += [] if "-o" in words else ["-o", "k.out"]
        seen.append(set())
        status = cli.main(words[1:])
        assert (status != 0) == (len(seen) == 1), (command, capsys.readouterr().err)
    assert code in seen[0] and code not in seen[1], seen


def test_every_code_has_an_example_or_a_reason_why_not() -> None:
    assert set(EXAMPLES) <= set(table())
    rest = set(table()) - set(EXAMPLES)
    assert not {code for code in rest if not code.startswith((*WITHOUT, *REMARKS))}
    assert all(any(code.startswith(start) for code in rest) for start in (*WITHOUT, *REMARKS))
    assert all("\n- " in f"\n{text}" or "\n+ " in f"\n{text}" for text in EXAMPLES.values())


def test_the_command_shows_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--explain", "CT-0052"]) == 0
    assert "\n-     %i = iota : tile<100xi32>\n" in capsys.readouterr().out
