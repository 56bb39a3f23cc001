"""The code that add_tile_kernel generates, under the settings of other people's projects: unity builds, every warning
an error, hidden symbols, link-time optimisation, odd names; and the same bytes wherever the project lies.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import peers
import pytest
from cmake_project import GENERATORS, HEAD, CMakeProject, kernel, package_snapshot, program, run_program

from tileiras.settings import CMAKE, of

STEMS = ("k", "K", "a/same", "b/same", "iface")
HEADERS = ("several/k", "several/K", "same/a/same", "same/b/same", "iface/iface")
NAMES = ["k", "K", "a_same", "b_same", "iface"]


def kernels_of_many_kinds(project: CMakeProject, language: str, embed: str, settings: str) -> None:
    """Writes a project whose program uses five kernels of three kinds of library."""
    suffix = "c" if language == "C" else "cpp"
    project.write("CMakeLists.txt", HEAD.replace("80-real 90-real", "90") + settings + f"""
add_tile_kernel(several SOURCES k.tileir K.tileir TYPE STATIC LANGUAGE {language} EMBED {embed})
add_tile_kernel(same SOURCES a/same.tileir b/same.tileir LANGUAGE {language} EMBED {embed})
add_tile_kernel(iface SOURCES iface.tileir TYPE INTERFACE LANGUAGE {language} EMBED {embed})
add_executable(app main.{suffix})
target_link_tile_kernels(app PRIVATE several same iface)
""")  # fmt: skip
    for stem in STEMS:
        project.write(f"{stem}.tileir", kernel(stem.replace("/", "_")))
    project.write(
        f"main.{suffix}", program(*HEADERS, prefixes=(*[h.replace("/", "_") for h in HEADERS[:-1]], "iface"))
    )


@pytest.mark.parametrize(
    ("language", "embed"), [("C", "array"), pytest.param("CXX", "incbin", marks=pytest.mark.full)]
)
def test_a_unity_build(tmp_path: Path, language: str, embed: str) -> None:
    project = CMakeProject(tmp_path)
    kernels_of_many_kinds(project, language, embed, "set(CMAKE_UNITY_BUILD ON)\n")
    project.configure()
    project.make()
    assert any("unity" in p.name for p in project.build.rglob("*.o"))
    assert run_program(project, "app").split()[::2] == NAMES
    project.assert_null_build()


STRICT = """
set(CMAKE_C_STANDARD 90)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_EXTENSIONS OFF)
set(warnings -Wall -Wextra -pedantic -Werror -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef -Wmissing-declarations)
add_compile_options(${warnings} "$<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes;-Wstrict-prototypes>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast;-Wzero-as-null-pointer-constant;-fno-exceptions;-fno-rtti>")
"""


@pytest.mark.parametrize("language", [pytest.param("C", marks=pytest.mark.full), "CXX"])
def test_every_warning_is_an_error(tmp_path: Path, language: str) -> None:
    project = CMakeProject(tmp_path)
    kernels_of_many_kinds(project, language, "array", STRICT)
    if language == "CXX":
        main = (project.source / "main.cpp").read_text()
        project.write("main.cpp", main.replace("int main(void)", "int main()").replace("(unsigned)", ""))
    project.configure()
    project.make()
    run_program(project, "app")


@pytest.mark.full
@pytest.mark.parametrize("embed", ["array", "incbin"])
def test_link_time_optimisation_and_dropped_sections(tmp_path: Path, embed: str) -> None:
    project = CMakeProject(tmp_path)
    kernels_of_many_kinds(project, "C", embed, """
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
set(CMAKE_C_FLAGS "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections")
""")  # fmt: skip
    project.configure()
    project.make()
    assert run_program(project, "app").split()[::2] == NAMES


@pytest.mark.full
def test_a_shared_library_in_a_project_that_hides_symbols(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
add_tile_kernel(k SOURCES k.tileir TYPE SHARED)
add_tile_kernel(j SOURCES j.tileir TYPE SHARED LANGUAGE CXX)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE k j)
""")  # fmt: skip
    for name in "kj":
        project.write(f"{name}.tileir", kernel(name))
    project.write("main.c", program("k", "j"))
    project.configure()
    project.make()
    assert run_program(project, "app").split()[::2] == ["k", "j"]


