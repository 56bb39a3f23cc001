"""Outputs in folders that others may write to: no link is followed, no name can be guessed, no file is shared."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from contract.kit import NOOP, run

from tileiras import files
from tileiras.outputs import OutputError, Outputs

as_two_users = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to play two users"
)
STRANGER = 12345


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


@as_two_users
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


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A sticky folder in which another user waits: links to a private file and its folder, and a pipe."""
    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir()
    (private / "key").write_text("secret")
    (private / "k.cubin").write_text("keep")
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to("../private/key")
    (shared / "new").symlink_to(private / "new")
    (shared / "folder").symlink_to(private)
    os.mkfifo(shared / "pipe")
    for name in os.listdir(shared):
        os.lchown(shared / name, STRANGER, STRANGER)
    (tmp_path / "mine").symlink_to(shared / "link")
    (tmp_path / "here").symlink_to("shared/folder")
    (tmp_path / "own").symlink_to(private)
    return tmp_path


PLANTED = ["shared/link", "shared/new", "shared/folder/k.cubin", "shared/pipe", "mine", "here/k.cubin", "own/../mine",
           "shared/folder/../private/key"]  # fmt: skip
TOOLS = [
    ["tileiras", "--gpu-name=sm_80", "--emit=ptx", "k.tileir", "-o", "OUT"],
    ["tileiras", "--gpu-name=sm_80", "--emit=ptx", "k.tileir", "-o", "x", "--depfile=OUT"],
    ["tileiras.tools.build", "compile", "k.tileir", "--arch", "compute_80", "-o", "OUT"],
    [
        "tileiras.tools.build",
        "compile",
        "k.tileir",
        "--arch",
        "compute_80",
        "-o",
        "x",
        "--kernels-json",
        "OUT",
    ],
    ["tileiras.tools.translate", "k.tileir", "-o", "OUT"],
    ["tileiras.tools.opt", "k.tileir", "-o", "OUT"],
    ["tileiras.tools.reduce", "k.tileir", "-o", "OUT", "--", "test", "-s", "{}"],
    ["tileiras.nvcc_shim.main", "-cubin", "-arch=sm_90", "k.tileir", "-o", "OUT"],
    ["tileiras.nvcc_shim.main", "-c", "-arch=sm_90", "k.tileir", "-o", "OUT"],
    ["tileiras.nvcc_shim.main", "-c", "-arch=sm_90", "k.tileir", "-o", "x", "-MD", "-MF", "OUT"],
    ["tileiras.tools.run", "k.tileir", "--memory", "a=zeros:f32:4", "--save", "a=OUT"],
]


@as_two_users
@pytest.mark.parametrize("out", PLANTED)
def test_what_counts_as_planted(out: str, trap: Path) -> None:
    path = str(trap / out)
    assert files.is_planted(path)
    for write in (lambda to: to.unlink_old("x"), lambda to: to.write(path, b"image")):
        with pytest.raises(OutputError, match="another user's link or pipe"):
            write(Outputs([path]))
    for name in ("own/k.cubin", "shared/other", "missing/k.cubin", "own", "private/../own/key"):
        assert not files.is_planted(str(trap / name)), name


@pytest.mark.sampled(3)
@as_two_users
@pytest.mark.parametrize("words", TOOLS, ids=lambda words: f"{words[0].rpartition('.')[2]} {words[-2]}")
def test_no_command_follows_what_was_planted(words: list[str], trap: Path) -> None:
    """The output is named, nothing private changes, and nobody waits for a reader of the pipe."""
    (trap / "k.tileir").write_text(NOOP)
    for out in ("shared/link", "shared/folder/k.cubin", "shared/pipe", "here/k.cubin"):
        done = run([sys.executable, "-m", *(word.replace("OUT", out) for word in words)], trap)
        assert done.status in (1, 2) and "Traceback" not in done.err
        assert out in done.err and "it is another user's link or pipe" in done.err, done.err
        assert {path.name: path.read_text() for path in (trap / "private").iterdir()} == {
            "key": "secret", "k.cubin": "keep"
        }  # fmt: skip
    assert sorted(os.listdir(trap / "shared")) == ["folder", "link", "new", "pipe"]


def test_an_array_is_saved_into_a_device_and_behind_a_link(tmp_path: Path) -> None:
    """`tileiras-run --save 0=/dev/null` by root put a file in the place of the device."""
    numpy = pytest.importorskip("numpy")
    from tileiras.tools.run_results import save_array

    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    save_array(str(pipe), numpy.arange(3))
    reader.join()
    assert pipe.is_fifo() and got[0].startswith(b"\x93NUMPY")
    (tmp_path / "link").symlink_to("real.npy")
    save_array(str(tmp_path / "link"), numpy.arange(3))
    assert (tmp_path / "link").is_symlink() and numpy.load(tmp_path / "real.npy").tolist() == [0, 1, 2]
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe", "real.npy"]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="needs /dev/shm")
def test_shared_memory_is_a_folder_for_files() -> None:
    """`-o /dev/shm/k.ptx` was taken for a device, and ended with: No such file or directory."""
    import tempfile

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        (Path(folder) / "k.tileir").write_text(NOOP)
        for words in (
            ["tileiras", "--emit=ptx", "--gpu-name=sm_80"],
            ["tileiras.tools.build", "compile", "--arch", "compute_80"],
        ):
            out = Path(folder) / f"{words[0]}.ptx"
            assert (
                run([sys.executable, "-m", *words, f"{folder}/k.tileir", "-o", str(out)], Path(folder)).status
                == 0
            )
            assert ".entry noop" in out.read_text()


def test_every_writer_of_a_sibling_survives_planted_names(tmp_path: Path) -> None:
    """The other places that write beside an output: saved arrays, the C library, Bazel's text files, setuptools."""
    numpy = pytest.importorskip("numpy")
    from tileiras.setuptools_ext.installed import write_if_new

    from tileiras.capi.build import _install
    from tileiras.tools.bazel_actions import write_text
    from tileiras.tools.run_results import save_array

    pid, secret = os.getpid(), tmp_path / "secret"
    source = tmp_path / "source.so"
    source.write_bytes(b"image")
    shared = tmp_path / "shared"
    shared.mkdir()
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
    with pytest.raises(OSError) as caught:  # without a name it would pass for standard output
        files.write_atomically(str(tmp_path / "view.json"), b"{}")
    assert caught.value.filename == str(tmp_path / "view.json")
    assert os.listdir(tmp_path) == []
    assert sys.exc_info() == (None, None, None)
