"""The shim as CMAKE_CUDA_COMPILER: identification, the language route, dependencies, on the oldest and newest CMake."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path

import peers
import pytest
from build_support import Installed, clean_environ, ok, run
from cmake_project import find_cmake, find_ninja

from tests.fixtures import BYTECODE

LISTS = """\
cmake_minimum_required(VERSION 3.20)
project(Shim LANGUAGES CXX CUDA)
set_source_files_properties(k.tileir PROPERTIES LANGUAGE CUDA)
add_executable(prog main.cu k.tileir)
message(STATUS "id=${CMAKE_CUDA_COMPILER_ID} version=${CMAKE_CUDA_COMPILER_VERSION}")
message(STATUS "root=${CMAKE_CUDA_COMPILER_TOOLKIT_ROOT}")
"""
MAIN = """\
extern "C" const unsigned long long k_image_size;
__global__ void s(float* p) { p[0] = 1; }
int main() { return 0; }
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def env(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return clean_environ(TILEIRAS_NVCC=str(peers.require("nvcc", "13.4")), CUDACXX=installed.shim,
                         TILEIRAS_CACHE_DIR=str(tmp_path_factory.mktemp("cache")))  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(LISTS)
    (folder / "main.cu").write_text(MAIN)
    shutil.copy(BYTECODE / "add_2d_f32.tilebc", folder / "k.tileir")
    return folder


CASES = [
    ("newest", "Ninja"),
    pytest.param("3.25", "Ninja", marks=pytest.mark.full),
    pytest.param("newest", "Unix Makefiles", marks=pytest.mark.full),
    ("3.25", "Unix Makefiles"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("version", "generator"), CASES)
def test_identification_language_route_and_rebuild(
    version: str, generator: str, env: dict[str, str], source: Path, tmp_path: Path
) -> None:
    cmake = find_cmake(version)
    build = tmp_path / "build dir"
    if generator == "Ninja":
        env["PATH"] = os.path.dirname(find_ninja()) + os.pathsep + env["PATH"]
    done = ok(run([cmake, "-S", source, "-B", build, "-G", generator, "-DCMAKE_CUDA_ARCHITECTURES=90",
                   "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], env=env, timeout=600))  # fmt: skip
    assert "id=NVIDIA version=13.4.92" in done.stdout
    # The private profile and the direct delegate both report the toolkit itself, never the shim's place.
    toolkit = peers.require_toolkit("13.4")
    assert Path(re.search(r"root=(.*)", done.stdout)[1]).resolve() == toolkit.resolve()  # type: ignore[index]
    ok(run([cmake, "--build", build], env=env, timeout=600))
    program = build / "prog"
    assert run([program]).returncode == 0
    assert "k_image" in ok(run(["nm", program])).stdout
    commands = json.loads((build / "compile_commands.json").read_text())
    assert any(one["file"].endswith("k.tileir") for one in commands)

    def stamps() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in build.rglob("*.o")}

    before = stamps()
    ok(run([cmake, "--build", build], env=env, timeout=600))
    assert stamps() == before
    time.sleep(0.05)
    shutil.copyfile(BYTECODE / "axpy_f16.tilebc", source / "k.tileir")
    ok(run([cmake, "--build", build], env=env, timeout=600))
    changed = {Path(path).name for path, stamp in stamps().items() if before.get(path) != stamp}
    assert changed == {"k.tileir.o"}
    # A failing kernel fails the build, with its message, and leaves no object for the next one.
    (source / "k.tileir").write_bytes(b"\x7fTileIR\x00 broken")
    failed = run([cmake, "--build", build], env=env, timeout=600)
    assert failed.returncode != 0 and not list(build.rglob("k.tileir.o"))


@pytest.mark.parametrize("version", [pytest.param("3.25", marks=pytest.mark.full), "newest"])
def test_default_architecture_never_gives_an_empty_image(
    version: str, env: dict[str, str], source: Path, tmp_path: Path
) -> None:
    """CMake chooses 75 when nobody says anything; NVIDIA's assembler has no 75 and nvcc then drops tile code silently."""
    cmake = find_cmake(version)
    env.update(TILEIRAS_COMPILER="nvidia", PATH=os.path.dirname(find_ninja()) + os.pathsep + env["PATH"])
    ok(run([cmake, "-S", source, "-B", tmp_path / "b", "-G", "Ninja"], env=env, timeout=600))
    done = run([cmake, "--build", tmp_path / "b"], env=env, timeout=600)
    assert done.returncode != 0
    assert "requires at least one architecture supporting Tile output (sm_75)" in done.stdout + done.stderr


@pytest.mark.full
def test_fatbin_compilation(env: dict[str, str], source: Path, tmp_path: Path) -> None:
    cmake = find_cmake("newest")
    env["PATH"] = os.path.dirname(find_ninja()) + os.pathsep + env["PATH"]
    (source / "CMakeLists.txt").write_text(LISTS.replace(
        "add_executable(prog main.cu k.tileir)",
        "add_library(images OBJECT k.tileir)\nset_target_properties(images PROPERTIES CUDA_FATBIN_COMPILATION ON)"))  # fmt: skip
    ok(run([cmake, "-S", source, "-B", tmp_path / "b", "-G", "Ninja", "-DCMAKE_CUDA_ARCHITECTURES=90;100-real"], env=env,
           timeout=600))  # fmt: skip
    ok(run([cmake, "--build", tmp_path / "b"], env=env, timeout=600))
    (image,) = (tmp_path / "b" / "CMakeFiles" / "images.dir").rglob("*.fatbin")
    assert image.read_bytes()[:4] == bytes.fromhex("50ed55ba")
