"""The acceptance tests of the CMake package: real CMake, real generators, the real compiler.

Every test takes `project`; the quick tier runs Ninja with the newest CMake, the full tier every pair of CMake and
generator. What a step needs beyond that (a C compiler, NVIDIA's tools) is said where it is needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import peers
import pytest
from cmake_project import (
    GENERATORS,
    HEAD,
    REPOSITORY,
    CMakeProject,
    kernel,
    make_read_only,
    make_writable,
    program,
    run_program,
)

MATRIX = [
    pytest.param((version, generator), id=f"{version}-{generator.replace(' ', '')}",
                 marks=[] if (version, generator) == ("newest", "Ninja") else [pytest.mark.full])
    for version in ("newest", "3.25") for generator in GENERATORS
]  # fmt: skip


@pytest.fixture(params=MATRIX)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> CMakeProject:
    """An empty project for one CMake and one generator."""
    return CMakeProject(tmp_path, *request.param)


# 1 -------------------------------------------------------------------------------------------------------------------


def test_two_architectures_and_two_sources_of_the_same_name(project: CMakeProject) -> None:
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES left/scale.tileir right/scale.tileir FORMATS cubin fatbin json header TYPE STATIC)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    project.write("left/scale.tileir", kernel(factor=2))
    project.write("right/scale.tileir", kernel(factor=3))
    project.write("main.c", program("k/left/scale", "k/right/scale"))
    project.configure()
    project.make()
    cubins = project.artefacts("*.cubin")
    assert sorted(p.relative_to(p.parent.parent).as_posix() for p in cubins) == [
        "left/scale.sm_80.cubin", "left/scale.sm_90.cubin", "right/scale.sm_80.cubin", "right/scale.sm_90.cubin",
    ]  # fmt: skip
    assert len({p.read_bytes() for p in cubins}) == 4
    assert len(project.artefacts("*.fatbin")) == 2
    assert len(project.compiled()) == 4
    assert run_program(project, "app").split()[::2] == ["scale", "scale"]
    project.assert_null_build()


# 2 -------------------------------------------------------------------------------------------------------------------


def test_a_change_rebuilds_what_depends_on_it_and_nothing_else(project: CMakeProject) -> None:
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(one SOURCES a.tileir b.tileir TYPE CUSTOM)
add_tile_kernel(two SOURCES c.tileir TYPE CUSTOM OPT_LEVEL ${LEVEL} ARCHITECTURES 90-real)
""")  # fmt: skip
    for name in "abc":
        project.write(f"{name}.tileir", kernel(name))
    project.configure("-DLEVEL=3")
    project.make()
    assert len(project.compiled()) == 5
    project.assert_null_build()

    project.write("a.tileir", kernel("a", factor=7))
    project.make()
    assert project.compiled() == ["a.sm_80.cubin", "a.sm_90.cubin"]
    project.assert_null_build()

    project.configure("-DLEVEL=2")  # an option: a changed command line, which Make alone would not notice
    project.make()
    assert project.compiled() == ["c.sm_90.cubin"]
    project.assert_null_build()

    fingerprint = project.build / "CMakeFiles" / "tileiras" / "fingerprint.txt"
    fingerprint.write_text("another toolchain\n")
    project.make()
    assert len(project.compiled()) == 5


def test_another_toolkit_configures_again_and_rebuilds(project: CMakeProject) -> None:
    first, second = peers.require_toolkit("13.4"), peers.require_toolkit("13.5")
    project.write("CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM)\n")
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DTileiras_TOOLKIT_ROOT={first}")
    project.make()
    project.assert_null_build()
    project.configure(f"-DTileiras_TOOLKIT_ROOT={first}")  # the same again: found root and wanted root agree
    project.assert_null_build()
    project.compiled()
    project.configure(f"-DTileiras_TOOLKIT_ROOT={second}")
    project.make()
    assert project.compiled() == ["k.sm_80.cubin", "k.sm_90.cubin"]


# 3 -------------------------------------------------------------------------------------------------------------------


def test_a_failing_compile_leaves_nothing_and_is_tried_again(project: CMakeProject) -> None:
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90-real)\n"
    )
    project.write("k.tileir", kernel("k"))
    project.configure()
    project.make()
    assert [p.name for p in project.artefacts("*.cubin")] == ["k.sm_90.cubin"]

    project.write("k.tileir", kernel("k").replace("mulf %v", "mulf %nowhere"))
    for _attempt in range(2):
        done = project.make(check=False)
        assert done.returncode != 0
        errors = [line for line in done.stdout.splitlines() if "error:" in line and "nowhere" in line]
        assert len(errors) == 1, done.stdout
        assert project.artefacts("*.cubin") == [] and project.artefacts("*.d") == []
        assert not [p for p in project.artefacts() if "tmp" in p.name or "partial" in p.name]

    project.write("k.tileir", kernel("k", factor=5))
    project.make()
    assert [p.name for p in project.artefacts("*.cubin")] == ["k.sm_90.cubin"]
    project.assert_null_build()


def test_a_killed_compiler_leaves_nothing_and_is_tried_again(project: CMakeProject) -> None:
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90-real)\n"
    )
    project.write("k.tileir", kernel("k"))
    healthy = project.launcher.read_text()
    # The launcher kills the compiler a moment after its start, wherever it is then.
    project.launcher.write_text('#!/bin/sh\n"$@" & sleep 0.02; kill -9 $!; wait $!; exit 137\n')
    project.configure()
    assert project.make(check=False).returncode != 0
    assert project.artefacts("*.cubin") == []
    project.launcher.write_text(healthy)
    project.make()
    assert project.compiled() == ["k.sm_90.cubin"]
    project.assert_null_build()


