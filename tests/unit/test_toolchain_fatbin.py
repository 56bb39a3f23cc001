"""The container: byte for byte what fatbinary writes, and read back by NVIDIA's cuobjdump."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import peers
import pytest

from tests.fixtures import BYTECODE
from tileiras.diag import CompileError
from tileiras.toolchain.fatbin import COMPRESS_MODES, Image, make_fatbin, read_fatbin, write_fatbin
from tileiras.toolchain.locate import Tool, find_tool
from tileiras.toolchain.ptxas import assemble

LABELS = ("75", "80", "90", "90a", "100", "100a", "100f", "103", "107", "110a", "120f", "121")


def ptx(label: str) -> bytes:
    isa = "9.4" if label.startswith("107") else "9.0"
    return f".version {isa}\n.target sm_{label}\n.address_size 64\n.visible .entry k() {{ ret; }}\n".encode()


def elf(label: str) -> bytes:
    tool = find_tool("ptxas", str(peers.require_toolkit()), {})
    return assemble(ptx(label).decode(), target=f"sm_{label}", ptxas=tool).cubin


def tileir(repository: Path, name: str = "add_2d_f32") -> bytes:
    return (BYTECODE / f"{name}.tilebc").read_bytes()


def theirs(images: list[Image], tmp_path: Path, release: str, *options: str) -> bytes:
    command = [peers.require("fatbinary", release), f"--create={tmp_path / 'out'}", "-64", *options]
    for index, image in enumerate(images):
        path = tmp_path / str(index)
        path.write_bytes(image.data)
        command.append(f"--image3=kind={image.kind},sm={image.arch},file={path}")
    subprocess.run(command, check=True)
    return (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("release", ["13.4", "13.5"])
def test_same_bytes_as_fatbinary(release: str, tmp_path: Path, repository: Path) -> None:
    images = [Image("elf", label, elf(label)) for label in LABELS]
    images.insert(2, Image("tileir", "120", tileir(repository)))
    images += [
        Image("ptx", "90", ptx("90")),
        Image("ptx", "103f", ptx("103f")),
        Image("ptx", "90a", ptx("90a")),
    ]
    ours = write_fatbin(images)
    assert ours == theirs(images, tmp_path, release, "--compress-mode=none")
    back = read_fatbin(ours)
    assert [(image.kind, image.arch) for image in back] == [(image.kind, image.arch) for image in images]
    for image, original in zip(back, images):
        assert image.data.rstrip(b"\0") == original.data.rstrip(b"\0")


def test_cuobjdump_reads_it(tmp_path: Path) -> None:
    images = [Image("elf", "80", elf("80")), Image("elf", "90a", elf("90a")), Image("ptx", "90", ptx("90"))]
    path = tmp_path / "k.fatbin"
    path.write_bytes(write_fatbin(images))
    command = [peers.require("cuobjdump"), "-lelf", "-lptx", path]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split(".", 1)[1] for line in listed.splitlines()] == [
        "1.sm_80.cubin",
        "2.sm_90a.cubin",
        "1.sm_90.ptx",
    ]
    subprocess.run([peers.require("cuobjdump"), "-xelf", "all", path], cwd=tmp_path, check=True)
    (extracted,) = tmp_path.glob("*sm_80.cubin")
    assert extracted.read_bytes() == images[0].data


@pytest.mark.parametrize("mode", COMPRESS_MODES)
def test_compression(mode: str, tmp_path: Path, repository: Path) -> None:
    fatbinary = find_tool("fatbinary", str(peers.require_toolkit()), {})
    images = [Image("elf", "90", elf("90")), Image("tileir", "120", tileir(repository))]
    made = make_fatbin(images, mode, fatbinary)
    assert made == theirs(images, tmp_path, "13.4", f"--compress-mode={mode}")
    back = read_fatbin(made)
    assert [(image.kind, image.arch) for image in back] == [("elf", "90"), ("tileir", "120")]
    assert any(image.compressed for image in back) == (mode != "none")


def test_without_fatbinary(repository: Path) -> None:
    images = [Image("tileir", "120", tileir(repository))]
    assert make_fatbin(images, "default", None) == write_fatbin(images)
    with pytest.raises(CompileError) as caught:
        make_fatbin(images, "size", None)
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (2, "TC-0403")


def test_fatbinary_too_old_for_tile_ir(repository: Path) -> None:
    old = Tool("fatbinary", "/nonexistent", "/", "test", "13.0.88", "test")
    images = [Image("tileir", "120", tileir(repository))]
    assert make_fatbin(images, "default", old) == write_fatbin(images)
    with pytest.raises(CompileError) as caught:
        make_fatbin(images, "speed", old)
    assert caught.value.exit_code == 2
    assert "13.3" in str(caught.value)


def test_a_failing_fatbinary(tmp_path: Path, repository: Path) -> None:
    script = tmp_path / "fatbinary"
    script.write_text("#!/bin/sh\necho 'fatbinary fatal : no' >&2\nexit 3\n")
    script.chmod(0o755)
    tool = Tool("fatbinary", str(script), str(tmp_path), "test", "13.4.92", "test")
    with pytest.raises(CompileError) as caught:
        make_fatbin([Image("tileir", "120", tileir(repository))], "size", tool)
    assert caught.value.exit_code == 5
    assert "fatbinary fatal : no" in str(caught.value) and "exit status 3" in str(caught.value)


def test_a_wrong_label_is_refused(repository: Path) -> None:
    for image, code in (
        (Image("elf", "90", elf("80")), "TC-0404"),
        (Image("elf", "90", b"text"), "TC-0201"),
        (Image("tileir", "120", b"text"), "TC-0405"),
        (
            Image("tileir", "120", b"\x7fTileIR\0\r"),
            "TC-0405",
        ),  # an entry repeats the version behind the magic
        (Image("ptx", "90", b"text"), "TC-0406"),
        (Image("ptx", "90", b".version 8.70000"), "TC-0406"),  # its place has 16 bits
    ):
        with pytest.raises(CompileError) as caught:
            make_fatbin([image])
        assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (1, code)


@pytest.mark.parametrize("cut", [0, 10, 40, 100])
def test_a_damaged_container(cut: int, repository: Path) -> None:
    made = write_fatbin([Image("tileir", "120", tileir(repository))])
    with pytest.raises(CompileError) as caught:
        read_fatbin(made[:cut], "k.fatbin")
    assert caught.value.exit_code == 1
    assert "k.fatbin" in str(caught.value)


@pytest.mark.parametrize("spaces", range(8))
def test_ptx_of_any_length_ends_with_a_zero(spaces: int) -> None:
    """Whoever loads it reads up to there; the entry's filling is none where the text takes whole words."""
    text = ptx("90") + b" " * spaces
    (image,) = read_fatbin(write_fatbin([Image("ptx", "90", text)]))
    assert image.data.startswith(text + b"\0") and len(image.data) - len(text) <= 8


@pytest.mark.parametrize("more", [8, 1 << 40])
def test_an_entry_beyond_its_container(more: int) -> None:
    made = bytearray(write_fatbin([Image("ptx", "90", ptx("90")), Image("ptx", "100", ptx("100"))]))
    assert len(read_fatbin(bytes(made))) == 2
    head, body = struct.unpack_from("<IQ", made, 16 + 4)  # sizes, in the entry behind the container's header
    (size,) = struct.unpack_from("<Q", made, 16 + head + body + 8)
    struct.pack_into("<Q", made, 16 + head + body + 8, size + more)
    with pytest.raises(CompileError, match="an entry reaches past the end") as caught:
        read_fatbin(bytes(made), "k.fatbin")
    assert caught.value.exit_code == 1
