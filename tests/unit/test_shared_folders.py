"""Outputs in folders that others may write to: no link is followed, no name can be guessed, no file is shared."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tileiras import files
from tileiras.outputs import OutputError, Outputs


@pytest.fixture
def guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random names are guessed: only O_EXCL and O_NOFOLLOW are left."""
    monkeypatch.setattr(os, "urandom", bytes)


def plant_links(folder: Path, names: list[str], secret: Path) -> None:
    """Links to the victim's file under every temporary name that a writer might take."""
    secret.write_text("secret")
    for name in names:
        path = folder / name
        if not path.is_symlink():
            path.symlink_to(secret)


def test_temporary_names_cannot_be_guessed(tmp_path: Path) -> None:
    pid = os.getpid()
    secret = tmp_path / "secret"
    shared = tmp_path / "shared"
    shared.mkdir()
    plant_links(shared, [f"k.cubin.{pid}.tmp", f".k.cubin.{pid}.tmp", f"k.cubin.{pid}.part"], secret)
    outputs = Outputs([str(shared / "k.cubin")])
    outputs.write(str(shared / "k.cubin"), b"image")
    outputs.commit()
    assert secret.read_text() == "secret" and (shared / "k.cubin").read_bytes() == b"image"
    assert not (shared / "k.cubin").is_symlink()


def test_a_planted_link_is_not_followed(tmp_path: Path, guessed: None) -> None:
    """Even with its name known, a file that is already there is not opened."""
    secret = tmp_path / "secret"
    shared = tmp_path / "shared"
    shared.mkdir()
    out = str(shared / "k.cubin")
    plant_links(shared, [os.path.basename(files.temporary_sibling(out))], secret)
    with pytest.raises(OutputError, match=r"k\.cubin': File exists"):
        Outputs([out]).write(out, b"image")
    with pytest.raises(FileExistsError):
        files.write_atomically(out, b"image")
    assert secret.read_text() == "secret" and sorted(os.listdir(shared)) == [
        os.path.basename(files.temporary_sibling(out))
    ]


def test_long_names_that_begin_alike(tmp_path: Path) -> None:
    names = [str(tmp_path / ("n" * 210 + tail)) for tail in ("a", "b", "é")]
    outputs = Outputs(names)
    for name in names:
        outputs.write(name, name.encode())
    outputs.commit()
    assert [Path(name).read_bytes() for name in names] == [name.encode() for name in names]
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to play two users")
def test_another_users_link_in_a_sticky_folder_is_no_output(tmp_path: Path) -> None:
    """What the kernel calls protected_symlinks; a path that is resolved by hand needs it as well."""
    secret = tmp_path / "secret"
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for name in ("k.cubin", "own.cubin"):
        plant_links(shared, [name], secret)
    os.lchown(shared / "k.cubin", 12345, 12345)
    for write in (lambda out: out.unlink_old("x"), lambda out: out.write(out.paths[0], b"image")):
        with pytest.raises(OutputError, match=r"k.cubin': .*another user's link"):
            write(Outputs([str(shared / "k.cubin")]))
    assert secret.read_text() == "secret"
    outputs = Outputs([str(shared / "own.cubin")])
    outputs.write(outputs.paths[0], b"image")
    outputs.commit()
    assert secret.read_bytes() == b"image", "one's own link stays one"


def test_every_writer_of_a_sibling_survives_planted_names(tmp_path: Path) -> None:
    """The other places that write beside an output: saved arrays, the C library, Bazel's text files, setuptools."""
    numpy = pytest.importorskip("numpy")
    from tileiras.setuptools_ext.installed import write_if_new

    from tileiras.capi.build import _install
    from tileiras.tools.bazel_actions import write_text
    from tileiras.tools.run import save_array

    pid, secret = os.getpid(), tmp_path / "secret"
    source = tmp_path / "source.so"
    source.write_bytes(b"image")
    shared = tmp_path / "shared"
    shared.mkdir()
    import threading

    thread = threading.get_ident()
    planted = [
        f"out{tail}" for tail in (f".{pid}.part", f".{pid}.tmp", ".partial", f".{pid}-{thread}.tmp", ".tmp")
    ]
    plant_links(shared, planted, secret)
    out = shared / "out"
    for write in (
        lambda: save_array(str(out), numpy.zeros(3)),
        lambda: _install(source, out),
        lambda: write_text(str(out), "text"),
        lambda: write_if_new(str(out), b"data"),
    ):
        write()
        assert secret.read_text() == "secret" and out.is_file() and not out.is_symlink()
        out.unlink()
    assert sorted(os.listdir(shared)) == sorted(planted)


def test_a_full_disk_names_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    outputs = Outputs([str(tmp_path / "k.cubin")])
    with pytest.raises(
        OutputError, match=r"unable to write output file '.*k\.cubin': No space left on device"
    ):
        outputs.write(outputs.paths[0], b"image")
    outputs.discard()
    assert os.listdir(tmp_path) == []
    assert sys.exc_info() == (None, None, None)