# 4 -------------------------------------------------------------------------------------------------------------------


def test_odd_names_and_a_read_only_source_tree(tmp_path: Path, project: CMakeProject) -> None:
    odd = CMakeProject.__new__(CMakeProject)
    odd.__dict__.update(project.__dict__)
    # CMake itself refuses # in output paths and, with Make, in the source directory: there it is in the file name only.
    odd.source, odd.build = tmp_path / "src $x ü" / "p", tmp_path / "build dir $y é"
    odd.source.mkdir(parents=True)
    odd.write("CMakeLists.txt", HEAD + """
set(name "my kernel #1 $ ß & it's ^.tileir")
add_tile_kernel(k SOURCES ${name} PREFIX odd TYPE STATIC)
tile_kernel_artifacts(k header header)
get_filename_component(header "${header}" NAME)
string(PREPEND header "k/")
file(GENERATE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/name.h" CONTENT "#include \\"${header}\\"\\n")
add_executable(app main.c)
target_include_directories(app PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    odd.write("my kernel #1 $ ß & it's ^.tileir", kernel("k"))
    odd.write("main.c", program("odd").replace("odd/odd_tile.h", "name.h"))
    if odd.is_multi_config:
        text = (odd.source / "CMakeLists.txt").read_text()
        odd.write("CMakeLists.txt", text)
    make_read_only(odd.source)
    try:
        odd.configure()
        odd.make()
        assert "k" in run_program(odd, "app")
        odd.assert_null_build()
        odd.source.joinpath("my kernel #1 $ ß & it's ^.tileir").chmod(0o644)
        odd.write("my kernel #1 $ ß & it's ^.tileir", kernel("k", factor=9))
        odd.compiled()
        odd.make()
        assert len(odd.compiled()) == 2
    finally:
        make_writable(odd.source)


def test_names_that_are_one_c_identifier(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES "a b.tileir" a_b.tileir ä.tileir ö.tileir ARCHITECTURES 90-real)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    for index, name in enumerate(("a b", "a_b", "ä", "ö")):
        project.write(f"{name}.tileir", kernel(f"kernel{index}"))
    project.write(
        "main.c", program("k/a b", "k/1/a_b", "k/ä", "k/ö", prefixes=("k_a_b", "k__1_a_b", "k___", "k____2"))
    )
    project.configure()
    project.make()
    assert run_program(project, "app").split()[::2] == ["kernel0", "kernel1", "kernel2", "kernel3"]


def test_build_tree_inside_the_source_tree(project: CMakeProject) -> None:
    project.build = project.source / "build"
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES sub/k.tileir TYPE CUSTOM FORMATS cubin)\n"
    )
    project.write("sub/k.tileir", kernel("k"))
    project.configure()
    project.make()
    assert len(project.artefacts("*.cubin")) == 2
    project.assert_null_build()
    assert sorted(p.name for p in project.source.iterdir()) == ["CMakeLists.txt", "build", "sub"]


# 5 -------------------------------------------------------------------------------------------------------------------


def test_consumers_in_other_directories_and_chains_of_libraries(project: CMakeProject) -> None:
    project.write("CMakeLists.txt", HEAD + """
add_subdirectory(user)      # before the kernels: the order of directories plays no part
add_subdirectory(kernels)
""")  # fmt: skip
    project.write("kernels/CMakeLists.txt", """
add_tile_kernel(first SOURCES first.tileir TYPE STATIC ALIAS Kernels::first)
add_tile_kernel(second SOURCES second.tileir TYPE SHARED)
add_tile_kernel(third SOURCES third.tileir LANGUAGE CXX NAMESPACE deep)
target_link_tile_kernels(middle PUBLIC Kernels::first)
target_link_tile_kernels(app PRIVATE second)
target_link_tile_kernels(app_cxx PRIVATE third)
""")  # fmt: skip
    for name in ("first", "second", "third"):
        project.write(f"kernels/{name}.tileir", kernel(name))
    project.write("user/CMakeLists.txt", """
add_library(middle SHARED middle.c)
add_executable(app main.c)
target_link_libraries(app PRIVATE middle)
add_executable(app_cxx main.cpp)
""")  # fmt: skip
    project.write("user/middle.c", """
#include "first/first_tile.h"
int middle(void);
int middle(void) { return (int)first_kernel_count; }
""")  # fmt: skip
    project.write("user/main.c", """
#include "second/second_tile.h"
#include "first/first_tile.h"
int middle(void);
int main(void) { return middle() == 1 && second_kernel_count == 1 && first_image_size > 64 ? 0 : 1; }
""")  # fmt: skip
    project.write("user/main.cpp", """
#include "third/third_tile.h"
int main() { return third_kernel_count == 1 && &deep::launch_third ? 0 : 1; }
""")  # fmt: skip
    project.configure()
    project.make()
    run_program(project, "app")
    run_program(project, "app_cxx")
    project.assert_null_build()


def test_an_object_library_and_an_interface_library(project: CMakeProject) -> None:
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(obj SOURCES obj.tileir)
add_tile_kernel(iface SOURCES iface.tileir TYPE INTERFACE EMBED incbin)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE obj iface)
""")  # fmt: skip
    for name in ("obj", "iface"):
        project.write(f"{name}.tileir", kernel(name))
    project.write("main.c", program("obj", "iface"))
    project.configure()
    project.make()
    assert run_program(project, "app").split()[::2] == ["obj", "iface"]
    project.assert_null_build()
    before = run_digest(project, "app")
    project.write(
        "iface.tileir", kernel("iface", factor=11)
    )  # .incbin: only OBJECT_DEPENDS tells of the new image
    project.make()
    assert run_digest(project, "app") != before