@pytest.mark.full
def test_names_that_are_words_of_cxx(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_executable(app main.cpp)
foreach(word IN ITEMS int linux default)
  add_tile_kernel(k_${word} SOURCES ${word}.tileir PREFIX ${word})
  target_link_tile_kernels(app PRIVATE k_${word})
endforeach()
""")  # fmt: skip
    for name in ("int", "linux", "default"):
        project.write(f"{name}.tileir", kernel("k"))
    project.write("main.cpp", """
#include "k_int/int_tile.h"
#include "k_linux/linux_tile.h"
#include "k_default/default_tile.h"
int main() {
  CUresult (*launches[])(tileirasGrid, CUstream, float *, float *, std::int32_t) = {
    int_::launch_k, linux_::launch_k, default_::launch_k};
  return launches[0] != launches[1] && int_kernel_count == 1 ? 0 : 1;
}
""")  # fmt: skip
    project.configure()
    project.make()
    run_program(project, "app")


def images_of(root: Path, python: Path | None) -> dict[str, bytes]:
    """Builds one project in `root` and returns its artefacts."""
    project = CMakeProject(root)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE").replace("80-real 90-real", "90") + """
add_tile_kernel(lines SOURCES sub/k.tileir TYPE CUSTOM LINEINFO REMARKS all FORMATS cubin fatbin ptx tilebc json header)
add_tile_kernel(debug SOURCES sub/k.tileir TYPE CUSTOM DEBUG FORMATS cubin fatbin ptx)
if(CUTILE)
  add_tile_kernel(cutile SOURCES py/k.py ENTRIES k SIGNATURE "f32[1],f32[1]" TYPE CUSTOM LINEINFO FORMATS cubin tilebc)
endif()
""")  # fmt: skip
    project.write("sub/k.tileir", kernel("k"))
    project.write("py/helper.py", "def twice(x):\n    return x + x\n")
    project.write("py/k.py", """
import cuda.tile as ct
import helper

@ct.kernel
def k(a, b):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=helper.twice(ct.load(a, index=(i,), shape=(128,))))
""")  # fmt: skip
    project.configure(*([f"-DTileiras_PYTHON_EXECUTABLE={python}", "-DCUTILE=ON"] if python else []))
    project.make()
    found = [p for p in project.artefacts() if p.suffix != ".d" and ".tileiras-record" not in p.parts]
    return {str(p.relative_to(project.build)): p.read_bytes() for p in found}


@pytest.mark.parametrize(
    "with_cutile", [False, pytest.param(True, marks=pytest.mark.full)], ids=["text", "cutile"]
)
def test_two_places_give_the_same_bytes(tmp_path: Path, with_cutile: bool) -> None:
    python = peers.require_python() if with_cutile else None
    one = images_of(tmp_path / "one", python)
    two = images_of(tmp_path / "another place" / "two", python)
    assert one.keys() == two.keys() and len(one) > 10
    for name, data in one.items():
        assert data == two[name], name
        assert str(tmp_path).encode() not in data, name
    assert b'"sub/k.tileir"' in one["lines.tile/k.sm_90.ptx"]
    assert b"'sub/k.tileir'" in one["lines.tile/k.sm_90.remarks.yaml"]
    if with_cutile:
        assert b"py/helper.py" in one["cutile.tile/k.export.tilebc"]


def test_options_that_are_generator_expressions(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") + """
add_tile_kernel(k SOURCES k.tileir k.tileir TYPE CUSTOM ARCHITECTURES 90-real
  OPTIONS $<1:-w> "$<0:--no-such-option>" PTXAS_OPTIONS "$<1:-v;-warn-spills>" "$<0:--no-such-option>"
  FATBINARY_OPTIONS "$<1:--compress-all>" "$<0:--no-such-option>")
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DTileiras_TOOLKIT_ROOT={peers.require_toolkit()}")
    project.make()
    assert project.compiled() == ["k.sm_90.cubin"]  # a source named twice is one source
    project.assert_null_build()


