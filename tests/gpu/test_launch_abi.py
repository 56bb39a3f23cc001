"""The launch ABI on a real driver: which marks make it accept block size 1. See README.md in this folder.

The probe's images are checked everywhere; they are launched where there is a GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import peers
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe

from tileiras.toolchain.cubin import read_cubin


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, object]]]:
    peers.require("ptxas")
    folder = tmp_path_factory.mktemp("probe")
    return folder, probe.build(folder, gpu_name())


def gpu_name() -> str:
    """The GPU's architecture, or sm_90 where there is none."""
    done = subprocess.run(
        [sys.executable, "-c", "import probe; print(probe.Driver().arch())"],
        cwd=Path(__file__).parent, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else "sm_90"


def test_images_carry_the_marks_they_are_named_for(images: tuple[Path, dict[str, dict[str, object]]]) -> None:
    folder, table = images
    marks = probe.combinations((1, 1, 1))
    marks["tileiras --launch-abi=tile"] = (True, probe.METADATA, False)
    for name, (language, metadata, host) in marks.items():
        if host and peers.tool("tileiras") is None:
            continue
        image = read_cubin((folder / str(table[name]["file"])).read_bytes())
        assert (image.kernels[probe.ENTRY].language == 7) == language, name
        assert image.has_tile_metadata == bool(metadata), name
        assert (image.host is not None) == host, name
        assert list(image.kernels[probe.ENTRY].block or ()) == table[name]["block"], name


def test_nvidia_marks_its_own_kernels_like_this(images: tuple[Path, dict[str, dict[str, object]]]) -> None:
    peers.require("tileiras")
    folder, table = images
    image = read_cubin((folder / str(table["NVIDIA 13.4"]["file"])).read_bytes())
    assert image.kernels[probe.ENTRY].language == 7 and image.has_tile_metadata and image.host


def test_the_unmarked_kernel_counts_on_the_emulator(tmp_path: Path) -> None:
    """The probe's own kernel is right, so that a wrong value on a GPU is the driver's answer and not ours."""
    numpy = pytest.importorskip("numpy")
    import tileiras

    values = numpy.arange(probe.BLOCKS * probe.TILE, dtype=numpy.int32)
    tileiras.launch(
        probe.KERNEL, probe.ENTRY, (probe.BLOCKS, 1, 1), [values], target="emulator", gpu_name="sm_80"
    )
    at = numpy.arange(values.size)
    assert (values == at + at // probe.TILE + 1).all()


@pytest.mark.gpu
def test_block_one_is_accepted(
    images: tuple[Path, dict[str, dict[str, object]]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = images
    outcomes = probe.run(folder)
    with capsys.disabled():
        print("\n" + probe.spell(outcomes))
    (folder / "outcomes.json").write_text(json.dumps(outcomes, indent=1))
    for name in ("nothing", "language", "language + metadata"):
        assert outcomes[name]["real block"] == "right", name
    theirs = [row["block 1"] for name, row in outcomes.items() if name.startswith("NVIDIA")]
    if "right" not in theirs:
        pytest.skip("this driver does not launch NVIDIA's own tile images with block 1")
    assert outcomes["tileiras --launch-abi=tile"]["block 1"] == "right", probe.spell(outcomes)
