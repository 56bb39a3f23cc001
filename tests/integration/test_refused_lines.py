"""A line that is refused for what it says touches no file: every option with a value, of every command that writes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from build_tools import REPOSITORY, call, command
from cmake_project import kernel

from tileiras.options import FLAGS
from tileiras.settings import BUILD, NUMBER, of
from tileiras.settings import COMMAND as COMMAND_FRONT
from tileiras.tools.build import (
    bytecode_verb,
    compile_verb,
    export_verb,
    fatbin_verb,
    header_verb,
    kernels_verb,
    object_verb,
)
from tileiras.tools.build.arguments import SWITCH

DIGITS = "9" * 5000
ENV = {**os.environ, "PYTHONPATH": str(REPOSITORY)}

# Options that take any text: names of files, and kernels of a Python file.
FREE = {
    "o", "output-file", "ptx-output", "depfile", "depfile-target", "remarks-output-file",
    "explain", "--depends", "--entry", "--folder", "--code-folder", "--stamp",
    "--depfile",
    "--depfile-target", "--kernels-json", "--ptx", "--tilebc", "-o", "--header-out", "--source-out", "--include-as", "--path",
    "--symbol", "--python",
}  # fmt: skip

COMMAND = {
    "gpu-name": ["foo", "", f"sm_{DIGITS}"], "arch": ["sm_91x"], "disable": ["most"], "opt-level": ["9", "x", DIGITS], "O": ["7"],
    "sanitize": ["leaks"], "host-arch": ["vax"], "host-os": ["plan9"], "launch-abi": ["cdecl"], "emit": ["elf"],
    "kernels-json": [""], "report": ["r.txt", ""], "file-prefix-map": ["x"], "ptxas": ["/nonexistent/ptxas"],
    "toolkit-root": ["/nonexistent"], "color": ["pink"], "remarks": ["some"], "remarks-passed": ["some"],
    "remarks-missed": ["some"], "remarks-analysis": ["some"], "remark-format": ["html"],
    "remarks-failed": ["some"], "preview": ["x"], "l": ["x"],
    "tensor-maps": ["most"], "plugin": ["no_such_package_at_all"],
    "ptxas-options": ["--nothing", "--maxrregcount=x", "--entry=two", "--fmad=perhaps", "a\nb", DIGITS],
}  # fmt: skip
COMPILE = {
    "--arch": ["foo", f"sm_{DIGITS}", "80;90"], "--compiler": ["cc"], "--opt-level": ["9", DIGITS], "--disable": ["most"],
    "--sanitize": ["leaks"], "--file-prefix-map": ["x"],
    "--launch-abi": ["cdecl"], "--host-arch": ["vax"], "--host-os": ["plan9"],
    "--option": ["--nothing", "--opt-level=9"], "--bytecode-version": ["99", DIGITS, "x"], "--remarks": ["some"],
    "--remarks-output": ["x"], "--report": ["r.txt"],
    "--max-registers": ["x", DIGITS, "\u00b2"], "--max-shared": ["-1", f"{DIGITS}K"],
    "--toolkit-root": ["/nonexistent"], "--depfile-for": ["sun"], "--tensor-maps": ["most"],
    "--entry": ["two"], "--ptxas-option": ["--nothing", "--maxrregcount=x", "--entry=two", "no.ptx"],
}  # fmt: skip
_ALONE = ("--remarks", "--remarks-output", "--report", "--arch")  # of one image
KERNELS = {
    **{name: values for name, values in COMPILE.items() if name not in _ALONE},
    "--arch": ["foo", "sm_90"], "--compress": ["much"], "--language": ["D"], "--embed": ["well"], "--namespace": ["int", "1"],
    "--fatbinary-option": ["--nothing"],
}  # fmt: skip
FATBIN = {"--elf": [f"sm_{DIGITS}=one.cubin", "foo=one.cubin", "sm_90=nothing"], "--ptx": ["x"], "--tileir": ["x"],
          "--compress": ["much"], "--toolkit-root": ["/nonexistent"], "--option": ["--nothing", "--compress-mode=x"]}  # fmt: skip
HEADER = {"--prefix": ["9"], "--namespace": ["int"], "--language": ["D"], "--embed": ["well"], "--image": ["nothing"],
          "--json": ["nothing"]}  # fmt: skip
OBJECT = {"--prefix": ["9"], "--image": ["nothing"], "--host-arch": ["vax"]}
EXPORT = {
    "--entry": [], "--signature": ["nothing[1]", f"f32[{DIGITS}]", "f32["], "--matrix": ["nothing"],
    "--bytecode-version": ["x", DIGITS],
    "--arch": ["foo"], "--file-prefix-map": ["x"], "--calling-convention": [], "--index-type": ["i7"],
    "--depfile-for": ["sun"],
}  # fmt: skip

TILEIRAS = ["one.tileir", "--gpu-name=sm_90", "-o", "old.1", "--ptx-output=old.2"]
VERBS = {
    "compile": (COMPILE, compile_verb.FLAGS, ["one.tileir", "--arch=sm_90", "-o", "old.1", "--kernels-json", "old.2"]),
    "kernels": (KERNELS, kernels_verb.FLAGS, ["--folder=.", "--arch=sm_90", "--header"]),
    "bytecode": ({"--bytecode-version": ["99", DIGITS], "--depfile-for": ["sun"]}, bytecode_verb.FLAGS,
                 ["one.tileir", "-o", "old.1", "--depfile=old.2"]),
    "fatbin": (FATBIN, fatbin_verb.FLAGS, ["-o", "old.1", "--elf=sm_80=one.cubin"]),
    "header": (HEADER, header_verb.FLAGS, ["--prefix=p", "--image=one.cubin", "--json=one.json", "--header-out=old.1",
                                             "--source-out=old.2"]),
    "object": (OBJECT, object_verb.FLAGS, ["-o", "old.1", "--prefix=p", "--image=one.cubin"]),
    "export": (EXPORT, export_verb.FLAGS, ["one.py", "-o", "old.1", "--entry=one", "--depfile=old.2"]),
}  # fmt: skip
OLD = (
    "old.1",
    "old.2",
    "old.sm_90.cubin",
    "old.sm_90.kernels.json",
    "old.fatbin",
    "old_tile.h",
    "old_tile.c",
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    peers.require("ptxas")
    folder = tmp_path_factory.mktemp("work")
    (folder / "one.tileir").write_text(kernel("one"))
    (folder / "one.py").write_text(
        "import cuda.tile as ct\n@ct.kernel\ndef one(a):\n    ct.store(a, (0,), ct.load(a, (0,), (16,)))\n"
    )
    done = call(
        "compile", "one.tileir", "-o", "one.cubin", "--kernels-json=one.json", "--arch=sm_80", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder


def assert_untouched(folder: Path, tool: str, words: list[str]) -> int:
    """The exit status of a line that is refused."""
    for name in OLD:
        (folder / name).write_text("of an earlier build")
    before = sorted(path.name for path in folder.iterdir())
    line = [sys.executable, "-m", "tileiras", *words] if tool == "tileiras" else command(*words, tool=tool)
    done = subprocess.run(line, cwd=folder, env=ENV, capture_output=True, text=True)
    assert done.returncode in (1, 2, 3, 5), (words, done.stderr)
    assert done.stderr and "Traceback" not in done.stderr and "internal" not in done.stderr
    assert [(folder / name).read_text() for name in OLD] == ["of an earlier build"] * len(OLD), words
    assert sorted(path.name for path in folder.iterdir()) == before
    return done.returncode


NAMES = {
    COMMAND_FRONT: ["--ptxas", "--toolkit-root", "--output-file", "--ptx-output", "--kernels-json", "--report", "--depfile",
                    "--depfile-target", "--remarks-output-file"],
    BUILD: ["-o", "--ptx", "--tilebc", "--kernels-json", "--report", "--depfile", "--depfile-target", "--depends", "--option",
            "--ptxas-option", "--toolkit-root", "--remarks-output", "--bytecode-version", "--host-arch", "--arch"],
}  # fmt: skip
LINES = {COMMAND_FRONT: ("tileiras", TILEIRAS), BUILD: ("build", ["compile", *VERBS["compile"][2]])}


@pytest.mark.parametrize("front", LINES)
def test_a_word_that_an_option_does_not_take_is_a_matter_of_configuration(work: Path, front: str) -> None:
    """Code 2 in both commands; what is no option, has no value or has one of another form (a number) is code 1."""
    tool, line = LINES[front]
    for setting in of(front):
        if setting.values_at(front) or setting.name in ("host-arch", "archs"):
            value = "9" if setting.kind_at(front) == NUMBER else "no-such-word"
            word = f"--{setting.spellings(front)[0]}={value}"
            assert assert_untouched(work, tool, [*line, word]) == 2, word


@pytest.mark.parametrize("front", LINES)
def test_a_name_that_is_empty_is_refused(work: Path, front: str) -> None:
    """As a variable of a script that is not set."""
    tool, line = LINES[front]
    for name in NAMES[front]:
        assert assert_untouched(work, tool, [*line, f"{name}="]) == 2, name


@pytest.mark.parametrize("name", ["missing", "./missing", ".", "one.tileir"])
def test_a_ptxas_that_cannot_be_run_is_a_matter_of_configuration(work: Path, name: str) -> None:
    """As a toolkit without one; code 5 is for what one that runs says."""
    for front, option in ((COMMAND_FRONT, f"--ptxas={name}"), (BUILD, f"--option=--ptxas={name}")):
        tool, line = LINES[front]
        assert assert_untouched(work, tool, [*line, option]) == 2, option
    assert assert_untouched(work, "tileiras", [*TILEIRAS, "--toolkit-root=."]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compile", "one.tileir", "--arch=sm_90", "-o", "one.tileir"], "'one.tileir' is both input and output"),
        (["compile", "one.tileir", "--arch=sm_90", "-o", "old.1", "--depfile=old.2", "--depends=old.1"], "'old.1' is both input"),
        (["compile", "one.tileir", "--arch=sm_90", "-o", "r.html", "--report=./r.html"], "named as two outputs"),
        (["compile", "one.tileir", "--arch=sm_90", "-o", "old.1", "--kernels-json", "."], "output file '.': Is a directory"),
        (["compile", "one.tileir", "--arch=sm_90", "-o", "one.cubin/x"], "output file 'one.cubin/x': Not a directory"),
        (["compile", "one.tileir", "--arch=sm_90", "-o", "/proc/none/x"], "output file '/proc/none/x': No such file"),
        (["kernels", "--folder=.", "--arch=sm_90", "--stamp=.", "--", "one.tileir", "old", "p"], "output file '.': Is a"),
        (["fatbin", "--elf=sm_80=one.cubin", "-o", "./one.cubin"], "'./one.cubin' is both input and output"),
        (["header", "--prefix=p", "--image=one.cubin", "--json=one.json", "--header-out=one.json", "--source-out=c"], "is both"),
        (["bytecode", "one.tileir", "-o", "."], "output file '.': Is a directory"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_outputs_that_cannot_be(work: Path, words: list[str], said: str, tmp_path: Path) -> None:
    """Found before anything is compiled, also where the words stand in a file."""
    (tmp_path / "words").write_text("\n".join(words[1:]))
    for line in (words, [words[0], f"@{tmp_path / 'words'}"]):
        assert assert_untouched(work, "build", line) == 2
        assert (
            said in subprocess.run(command(*line), cwd=work, env=ENV, capture_output=True, text=True).stderr
        )


def test_what_only_looks_like_an_input_or_a_file(work: Path, tmp_path: Path) -> None:
    """The prefix of C names is no file; - is standard output, as of tileiras."""
    shutil.copy(work / "one.cubin", tmp_path)
    assert call("object", "--prefix=p", "--image=one.cubin", "-o", "p", cwd=tmp_path).returncode == 0
    line = command("compile", work / "one.tileir", "--arch=compute_90", "--entry=one", "-o", "-")
    done = subprocess.run(line, cwd=tmp_path, env=ENV, capture_output=True)
    assert done.returncode == 0 and b".entry one" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.cubin", "p"]


def test_the_tables_are_complete() -> None:
    """Whoever adds an option that has a value says here what it cannot be."""
    valued = {spelling for spelling, kind, *_ in FLAGS if kind != "flag"}
    assert valued - FREE == set(COMMAND)
    for verb, (table, flags, _) in VERBS.items():
        assert {flag.name for flag in flags if flag.kind != SWITCH} - (FREE - set(table)) == set(table), verb


@pytest.mark.parametrize("option", COMMAND)
def test_the_command(work: Path, option: str) -> None:
    for value in COMMAND[option]:
        word = f"-{option}{value}" if len(option) == 1 else f"--{option}={value}"
        assert_untouched(work, "tileiras", [*TILEIRAS, word])


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [(verb, option, value) for verb, (table, _, _) in VERBS.items() for option in table for value in table[option]],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_the_build_verbs(work: Path, verb: str, option: str, value: str) -> None:
    if verb == "export":
        pytest.importorskip("cuda.tile")
    words = [*VERBS[verb][2], f"{option}={value}"]
    if verb == "export" and option != "--signature":
        words.append("--signature=f32[1]")
    if verb == "kernels":
        words += ["--", "one.tileir", "old", "p"]
    assert_untouched(work, "build", [verb, *words])


@pytest.mark.parametrize("tool", ["tileiras", "build"])
def test_a_kernel_that_ptxas_refuses_costs_the_outputs_whatever_options_it_got(work: Path, tool: str) -> None:
    """An option that a module without kernels would not know is no mistake of the line where the kernel has one."""
    (work / "wrong.tileir").write_text(kernel("one").replace("{", "{ wrong ", 1))
    cases = [("wrong.tileir", "--entry=one"), ("one.tileir", "--maxrregcount=24")]
    for source, option in cases:
        for name in ("old.1", "old.2"):
            (work / name).write_text("of an earlier build")
        if tool == "tileiras":
            words = [
                source,
                "--gpu-name=sm_90",
                "-o",
                "old.1",
                "--ptx-output=old.2",
                f"--ptxas-options={option}",
            ]
            line = [sys.executable, "-m", "tileiras", *words]
        else:
            words = [
                "compile",
                source,
                "--arch=sm_90",
                "-o",
                "old.1",
                "--kernels-json=old.2",
                f"--ptxas-option={option}",
            ]
            line = command(*words, tool=tool)
        done = subprocess.run(line, cwd=work, env=ENV, capture_output=True, text=True)
        for name in ("old.1", "old.2"):
            path = work / name
            if done.returncode:
                assert not path.exists(), (source, option, done.stderr)
            else:
                assert source == "one.tileir" and path.read_bytes() != b"of an earlier build"
