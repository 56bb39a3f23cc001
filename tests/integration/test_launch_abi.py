"""--launch-abi: what an image carries, as a function of the ABI and of the ptxas release; shared memory above 48 KB."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import peers
import pytest
from build_tools import call

import tileiras
from tests.fixtures import BYTECODE
from tileiras.toolchain.cubin import read_cubin

KERNEL = BYTECODE / "vadd_f32.tilebc"
TRANSPOSE = """
cuda_tile.module @m {
  entry @tr(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %v = make_tensor_view %p, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %w = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %a = make_partition_view %v : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %b = make_partition_view %w : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %c = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %a[%c, %c] : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> tile<128x128xf32>, token
    %y = permute %x [1, 0] : tile<128x128xf32> -> tile<128x128xf32>
    %z = addf %x, %y : tile<128x128xf32>
    %u = store_view_tko weak %z, %b[%c, %c] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion may take all of shared memory at once."""
    from tileiras.compiler.layout import convert

    monkeypatch.setattr(convert, "ROUND_BYTES", 128 * 1024)


def run_command(*words: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tileiras", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True)


def stub(folder: Path, release: str) -> str:
    """A ptxas that knows its release and nothing else."""
    path = folder / "ptxas"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "release {release}, V{release}.1"; exit 0; }}\nexit 9\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("release", ["13.4", "13.5"])
def test_tile_images_are_marked(release: str) -> None:
    ptxas = str(peers.require("ptxas", release))
    for gpu in ("sm_75", "sm_90", "sm_120"):
        program = tileiras.compile(KERNEL, gpu, ptxas=ptxas)
        image = read_cubin(program.cubin)
        (kernel,) = image.kernels.values()
        assert (kernel.language, image.has_tile_metadata) == (7, True)
        assert kernel.block == tuple(next(iter(program.kernels.values())).block), (
            "the real threads, for the driver"
        )


def test_a_ptxas_that_cannot_mark_tile_images_is_code_2(tmp_path: Path) -> None:
    """An image without its marks looks like any other and cannot be launched as a tile kernel."""
    old = str(peers.require("ptxas", "13.1"))
    ways_out = ("ptxas 13.1.115", "13.2 or later", "tileiras[toolkit]", "--ptxas", "--launch-abi=simt")
    with pytest.raises(tileiras.CompileError) as caught:
        tileiras.compile(KERNEL, "sm_90", ptxas=old)
    assert caught.value.exit_code == 2 and all(word in str(caught.value) for word in ways_out)
    output = tmp_path / "k.cubin"
    done = run_command(KERNEL, "--gpu-name=sm_90", f"--ptxas={old}", "-o", output)
    assert done.returncode == 2 and not output.exists() and all(word in done.stderr for word in ways_out)
    root = peers.require_toolkit("13.1")
    words = ["compile", KERNEL, "--arch=sm_90", f"--toolkit-root={root}", "-o", output]
    done = call(*words, "--launch-abi=tile")
    assert done.returncode == 2 and not output.exists() and all(word in done.stderr for word in ways_out)
    assert call(*words).returncode == 0  # the build rules' own default
    for emit in ("ptx", "tilebc"):
        assert tileiras.compile(KERNEL, "sm_90", emit=emit, ptxas=old).cubin == b""


def test_simt_images_are_not_marked() -> None:
    program = tileiras.compile(KERNEL, "sm_90", launch_abi="simt")
    image = read_cubin(program.cubin)
    assert not image.has_tile_metadata and next(iter(image.kernels.values())).language != 7
    assert program.ptx.startswith(".version 8.1\n")


def test_marks_change_no_machine_code() -> None:
    code = []
    for abi in ("tile", "simt"):
        sections = read_cubin(tileiras.compile(KERNEL, "sm_90", launch_abi=abi).cubin).sections
        code.append({name: data for name, data in sections.items() if name.startswith(".text")})
    assert code[0] == code[1] and any(code[0].values())


def test_ptx_that_nobody_assembles_is_portable() -> None:
    ptx = tileiras.compile(KERNEL, "sm_90", emit="ptx").ptx
    assert ".language" not in ptx and "LAUNCH_META" not in ptx and ptx.startswith(".version 8.1\n")


@pytest.mark.usefixtures("large")
def test_shared_memory_above_48_kb_is_static_in_tile_and_dynamic_in_simt() -> None:
    tile = tileiras.compile(TRANSPOSE, "sm_90")
    simt = tileiras.compile(TRANSPOSE, "sm_90", launch_abi="simt")
    assert (tile.kernels["tr"].static_shared, tile.kernels["tr"].dynamic_shared) == (65536, 0)
    assert (simt.kernels["tr"].static_shared, simt.kernels["tr"].dynamic_shared) == (0, 65536)
    assert read_cubin(tile.cubin).kernels["tr"].static_shared == 65536
    assert read_cubin(simt.cubin).kernels["tr"].static_shared == 0


@pytest.mark.usefixtures("large")
def test_a_ptxas_that_cannot_express_it_is_code_2(tmp_path: Path) -> None:
    with pytest.raises(tileiras.CompileError, match=r"release 13\.2 or later is needed") as caught:
        tileiras.compile(TRANSPOSE, "sm_90", ptxas=stub(tmp_path, "12.8"))
    assert caught.value.exit_code == 2
    with pytest.raises(tileiras.CompileError) as caught:  # dynamic memory asks nothing of ptxas: it is run
        tileiras.compile(TRANSPOSE, "sm_90", ptxas=stub(tmp_path, "12.8"), launch_abi="simt")
    assert caught.value.exit_code == 5


def test_the_emulator_runs_both() -> None:
    numpy = pytest.importorskip("numpy")
    for abi in ("tile", "simt"):
        values, out = numpy.arange(128 * 128, dtype=numpy.float32), numpy.zeros(128 * 128, numpy.float32)
        tileiras.launch(
            TRANSPOSE, "tr", (1, 1, 1), [values, out], target="emulator", gpu_name="sm_80", launch_abi=abi
        )
        square = values.reshape(128, 128)
        assert (out.reshape(128, 128) == square + square.T).all()
