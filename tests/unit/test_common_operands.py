"""TileASSliceProducts: an operand that several products of a step take is read from its stage once for all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from pathlib import Path

from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.tools import opt

PRODUCT = "nv_tileas.mmaf "
READ = "nv_tileas.load_shared "


def dump(source: str, capfd: pytest.CaptureFixture[str], *more: str) -> str:
    """What `tileiras-opt` prints. The assertion is about its exit code."""
    code = opt.main([source, *more])
    out, err = capfd.readouterr()
    assert code == 0, err
    return out


def whole_operands(name: str, gpu_name: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of a kernel whose products take whole operands."""
    source = str(bytecode_path(CASES[name]))
    skip = ("--gpu-name", gpu_name, "--pipeline-to", "tileas", "--skip", "TileASSliceProducts")
    return dump(source, capfd, *skip).splitlines(keepends=True)


def reads_in_slices(lines: list[str], folder: Path, capfd: pytest.CaptureFixture[str]) -> int:
    """How many slices the kernel reads in its loop."""
    path = folder / "k.mlir"
    path.write_text("".join(lines))
    out = dump(str(path), capfd, "--pass", "TileASSliceProducts")
    return out[out.index("nv_tileas.for ") :].count(READ)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name, tiles, slices", [("staged_complex", 4, 4), ("staged_gated_64x128", 3, 2)])
def test_a_slice_is_read_once_for_all_products_that_take_it(
    name: str, tiles: int, slices: int, gpu_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = whole_operands(name, gpu_name, capfd)
    assert reads_in_slices(lines, tmp_path, capfd) == tiles * slices


@pytest.mark.parametrize("what", ["barrier", "async.wait_group"])
def test_behind_a_barrier_or_a_wait_a_slice_is_read_again(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = whole_operands("staged_gated_64x128", "sm_80", capfd)
    first = next(n for n, line in enumerate(lines) if PRODUCT in line)
    attrs = " {pending = 0 : i64}" if "wait" in what else ""
    lines.insert(first + 1, f"      nv_tileas.{what}{attrs} : ()\n")
    assert reads_in_slices(lines, tmp_path, capfd) > 3 * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", ["staged_complex", "staged_gated_64x128"])
def test_products_that_share_an_operand_are_right(name: str, gpu_name: str) -> None:
    done = launch_case(CASES[name], "emulator", gpu_name, 300, check=True, seed=3)
    assert done.word == PASS, done.reason
