"""Several kernel targets in one CMake project, targets with many sources, and what happens to artefacts of yesterday."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import peers
import pytest
from cmake_project import HEAD, CMakeProject, kernel, program, run_program

from tileiras.tools.build.record import explain

TWO = (
    HEAD
    + """
add_tile_kernel(left SOURCES l/${STEM}.tileir TYPE STATIC ARCHITECTURES ${ARCHS})
add_tile_kernel(right SOURCES r/k.tileir)
set_property(TARGET right PROPERTY TILE_ARCHITECTURES 90-real)   # after the call, as its siblings
add_tile_kernel(third SOURCES r/k.tileir TYPE INTERFACE PREFIX own HEADER sub/own.h)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE left right third)
install_tile_kernels(TARGETS left right third EXPORT E FORMATS fatbin)
"""
)


@pytest.mark.full
def test_targets_with_one_source_stem(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", TWO)
    project.write("l/k.tileir", kernel("one"))
    project.write("l/new.tileir", kernel("one"))
    project.write("r/k.tileir", kernel("two"))
    main = program("left/k", "right/k", "sub/own", prefixes=("left_k", "right_k", "own"))
    project.write("main.c", main.replace("own_tile.h", "own.h"))
    project.configure("-DARCHS=80-real;90-real", "-DSTEM=k")
    project.make()
    assert run_program(project, "app").split()[::2] == ["one", "two", "two"]
    assert [p.name for p in (project.build / "right.tile").glob("*.cubin")] == ["k.sm_90.cubin"]
    prefix = tmp_path / "prefix"
    project.run([str(project.cmake), "--install", str(project.build), "--prefix", str(prefix)])
    installed = sorted(
        p.relative_to(prefix).as_posix() for p in prefix.rglob("*") if p.suffix in (".h", ".fatbin")
    )
    images = [f"share/kernels_test/tile/{name}/k.fatbin" for name in ("left", "right", "third")]
    assert installed == ["include/left/k_tile.h", "include/right/k_tile.h", "include/sub/own.h", *images]

    # A dropped architecture and a renamed source take their images and headers with them.
    project.configure("-DARCHS=90-real", "-DSTEM=new")
    project.write("main.c", program("left/new", "right/k"))
    project.make()
    left = {p.name for p in (project.build / "left.tile").rglob("*") if p.is_file() and p.suffix != ".json"}
    assert left == {
        "new.sm_90.cubin",
        "new.sm_90.cubin.d",
        "new.fatbin",
        "new_tile.stamp",
        "new_tile.c",
        "new_tile.h",
    }
    project.assert_null_build()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (
            "add_tile_kernel(j SOURCES k.tileir PREFIX k)",
            "would begin with 'k_', as those of 'k.tileir' of the target k",
        ),
        ("add_tile_kernel(j SOURCES k.tileir OUTPUT_DIRECTORY k.tile)", "the target k makes"),
        (
            "add_tile_kernel(j SOURCES k.tileir ARCHITECTURE 80)",
            "SOURCES has 'ARCHITECTURE', which is neither a value",
        ),
    ],
    ids=["prefix", "folder", "keyword"],
)
def test_what_clashes_stops_the_configuration(tmp_path: Path, calls: str, message: str) -> None:
    project = CMakeProject(tmp_path)
    project.write(
        "CMakeLists.txt", HEAD.replace("C CXX", "C") + f"add_tile_kernel(k SOURCES k.tileir)\n{calls}\n"
    )
    project.write("k.tileir", kernel("k"))
    done = project.configure(check=False)
    said = re.sub(r"\s+", " ", done.stdout)
    assert done.returncode != 0 and message in said
    assert "ARCHITECTURE'" not in message or "did you mean ARCHITECTURES?" in said


MANY = """
file(GLOB sources CONFIGURE_DEPENDS k*.tileir)
add_tile_kernel(many SOURCES ${sources} TYPE STATIC ARCHITECTURES 80-real 90)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE many)
"""


def why_rebuilt(image: Path) -> list[str]:
    """Returns what the build noted about an image."""
    return explain(str(image))


GENERATORS = [
    "Ninja",
    *(pytest.param(name, marks=pytest.mark.full) for name in ("Unix Makefiles", "Ninja Multi-Config")),
]


@pytest.mark.parametrize("generator", GENERATORS)
def test_one_command_for_several_sources(tmp_path: Path, generator: str) -> None:
    """The same files as by a command for each, and no more is made again."""
    project = CMakeProject(tmp_path, generator=generator)
    project.write("CMakeLists.txt", HEAD + MANY)
    for i in range(4):
        project.write(f"k{i}.tileir", kernel(f"k{i}", factor=i + 1))
    project.write("main.c", program("many/k0", "many/k3"))
    plain = tmp_path / "plain"
    project.configure("-DCMAKE_TILE_BATCH=OFF", build=plain)
    project.make(build=plain)
    assert len(project.compiled()) == 12
    project.configure("-DCMAKE_TILE_BATCH=3", "-DTILE_COMPILER_LAUNCHER=")
    assert project.make().stdout.count("and its neighbours") == 2
    assert run_program(project, "app").split()[::2] == ["k0", "k3"]
    kinds = (".cubin", ".ptx", ".fatbin", ".h", ".json")
    for path in (p for p in (plain / "many.tile").rglob("*") if p.suffix in kinds):
        twin = project.build / path.relative_to(plain)
        if ".tileiras-record" not in path.parts:
            assert twin.read_bytes() == path.read_bytes(), twin
    project.assert_null_build()
    (depfile,) = project.artefacts("many.0.batch.d")
    assert all(str(project.source / f"k{i}.tileir") in depfile.read_text() for i in range(3))
    assert not project.artefacts("k*.cubin.json"), "one file has the records of a batch"
    (image,) = project.artefacts("k2.sm_90.cubin")
    assert why_rebuilt(image) == ["it was built for the first time"]

    before = {p: p.stat().st_mtime_ns for p in project.artefacts("*.cubin")}
    project.write("k1.tileir", kernel("k1", factor=9))
    project.make()
    after = {p: p.stat().st_mtime_ns for p in project.artefacts("*.cubin")}
    assert {p.name for p in after if after[p] != before[p]} == {"k1.sm_80.cubin", "k1.sm_90.cubin"}
    assert why_rebuilt(image.with_name("k1.sm_90.cubin")) == [f"input {project.source / 'k1.tileir'} changed"]

    project.write("k0.tileir", "no kernel")
    project.write("k2.tileir", kernel("k2", factor=7))
    done = project.make(check=False)
    assert done.returncode != 0 and done.stdout.count("k0.tileir: error: input does not") == 1
    names = {p.name for p in project.artefacts("*.cubin")}
    assert not any(name.startswith("k0.") for name in names), "a failed kernel leaves nothing"
    (image,) = project.artefacts("k2.sm_80.cubin")
    assert after[image] != image.stat().st_mtime_ns, "its neighbour is made all the same"
    project.write("k0.tileir", kernel("k0"))
    project.make()
    project.assert_null_build()


CPU_MAIN = """
#include <stdio.h>
#include "many/k0_tile.h"
#include "many/k3_tile.h"
int main(void) {
  float x[300], y[300], z[300];
  for (int i = 0; i < 300; i++) x[i] = (float)i;
  tileirasGrid grid = {3, 1, 1};
  float *px = x, *py = y, *pz = z;
  int n = 300;
  void *first[] = {&px, &py, &n}, *second[] = {&px, &pz, &n};
  if (many_k0_launch(0, grid, NULL, first) || many_k3_launch(0, grid, NULL, second)) return 1;
  for (int i = 0; i < 300; i++) if (y[i] != x[i] || z[i] != 4 * x[i]) return 2;
  return 0;
}
"""


@pytest.mark.full
def test_code_for_the_cpu_is_made_by_the_same_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for GPUs: the same files as by a command for each, no more made again, one unit for their sources."""
    if importlib.util.find_spec("llvmlite") is None:
        peers.missing("llvmlite")
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + MANY.replace("80-real 90", "90 cpu EMBED array"))
    for i in range(4):
        project.write(f"k{i}.tileir", kernel(f"k{i}", factor=i + 1))
    project.write("main.c", CPU_MAIN)
    plain = tmp_path / "plain"
    project.configure("-DCMAKE_TILE_BATCH=OFF", "-DTILE_COMPILER_LAUNCHER=", build=plain)
    project.make(build=plain)
    project.configure("-DCMAKE_TILE_BATCH=3", "-DTILE_COMPILER_LAUNCHER=")
    made = project.make().stdout
    assert made.count("and its neighbours") == 2 and "for the CPU" not in made
    kinds = (".kernels.json", ".fatbin", ".h", ".c")
    twins = [p for p in (plain / "many.tile").rglob("*") if p.name.endswith(kinds)]
    assert sum(p.name.endswith(".cpu.kernels.json") for p in twins) == 4
    for path in twins:
        assert (project.build / path.relative_to(plain)).read_bytes() == path.read_bytes(), path
    monkeypatch.setenv("TILEIRAS_DEVICE", "cpu")
    run_program(project, "app")
    project.assert_null_build()
    before = {p: p.stat().st_mtime_ns for p in project.artefacts("*.cpu.kernels.json")}
    project.write("k1.tileir", kernel("k1", factor=9))
    project.make()
    assert [p.name for p in before if p.stat().st_mtime_ns != before[p]] == ["k1.cpu.kernels.json"]


