"""-arch, -code and -gencode as nvcc reads them: the same entries, the same errors, compared with the real one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import peers
import pytest
from build_support import map_checkout

map_checkout()
from tileiras.nvcc_shim import arch, argv  # noqa: E402

TILE = [80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121]


def select(
    words: list[str], archs: list[int] = TILE, gpus: list[int] | None = None
) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    line = argv.parse_line([*words, "k.tileir"], {})
    entries = arch.select_entries(line, archs, lambda: gpus or [], warnings)
    return [entry.label for entry in entries], warnings


# As the real nvcc 13.4 takes them; what it makes of them is read from its own dry run.
LINES = """
-gencode arch=compute_90,code=sm_90a
-gencode arch=compute_90a,code=sm_90a
-gencode arch=compute_90a,code=sm_90
-gencode arch=compute_100f,code=sm_100a
-gencode arch=compute_100f,code=[sm_103,sm_100]
-gencode arch=compute_100f,code=sm_110
-gencode arch=compute_100f,code=compute_100
-gencode arch=compute_100,code=compute_100f
-gencode arch=compute_80,code=compute_80
-gencode=arch=compute_80,code=[sm_80,sm_86,compute_80]
--generate-code=arch=compute_100,code=[compute_100,sm_100]
--generate-code arch=compute_100,code=[sm_100]
-gencode arch=compute_80,code="sm_80,compute_80"
-gencode code=sm_80,arch=compute_80
-arch=compute_80 -code=sm_86,sm_80
-arch=compute_80 -code=compute_80,sm_80
-arch=compute_100a -code=sm_100a
-arch=sm_80
-arch=compute_90
-arch=all
-arch=all-major
-arch=sm_90 -gencode arch=compute_80,code=sm_80
-arch=sm_80 -gencode arch=compute_80,code=sm_80
-gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80
-gencode arch=compute_80,code=sm_80 -gencode arch=compute_80,code=sm_80
-gencode arch=compute_80,code=sm_80,foo=1
-gencode arch=compute_80,code=sm_80,arch=compute_90
-gencode arch=compute_80,code=
-gencode code=sm_80
-gencode arch=compute_80
-gencode arch=all,code=sm_80
-gencode bogus
-gencode foo=compute_80,code=sm_80
-gencode arch=compute_80,code=[sm_80
-gencode arch=compute_80,code=sm_80,sm_86
-gencode arch=sm_80,code=sm_80
-arch=compute_101
-arch=100
-arch=sm_99
-arch=sm_90f
-arch=sm_80a
-arch=
-arch=sm_80 -code=sm_80
-arch=compute_90 -code=sm_80
-arch=all -code=sm_80
-code=sm_80
-arch=native -code=sm_80
-gencode arch=compute_80,code=sm_80 -code=sm_80
""".strip().splitlines()


@pytest.mark.parametrize("text", LINES)
def test_same_entries_and_errors_as_nvcc(text: str, tmp_path: Path) -> None:
    nvcc = peers.require("nvcc", "13.4")
    (tmp_path / "k.cu").write_text("__tile_global__ void k(float* p) { }\n")
    words = text.replace('"', "").split()
    done = subprocess.run([nvcc, "--dryrun", "-std=c++20", "--tile-only", "-tilefatbin", "k.cu", *words],
                          capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    if done.returncode:
        with pytest.raises(argv.Usage) as caught:
            select(words)
        assert f"nvcc fatal   : {caught.value}" == done.stderr.splitlines()[-1].rstrip()
        return
    line = next(one for one in done.stderr.splitlines() if one.startswith("#$ fatbinary"))
    theirs = [("sm_" if kind == "elf" else "compute_") + number
              for kind, number in re.findall(r"kind=(elf|tileir),sm=(\w+)", line)]  # fmt: skip
    ours, _ = select(words)
    assert sorted(ours) == sorted(theirs)


def test_cmakes_default_architecture_is_an_error_not_an_empty_image() -> None:
    for words in ([], ["-arch=sm_75"]):
        with pytest.raises(
            argv.Usage, match=r"requires at least one architecture supporting Tile output.*sm_75.*sm_80"
        ):
            select(words)


def test_what_has_no_tile_support_is_left_out_with_one_warning() -> None:
    labels, warnings = select(["-gencode=arch=compute_75,code=[sm_75,compute_75]", "-arch=sm_90"])
    assert labels == ["sm_90", "compute_90"]
    assert warnings == ["architectures without Tile support are left out for Tile IR inputs: sm_75"]


def test_native_means_the_gpus_of_this_machine() -> None:
    assert select(["-arch=native"], gpus=[90, 120]) == (["sm_90", "sm_120"], [])
    with pytest.raises(argv.Usage, match="requires at least one architecture"):
        select(["-arch=native"])
    labels, warnings = select(["-arch=native"], archs=[75, *TILE])
    assert labels == ["sm_75"]
    assert warnings == ["Cannot find valid GPU for '-arch=native', default arch is used"]
