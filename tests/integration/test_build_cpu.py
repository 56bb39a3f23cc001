"""Kernels compiled ahead of time for the CPU: the commands, the generated C, a CMake project whose program runs here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from build_tools import call

pytest.importorskip("llvmlite")

from cmake_project import HEAD, CMakeProject
from cpu_kernels import BARRIER, DOUBLE, GLOBALS, PRINTS, environment

PROGRAM = r"""
#include "kernels/twice_tile.h"
#include "kernels/meet_tile.h"
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static int twice(std::vector<float> &x) {
  return kernels_twice::launch_twice({unsigned((x.size() + 127) / 128), 1, 1}, nullptr, x.data(), int(x.size()));
}
static int meet(unsigned blocks, int wanted) {
  int counter = 0;
  return kernels_meet::launch_meet({blocks, 1, 1}, nullptr, &counter, wanted);
}
int main() {
  std::vector<float> x(100000, 1.5f);
  int status = twice(x);
  bool good = true;
  for (float v : x) good = good && v == 3.0f;
  std::printf("twice %d %d\n", status, good);
  pid_t child = fork();
  if (!child) _exit(twice(x) != 0 || x[99999] != 6.0f);
  int ended = 0;
  waitpid(child, &ended, 0);
  std::printf("child %d\n", ended);
  std::printf("meet %d\n", meet(200, 200));
  int wrong = 0;
  std::vector<std::thread> crew;
  for (int t = 0; t < 8; ++t)
    crew.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        std::vector<float> y(1000, 1.0f);
        if (twice(y) || y[999] != 2.0f) ++wrong;
      }
    });
  for (auto &t : crew) t.join();
  std::printf("wrong %d\n", wrong);
  x[7] = -1;
  std::printf("assert %d\n", twice(x));
  setenv("TILEIRAS_CPU_TIMEOUT", "0.2", 1);
  std::printf("deadlock %d\n", meet(5, 6));
  setenv("TILEIRAS_DEVICE", "gpu", 1);
  std::printf("gpu %d\n", twice(x) != 0);
  setenv("TILEIRAS_DEVICE", "nonsense", 1);
  std::printf("nonsense %d\n", twice(x));
  setenv("TILEIRAS_DEVICE", "cpu", 1);
  for (const char *value : {"0", "2.5", "nan", "1e30", "2 "}) {
    setenv("TILEIRAS_CPU_THREADS", value, 1);
    std::printf("threads %d\n", twice(x));
  }
  unsetenv("TILEIRAS_CPU_THREADS");
  setenv("TILEIRAS_CPU_TIMEOUT", "-1", 1);
  std::printf("timeout %d\n", twice(x));
}
"""
SAYS = """twice 0 1
child 0
meet 0
wrong 0
assert 710
deadlock 702
gpu 1
nonsense 1
threads 1
threads 1
threads 1
threads 1
threads 1
timeout 1
"""


@pytest.mark.parametrize(
    ("kind", "architectures"),
    [("STATIC", "90-real cpu"), pytest.param("SHARED", "cpu", marks=pytest.mark.full)],
)
def test_a_cmake_project_runs_its_kernels_on_the_cpu(tmp_path: Path, kind: str, architectures: str) -> None:
    project = CMakeProject(tmp_path)
    project.write("twice.tileir", DOUBLE)
    project.write("meet.tileir", BARRIER)
    project.write("main.cpp", PROGRAM)
    project.write("CMakeLists.txt", HEAD + f"""
