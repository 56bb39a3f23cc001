"""The example projects build, run, and give the right numbers; their presets are valid."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cmake_project import REPOSITORY, CMakeProject

EXAMPLES = REPOSITORY / "examples"


def check_kernels(bin_dir: Path) -> subprocess.CompletedProcess[str]:
    """Returns the finished check_kernels.py, with the `tileiras-run` of `bin_dir` for that of its environment."""
    script = os.fspath(EXAMPLES / "cmake" / "check_kernels.py")
    code = (f"import sys, runpy; sys.executable = {os.fspath(bin_dir / 'python3')!r}; "
            f"runpy.run_path({script!r}, run_name='__main__')")  # fmt: skip
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_cmake_example(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.configure("-DCMAKE_TILE_ARCHITECTURES=90", source=EXAMPLES / "cmake")
    project.make()
    out = subprocess.run([project.build / "run_kernels"], check=True, capture_output=True, text=True).stdout
    for name in ("vector_add", "softmax", "matmul"):
        assert f"  {name}: " in out and "sm_90 compute_90" in out
    project.assert_null_build()


def test_one_program_with_and_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    project = CMakeProject(tmp_path)
    project.configure(source=EXAMPLES / "cpu")
    project.make()
    program, environment = project.build / "anywhere", {**os.environ, "LD_LIBRARY_PATH": "/nonexistent"}
    done = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout.endswith("matmul on the CPU: right\n"), (
        done.stdout + done.stderr
    )
    environment["TILEIRAS_DEVICE"] = "gpu"
    done = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (1, "the launch failed: CUDA error 303\n")


@pytest.mark.full
def test_the_cmake_examples_numbers(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    # The example looks for tileiras-run beside its interpreter: a folder with both, and this checkout's package.
    command = tmp_path / "tileiras-run"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m tileiras.tools.run "$@"\n'
    )
    command.chmod(0o755)
    done = check_kernels(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "9 of 9 right"


def test_a_wrong_number_fails_the_example(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "zeros.npy", numpy.zeros(3000, numpy.float32))
    command = tmp_path / "tileiras-run"
    command.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{tmp_path}/zeros.npy" "${{last#*=}}"\n')
    command.chmod(0o755)
    done = check_kernels(tmp_path)
    assert done.returncode == 1
    assert "WRONG" in done.stdout and "OK" not in done.stdout


@pytest.mark.full
def test_the_fetchcontent_example(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    here = f"-DFETCHCONTENT_SOURCE_DIR_TILEIRAS={REPOSITORY}"
    project.configure(here, "-DTileiras_DIR=", source=EXAMPLES / "fetchcontent")
    project.make()
    out = subprocess.run([project.build / "vector_add"], check=True, capture_output=True, text=True).stdout
    assert out.startswith("vector_add: 4 parameters") and out.endswith(("complete\n", "right\n"))


def test_the_presets_configure(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    shutil.copytree(
        EXAMPLES / "cmake", project.source, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build")
    )
    presets = json.loads((project.source / "CMakePresets.json").read_text())
    names = [preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")]
    listed = project.run([str(project.cmake), "-S", str(project.source), "--list-presets"]).stdout
    assert all(f'"{name}"' in listed for name in names)
    # The cross preset changes the host in the images; nothing is built, so no cross compiler is needed.
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.21)
project(host LANGUAGES NONE)
find_package(Tileiras REQUIRED)
add_tile_kernel(k SOURCES kernels/softmax.tileir TYPE CUSTOM ARCHITECTURES 90)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/host.txt" CONTENT "$<TARGET_PROPERTY:k,TILE_HOST_ARCH>")
""")  # fmt: skip
    for name, host in (("cross-aarch64", "aarch64"), ("system-toolkit", "x86_64")):
        if name == "system-toolkit" and os.uname().machine != "x86_64":
            continue
        argv = [str(project.cmake), "-S", str(project.source), "-B", str(tmp_path / name), "--preset", name,
                "-G",
                "Unix Makefiles", f"-DTileiras_DIR={REPOSITORY / 'cmake'}", f"-DTileiras_PYTHON_EXECUTABLE={sys.executable}",
                "-DTileiras_TOOLKIT_ROOT="]  # fmt: skip
        project.run(argv)
        assert (tmp_path / name / "host.txt").read_text() == host