WRONG = [
    ("SANITIZE racecheck", "SANITIZE 'racecheck' is not memcheck"),
    ("TENSOR_MAPS device", "TENSOR_MAPS 'device' is neither none nor launcher"),
    ("TENSOR_MAPS launcher LAUNCH_ABI tile", "TENSOR_MAPS launcher needs LAUNCH_ABI simt"),
    ("HOST_ARCH mips", "HOST_ARCH 'mips' is neither"),
    ("HOST_OS darwin", "HOST_OS 'darwin' is neither"),
    ("REMARKS everything", "REMARKS 'everything' is none of"),
    ("REMARKS_FILE r.yaml", "REMARKS_FILE needs REMARKS"),
    ("MAX_REGISTERS many", "MAX_REGISTERS 'many' is no number"),
    ("MAX_SHARED 12Q", "MAX_SHARED '12Q' is no size"),
    ("JOBS all", "JOBS 'all' is no number"),
    ("PREFIX 1a-b", "PREFIX '1a-b' is no C identifier"),
    ("NAMESPACE a:b", "NAMESPACE 'a:b' is no C++ namespace"),
    ("DEBUG OPT_LEVEL 2", "DEBUG needs OPT_LEVEL 0"),
    ("ENTRIES", "ENTRIES has no value"),
    ("SIGNATURE f32[1]", "SIGNATURE is for cuTile sources"),
    ("IMPORT_DIRECTORIES .", "IMPORT_DIRECTORIES is for cuTile sources"),
]


TAKEN = [
    (setting.spelled[CMAKE], setting.values_at(CMAKE)) for setting in of(CMAKE) if setting.values_at(CMAKE)
]


def test_all_values_of_the_table_of_options_are_taken(tmp_path: Path) -> None:
    """Each by a target of its own: what a value needs beside it is said with it."""
    beside = {
        "COMPILER nvidia": "LAUNCH_ABI tile",
        "LANGUAGE CXX": "TYPE STATIC",
        "LANGUAGE C": "TYPE STATIC",
    }
    calls = [f"{keyword} {value}" for keyword, values in TAKEN for value in values]
    calls += [
        "DEBUG",
        "LINEINFO",
        "NO_SPILLS",
        "MAX_REGISTERS 64",
        "JOBS 2",
        "MAX_SHARED 48K",
        "PREFIX p_1",
        "NAMESPACE a::b",
    ]
    project = CMakeProject(tmp_path)
    lines = [
        f"add_tile_kernel(k{i} SOURCES k.tileir ARCHITECTURES 90-real PREFIX p{i} TYPE CUSTOM {call} {beside.get(call, '')})"
        for i, call in enumerate(calls)
    ]
    lines = [line.replace(" TYPE CUSTOM", "") if line.count("TYPE") > 1 else line for line in lines]
    lines = [
        line.replace(re.findall(r" PREFIX p\d+", line)[0], "") if line.count("PREFIX") > 1 else line
        for line in lines
    ]
    project.write("CMakeLists.txt", HEAD + "\n".join(lines) + "\n")
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DTileiras_TOOLKIT_ROOT={peers.require_toolkit()}")


@pytest.mark.full
@pytest.mark.parametrize(("keyword", "values"), TAKEN, ids=[keyword for keyword, _ in TAKEN])
def test_other_values_stop_the_configuration(tmp_path: Path, keyword: str, values: tuple[str, ...]) -> None:
    project = CMakeProject(tmp_path)
    call = f"add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM {keyword} odd)\n"
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") + call)
    project.write("k.tileir", kernel("k"))
    done = project.configure(check=False)
    said = re.sub(r"\s+", " ", done.stdout)
    assert (
        done.returncode != 0
        and re.search(f"{keyword} (has )?'odd',?( which)? is ", said)
        and values[0] in said
    )


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[a for a, _ in WRONG])
def test_values_that_no_command_would_take_stop_the_configuration(
    tmp_path: Path, arguments: str, message: str
) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") +
                  f"add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM {arguments})\n")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    done = project.configure(check=False)
    assert done.returncode != 0
    assert message in re.sub(r"\s+", " ", done.stdout)


