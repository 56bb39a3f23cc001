"""The command line: NVIDIA's spellings, one or two dashes, joined values, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileiras import cli
from tileiras.options import BY_SPELLING, FLAGS


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--gpu-name=sm_90", "k"], {"gpu_name": "sm_90"}),
        (["-gpu-name", "sm_90", "k"], {"gpu_name": "sm_90"}),
        (["-arch=sm_80", "k"], {"gpu_name": "sm_80"}),
        (["--arch", "sm_80", "--gpu-name=sm_90", "k"], {"gpu_name": "sm_90"}),
        (["-O2", "k"], {"opt_level": "2"}),
        (["-O=2", "k"], {"opt_level": "2"}),
        (["--opt-level=0", "k"], {"opt_level": "0"}),
        (["-ok.cubin", "k"], {"output": "k.cubin"}),
        (["-o", "-", "k"], {"output": "-"}),
        (["-g", "--lineinfo", "k"], {"device_debug": True, "lineinfo": True}),
        (["--lineinfo=false", "k"], {"lineinfo": False}),
        (["--ptxas-options=-v,-O1", "--ptxas-options=-w", "k"], {"ptxas_options": ["-v", "-O1", "-w"]}),
        (
            ["--file-prefix-map=/a,b=x", "--file-prefix-map", "/c=", "k"],
            {"file_prefix_map": ["/a,b=x", "/c="]},
        ),
    ],
)
def test_spellings(argv: list[str], expected: dict[str, Any]) -> None:
    assert cli.parse(argv) == (expected, ["k"], "")


def test_source_files_are_named_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a=b" / "k.tileir"
    source.parent.mkdir()
    source.write_text("cuda_tile.module @m { entry @k() { return } }")
    out = tmp_path / "k.ptx"
    words = [str(source), "--arch=sm_90", "--emit=ptx", "--lineinfo", "-o", str(out)]
    for option, name in (
        (f"--file-prefix-map={source.parent}=", "k.tileir"),
        (f"--file-prefix-map={tmp_path}=src/", "src/a=b/k.tileir"),
        (f"--file-prefix-map={tmp_path}/a=", str(source)),  # whole folders only
    ):
        assert cli.main([*words, option]) == 0
        assert f'.file 1 "{name}"' in out.read_text()
    assert cli.main([*words, "--file-prefix-map=nothing"]) == 1
    assert "'nothing' is not of the form OLD=NEW" in capsys.readouterr().err


def test_everything_behind_two_dashes_is_a_file() -> None:
    assert cli.parse(["-g", "--", "-O3"]) == ({"device_debug": True}, ["-O3"], "")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gpu-nam=sm_90"], "Did you mean '--gpu-name'?"),
        (["--lineinf"], "Did you mean '--lineinfo'?"),
        (["--o=x"], "Unknown command line argument '--o=x'"),
        (["--frobnicate"], "Unknown command line argument '--frobnicate'"),
        (["-o"], "for the -o option: requires a value!"),
        (["--gpu-name"], "for the --gpu-name option: requires a value!"),
        (["-O"], "for the -O option: requires a value!"),
        (["-g=maybe"], "'maybe' is invalid value for boolean argument"),
    ],
)
def test_mistakes(argv: list[str], said: str, capsys: Any) -> None:
    assert said in cli.parse([*argv])[2]
    assert cli.main([*argv, "k"] if argv not in (["-o"], ["--gpu-name"], ["-O"]) else argv) == 1
    assert capsys.readouterr().err.startswith("tileiras: ")


def test_no_hint_where_nothing_is_near(capsys: Any) -> None:
    assert "Did you mean" not in cli.parse(["--zzz"])[2]


@pytest.mark.parametrize(
    "word, code",
    [
        ("--remarks=some", 2),
        ("--remarks-passed=x", 2),
        ("--remark-format=xml", 2),
        ("--emit=elf", 2),
        ("-Ofast", 1),
        ("--preview=x", 1),
        ("-lfoo", 1),
    ],
)
def test_values_that_are_none_of_the_choices(word: str, code: int, tmp_path: Path, capsys: Any) -> None:
    source = tmp_path / "k"
    source.write_text("")
    assert cli.main([word, str(source)]) == code
    assert capsys.readouterr().err


def test_help_and_versions(capsys: Any) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for spelling, _, _, text in FLAGS:
        assert f"-{spelling}" in shown and text in shown
    assert cli.main(["--version"]) == 0 and "13.1" in capsys.readouterr().out
    assert cli.main(["--list-versions"]) == 0
    assert capsys.readouterr().out.split() == ["13.1", "13.2", "13.3", "13.4", "13.5"]
    assert len(BY_SPELLING) == len(FLAGS), "no spelling twice"


def test_number_of_inputs(capsys: Any) -> None:
    assert cli.main([]) == 1 and "no input file" in capsys.readouterr().err
    assert cli.main(["a", "b"]) == 1 and "Too many positional arguments" in capsys.readouterr().err
    assert cli.main(["--serve", "a"]) == 1 and "stands alone" in capsys.readouterr().err