def run_digest(project: CMakeProject, name: str) -> bytes:
    """Returns the bytes of a built program."""
    found = [
        p
        for p in project.build.rglob(name)
        if p.is_file() and os.access(p, os.X_OK) and "CMakeFiles" not in p.parts
    ]
    return found[0].read_bytes()


# 6 -------------------------------------------------------------------------------------------------------------------

LIBRARY = (
    HEAD
    + """
add_tile_kernel(shared_kernels SOURCES a.tileir TYPE SHARED)
add_tile_kernel(static_kernels SOURCES b.tileir TYPE STATIC)
add_tile_kernel(source_kernels SOURCES c.tileir TYPE INTERFACE)
install_tile_kernels(TARGETS shared_kernels static_kernels source_kernels EXPORT LibTargets FORMATS fatbin json
  HEADERS_DESTINATION include/lib)
install(EXPORT LibTargets NAMESPACE Lib:: DESTINATION lib/cmake/Lib FILE LibConfig.cmake)
export(TARGETS shared_kernels static_kernels source_kernels NAMESPACE Lib:: FILE "${CMAKE_BINARY_DIR}/LibConfig.cmake")
"""
)
CONSUMER = """cmake_minimum_required(VERSION 3.20)
project(consumer LANGUAGES C)
find_package(Lib REQUIRED CONFIG)
add_executable(user main.c)
target_link_libraries(user PRIVATE Lib::shared_kernels Lib::static_kernels Lib::source_kernels)
"""


def test_consumers_of_the_install_tree_and_of_the_build_tree(tmp_path: Path, project: CMakeProject) -> None:
    project.write("CMakeLists.txt", LIBRARY)
    for name in "abc":
        project.write(f"{name}.tileir", kernel(name))
    project.configure("-DCMAKE_INSTALL_LIBDIR=lib")
    project.make()
    prefix = tmp_path / "prefix"
    config = ["--config", "Release"] if project.is_multi_config else []
    project.run([str(project.cmake), "--install", str(project.build), "--prefix", str(prefix), *config])
    images = prefix / "share" / "kernels_test" / "tile"
    assert {p.name for p in images.iterdir()} == {"shared_kernels", "static_kernels", "source_kernels"}
    assert {p.name for p in (images / "shared_kernels").iterdir()} >= {"a.fatbin", "a.sm_90.kernels.json"}
    exported = "".join(p.read_text() for p in (prefix / "lib" / "cmake" / "Lib").iterdir())
    assert str(tmp_path) not in exported, "an installed package must not name the tree that it was built in"
    assert "CUDA::" not in exported and "Tileiras::" not in exported
    moved = tmp_path / "moved elsewhere"
    prefix.rename(moved)

    consumer = tmp_path / "consumer"
    consumer.mkdir()
    (consumer / "CMakeLists.txt").write_text(CONSUMER)
    (consumer / "main.c").write_text(program("shared_kernels/a", "static_kernels/b", "source_kernels/c"))
    for name, where in (("installed", moved / "lib" / "cmake" / "Lib"), ("exported", project.build)):
        build = tmp_path / f"use {name}"
        # An INTERFACE library's sources exist for the configurations that were built: here, one.
        only = ["-DCMAKE_CONFIGURATION_TYPES=Release"] if project.is_multi_config else []
        project.configure(f"-DLib_DIR={where}", "-DCMAKE_DISABLE_FIND_PACKAGE_Tileiras=ON", *only,
                          source=consumer, build=build)  # fmt: skip
        project.make(build=build)
        assert run_program(project, "user", build=build).split()[::2] == ["a", "b", "c"]