WRONG_TESTS = [
    ("GRID 3 TARGET moon", "TARGET 'moon' is none of"),
    ("GRID 1 2 3 4", "GRID '1;2;3;4' is not one to three numbers"),
    ("GRID x", "GRID 'x' is not"),
    ("GRID 3 ARCH banana", "ARCH 'banana' is no GPU"),
    ("", "needs GRID"),
    ("GRID 3 TARGT gpu", "GRID has 'TARGT', which is neither a value nor an argument; did you mean TARGET?"),
    ("GRID 3 RTOL 0.1 ATOLL 1", "unknown arguments: ATOLL;1; did you mean ATOL?"),
    ("GIRD 3", "unknown arguments: GIRD;3; did you mean GRID?"),
    ("GRID 3 nonsense", "GRID '3;nonsense' is not"),
]


@pytest.mark.full
@pytest.mark.parametrize(("arguments", "message"), WRONG_TESTS, ids=[m for _, m in WRONG_TESTS])
def test_wrong_arguments_of_a_kernel_test(tmp_path: Path, arguments: str, message: str) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE") +
                  f"add_tile_test(NAME t KERNEL k.tileir ENTRY k DATA d.npz {arguments})\n")  # fmt: skip
    done = project.configure(check=False)
    assert done.returncode != 0
    assert message in re.sub(r"\s+", " ", done.stdout)


def test_the_python_of_a_checkout(tmp_path: Path) -> None:
    """Not one that happens to lie in a bin above it: that of the environment, or the first on PATH."""
    project = CMakeProject(tmp_path, generator="Unix Makefiles")
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES NONE)
find_package(Tileiras REQUIRED)
message(STATUS "python is ${Tileiras_PYTHON_EXECUTABLE};")
""")  # fmt: skip
    package = package_snapshot()
    for name in ("one", "two"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python3").symlink_to(sys.executable)
    forward = tmp_path / "two" / "lib" / "cmake" / "Tileiras"
    forward.mkdir(parents=True)
    for suffix in ("", "Version"):
        text = (package / "cmake" / "forward.cmake.in").read_text()
        text = text.replace("@TILEIRAS_SOURCE_DIR@", str(package)).replace(
            "@TILEIRAS_FORWARD_SUFFIX@", suffix
        )
        (forward / f"TileirasConfig{suffix}.cmake").write_text(text)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        project.env.pop(name, None)
    project.env["PATH"] = f"{tmp_path / 'one' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for number, (hint, env) in enumerate(
        ((f"-DTileiras_DIR={package / 'cmake'}", "one"), (f"-DCMAKE_PREFIX_PATH={tmp_path / 'two'}", "two"))
    ):
        build = str(tmp_path / f"b{number}")
        done = project.run(
            [str(project.cmake), "-S", str(project.source), "-B", build, "-G", project.generator, hint]
        )
        assert f"python is {tmp_path / env / 'bin' / 'python3'};" in done.stdout


def test_misspelled_keywords_of_the_other_commands(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("k.tileir", kernel("k"))
    project.write("folder.tileir/k.tileir", kernel("k"))
    for call, said in (
        ("install_tile_kernels(TARGETS k FORMAT fatbin)", "did you mean FORMATS?"),
        ("target_link_tile_kernels(app PRIVAT k)", "PRIVAT"),
        ("target_tile_options(k OPTION -O2)", "OPTION"),
        ("tile_kernel_artifacts(k fatbins x)", "fatbins"),
        ("add_tile_kernel(j SOURCES k.tileir OPTIMISE 3)", "OPTIMISE"),
        (
            "add_tile_kernel(j SOURCES k.tileir ENTRY k)",
            "neither a value nor an argument; did you mean ENTRIES?",
        ),
        ("add_tile_kernel(j SOURCES k.tileir architectures 90)", "did you mean ARCHITECTURES?"),
        ("add_tile_kernel(j SOURCES folder.tileir)", "the source 'folder.tileir' is a directory"),
        ("add_tile_kernel(j SOURCES k.tileir MAX_REGISTER 3)", "did you mean MAX_REGISTERS?"),
    ):
        project.write("CMakeLists.txt", f"""{HEAD}