EMBEDS = (
    ("", "", True),
    ("EMBED array", "", False),
    ("", "-DCMAKE_TILE_EMBED=array", False),
    ("", "-DCMAKE_C_COMPILER_LAUNCHER=env", False),
    ("", "-DCMAKE_C_FLAGS=-flto", False),
    ("", "-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON", False),
    ("PREFIX p", "-DCMAKE_UNITY_BUILD=OFF", True),
)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("words", "option", "by_assembler"), EMBEDS)
def test_how_a_batch_embeds(tmp_path: Path, words: str, option: str, by_assembler: bool) -> None:
    """By the assembler where its compiler is one that reads files; the program holds the new image after a change."""
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + MANY.replace("TYPE STATIC", f"TYPE STATIC {words}"))
    for i in range(4):
        project.write(f"k{i}.tileir", kernel(f"k{i}", factor=i + 1))
    prefix = "p" if words.startswith("PREFIX") else "many"
    project.write("main.c", program("many/k0", "many/k3", prefixes=(f"{prefix}_k0", f"{prefix}_k3")))
    options = [option] if option else []
    project.configure("-DCMAKE_TILE_BATCH=3", "-DTILE_COMPILER_LAUNCHER=", *options)
    project.make()
    assert run_program(project, "app").split()[::2] == ["k0", "k3"]
    (code,) = project.artefacts("k3_tile.c")
    assert (".incbin" in code.read_text()) is by_assembler
    project.assert_null_build()
    images = {path.name: path.read_bytes() for path in project.artefacts("k*.fatbin")}
    app = (project.build / "app").read_bytes()
    assert images["k0.fatbin"] in app and images["k3.fatbin"] in app
    project.write("k3.tileir", kernel("k3", factor=77))
    project.make()
    app = (project.build / "app").read_bytes()
    changed = (code.parents[1] / "k3.fatbin").read_bytes()
    assert changed != images["k3.fatbin"]
    assert images["k0.fatbin"] in app and changed in app and images["k3.fatbin"] not in app
    project.assert_null_build()