add_tile_kernel(kernels SOURCES twice.tileir meet.tileir TYPE {kind} ARCHITECTURES {architectures})
add_executable(app main.cpp)
target_link_tile_kernels(app PRIVATE kernels)
""")  # fmt: skip
    project.configure()
    project.make()
    app = next(p for p in project.build.rglob("app*") if p.name == "app" and p.is_file())
    done = subprocess.run([app], capture_output=True, text=True, env=environment(), timeout=60)
    assert done.stdout == SAYS, done.stdout + done.stderr
    assert (
        "assertion failed: no negative numbers" in done.stderr
        and "no tile block makes progress" in done.stderr
    )
    for said in (
        "TILEIRAS_DEVICE=nonsense: expected auto, gpu or cpu",
        "TILEIRAS_CPU_THREADS=2.5: expected a whole number from 1",
        "TILEIRAS_CPU_TIMEOUT=-1: expected a number of seconds, 0 for never",
    ):
        assert said in done.stderr
    project.assert_null_build()


def make(folder: Path, text: str = DOUBLE, *more: object) -> subprocess.CompletedProcess[str]:
    (folder / "k.tileir").write_text(text)
    return call("compile", folder / "k.tileir", "--arch", "cpu", "--kernels-json", folder / "k.json", *more)


def header(folder: Path) -> Path:
    words = ("--header-out", folder / "k_tile.h", "--source-out", folder / "k_tile.c")
    done = call("header", "--prefix", "k", "--json", folder / "k.json", *words)
    assert done.returncode == 0, done.stderr
    return folder / "k_tile.c"


STRICT = (
    "-Wall -Wextra -pedantic -Werror -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wundef "
    "-Wmissing-declarations"
).split()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", ["gcc -std=c90", "gcc -std=c99", "g++ -std=c++11 -x c++", "clang -std=c99"])
def test_the_generated_source_is_quiet_under_every_warning(tmp_path: Path, words: str) -> None:
    tool, *rest = words.split()
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    for text in (GLOBALS, PRINTS, DOUBLE):
        assert make(tmp_path, text).returncode == 0
        source = header(tmp_path)
        done = subprocess.run(
            [tool, *rest, *STRICT, "-c", source, "-o", tmp_path / "k.o"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    undefined = subprocess.run(["nm", "-u", tmp_path / "k.o"], capture_output=True, text=True).stdout.split()
    assert "pthread_create" in undefined
    assert not any("Py" in n or "LLVM" in n for n in undefined)


def test_aarch64_is_a_cross_target(tmp_path: Path) -> None:
    done = make(tmp_path, DOUBLE, "--host-arch", "aarch64")
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "k.json").read_text())
    assert table["levels"] == ["v8"] and table["host_arch"] == "aarch64"
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("no aarch64-linux-gnu-gcc: the assembly is made, not assembled")
    source = header(tmp_path)
    words = ["aarch64-linux-gnu-gcc", "-std=c99", *STRICT, "-c", source, "-o", tmp_path / "k.o"]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (("--compiler", "nvidia"), 2, "makes no code for the CPU"),
        (("--no-spills",), 2, "--no-spills: budgets are for images of a GPU"),
        (("--ptx", "k.ptx"), 1, "--ptx has no meaning for --arch cpu"),
        (("--entry", "nobody"), 1, "no kernel 'nobody'"),
    ],
)
def test_what_makes_no_sense_for_a_cpu_is_refused(
    tmp_path: Path, more: tuple[str, ...], code: int, says: str
) -> None:
    done = make(tmp_path, DOUBLE, *more)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "k.json").exists()


def test_what_c_does_not_print_alike_is_refused_with_its_line(tmp_path: Path) -> None:
    text = """cuda_tile.module @m {
 entry @k() {
  %f = constant <f32: 1.5> : tile<f32>
  %t = print_tko "%s" , %f : tile<f32> -> token
  return } }
"""
    done = make(tmp_path, text)
    assert done.returncode == 5 and "k.tileir:4" in done.stderr, done.stderr
    assert "print with '%s' of f32 needs tileiras.launch" in done.stderr


@pytest.mark.parametrize("archs", [("sm_90", "cpu"), ("cpu",)])
def test_several_kernels_in_one_process(tmp_path: Path, archs: tuple[str, ...]) -> None:
    words: list[object] = []
    for stem, text in (("twice", DOUBLE), ("meet", BARRIER)):
        (tmp_path / f"{stem}.tileir").write_text(text)
        words += [tmp_path / f"{stem}.tileir", stem, stem]
    flags = [word for arch in archs for word in ("--arch", arch)]
    done = call("kernels", "--folder", tmp_path, *flags, "--header", "--", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "twice.fatbin").exists() == ("sm_90" in archs)
    for stem in ("twice", "meet"):
        table = json.loads((tmp_path / f"{stem}.cpu.kernels.json").read_text())
        assert table["arch"] == "cpu"
    (tmp_path / "main.c").write_text("""#include <stdio.h>
#include "twice_tile.h"
#include "meet_tile.h"
int main(void) {
  float x[128] = {1.5f};
  float *p = x;
  int n = 128, counter = 0, status;
  int *q = &counter;
  void *args[2];
  tileirasGrid one = {1, 1, 1}, many = {40, 1, 1};
  args[0] = &p, args[1] = &n;
  status = (int)twice_launch(twice_twice, one, NULL, args);
  printf("%d %g", status, (double)x[0]);
  n = 40, args[0] = &q;
  status = (int)meet_launch(meet_meet, many, NULL, args);
  printf(" %d %d\\n", status, counter);
  return 0;
}
""")
    sources = [tmp_path / name for name in ("main.c", "twice_tile.c", "meet_tile.c")]
    subprocess.run(["cc", *sources, "-o", tmp_path / "app", "-lpthread", "-lm", "-ldl"], check=True)
    ran = subprocess.run([tmp_path / "app"], capture_output=True, text=True, env=environment(), timeout=60)
    assert ran.stdout == "0 3 0 40\n", ran.stderr


def test_source_paths_in_faults_follow_the_prefix_map(tmp_path: Path) -> None:
    done = make(tmp_path, DOUBLE, f"--file-prefix-map={tmp_path}=here")
    assert done.returncode == 0, done.stderr
    (sites,) = [row["sites"] for row in json.loads((tmp_path / "k.json").read_text())["cpu"]]
    assert sites and all(site.startswith("here/k.tileir:") for site in sites)


def test_budgets_stop_cmake(tmp_path: Path) -> None:
    project = CMakeProject(tmp_path)
    project.write("k.tileir", DOUBLE)
    project.write(
        "CMakeLists.txt", HEAD + "add_tile_kernel(k SOURCES k.tileir ARCHITECTURES 90 cpu NO_SPILLS)\n"
    )
    done = project.configure(check=False)
    assert done.returncode and "not with ARCHITECTURES cpu" in " ".join(done.stdout.split())
