"""Outputs of the command: whole or not at all, streams written into, links kept, nothing stale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from contract.kit import BAD_EXTI, NOOP, REPOSITORY, run

from tileiras.outputs import OutputError, Outputs

COMMAND = [sys.executable, "-m", "tileiras", "--emit=ptx"]
ENV = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.tileir"
    path.write_text(NOOP)
    return path


def test_standard_output(source: Path) -> None:
    for spelled in ("-", "/dev/stdout"):
        done = subprocess.run([*COMMAND, str(source), "-o", spelled], capture_output=True, env=ENV)
        assert done.returncode == 0 and b".entry noop" in done.stdout
    assert sorted(p.name for p in source.parent.iterdir()) == ["k.tileir"]


def test_redirected_standard_output_keeps_its_device(source: Path) -> None:
    """`/dev/stdout` is a regular file then; unlinking it would take the link out of /dev."""
    out = source.parent / "redirected"
    with out.open("wb") as handle:
        handle.write(b"before\n")
        handle.flush()
        done = subprocess.run([*COMMAND, str(source), "-o", "-"], stdout=handle, env=ENV)
    assert done.returncode == 0 and os.path.lexists("/dev/stdout")
    assert out.read_bytes().startswith(b"before\n.version")
    with out.open("ab") as handle:
        assert (
            subprocess.run([*COMMAND, str(source), "-o", "/dev/stdout"], stdout=handle, env=ENV).returncode
            == 0
        )
    assert os.path.lexists("/dev/stdout") and out.read_bytes().count(b".entry noop") == 2


def test_a_pipe_is_written_into(source: Path) -> None:
    pipe = source.parent / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([*COMMAND, str(source), "-o", str(pipe)], env=ENV) as writer:
        data = pipe.read_bytes()
    assert writer.returncode == 0 and b".entry noop" in data and pipe.is_fifo()


def test_a_link_stays(source: Path) -> None:
    real = source.parent / "real.ptx"
    link = source.parent / "link.ptx"
    real.write_text("old")
    link.symlink_to("real.ptx")
    assert subprocess.run([*COMMAND, str(source), "-o", str(link)], env=ENV).returncode == 0
    assert link.is_symlink() and b".entry noop" in real.read_bytes()
    source.write_text(BAD_EXTI)
    assert (
        subprocess.run([*COMMAND, str(source), "-o", str(link)], env=ENV, capture_output=True).returncode == 5
    )
    assert not real.exists()


@pytest.mark.parametrize(
    "flag", ["-o", "--ptx-output", "--depfile", "--kernels-json", "--remarks-output-file"]
)
def test_the_input_is_no_output(flag: str, source: Path) -> None:
    """Not by another name, either; what else the line names stays: nothing was tried."""
    os.link(source, source.parent / "twin")
    (source.parent / "link").symlink_to("k.tileir")
    for name in ("k.tileir", "./k.tileir", "twin", "link"):
        stale = source.parent / "stale"
        stale.write_text("old")
        flags = [flag, name, *(["--ptx-output", "stale"] if flag == "-o" else ["-o", "stale"])]
        done = run([*COMMAND, "k.tileir", *flags], source.parent)
        assert (
            done.status == 2
            and done.err == f"error: unable to write output file '{name}': it is the input file\n"
        )
        assert source.read_text() == NOOP and stale.read_text() == "old"


def test_all_or_nothing(tmp_path: Path) -> None:
    good, bad = tmp_path / "a", tmp_path / "sub" / "b"
    bad.parent.mkdir()
    outputs = Outputs([str(good), str(bad)])
    outputs.write(str(good), b"1")
    outputs.write(str(bad), b"2")
    assert not good.exists(), "nothing appears before all of it is there"
    for name in list(bad.parent.iterdir()):
        name.unlink()
    with pytest.raises(OutputError, match="sub/b"):
        outputs.commit()
    outputs.discard()
    assert [p.name for p in tmp_path.rglob("*")] == ["sub"]


def test_a_folder_is_no_output(source: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(source), "-o", str(source.parent)], capture_output=True, text=True, env=ENV
    )
    assert done.returncode == 2 and "unable to write output file" in done.stderr


def test_an_old_output_that_cannot_go(source: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("needs a user whom permissions stop")
    folder = source.parent / "ro"
    folder.mkdir()
    (folder / "k.ptx").write_text("old")
    folder.chmod(0o555)
    done = subprocess.run(
        [*COMMAND, str(source), "-o", str(folder / "k.ptx")], capture_output=True, text=True, env=ENV
    )
    assert done.returncode == 2 and "Permission denied" in done.stderr


def test_an_output_that_cannot_be_removed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = source.parent / "k.ptx"
    old.write_text("old")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(OutputError, match=r"unable to write output file '.*k.ptx': Permission denied"):
        Outputs([str(old)]).unlink_old(str(source))