@pytest.mark.parametrize("generator", GENERATORS)
def test_batches_after_a_dropped_architecture_and_a_failure(tmp_path: Path, generator: str) -> None:
    """Commands of several sources, one after the other: what stays, what goes, and what -k still makes."""
    project = CMakeProject(tmp_path, generator=generator)
    project.write("CMakeLists.txt", HEAD + MANY.replace("80-real 90", "${ARCHS}"))
    for i in range(4):
        project.write(f"k{i}.tileir", kernel(f"k{i}", factor=i + 1))
    project.write("main.c", program("many/k0", "many/k3"))
    options = ("-DCMAKE_TILE_BATCH=2", "-DTILE_COMPILER_LAUNCHER=")
    project.configure("-DARCHS=80-real;90-real", *options)
    project.make("-j1")
    images = {p: p.stat().st_mtime_ns for p in project.artefacts("*.sm_90.cubin")}
    assert len(images) == 4

    project.configure("-DARCHS=90-real", *options)
    assert not project.artefacts("k*.sm_80.*"), "what nothing makes any more goes"
    project.make("-j1")
    assert {p: p.stat().st_mtime_ns for p in project.artefacts("*.cubin")} == images, "the same images stay"
    for table in project.artefacts("*_tile.c"):
        assert "sm_80" not in table.read_text()
    run_program(project, "app")
    project.assert_null_build()

    project.write("k1.tileir", kernel("k1").replace("return", "retrun"))  # the batch of k0 and k1
    project.write("k3.tileir", kernel("k3", factor=30))  # the batch of k2 and k3
    onwards = ("-k", "0") if "Ninja" in generator else ("-k",)
    done = project.make("-j1", "--", *onwards, check=False)
    assert done.returncode != 0 and "k1.tileir:" in done.stdout
    assert {p.name for p in project.artefacts("*.cubin")} == {f"k{i}.sm_90.cubin" for i in (0, 2, 3)}
    changed = {p.name for p in project.artefacts("*.cubin") if p.stat().st_mtime_ns != images[p]}
    assert changed == {"k3.sm_90.cubin"}, "-k makes the other batch, k0 stays as it is"
    again = project.make("-j1", check=False)
    assert again.returncode != 0 and "k1.tileir:" in again.stdout, "a failure is tried again"
    project.write("k1.tileir", kernel("k1", factor=2))
    project.make("-j1")
    assert run_program(project, "app").split()[::2] == ["k0", "k3"]
    project.assert_null_build()


