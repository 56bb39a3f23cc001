"""`tileiras-build kernels`: several kernels in one process, as if each artefact had been made by a command of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import peers
import pytest
from build_tools import call, command
from cmake_project import kernel

from tileiras.toolchain.fatbin import read_fatbin


@pytest.fixture
def work(tmp_path: Path) -> Path:
    peers.require("ptxas")
    for name in ("one", "two"):
        (tmp_path / f"{name}.tileir").write_text(kernel(name, factor=len(name) + ord(name[0])))
    return tmp_path


def units(*names: str) -> list[str]:
    return ["--", *(word for name in names for word in (f"{name}.tileir", name, f"p_{name}"))]


def test_the_same_bytes_as_by_single_verbs(work: Path) -> None:
    done = call("kernels", "--folder", "all", "--arch=sm_80", "--arch=sm_90", "--arch=compute_90", "--tilebc", "--header",
                "--stamp", "all/stamp", *units("one", "two"), cwd=work)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    (work / "single").mkdir()
    for name in ("one", "two"):
        images, tables = [], []
        for arch in ("sm_80", "sm_90", "compute_90"):
            image = f"single/{name}.{arch}.{'ptx' if arch.startswith('c') else 'cubin'}"
            table = f"single/{name}.{arch}.kernels.json"
            done = call(
                "compile", f"{name}.tileir", "-o", image, "--arch", arch, "--kernels-json", table, cwd=work
            )
            assert done.returncode == 0, done.stderr
            images += ["--ptx" if arch.startswith("c") else "--elf", f"{arch}={image}"]
            tables += ["--json", table]
        for words in (
            ["bytecode", f"{name}.tileir", "-o", f"single/{name}.tilebc"],
            ["fatbin", "-o", f"single/{name}.fatbin", *images],
            ["header", "--image", f"single/{name}.fatbin", "--prefix", f"p_{name}", *tables,
             "--header-out", f"single/{name}_tile.h", "--source-out", f"single/{name}_tile.c"],
        ):  # fmt: skip
            done = call(*words, cwd=work)
            assert done.returncode == 0, done.stderr
    made = {path.name: path.read_bytes() for path in (work / "all").iterdir() if path.is_file()}
    assert made.pop("stamp") == b""
    assert made == {path.name: path.read_bytes() for path in (work / "single").iterdir() if path.is_file()}


def test_a_pipe_is_no_source_of_a_build(work: Path) -> None:
    """Nobody writes into it again at the next build; the first one waited for a writer for ever."""
    os.mkfifo(work / "pipe.tileir")
    for words in (
        ["kernels", "--folder", "all", "--arch=compute_80", *units("one", "pipe")],
        ["compile", "--arch=compute_80", "pipe.tileir", "-o", "k.ptx", "--depfile", "k.d"],
    ):
        done = call(*words, cwd=work)
        assert done.returncode == 1
        assert (
            done.stderr
            == "error: unable to read input file 'pipe.tileir': it is a pipe, which nobody can read again\n"
        )
    with subprocess.Popen(["cp", "one.tileir", "pipe.tileir"], cwd=work):
        assert call("compile", "--arch=compute_80", "pipe.tileir", "-o", "k.ptx", cwd=work).returncode == 0


def test_portable_tile_code_is_the_bytecode(work: Path) -> None:
    done = call("kernels", "--folder", "out", "--arch=sm_90", "--arch=compute_90", "--launch-abi=tile", "--fatbin",
                "--compress=none", *units("one"), cwd=work)  # fmt: skip
    assert done.returncode == 0, done.stderr
    images = {image.kind: image.data for image in read_fatbin((work / "out" / "one.fatbin").read_bytes())}
    assert images["tileir"].startswith(b"\x7fTileIR") and images["elf"].startswith(b"\x7fELF")
    assert not (work / "out" / "one.tilebc").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "one.tileir", "s", "p", "two.tileir", "s", "q"], "s.sm_90.cubin' would be made of both 'one.tileir' and 'two"),
        (["--", "one.tileir", "s", "p", "one.tileir", "./s", "q"], "would be made of both"),
        (["--header", "--", "one.tileir", "s", "p", "two.tileir", "t", "p"], "would begin with 'p_'"),
        (["--arch=sm_90", *units("one")], "'--arch': sm_90 is given twice"),
        (["--stamp", "out/one.fatbin", "--fatbin", *units("one")], "would be made of both '--stamp' and 'one.tileir'"),
        (["--stamp", "one.tileir", *units("one")], "is both input and output"),
        (["--fatbin", "--", "out/one.fatbin", "one", "p"], "is both input and output"),
        (["--", "one.tileir", "", "p"], "the STEM of 'one.tileir' is empty"),
        (["--", "one.tileir", "s"], "three words for each kernel are needed"),
        ([], "three words for each kernel are needed"),
    ],
)  # fmt: skip
def test_what_clashes_touches_nothing(words: list[str], said: str, work: Path) -> None:
    (work / "out").mkdir()
    shutil.copy(work / "one.tileir", work / "out" / "one.fatbin")
    (work / "out" / "s.sm_90.cubin").write_text("of an earlier build")
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    done = call("kernels", "--folder", "out", "--arch=sm_90", *words, cwd=work)
    assert done.returncode == (2 if "both input and output" in said else 1)
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


def test_a_failing_kernel_leaves_its_neighbours_and_no_stamp(work: Path) -> None:
    words = ["kernels", "--folder", "out", "--arch=sm_90", "--header", "--stamp", "out/stamp"]
    assert call(*words, *units("one", "two"), cwd=work).returncode == 0
    (work / "out" / "stamp").unlink()
    before = (work / "out" / "two.sm_90.cubin").stat().st_mtime_ns
    (work / "one.tileir").write_text("cuda_tile.module @m { entry @k() { retrun } }\n")
    done = call(*words, *units("one", "missing", "two"), cwd=work)
    assert done.returncode == 5 and "retrun" in done.stderr and "'missing.tileir'" in done.stderr
    names = {path.name for path in (work / "out").iterdir() if path.is_file()}
    assert names == {"two.sm_90.cubin", "two.sm_90.kernels.json", "two.fatbin", "two_tile.h", "two_tile.c"}
    assert (work / "out" / "two.sm_90.cubin").stat().st_mtime_ns == before, "the same bytes keep their time"


@pytest.mark.parametrize("until", ["k1_tile.c", ".k[1-9].sm_80.cubin.*.tmp"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_whole_kernels_and_nothing_unfinished(
    number: signal.Signals, until: str, work: Path
) -> None:
    """Also in the middle of a kernel, whose first image waits while the second one is compiled."""
    names = [f"k{i}" for i in range(40)]
    for i, name in enumerate(names):
        (work / f"{name}.tileir").write_text(kernel(name, factor=i))
    words = [
        "kernels",
        "--folder",
        "out",
        "--arch=sm_80",
        "--arch=sm_90",
        "--header",
        "--no-cache",
        "--stamp",
        "out/stamp",
    ]
    child = subprocess.Popen(command(*words, *units(*names)), cwd=work, stderr=subprocess.DEVNULL)
    while not any((work / "out").glob(until)):
        assert child.poll() is None
        time.sleep(0.005)
    child.send_signal(number)
    assert child.wait(timeout=60) == -number
    left = {path.name for path in (work / "out").iterdir() if path.is_file()}
    assert "stamp" not in left and not [name for name in left if name.endswith(".tmp")]
    whole = {name for name in names if f"{name}_tile.c" in left}
    assert whole and len(whole) < len(names)
    endings = (
        ".sm_80.cubin",
        ".sm_80.kernels.json",
        ".sm_90.cubin",
        ".sm_90.kernels.json",
        ".fatbin",
        "_tile.h",
        "_tile.c",
    )
    assert left == {name + ending for name in whole for ending in endings}
