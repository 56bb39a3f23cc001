# ruff: noqa: E501 - one line of text per case
"""Schedules of real kernels, changed by hand to what cannot run: an error at the op with its value, code 5, never code."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.tools import opt

PRODUCT = "staged_bf16_nn_128"


@functools.cache
def schedule(gpu_name: str, folder: Path) -> str:
    """The nv_tileas text of a product with bulk copies and roles."""
    out = folder / f"{gpu_name}.mlir"
    line = [str(bytecode_path(CASES[PRODUCT])), "--pipeline-to=tileas", f"--gpu-name={gpu_name}"]
    assert opt.main([*line, "--tensor-maps=launcher", "-o", str(out)]) == 0
    return out.read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("schedules")


def without(name: str) -> str:
    return rf"(?m)^ *nv_tileas\.{re.escape(name)} .*\n"


BAD = {
    # tensor memory
    "sums beyond the columns": ("sm_100", "column = 0 : i64, number", "column = 64 : i64, number", "columns 64 to 192 of 128"),
    "a second buffer beyond the columns": ("sm_100", "buffers = 1", "buffers = 2", "columns 128 to 256 of 128"),
    "three buffers of sums": ("sm_100", "buffers = 1", "buffers = 3", "3 buffers 128 columns apart"),
    "rows of no instruction": ("sm_100", r"\bm = 128", "m = 100", "100 rows, expected a power of two from 64"),
    "columns of no instruction": ("sm_100", r"\bn = 128", "n = 7", "7 columns, expected a power of two from 8"),
    "slices of no instruction": ("sm_100", "depth = 64", "depth = 65", "65 deep, expected a power of two from 16"),
    "elements of no instruction": ("sm_100", 'elem = "bf16"', 'elem = "f64"', "elements of f64, expected one of f16"),
    "no beginning of a sum": ("sm_100", "fresh = [0-2]", "fresh = 3", "fresh = 3"),
    "an operand beyond its buffer": ("sm_100", "a_start = 0", "a_start = 131072", "a_start 131072, from which"),
    "an operand of another extent": ("sm_100", r"\bn = 128", "n = 256", "expected 14 places of bytes"),
    "an operand that no descriptor says": ("sm_100", "a_arrangement = array<i32: 2,", "a_arrangement = array<i32: 4,",
                                           "of which no descriptor is made"),
    "sums that nobody commits": ("sm_100", without("tensor_memory.commit"), "", "sums that nobody commits"),
    "sums that nobody releases": ("sm_100", without("tensor_memory.release"), "", "sums that nobody releases"),
    "sums that nobody waits for": ("sm_100", without("tensor_memory.acquire"), "", "sums that are released for nobody"),
    # rings
    "stages without mbarriers": ("sm_100", without("bulk.begin"), "", "that no 'nv_tileas.bulk.begin' begins"),
    "mbarriers of other stages": ("sm_100", r"(bulk\.begin .*)stage_bytes = 32768", r"\1stage_bytes = 16384",
                                  "that no 'nv_tileas.bulk.begin' begins"),
    "stages that nobody fills": ("sm_100", without("bulk.load"), "", "stages that nobody fills"),
    "stages whose wait never comes": ("sm_90", without("bulk.wait"), "", "stages that nobody waits for"),
    "stages that nobody frees": ("sm_90", without("bulk.release"), "", "stages that nobody releases"),
    "stages that products do not free": ("sm_100", without("bulk.commit"), "", "stages that nobody releases"),
    "no readers": ("sm_90", r"readers = \d+", "readers = 0", "0 readers, expected 1 to 1048575"),
    "stages beyond the buffer": ("sm_100", "stages = 4", "stages = 5", "5 stages of 32768 bytes in a buffer of 131072"),
    "stages that end between units": ("sm_100", "stage_bytes = 32768", "stage_bytes = 32776", "stages of 32776 bytes, expected a multiple of"),
    "no stage": ("sm_100", "stages = 4", "stages = 0", "0 stages, expected 1 to 16"),
    "mbarriers that are released, and no number of readers": ("sm_100", r", readers = \d+ : i64", "", "and no number of readers"),
    "mbarriers in the midst of a stage": ("sm_100", "barriers = -512", "barriers = 512", "mbarriers from byte 512 to 544, expected multiples of 8 around"),
    "mbarriers off their words": ("sm_100", "barriers = -512", "barriers = -508", "mbarriers from byte -508 to -476, expected multiples of 8"),
    # bulk copies
    "a map that the function has not": ("sm_100", "maps = array<i32: 0, 1>", "maps = array<i32: 0, 2>", "copies by tensor map 2, but the function has 2"),
    "a box that does not divide its tile": ("sm_100", r"box = \[128, 64\]", "box = [128, 48]", "a tile of [128, 64] is no whole number of boxes of [128, 48]"),
    "more maps than places": ("sm_100", r"starts = array<i32: 0, 16384>", "starts = array<i32: 0>", "2 maps, 1 starts and 2 sizes"),
    "bytes that the tile has not": ("sm_100", r"bytes = array<i32: 16384, 16384>", "bytes = array<i32: 16384, 8192>", "8192 bytes for a tile of"),
    "a tile beyond its stage": ("sm_100", r"starts = array<i32: 0, 16384>", "starts = array<i32: 0, 24576>", "16384 bytes at byte 24576 of a stage of 32768"),
    "a tile of fewer dimensions than places": ("sm_100", r"tile = array<i32: 128, 64, 64, 128>", "tile = array<i32: 128, 64, 64>", "expects 3 coordinates, but got 4"),
    "a map less than places": ("sm_100", r"bytes = array<i32: 16384, 16384>, maps = array<i32: 0, 1>(.*)starts = array<i32: 0, 16384>",
                               r"bytes = array<i32: 16384>, maps = array<i32: 0>\1starts = array<i32: 0>", "expects 2 coordinates, but got 4"),
    "a map of more dimensions than are left": (
        "sm_100", r"(bulk\.load (?:%\w+(?:#\d)?, ){6})%\w+(?:#\d)?, (.*)tile = array<i32: 128, 64, 64, 128>(.*)<i32: 1, 1, 1, 4, 1>(.*), tensor<i32, #a>\n",
        r"\1\2tile = array<i32: 128, 64, 64>\3<i32: 1, 1, 1, 3, 1>\4\n", "expects 4 coordinates, but got 3"),
    "a tile without elements": (
        "sm_100", r"bytes = array<i32: 16384, 16384>(.*)tile = array<i32: 128, 64, 64, 128>",
        r"bytes = array<i32: 16384, 0>\1tile = array<i32: 128, 64, 64, 0>", "a tile of [64, 0] is no whole number of boxes of"),
    "halves without a pair": ("sm_100", r"(bulk\.load .*)tile = array<i32: 128", r"\1halved = [true, false, false, false], tile = array<i32: 128",
                              "4 of 4 dimensions halved, which pairs of CTAs share"),
    "a map of a parameter that there is not": ("sm_100", r"array = 5", "array = 55", "parameter 55 of"),
    "a map of nothing": ("sm_100", 'swizzle = "128B"', 'swizzle = "7B"', "no tensor map: swizzle 7B, fill zeros"),
    # warpgroups
    "elements that no warpgroup multiplies": ("sm_90", r'(wgmma .*)elem = "bf16"', r'\1elem = "f64"', "elements of f64 and a result of"),
    # pairs
    "columns of a pair, and one CTA": ("sm_100", r"(tensor_memory\.alloc \{columns = 128 : i64, offset = 0 : i64)", r"\1, pair = true",
                                       "columns of a pair of CTAs, and an odd number of CTAs in a cluster"),
    "products of no group": ("sm_90", without("wgmma.commit_group"), "", "products of no group"),
    "products that nobody waits for": ("sm_90", without("wgmma.wait_group"), "", "groups of products that nobody waits for"),
    "slices that no warpgroup has": ("sm_90", r"depth = \d+", "depth = 17", "17 deep, expected a power of two from 16"),
    "an operand off the lines": ("sm_90", "a_start = 0", "a_start = 8", "a_start 8, from which"),
    # roles
    "a role beyond the barriers": ("sm_100", "{id = 2 ", "{id = 15 ", "from 0 to 14, got 15"),
    "registers that no warp has": ("sm_90", r"registers = \d+", "registers = 304", "multiple of 8 from 24 to 256, got 304"),
    "a cluster of no CTA": ("sm_100", r"nvvm.cluster_dim = array<i32: 1, 1, 1>", "nvvm.cluster_dim = array<i32: 0, 1, 1>",
                            "has an extent below 1"),
    # what the code of an op is made of
    "a store without a layout": ("sm_90", r"(store_view_tko .*)layout = #\w+, ", r"\1", "layout None, expected one of 14"),
    "copies without a layout": ("sm_80", r"(copy_view .*)layout = #\w+, ", r"\1", "layout None, expected which thread"),
    "chunks that nobody copies": ("sm_80", r"(copy_view .*)width = 16", r"\1width = 3", "chunks of 3 bytes, expected one of 4"),
    "tiles that lie nowhere": ("sm_80", r"(load_shared .*)arrangement = array<i32: [^>]*>, ", r"\1", "arrangement None"),
    "tiles beyond the buffer": ("sm_80", r"(copy_view .*)start = 16384", r"\1start = 163840", "start 163840, from which"),
    # layouts
    "two registers for an element": ("sm_90", r"reg = \[1, (\d+), ", r"reg = [1, 1, ", "two registers of a thread for one"),
    "elements without a place": ("sm_90", r"(reg = \[\d.*)warp = \[\d+, ", r"\1warp = [0, ", "has no place for some elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_run(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu_name, old, new, words = BAD[name]
    whole = schedule(gpu_name, folder)
    text, count = re.subn(old, new, whole)
    assert count and text != whole
    source = folder / "k.mlir"
    source.write_text(text)
    line = [str(source), "--pipeline-to=ptx", "--tensor-maps=launcher", "-o", str(folder / "k.ptx")]
    assert opt.main(line) == 5
    said = capsys.readouterr().err
    assert words in said and "internal error" not in said


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_as_it_was_it_runs(gpu_name: str, folder: Path) -> None:
    source = folder / "k.mlir"
    source.write_text(schedule(gpu_name, folder))
    line = [str(source), "--pipeline-to=ptx", "--tensor-maps=launcher", "-o", str(folder / "k.ptx")]
    assert opt.main(line) == 0