def test_fetchcontent(tmp_path: Path, project: CMakeProject) -> None:
    checkout = tmp_path / "checkout of tileiras"
    checkout.mkdir()
    for name in ("tileiras", "cmake", "nvcc_shim", "setuptools_ext", "bazel"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("CMakeLists.txt", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, checkout / name)
    project.write("CMakeLists.txt", f"""cmake_minimum_required(VERSION 3.24)
project(fetching LANGUAGES C)
include(FetchContent)
FetchContent_Declare(Tileiras SOURCE_DIR "{checkout}" OVERRIDE_FIND_PACKAGE)
FetchContent_MakeAvailable(Tileiras)
add_subdirectory(sub)
""")  # fmt: skip
    project.write("sub/CMakeLists.txt", """
find_package(Tileiras REQUIRED)
add_tile_kernel(k SOURCES k.tileir ARCHITECTURES 90 TYPE STATIC)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
add_custom_target(versions ALL COMMAND Tileiras::tileiras --version > "${CMAKE_BINARY_DIR}/version.txt")
""")  # fmt: skip
    project.write("sub/k.tileir", kernel("k"))
    project.write("sub/main.c", program("k"))
    project.configure("-DTileiras_DIR=")
    project.make()
    assert run_program(project, "app").startswith("k ")
    from tileiras.version import __version__

    assert __version__ in (project.build / "version.txt").read_text() or __version__


# 7 -------------------------------------------------------------------------------------------------------------------

REFUSED = [
    ("", "no ARCHITECTURES"),
    ("ARCHITECTURES OFF", "OFF"),
    ("ARCHITECTURES native", "native"),
    ("ARCHITECTURES 52 61", "no architecture is left"),
    ("ARCHITECTURES ninety", "is no architecture"),
    ("ARCHITECTURES 90f", "the first with 'f' is 100f"),
    ("ARCHITECTURES 80 sm_89a", "the first with 'a' is 90a"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[a or "unset" for a, _ in REFUSED])
def test_architectures_that_stop_the_configuration(
    project: CMakeProject, arguments: str, message: str
) -> None:
    if arguments.endswith("native") and shutil.which("nvidia-smi"):
        pytest.skip("this machine may have a GPU")
    head = HEAD.replace("set(CMAKE_TILE_ARCHITECTURES 80-real 90-real)", "")
    project.write("CMakeLists.txt", head + f"add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM {arguments})\n")
    project.write("k.tileir", kernel("k"))
    done = project.configure("-DCMAKE_CUDA_ARCHITECTURES_NATIVE=No CUDA devices found.-real", check=False)
    assert done.returncode != 0
    assert message in re.sub(r"\s+", " ", done.stdout)


ACCEPTED = [
    ("all", "75-real 80-real 86-real 87-real 88-real 89-real 90-real 100-real 103-real 107-real 110-real 120-real "
            "121-real 120-virtual"),
    ("all-major", "75-real 80-real 90-real 100-real 110-real 120-real 120-virtual"),
    ("52;90;90", "90-real 90-virtual"),
    ("sm_90;compute_120;10.0;12.0+PTX;86-real;103f-real;90a-real",
     "86-real 90-real 90a-real 100-real 103f-real 120-real 120-virtual"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("spelling", "normal"), ACCEPTED, ids=["all", "all-major", "mixed", "spellings"])
def test_architecture_spellings(project: CMakeProject, spelling: str, normal: str) -> None:
    project.write("CMakeLists.txt", HEAD + f"""
tileiras_normalize_architectures(result {spelling})
file(WRITE "${{CMAKE_BINARY_DIR}}/result.txt" "${{result}}")
""")  # fmt: skip
    out = project.configure().stdout
    assert (project.build / "result.txt").read_text().split(";") == normal.split()
    assert out.count("no Tile kernel can be compiled for 52") == ("52" in spelling)


# 8 -------------------------------------------------------------------------------------------------------------------


def test_debug_and_release_side_by_side(tmp_path: Path, project: CMakeProject) -> None:
    if not project.is_multi_config:
        project = CMakeProject(tmp_path / "multi", generator="Ninja Multi-Config")
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES k.tileir OPT_LEVEL $<IF:$<CONFIG:Debug>,0,3> ARCHITECTURES 90-real)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("main.c", program("k"))
    project.configure()
    project.make(config="Debug")
    project.make(config="Release")
    images = {p.parent.name: p.read_bytes() for p in project.artefacts("*.fatbin")}
    assert sorted(images) == ["Debug", "Release"]
    assert images["Debug"] != images["Release"]
    for config in ("Debug", "Release"):
        run_program(project, "app", config)
        project.assert_null_build(config)


# 9 -------------------------------------------------------------------------------------------------------------------


def test_cross_compiling_takes_the_hosts_processor(project: CMakeProject) -> None:
    peers.require("tileiras")
    toolchain = project.write(
        "aarch64.cmake", "set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR aarch64)\n"
    )
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(cross LANGUAGES NONE)
find_package(Tileiras REQUIRED)
add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM COMPILER nvidia ARCHITECTURES 90-real FORMATS cubin)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", f"-DTileiras_TOOLKIT_ROOT={peers.toolkit()}")
    project.make()
    cubin = project.artefacts("*.cubin")[0].read_bytes()
    hosts = [cubin[at + 18 : at + 20] for at in range(1, len(cubin)) if cubin.startswith(b"\x7fELF", at)]
    assert hosts and set(hosts) == {b"\xb7\x00"}  # EM_AARCH64, in the ELF that .nv.host holds


# 10 ------------------------------------------------------------------------------------------------------------------

CACHING = """#!/bin/sh
''':'
exec '{python}' "$0" "$@"
'''
# A small ccache: keyed by the words of the command without folders and by the bytes of the sources.
import hashlib, json, os, shutil, subprocess, sys
words = sys.argv[1:]
outputs = [words[i + 1] for i, w in enumerate(words) if w in ("-o", "--kernels-json", "--depfile")]
key = hashlib.sha256(json.dumps([w if w.startswith("-") else os.path.basename(w) for w in words]).encode())
for w in words:
    if w.endswith(".tileir"):
        key.update(open(w, "rb").read())
place = os.path.join(os.environ["FAKE_CACHE"], key.hexdigest())
hit = os.path.isdir(place)
with open(os.environ["LAUNCHER_LOG"], "a") as log:
    log.write(("hit" if hit else "miss") + "\\n")
if not hit:
    code = subprocess.call(words)
    if code:
        sys.exit(code)
    os.makedirs(place)
    for i, name in enumerate(outputs):
        shutil.copy(name, os.path.join(place, str(i)))
for i, name in enumerate(outputs):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    shutil.copy(os.path.join(place, str(i)), name)
"""


def test_a_caching_launcher_sees_one_command_for_each_cubin(tmp_path: Path, project: CMakeProject) -> None:
    project.launcher.write_text(CACHING.format(python=sys.executable))
    (tmp_path / "fake cache").mkdir()
    project.env["FAKE_CACHE"] = str(tmp_path / "fake cache")
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES a.tileir b.tileir TYPE CUSTOM FORMATS cubin)\n"
    )
    for name in "ab":
        project.write(f"{name}.tileir", kernel(name))
    project.configure()
    project.make()
    assert project.compiled() == ["miss"] * 4
    first = {p.name: p.read_bytes() for p in project.artefacts("*.cubin")}
    shutil.rmtree(project.build)
    project.configure()
    project.make()
    assert project.compiled() == ["hit"] * 4
    assert {p.name: p.read_bytes() for p in project.artefacts("*.cubin")} == first


# 11 ------------------------------------------------------------------------------------------------------------------