add_executable(app main.c)
add_tile_kernel(k SOURCES k.tileir)
{call}
""")  # fmt: skip
        project.write("main.c", "int main(void) { return 0; }\n")
        done = project.configure(check=False)
        assert done.returncode != 0, call
        assert said in re.sub(r"\s+", " ", done.stdout), (call, done.stdout)


def test_an_image_that_the_program_links(tmp_path: Path) -> None:
    """EMBED none: the table and the loader by the C compiler, the image as an object that no compiler made."""
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + """
add_tile_kernel(table SOURCES k.tileir EMBED none ARCHITECTURES 90 PREFIX k)
add_tile_kernel(image SOURCES k.tileir PREFIX k TYPE CUSTOM FORMATS object ARCHITECTURES 90)
tile_kernel_artifacts(image object object)
add_executable(app main.c "${object}")
target_link_tile_kernels(app PRIVATE table image)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("main.c", program("table/k", prefixes=("k",)))
    project.configure()
    project.make()
    assert run_program(project, "app").startswith("k ")


GENERATORS_FULL = [
    pytest.param(g, marks=[] if g == "Ninja" else [pytest.mark.full], id=g.replace(" ", ""))
    for g in GENERATORS
]


@pytest.mark.parametrize("generator", GENERATORS_FULL)
def test_clean_leaves_nothing(tmp_path: Path, generator: str) -> None:
    project = CMakeProject(tmp_path, generator=generator)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE").replace("80-real 90-real", "90") + """
add_tile_kernel(k SOURCES k.tileir a/k.tileir "a%b.tileir" TYPE CUSTOM OUTPUT_DIRECTORY k.tile/$<CONFIG>
  FORMATS cubin ptx tilebc json header object)
""")  # fmt: skip
    for name in ("k", "a/k", "a%b"):
        project.write(f"{name}.tileir", kernel("k"))
    project.configure()
    project.make()
    assert {p.name for p in project.artefacts("*.fatbin")} == {"k.fatbin", "a_b.fatbin"}
    assert not list(project.build.rglob("Release/Release"))
    project.assert_null_build()
    project.make(target="clean")
    assert project.artefacts() == []
    project.make()
    project.assert_null_build()


REFUSED = [
    (
        "add_tile_kernel(k SOURCES k.tileir TYPE INTERFACE EMBED incbin)\ninstall_tile_kernels(TARGETS k)",
        "EMBED array can be installed",
    ),
    ('add_tile_kernel(k SOURCES "a\\;b.tileir")', "a file's name cannot hold ';'"),
]


@pytest.mark.full
@pytest.mark.parametrize(("calls", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_could_not_work_is_refused(tmp_path: Path, calls: str, message: str) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "C") + calls + "\n")
    project.write("k.tileir", kernel("k"))
    done = project.configure(check=False)
    assert done.returncode != 0
    assert message in re.sub(r"\s+", " ", done.stdout)


def test_a_path_that_is_a_list(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path / "a;b")
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE"))
    done = project.configure(check=False)
    assert done.returncode != 0
    assert "CMake takes a path with ';' for a list" in re.sub(r"\s+", " ", done.stdout)


def test_components_that_nobody_needs(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES NONE)
find_package(Tileiras 0.1 REQUIRED COMPONENTS runtime OPTIONAL_COMPONENTS nonesuch)
message(STATUS "found: ${Tileiras_FOUND} ${Tileiras_runtime_FOUND} ${Tileiras_nonesuch_FOUND}")
find_package(Tileiras COMPONENTS nonesuch)
message(STATUS "then: ${Tileiras_FOUND} ${Tileiras_NOT_FOUND_MESSAGE}")
""")  # fmt: skip
    out = project.configure().stdout
    assert "-- found: 1 TRUE FALSE" in out or "-- found: TRUE TRUE FALSE" in out, out
    assert re.search(r"-- then: (0|FALSE) there is no component 'nonesuch'", out), out