@pytest.mark.full
def test_batches_of_two_configurations(tmp_path: Path) -> None:
    """Each configuration has images of its own, with its own options."""
    project = CMakeProject(tmp_path, generator="Ninja Multi-Config")
    project.write("CMakeLists.txt", HEAD + MANY)
    for i in range(4):
        project.write(f"k{i}.tileir", kernel(f"k{i}", factor=i + 1))
    project.write("main.c", program("many/k0", "many/k3"))
    configurations = ("Release", "RelWithDebInfo", "Debug")
    project.configure("-DCMAKE_TILE_BATCH=3", "-DTILE_COMPILER_LAUNCHER=")
    for config in configurations:
        project.make(config=config)
        assert run_program(project, "app", config=config).split()[::2] == ["k0", "k3"]
        project.assert_null_build(config=config)
    images = {c: project.build / "many.tile" / c / "k2.sm_90.cubin" for c in configurations}
    lines = {config: b".debug_line" in path.read_bytes() for config, path in images.items()}
    assert lines == {"Release": False, "RelWithDebInfo": True, "Debug": True}
    before = {config: path.stat().st_mtime_ns for config, path in images.items()}
    project.write("k2.tileir", kernel("k2", factor=8))
    project.make(config="RelWithDebInfo")
    changed = {config for config, path in images.items() if path.stat().st_mtime_ns != before[config]}
    assert changed == {"RelWithDebInfo"}