def test_the_language_route_through_the_shim(project: CMakeProject) -> None:
    peers.require("nvcc")
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(language LANGUAGES CXX)
find_package(Tileiras REQUIRED COMPONENTS shim)
set(CMAKE_CUDA_COMPILER "${Tileiras_NVCC_EXECUTABLE}")
set(CMAKE_CUDA_ARCHITECTURES 90)
enable_language(CUDA)
set_source_files_properties(k.tileir PROPERTIES LANGUAGE CUDA)
add_library(both STATIC k.tileir plain.cu)
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.27)
  add_library(images OBJECT k.tileir)
  set_target_properties(images PROPERTIES CUDA_FATBIN_COMPILATION ON)
endif()
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("number.h", "#define NUMBER 1\n")
    project.write("plain.cu", '#include "number.h"\n__global__ void plain(int *p) { *p = NUMBER; }\n')
    project.configure("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", f"-DTileiras_TOOLKIT_ROOT={peers.toolkit()}")
    project.make()
    if not project.is_multi_config:
        commands = (project.build / "compile_commands.json").read_text()
        assert "k.tileir" in commands and "plain.cu" in commands
    objects = [p for p in project.build.rglob("k.tileir.o") if "both.dir" in str(p)]
    assert len(objects) == 1 and objects[0].read_bytes().startswith(b"\x7fELF")
    if (project.build / "CMakeFiles" / "images.dir").exists():
        images = [*project.build.rglob("k.fatbin"), *project.build.rglob("k.tileir.fatbin")]
        assert images and all(p.read_bytes().startswith(b"\x50\xed\x55\xba") for p in images)
    before = project.stamps()
    out = project.make().stdout
    assert project.stamps() == before and "Building CUDA" not in out
    project.write("number.h", "#define NUMBER 2\n")
    out = project.make().stdout
    assert "plain.cu" in out and "Building CUDA object" in out
    assert objects[0].stat().st_mtime_ns == before[str(objects[0])]


# 12 ------------------------------------------------------------------------------------------------------------------


def test_artefacts_alone_need_no_language_and_no_toolkit_package(project: CMakeProject) -> None:
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(none LANGUAGES NONE)
find_package(Tileiras REQUIRED COMPONENTS compiler)
add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90 FORMATS cubin fatbin tilebc ptx json header object)
tile_kernel_artifacts(k cubin cubins ARCH sm_90)
file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/list-$<CONFIG>.txt" CONTENT
  "${cubins};$<TARGET_GENEX_EVAL:k,$<TARGET_PROPERTY:k,TILE_FATBIN>>")
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure("-DCMAKE_C_COMPILER=/nonexistent", "-DCMAKE_CXX_COMPILER=/nonexistent")
    project.make()
    names = {p.name for p in project.artefacts()}
    assert names >= {"k.sm_90.cubin", "k.fatbin", "k.tilebc", "k.sm_90.ptx", "k.compute_90.ptx",
                     "k.sm_90.kernels.json", "k_tile.h", "k_tile.c", "k.o"}  # fmt: skip
    listed = (
        (project.build / ("list-Release.txt" if project.is_multi_config else "list-.txt"))
        .read_text()
        .split(";")
    )
    assert len(listed) == 2 and all(Path(path).exists() for path in listed)
    project.assert_null_build()


# Beyond the list: budgets, wrong arguments, matrices, cuTile sources, tests under ctest -------------------------------

WRONG = [
    ("add_tile_kernel(k TYPO x SOURCES k.tileir)", "unknown arguments: TYPO"),
    ("add_tile_kernel(k)", "SOURCES is empty"),
    ("add_tile_kernel(k SOURCES missing.tileir)", "cannot find source file 'missing.tileir'"),
    ("add_tile_kernel(k SOURCES main.cpp)", "is no Tile IR file"),
    ("add_tile_kernel(k SOURCES k.tileir TYPE PROGRAM)", "TYPE 'PROGRAM'"),
    ("add_tile_kernel(k SOURCES k.tileir FORMATS exe)", "FORMATS has 'exe'"),
    ("add_tile_kernel(k SOURCES k.tileir OPT_LEVEL 4)", "OPT_LEVEL '4'"),
    ("add_tile_kernel(k SOURCES k.tileir BYTECODE_VERSION 12.9)", "BYTECODE_VERSION 12.9"),
    ("add_tile_kernel(k SOURCES k.tileir COMPILER clang)", "COMPILER 'clang'"),
    ("add_tile_kernel(k SOURCES k.tileir ARCHITECTURES 90-virtual NO_SPILLS)", "need a real architecture"),
    ("add_tile_kernel(k SOURCES k.py)", "needs ENTRIES and SIGNATURE"),
    ("add_tile_kernel(k SOURCES k.tileir)\ntarget_tile_options(k -O2)", "stands before PRIVATE"),
    ("add_tile_kernel(k SOURCES k.tileir)\ntile_kernel_artifacts(k tilebc x)", "makes no tilebc"),
    ("add_tile_kernel(k SOURCES k.tileir MAX_REGISTERS many)", "MAX_REGISTERS 'many' is no number"),
    ("target_link_tile_kernels(nobody PRIVATE k)", "there is no such target"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("call", "message"), WRONG, ids=[m for _, m in WRONG])
def test_wrong_arguments_stop_the_configuration(tmp_path: Path, call: str, message: str) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "C") + call + "\n")
    for name in ("k.tileir", "k.py", "main.cpp"):
        project.write(name, kernel("k"))
    done = project.configure("-DCMAKE_C_COMPILER_WORKS=1", check=False)
    assert done.returncode != 0
    assert message in re.sub(r"\s+", " ", done.stdout)


