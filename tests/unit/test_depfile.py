"""Depfiles with odd names, tried with GNU Make and Ninja: what a reader is promised, it reads; the rest is refused."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tileiras.tools.build.depfile import UnwritableDepfile, for_make, for_ninja, write_depfile

NAMES = [
    "plain", "a b", "a  b", " a", "a ", "a#b", "#a", "a$b", "$", "a$(b)c", "a:b", "a:", ":a", "a;b", ";", "a=b", "=", "a%b", "%",
    "a&b", "a&", "a &", "a|b", "|", "a*b", "a?b", "a[b]c", "~a", "~", "a(b)", "(b)", "a()", "a(b", "a(b)c", "a'b\"c", "a`b",
    "<a>", "a^b", "a!b", "a+b", "a,b", "{a}", "@a", "a\tb", "a\nb", "\n", "a\rb", "a\r", "a\x01b", "a\x7fb", "é", "a\udcffb",
    "export", "a\\", "a\\\\", "a\\\\\\", "\\", "\\\\", "a\\b", "a\\\\b", "a\\nb", "define x", "endef", "a\n", "a \n b", "a\n\nb",
    *("a" + "\\" * n + c + "b" for n in (1, 2, 3) for c in " #:;$=%&|*?[~()\n\t\r"),
    *("a" + "\\" * n + c for n in (1, 2) for c in " #:;$=%&|*?[~()"),
]  # fmt: skip
READS = {"make": for_make, "ninja": for_ninja}
NEWER_NINJA = set("&?'\"")  # read by Ninja from 1.12 on

LONG_AGO, OLD, MIDDLE, NEW = 1_400_000_000, 1_900_000_000, 2_000_000_000, 2_100_000_000


def touch(path: bytes, time: int) -> None:
    with open(path, "wb"):
        pass
    os.utime(path, (time, time))


def make_remakes(folder: Path, text: str, target: str, depends: str) -> list[bool]:
    """Whether Make makes `target` again, with `depends` older and newer than it."""
    root = os.fsencode(folder)
    recipe = re.sub(
        "(?s)(.*?): .*", r"\1:\n\t@printf REMADE\n", text
    )  # by the rule of the project, not the depfile's
    (folder / "Makefile").write_bytes(os.fsencode("include k.d\n" + recipe))
    (folder / "k.d").write_bytes(os.fsencode(text))
    out = []
    for time in (OLD, NEW):
        touch(os.path.join(root, os.fsencode(target)), MIDDLE)
        touch(os.path.join(root, os.fsencode(depends)), time)
        run = subprocess.run(["make", "-s"], cwd=folder, capture_output=True)
        assert run.returncode == 0, run.stderr
        out.append(b"REMADE" in run.stdout)
    return out


def ninja_is_old() -> bool:
    said = subprocess.run(["ninja", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, said.split(".")[:2])) < (1, 12)


def ninja_remakes(folder: Path, text: str, target: str, depends: str) -> list[bool]:
    root = os.fsencode(folder)
    spelled = target.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
    quoted = shlex.quote(target).replace("$", "$$")
    (folder / "proto.d").write_bytes(os.fsencode(text))
    (folder / "build.ninja").write_bytes(
        os.fsencode(
            f"rule r\n  command = cp proto.d out.d && touch -- {quoted}\n  depfile = out.d\nbuild {spelled}: r in\n"
        )
    )
    touch(root + b"/in", LONG_AGO)
    out = []
    for time in (LONG_AGO, NEW):
        touch(os.path.join(root, os.fsencode(depends)), time)
        if time == LONG_AGO:
            subprocess.run(["ninja"], cwd=folder, check=True, capture_output=True)
        run = subprocess.run(["ninja", "-n"], cwd=folder, check=True, capture_output=True)
        out.append(b"no work to do" not in run.stdout)
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reader", READS)
@pytest.mark.parametrize("role", ["target", "prerequisite"])
def test_what_is_written_for_a_reader_is_what_it_reads(reader: str, role: str, tmp_path: Path) -> None:
    if shutil.which(reader) is None:
        pytest.skip(f"there is no {reader}")
    wrong, refused = [], []
    newer = NEWER_NINJA if reader == "ninja" and ninja_is_old() else set()
    for number, name in enumerate(NAMES):
        if reader == "ninja" and (newer & set(name) or (role == "target" and name.startswith("-"))):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        target, depends = (name, "dep") if role == "target" else ("out", name)
        try:
            text = write_depfile(target, [f"{folder}/{depends}"], reader)
        except UnwritableDepfile:
            refused.append(name)
            continue
        try:
            remade = (make_remakes if reader == "make" else ninja_remakes)(folder, text, target, depends)
        except (AssertionError, subprocess.CalledProcessError) as error:
            remade = str(error)
        if remade != [False, True]:
            wrong.append((name, text, remade))
    assert not wrong, wrong
    cannot = {"make": r"\(.+\)$|\\\n" + (r"|\t|%|^~$|^\n|\n$" if role == "target" else ""),
              "ninja": r"[*;<>^`|\x00-\x1f\x7f]" + ("" if role == "target" else r"|(^|[^\\])(\\\\)*\\$|:$")}[reader]  # fmt: skip
    assert all(re.search(cannot, name) for name in refused), refused


@pytest.mark.parametrize("name", NAMES)
def test_a_depfile_for_nobody_is_what_one_of_them_reads(name: str) -> None:
    texts = []
    for reader in ("ninja", "make"):
        try:
            texts.append(write_depfile("out", [f"/w/{name}"], reader))
        except UnwritableDepfile:
            pass
    if texts:
        assert write_depfile("out", [f"/w/{name}"]) == texts[0]
    else:
        with pytest.raises(UnwritableDepfile):
            write_depfile("out", [f"/w/{name}"])


@pytest.mark.parametrize("command", ["tileiras", "compile", "bytecode", "export"])
def test_a_name_that_no_depfile_can_say_is_an_error_before_anything_is_done(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old outputs stay, and not even a mistake in the kernel is told of."""
    from tileiras import cli
    from tileiras.tools.build import main

    source = tmp_path / "k.tileir"
    source.write_text("no kernel")
    for name in ("old", "old.d"):
        (tmp_path / name).write_text("old")
    words = [str(source), "-o", str(tmp_path / "old"), "--depfile", str(tmp_path / "old.d")]
    words += ["--depfile-target", "lib(x;)"]
    more = {
        "tileiras": ["--gpu-name", "sm_90"],
        "compile": ["--arch", "sm_90"],
        "bytecode": [],
        "export": ["--entry=k", "--signature=f32"],
    }[command]
    status = cli.main([*words, *more]) if command == "tileiras" else main([command, *words, *more])
    assert status == 2
    text = capsys.readouterr().err
    assert "Ninja cannot read a path with a semicolon in a depfile: 'lib(x;)'" in text
    assert "Make cannot read a path with the form of an archive's member" in text and "k.tileir" not in text
    assert (tmp_path / "old").read_text() == (tmp_path / "old.d").read_text() == "old"


@pytest.mark.parametrize(
    "reader, name, why", [("ninja", "a;b", "a semicolon"), ("make", "a%b", "a percent sign")]
)
def test_a_name_that_the_named_reader_cannot_read(
    reader: str, name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tileiras.tools.build import main

    source = tmp_path / "k.tileir"
    source.write_text("no kernel")
    words = ["bytecode", str(source), "-o", str(tmp_path / "o"), "--depfile", str(tmp_path / "o.d")]
    assert main([*words, f"--depfile-target={name}", f"--depfile-for={reader}"]) == 2
    text = capsys.readouterr().err
    assert f"{reader.capitalize()} cannot read a path with {why} in a depfile: '{name}'" in text