@pytest.mark.full
def test_every_tool_is_watched(tmp_path: Path) -> None:
    """A tool that changes in its place configures again, and rebuilds where its content is another."""
    root = tmp_path / "tool kit"
    shutil.copytree(peers.require_toolkit() / "bin", root / "bin")
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE").replace("80-real 90-real", "90-real") +
                  "add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM COMPRESS size)\n")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.configure(f"-DTileiras_TOOLKIT_ROOT={root}")
    project.make()
    project.assert_null_build()
    for tool in ("ptxas", "fatbinary"):
        project.compiled()
        (root / "bin" / tool).touch()
        assert "Re-running CMake" in project.make().stdout
        assert project.compiled() == []
        with (root / "bin" / tool).open("ab") as file:
            file.write(b"\0" * 8)
        project.make()
        assert project.compiled() == ["k.sm_90.cubin"]
        project.assert_null_build()


def test_a_cutile_file_of_a_package(tmp_path: Path) -> None:
    """It imports its package from the project's folder, and is named as a module of the library that is loaded already."""
    python = peers.require_python()
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE").replace("80-real 90-real", "90-real") + """
add_tile_kernel(k SOURCES kern/types.py ENTRIES k SIGNATURE "f32[1],f32[1]" IMPORT_DIRECTORIES . TYPE CUSTOM FORMATS cubin)
""")  # fmt: skip
    project.write("kern/__init__.py", "")
    project.write("kern/helper.py", "def twice(x):\n    return x + x\n")
    project.write("kern/types.py", """
import cuda.tile as ct
import kern.helper as helper

@ct.kernel
def k(a, b):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=helper.twice(ct.load(a, index=(i,), shape=(128,))))
""")  # fmt: skip
    project.configure(f"-DTileiras_PYTHON_EXECUTABLE={python}")
    project.make()
    assert project.compiled() == ["types.sm_90.cubin"]
    project.write("kern/helper.py", "def twice(x):\n    return x * x\n")
    project.make()
    assert project.compiled() == ["types.sm_90.cubin"]


@pytest.mark.full
@pytest.mark.parametrize("generator", GENERATORS)
def test_a_changed_call_changes_what_it_makes(tmp_path: Path, generator: str) -> None:
    """An architecture less, another prefix, another signature: Make sees none of them by itself."""
    python = peers.require_python()
    project = CMakeProject(tmp_path, generator=generator)
    project.write("CMakeLists.txt", HEAD.replace("C CXX", "NONE").replace("80-real 90-real", "90-real") + """
add_tile_kernel(k SOURCES k.tileir TYPE CUSTOM ARCHITECTURES ${ARCHS} PREFIX ${PREFIX} FORMATS fatbin header object)
add_tile_kernel(py SOURCES py.py ENTRIES py SIGNATURE ${SIGNATURE} TYPE CUSTOM FORMATS tilebc)
""")  # fmt: skip
    project.write("k.tileir", kernel("k"))
    project.write("py.py", """
import cuda.tile as ct

@ct.kernel
def py(a, b):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=ct.load(a, index=(i,), shape=(128,)))
""")  # fmt: skip

    def build(archs: str, prefix: str, signature: str) -> dict[str, bytes]:
        project.configure(f"-DARCHS={archs}", f"-DPREFIX={prefix}", f"-DSIGNATURE={signature}",
                          f"-DTileiras_PYTHON_EXECUTABLE={python}")  # fmt: skip
        project.make()
        project.assert_null_build()
        return {p.name: p.read_bytes() for p in project.artefacts()}

    first = build("80-real;90-real", "one", "f32[1],f32[1]")
    second = build("90-real", "one", "f32[1],f32[1]")
    assert len(second["k.fatbin"]) < len(first["k.fatbin"]) and second["k.o"] != first["k.o"]
    assert b"sm_80" in first["k_tile.c"] and b"sm_80" not in second["k_tile.c"]
    third = build("90-real", "two", "f16[1],f16[1]")
    assert b"two_image" in third["k_tile.h"] and b"one_image" not in third["k_tile.h"]
    assert third["py.tilebc"] != second["py.tilebc"] and third["k.fatbin"] == second["k.fatbin"]
