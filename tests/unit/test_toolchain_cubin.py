"""Reading cubins: compared with cuobjdump's reading, on images of ptxas and of NVIDIA's tileiras."""

from __future__ import annotations

import subprocess
from pathlib import Path

import peers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures import BYTECODE
from tileiras.diag import CompileError
from tileiras.toolchain.cubin import read_cubin
from tileiras.toolchain.locate import find_tool
from tileiras.toolchain.ptxas import assemble

PTX = """\
.version {isa}
.target {target}
.address_size 64
.visible .global .align 8 .b8 table[40];
.visible .const .align 4 .f32 factor;
.visible .entry plain(.param .u64 p, .param .u8 c, .param .u16 h, .param .align 8 .b8 s[40], .param .f64 d)
  .reqntid 96, 2, 1
{{
  .reg .b64 %rd<3>;
  .shared .align 16 .b8 buffer[132];
  ld.param.u64 %rd1, [p];
  mov.u64 %rd2, buffer;
  st.shared.u64 [%rd2], %rd1;
  bar.sync 0;
  ret;
}}
.visible .entry {cluster_entry}() .maxntid 64 {cluster}
{{
  ret;
}}
.visible .entry large(.param .u32 first, .param .align 4 .b8 many[{many}], .param .u32 last)
{{
  ret;
}}
"""


def build(target: str, release: str = "13.4") -> bytes:
    clustered = int(target[3:].rstrip("af")) >= 90
    text = PTX.format(
        target=target,
        isa="9.4" if target == "sm_107" else "8.0" if not clustered else "9.0",
        cluster=".reqnctapercluster 2, 2, 1" if clustered else "",
        cluster_entry="clustered",
        many=12000 if clustered else 4000,
    )
    tool = find_tool("ptxas", str(peers.require_toolkit(release)), {})
    return assemble(text, target=target, ptxas=tool).cubin


def tile_cubin(release: str, arch: str, tmp_path: Path, repository: Path) -> bytes:
    """An image of NVIDIA's assembler, from committed bytecode."""
    root = peers.require_toolkit("13.4")
    source = BYTECODE / "add_2d_f32.tilebc"
    out = tmp_path / f"{release}.{arch}.cubin"
    assembler = peers.require("tileiras", release)
    env = {"PATH": "/usr/bin:/bin", "CUDA_ROOT": str(root)}
    subprocess.run([assembler, f"--gpu-name={arch}", source, "-o", out], check=True, env=env)
    return out.read_bytes()


@pytest.mark.parametrize(
    "target", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_107", "sm_121"]
)
def test_images_of_ptxas(target: str) -> None:
    image = read_cubin(build(target))
    assert image.arch == target
    assert image.host is None and not image.has_tile_metadata
    assert image.toolkit.startswith("13.4.") or target == "sm_75"
    assert set(image.kernels) == {"plain", "clustered", "large"}
    plain = image.kernels["plain"]
    assert [(p.ordinal, p.offset, p.size) for p in plain.params] == [
        (0, 0, 8),
        (1, 8, 1),
        (2, 10, 2),
        (3, 16, 40),
        (4, 56, 8),
    ]
    assert plain.block == (96, 2, 1)
    assert plain.static_shared == 132
    assert plain.barriers == 1
    assert plain.registers > 0 and plain.code_bytes > 0
    other = image.kernels["clustered"]
    assert other.block is None and other.max_threads == (64, 1, 1)
    assert other.cluster == ((2, 2, 1) if int(target[3:].rstrip("a")) >= 90 else None)
    many = 12000 if other.cluster else 4000
    assert [(p.offset, p.size) for p in image.kernels["large"].params] == [(0, 4), (4, many), (4 + many, 4)]
    assert image.globals["table"].size == 40
    assert image.globals["factor"].section == ".nv.constant3"


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_100f", "sm_103f", "sm_120", "sm_120f"])
def test_agrees_with_cuobjdump(target: str, tmp_path: Path) -> None:
    data = build(target)
    path = tmp_path / "k.cubin"
    path.write_bytes(data)
    dump = subprocess.run(
        [peers.require("cuobjdump"), "-elf", path], capture_output=True, text=True, check=True
    ).stdout
    image = read_cubin(data)
    assert f"sm={image.arch[3:]}," in dump
    for kernel in image.kernels.values():
        assert f"function: {kernel.symbol}(" in dump
        section = dump.split(f".nv.info.{kernel.symbol}\n")[-1].split("\n.nv.")[0]
        for param in kernel.params:
            row = f"Ordinal : 0x{param.ordinal:x}\tOffset  : 0x{param.offset:x}\tSize    : 0x{param.size:x}"
            assert row in section, (kernel, row)
        registers = [
            line for line in dump.splitlines() if f": {kernel.symbol}(" in line and "register count" in line
        ]
        assert registers and registers[0].endswith(f"register count: {kernel.registers}")


