"""Reports from the build systems: `tileiras-build compile --report`, REPORT of CMake, `report` of setuptools and Bazel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
import pytest
from build_support import Installed
from cmake_project import CMakeProject, kernel
from integration import bazel_support
from setuptools_support import Project, install_metadata

from tileiras.report import collect, html

ROOT = Path(__file__).resolve().parents[2]


def module_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = html.read(path.read_bytes(), path.name, collect.SCHEMA)["modules"][0]
    return found


def build(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "tileiras.tools.build", "compile", *map(str, words)], capture_output=True, text=True,
        env={**os.environ, **environ},
    )  # fmt: skip


def test_the_cache_has_no_part_in_a_report(tmp_path: Path) -> None:
    peers.require("ptxas")
    source = tmp_path / "k.tileir"
    source.write_text(kernel("k"))
    store = {"TILEIRAS_CACHE_DIR": str(tmp_path / "store"), "TILEIRAS_CACHE": "1"}
    line = [source, "--arch", "sm_90"]
    assert build(*line, "-o", tmp_path / "first.cubin", **store).returncode == 0
    for name in ("r.html", "r.json"):
        done = build(*line, "-o", tmp_path / "k.cubin", "--report", tmp_path / name, "--verbose", **store)
        assert done.returncode == 0 and "taken from the cache" not in done.stderr, done.stderr
        assert module_of(tmp_path / name)["kernels"][0]["registers"]
        assert (tmp_path / "k.cubin").read_bytes() == (tmp_path / "first.cubin").read_bytes()
    again = build(*line, "-o", tmp_path / "k.cubin", "--verbose", **store)
    assert "taken from the cache" in again.stderr or not (tmp_path / "store").exists()
    assert (tmp_path / "k.cubin").read_bytes() == (tmp_path / "first.cubin").read_bytes()


def test_refusals_of_the_build_command(tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(kernel("k"))
    line = [source, "-o", tmp_path / "k.ptx", "--arch", "compute_90"]
    for more, code, text in (
        (["--report", tmp_path / "no" / "r.html"], 2, "unable to write"),
        (["--report", tmp_path / "r.txt"], 1, ".html or .json"),
        (["--report", tmp_path / "r.html", "--compiler", "nvidia"], 2, "builtin"),
    ):
        done = build(*line, *more)
        assert done.returncode == code and text in done.stderr, done.stderr
        assert not (tmp_path / "k.ptx").exists()


def test_a_failed_compile_of_the_build_command(tmp_path: Path) -> None:
    source = tmp_path / "k.tileir"
    source.write_text(kernel("k").replace("return", "retorn", 1))
    done = build(source, "-o", tmp_path / "k.ptx", "--arch", "compute_90", "--report", tmp_path / "r.html")
    assert done.returncode == 5 and not (tmp_path / "k.ptx").exists()
    assert module_of(tmp_path / "r.html")["exit_code"] == 5


@pytest.mark.full
def test_cmake(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES NONE)
find_package(Tileiras REQUIRED)
add_tile_kernel(k SOURCES a.tileir b.tileir TYPE CUSTOM ARCHITECTURES 80-real 90-real REPORT html)
add_tile_kernel(j SOURCES a.tileir TYPE CUSTOM ARCHITECTURES 90 REPORT json)
""")  # fmt: skip
    project.write("a.tileir", kernel("a"))
    project.write("b.tileir", kernel("b"))
    project.configure()
    project.make()
    found = sorted(path.relative_to(project.build).as_posix() for path in project.build.rglob("*.report.*"))
    assert found == [
        "j.tile/a.sm_90.report.json",
        *(f"k.tile/{s}.sm_{a}.report.html" for s in "ab" for a in (80, 90)),
    ]
    module = module_of(project.build / found[1])
    assert (
        module["target"] == "sm_80"
        and module["kernels"][0]["name"] == "a"
        and module["levels"]["sass"]["lines"]
    )
    project.assert_null_build()
    (project.build / found[0]).unlink()
    project.write("a.tileir", kernel("a", 3.0))
    project.make()
    assert "3.0" in "".join(
        json.loads((project.build / found[0]).read_text())["modules"][0]["levels"]["source"]["lines"]
    )


def test_wrong_words_stop_cmake(tmp_path: Path) -> None:
    wrong = (
        ("REPORT pdf", "REPORT 'pdf' is neither html nor json"),
        ("REPORT html COMPILER nvidia LAUNCH_ABI tile", "REPORT needs COMPILER builtin"),
    )
    for number, (words, text) in enumerate(wrong):
        project = CMakeProject(tmp_path / str(number))
        project.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES NONE)
find_package(Tileiras REQUIRED)
add_tile_kernel(k SOURCES a.tileir TYPE CUSTOM ARCHITECTURES 90-real {words})
""")  # fmt: skip
        project.write("a.tileir", kernel("a"))
        done = project.configure(check=False)
        assert done.returncode != 0 and text in " ".join(done.stdout.split()), done.stdout


def test_setuptools(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="64")
    made = Installed(tmp_path / "installed")
    install_metadata(made)
    project = Project(tmp_path / "project", made)
    project.write("pkg/k.tileir", kernel("k"))
    project.setup(
        "TileExtension('pkg._k', ['pkg/k.tileir'], archs=['90-real'], compiler='builtin', report='html')"
    )
    project.build()
    pages = list((project.root / "build").rglob("*.report.html"))
    assert len(pages) == 1 and module_of(pages[0])["finished"]


@pytest.mark.full
def test_bazel(tmp_path: Path) -> None:
    workspace = bazel_support.Workspace(tmp_path / "ws", tmp_path / "out")
    workspace.register()
    try:
        workspace.write("k/k.tileir", kernel("k"))
        rule = 'tile_cubin(name = "k", srcs = ["k.tileir"], arch = "sm_90", compiler = "builtin", report = "html")'
        workspace.write("k/BUILD", f'load("@tileiras//:defs.bzl", "tile_cubin")\n{rule}\n')
        workspace.build("//k:k", "--output_groups=+report")
        pages = list((workspace.bin / "k").rglob("*.report.html"))
        assert len(pages) == 1 and module_of(pages[0])["kernels"][0]["name"] == "k"
    finally:
        workspace.shutdown()


def test_cutile_scripts(tmp_path: Path) -> None:
    python = peers.require_python()
    pytest.importorskip("numpy")
    script = tmp_path / "s.py"
    script.write_text("""
import cuda.tile as ct, numpy as np

@ct.kernel
def double(a, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(a, index=(i,), tile=ct.load(a, index=(i,), shape=(n,)) * 2)

a = np.ones(256, np.float32)
ct.launch(None, (2,), double, (a, 128))
assert a[255] == 2
raise SystemExit(3)
""")
    page = tmp_path / "r.html"
    line = [python, "-m", "tileiras.tools.cutile", "--target", "emulator", "--report"]
    done = subprocess.run([*map(str, line), str(page), str(script)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 3 and done.stderr == "", done.stderr
    module = module_of(page)
    assert module["name"].startswith("double") and "def double" in "\n".join(
        module["levels"]["source"]["lines"]
    )
    ptx = module["levels"]["ptx"]["lines"]
    assert module["emulator"]["lines"] and all(
        row["instruction"].split()[0] in ptx[row["ptx"]] for row in module["emulator"]["lines"]
    )
    done = subprocess.run(
        [*map(str, line), str(tmp_path / "no" / "r.html"), str(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2 and "unable to write" in done.stderr