def test_a_budget_that_is_exceeded_fails_the_build(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(good SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90 MAX_REGISTERS 255 NO_SPILLS MAX_SHARED 227K)
add_tile_kernel(bad SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90-real MAX_REGISTERS 2 EXCLUDE_FROM_ALL)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure()
    project.make()
    done = project.make(target="bad_images", check=False)
    assert done.returncode != 0
    assert re.search(r"kernel 'k' \(sm_90\) uses \d+ registers, more than the 2 allowed", done.stdout), (
        done.stdout
    )
    assert "bad.tile" not in {p.parent.name for p in project.artefacts("*.cubin")}


def test_one_remarks_file_for_each_image(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") + """
add_tile_kernel(one SOURCES k.tileir TYPE CUSTOM ARCHITECTURES 90-real REMARKS all REMARKS_FILE one.yaml)
add_tile_kernel(several SOURCES k.tileir sub/k.tileir TYPE CUSTOM REMARKS all REMARKS_FILE r.yaml)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("sub/k.tileir", kernel("k"))
    project.configure()
    project.make()
    assert sorted(p.name for p in project.build.glob("*.yaml")) == [
        "one.yaml", "r.k.sm_80.yaml", "r.k.sm_90.yaml", "r.sub_k.sm_80.yaml", "r.sub_k.sm_90.yaml"]  # fmt: skip
    project.assert_null_build()


def test_a_virtual_architecture_alone(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES k.tileir ARCHITECTURES 90-virtual)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("main.c", program("k"))
    project.configure()
    project.make()
    assert run_program(project, "app").startswith("k ")
    assert [p.name for p in project.artefacts("*.ptx")] == ["k.compute_90.ptx"] and not project.artefacts(
        "*.cubin"
    )


def test_generated_sources_and_paths_outside_the_directory(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_custom_command(OUTPUT made.tileir COMMAND "${CMAKE_COMMAND}" -E copy "${CMAKE_SOURCE_DIR}/template" made.tileir
  DEPENDS template VERBATIM)
add_subdirectory(sub)
add_tile_kernel(k SOURCES made.tileir $<TARGET_PROPERTY:place,DIR>/evaluated.tileir TYPE CUSTOM ARCHITECTURES 90-real)
add_custom_target(place)
set_target_properties(place PROPERTIES DIR "${CMAKE_SOURCE_DIR}/else where")
""")  # fmt: skip
    project.write(
        "sub/CMakeLists.txt", "add_tile_kernel(s SOURCES ../else\\ where/evaluated.tileir TYPE CUSTOM)\n"
    )
    project.write("template", kernel("made"))
    project.write("else where/evaluated.tileir", kernel("evaluated"))
    project.configure()
    project.make()
    names = [p.name for p in project.artefacts("*.cubin")]
    assert sorted(names) == ["evaluated.sm_80.cubin"] + ["evaluated.sm_90.cubin"] * 2 + ["made.sm_90.cubin"]
    project.assert_null_build()
    project.write("template", kernel("made", factor=4))
    project.make()
    assert project.compiled() == ["made.sm_90.cubin"]


def test_compile_commands_for_editors(project: CMakeProject) -> None:
    import json

    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES "a b.tileir" c.tileir TYPE STATIC)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k)
""")  # fmt: skip
    project.write("a b.tileir", kernel("k"))
    project.write("c.tileir", kernel("c"))
    project.write("main.c", "int main(void) { return 0; }\n")
    project.configure("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    for _twice in range(2):
        project.make(target="tile_compile_commands")
    entries = json.loads((project.build / "compile_commands.json").read_text())
    kernels = [e for e in entries if e["file"].endswith(".tileir")]
    assert sorted(Path(e["file"]).name for e in kernels) == ["a b.tileir"] * 2 + ["c.tileir"] * 2
    assert all(Path(e["arguments"][0]).exists() and e["output"].endswith(".cubin") for e in kernels)
    assert any(e["file"].endswith("main.c") for e in entries)


def test_a_matrix_of_kernels(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
tile_kernel_matrix(k MATRIX matrix.json TEMPLATE scale.tileir.in TYPE CUSTOM ARCHITECTURES 90-real FORMATS cubin)
""")  # fmt: skip
    text = kernel("NAME").replace("128", "@block@").replace("2.000000e+00", "@factor@.0")
    text = text.replace("NAME", "scale_@block@_@factor@")
    project.write("scale.tileir.in", text)
    project.write("matrix.json", '{"factor": [2, 3], "block": [128, 256]}')
    project.configure()
    project.make()
    names = [f"scale_{b}_{f}.sm_90.cubin" for b in (128, 256) for f in (2, 3)]
    assert project.compiled() == names
    project.write("matrix.json", '[{"factor": 2, "block": 128}, {"factor": 5, "block": 512}]')
    project.make()  # configures again by itself
    assert project.compiled() == ["scale_512_5.sm_90.cubin"]


MATRICES = [
    (
        '{"b": [true], "a": [0.1, 1e3, -1]}',
        "k_0_1_true|a=0.1|b=true\nk_1e3_true|a=1e3|b=true\nk__1_true|a=-1|b=true\n",
    ),
    ('[{"b": "x", "a": null}]', "k_null_x|a=null|b=x\n"),
    ('{"a": ["1 2", "1_2"], "b": [0]}', "two kernels are named 'k_1_2_0'"),
    ('{"a": [1, 1], "b": [0]}', "two kernels are named 'k_1_0'"),
    ('{"a": [1], "a": [2], "b": [0]}', "names one member twice"),
    ('{"a": 1, "b": [0]}', "'a' is no list of values"),
    ('{"a": [[1]], "b": [0]}', "which is no scalar"),
    ('{"a": ["1;2"], "b": [0]}', "which is no scalar"),
    ('{"a": [], "b": [1]}', "describes no kernel"),
    ('{"values": {"a": [1, 2], "b": [3]}, "exclude": [{"a": 2}]}', "k_1_3|a=1|b=3\n"),
    ('{"values": {"a": [1]}, "symbol": "k_of_@a@"}', "k_of_1|a=1\n"),
    ('{"values": {"a": [1]}, "symbl": "k_of_@a@"}', "unknown key 'symbl'"),
    ("{}", "describes no kernel"),
    ("[]", "describes no kernel"),
    ("[{}]", "a row without members"),
    ('"a"', "neither an object of lists nor a list of objects"),
    ('{"a": [1', "line 1 column 9"),
    ("[" * 100_000, "nested too deeply"),
    ('{"values": {"a": [1]}, "exclude": 5}', '"exclude" is no list of objects'),
    ('{"values": {"a": ["\\ud800"]}, "symbol": "x"}', "surrogates not allowed"),
    ('{"values": {"a": [1]}, "symbol": "x|y"}', "'symbol' is no text of one line"),
    ('{"values": {"a": [1]}, "symbol": "x@b@"}', "no value for 'b'"),
]


@pytest.mark.parametrize(("matrix", "answer"), MATRICES, ids=[m[:60] for m, _ in MATRICES])
def test_what_is_a_matrix(tmp_path: Path, matrix: str, answer: str) -> None:
    (tmp_path / "m.json").write_text(matrix)
    done = subprocess.run([sys.executable, "-I", "-S", REPOSITORY / "cmake" / "detail" / "launch.py", "kernel_matrix",
                           tmp_path / "m.json", "k", "text"], capture_output=True, text=True)  # fmt: skip
    if answer.startswith("k_"):
        assert (done.returncode, done.stdout) == (0, answer)
    else:
        assert done.returncode == 1 and done.stdout == "" and answer in done.stderr
        assert (
            done.stderr.startswith(f"error: '{tmp_path / 'm.json'}' is no matrix: ")
            and done.stderr.count("\n") == 1
        )


def test_a_matrix_for_python_needs_a_signature_and_one_that_is_given_goes_first(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"a": [1]}')
    words = [
        sys.executable,
        "-I",
        "-S",
        REPOSITORY / "cmake" / "detail" / "launch.py",
        "kernel_matrix",
        tmp_path / "m.json",
        "k",
    ]
    done = subprocess.run([*words, "python", ""], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and "neither there nor as SIGNATURE" in done.stderr
    (tmp_path / "m.json").write_text('{"values": {"a": [1]}, "signature": "f32[@a@]"}')
    for given, answer in (("", "k_1|f32[1]\n"), ("i8[@a@]", "k_1|i8[1]\n")):
        assert subprocess.run([*words, "python", given], capture_output=True, text=True).stdout == answer


@pytest.mark.parametrize(
    ("matrix", "answer"), [('{"a": [1]}', "'@b@' is no member"), ("[]", "describes no kernel")]
)
def test_a_matrix_that_stops_the_configuration(tmp_path: Path, matrix: str, answer: str) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") + """
tile_kernel_matrix(k MATRIX matrix.json TEMPLATE k.tileir.in TYPE CUSTOM ARCHITECTURES 90-real)
""")  # fmt: skip
    project.write("k.tileir.in", "@a@ @b@")
    project.write("matrix.json", matrix)
    done = project.configure(check=False)
    assert done.returncode != 0 and answer in re.sub(r"\s+", " ", done.stdout)


def test_cutile_python_sources(tmp_path: Path) -> None:
    python = peers.require_python()
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(k SOURCES kernels/vadd.py ENTRIES vadd SIGNATURE "f32[1],f32[1],f32[1],=128"
  SYMBOL add_128 TYPE CUSTOM ARCHITECTURES 90-real FORMATS cubin)
""")  # fmt: skip
    project.write("kernels/helper.py", "OFFSET = 0\n")
    project.write("kernels/vadd.py", """
import cuda.tile as ct
import helper

@ct.kernel
def vadd(a, b, c, N: ct.Constant[int]):
    i = ct.bid(0) + helper.OFFSET
    ct.store(c, index=(i,), tile=ct.load(a, index=(i,), shape=(N,)) + ct.load(b, index=(i,), shape=(N,)))
""")  # fmt: skip
    project.configure(f"-DTileiras_PYTHON_EXECUTABLE={python}")
    project.make()
    assert len(project.artefacts("*.cubin")) == 1
    project.assert_null_build()
    table = json.loads((project.build / "k.tile" / "vadd.sm_90.kernels.json").read_text())
    assert [row["symbol"] for row in table["kernels"]] == ["add_128"]
    project.write("kernels/helper.py", "OFFSET = 1\n")  # an imported module, known from the depfile alone
    project.make()
    assert project.compiled() == ["vadd.sm_90.cubin"]


def test_symbols_of_cutile_kernels_name_their_launchers(tmp_path: Path) -> None:
    python = peers.require_python()
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(neg SOURCES negate.py ENTRIES negate SIGNATURE "f32[1],f32[1],=64" "f16[1],f16[1],=32" SYMBOL neg_single neg_half
  ARCHITECTURES 90-real)
add_executable(app main.cpp)
target_link_tile_kernels(app PRIVATE neg)
""")  # fmt: skip
    project.write("negate.py", """
import cuda.tile as ct

@ct.kernel
def negate(x, y, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, index=(i,), tile=-ct.load(x, index=(i,), shape=(N,)))
""")  # fmt: skip
    project.write("main.cpp", """
#include <cstdio>
#include "neg/negate_tile.h"
int main() {
  for (unsigned i = 0; i < neg_negate_kernel_count; ++i) std::printf("%s ", neg_negate_kernels[i].name);
  return &neg_negate::launch_neg_single != nullptr && &neg_negate::launch_neg_half != nullptr ? 0 : 1;
}
""")  # fmt: skip
    project.configure(f"-DTileiras_PYTHON_EXECUTABLE={python}")
    project.make()
    assert sorted(run_program(project, "app").split()) == ["neg_half", "neg_single"]
    project.write(
        "CMakeLists.txt",
        (project.source / "CMakeLists.txt").read_text().replace("neg_single neg_half", "one"),
    )
    done = project.configure(f"-DTileiras_PYTHON_EXECUTABLE={python}", check=False)
    assert done.returncode != 0 and "SYMBOL has 1 names for 2 signatures" in done.stdout


@pytest.mark.parametrize(
    ("config", "sections"),
    [
        ("Debug", {".debug_line", ".debug_info"}),
        ("RelWithDebInfo", {".debug_line"}),
        ("Release", set()),
        pytest.param("MinSizeRel", set(), marks=pytest.mark.full),
        pytest.param("", set(), marks=pytest.mark.full),
    ],
)
def test_debug_information_follows_the_configuration(config: str, sections: set[str], tmp_path: Path) -> None:
    """As compilers of other languages: all of it in Debug, the line table in RelWithDebInfo; positions name the source."""
    project = CMakeProject(tmp_path)
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES sub/k.tileir TYPE CUSTOM ARCHITECTURES 90-real)\n"
    )
    project.write("sub/k.tileir", kernel("k"))
    project.configure(f"-DCMAKE_BUILD_TYPE={config}")
    project.make()
    (image,) = project.artefacts("*.cubin")
    data = image.read_bytes()
    assert {name for name in (".debug_line", ".debug_info") if f"\0{name}\0".encode() in data} == sections
    if sections:
        done = subprocess.run(
            [peers.require("nvdisasm"), "--print-line-info", image],
            capture_output=True,
            text=True,
            check=True,
        )
        places = set(re.findall(r'File "([^"]*)", line (\d+)', done.stdout))
        source = (project.source / "sub" / "k.tileir").read_text().split("\n")
        assert {name for name, _ in places} == {"sub/k.tileir"}
        said = " ".join(source[int(line) - 1] for _, line in places)
        assert "load_view_tko" in said and "store_view_tko" in said and "mulf" in said


def test_a_kernel_test_under_ctest(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    project = CMakeProject(tmp_path)
    x = numpy.arange(300, dtype=numpy.float32)
    (project.source / "right.npz").parent.mkdir(exist_ok=True)
    data = {"arg0": x, "arg1": numpy.zeros_like(x), "arg2": numpy.int32(300)}
    numpy.savez(project.source / "right.npz", **data, expected1=2 * x)
    numpy.savez(project.source / "wrong.npz", **data, expected1=2 * x + 1)
    project.write("CMakeLists.txt", HEAD + """
enable_testing()
add_tile_kernel(lib SOURCES other.tileir k.tileir TYPE CUSTOM OPT_LEVEL 1 LAUNCH_ABI tile ARCHITECTURES 80-real)
foreach(name right wrong)
  foreach(target reference emulator)
    add_tile_test(NAME ${name}_${target} KERNEL k.tileir ENTRY k DATA ${name}.npz GRID 3 TARGET ${target})
    add_tile_test(NAME ${name}_built_${target} KERNEL lib ENTRY k DATA ${name}.npz GRID 3 TARGET ${target})
  endforeach()
endforeach()
add_tile_test(NAME right_gpu KERNEL lib ENTRY k DATA right.npz GRID 3 TARGET gpu)
add_tile_test(NAME no_such_kernel KERNEL lib ENTRY none DATA right.npz GRID 3)
""")  # fmt: skip
    for name in ("k", "other"):
        project.write(f"{name}.tileir", kernel(name))
    project.configure()
    project.make()
    ptx = project.build / "lib.tile" / "k.sm_80.ptx"  # what is tested is what was built: break that
    ctest = project.cmake.with_name("ctest")

    def verdicts() -> dict[str, str]:
        # a machine without NVIDIA's driver
        done = subprocess.run([ctest, "--test-dir", project.build], capture_output=True, text=True,
                              env=project.env | {"CUDA_VISIBLE_DEVICES": ""})  # fmt: skip
        return dict(re.findall(r": (\w+) \.+\s*(Passed|\*\*\*Failed|\*\*\*Skipped)", done.stdout))

    ways = [f"{built}{target}" for built in ("", "built_") for target in ("reference", "emulator")]
    expected = {f"right_{way}": "Passed" for way in ways} | {f"wrong_{way}": "***Failed" for way in ways}
    assert verdicts() == {**expected, "right_gpu": "***Skipped", "no_such_kernel": "***Failed"}
    text = ptx.read_text()
    ptx.write_text(text.replace("mul.rn.f32", "add.rn.f32"))
    assert ptx.read_text() != text and verdicts()["right_built_emulator"] == "***Failed"


def test_options_of_fatbinary(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(plain SOURCES k.tileir TYPE CUSTOM COMPRESS none)
add_tile_kernel(small SOURCES k.tileir TYPE CUSTOM COMPRESS size)
add_tile_kernel(wrong SOURCES k.tileir TYPE CUSTOM FATBINARY_OPTIONS --no-such-option EXCLUDE_FROM_ALL)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DTileiras_TOOLKIT_ROOT={peers.require_toolkit()}")
    project.make()
    sizes = {p.parent.name: p.stat().st_size for p in project.artefacts("*.fatbin")}
    assert sizes["small.tile"] < sizes["plain.tile"]
    done = project.make(target="wrong_images", check=False)
    assert done.returncode != 0 and "no-such-option" in done.stdout