@pytest.mark.parametrize("number", [100, 103, 120])
def test_an_image_of_a_family_says_what_the_plain_one_does(number: int) -> None:
    """It runs on the same GPUs, and nothing in it tells which of the two ptxas was asked for."""
    family, plain = (read_cubin(build(f"sm_{number}{suffix}")) for suffix in ("f", ""))
    assert family.arch == plain.arch == f"sm_{number}"
    assert family.sections[".nv.compat"] == plain.sections[".nv.compat"]


@pytest.mark.parametrize(
    "release", ["13.4", *(pytest.param(other, marks=pytest.mark.full) for other in ("13.3", "13.5"))]
)
def test_images_of_nvidia(release: str, tmp_path: Path, repository: Path) -> None:
    image = read_cubin(tile_cubin(release, "sm_100", tmp_path, repository))
    assert image.sm == 100
    assert image.host == "x86_64"
    assert image.has_tile_metadata
    kernel = image.kernels["add_2d_f32"]
    assert kernel.launch_abi == "tile"
    assert kernel.block is not None and kernel.block[0] % 32 == 0
    assert len(kernel.params) == 15
    assert [p.is_pointer for p in kernel.params] == [True, *[False] * 4] * 3
    assert [p.size for p in kernel.params] == [8, 4, 4, 4, 4] * 3


def test_host_architecture(tmp_path: Path, repository: Path) -> None:
    source = BYTECODE / "add_2d_f32.tilebc"
    out = tmp_path / "k.cubin"
    command = [peers.require("tileiras"), "--gpu-name=sm_90", "--host-arch=aarch64", source, "-o", out]
    subprocess.run(command, check=True, env={"PATH": "/usr/bin:/bin"})
    assert read_cubin(out.read_bytes()).host == "aarch64"


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\2\1" + bytes(58), bytes(100), b"\x7fTileIR\0" + bytes(60)]
)
def test_not_a_cubin(data: bytes) -> None:
    with pytest.raises(CompileError) as caught:
        read_cubin(data, "k.cubin")
    assert caught.value.exit_code == 1
    assert "k.cubin" in str(caught.value)


@pytest.fixture(scope="module")
def good() -> bytes:
    return build("sm_90")


def test_offsets_beyond_what_a_machine_addresses_are_damage(good: bytes) -> None:
    for at in (
        40,
        int.from_bytes(good[40:48], "little") + 64 + 24,
    ):  # the table of sections, and where the first lies
        for number in (1 << 63, (1 << 64) - 1):
            with pytest.raises(CompileError) as caught:
                read_cubin(good[:at] + number.to_bytes(8, "little") + good[at + 8 :], "k.cubin")
            assert caught.value.exit_code == 1 and "damaged" in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_reported_never_a_crash(good: bytes, data: st.DataObject) -> None:
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    for image in (bytes(broken), good[:cut]):
        try:
            read_cubin(image)
        except CompileError as error:
            assert error.exit_code == 1
