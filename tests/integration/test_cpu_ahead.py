"""What runs on the CPU in a process runs ahead of time as well: cases of the corpus, prints, globals; AArch64 under qemu."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from cpu_ahead import CROSS, QEMU, run_here, run_under_qemu, source_of, stand_in
from cpu_kernels import BARRIER, GLOBALS, PRINTS, environment

from tests.corpus.check import launch_case
from tests.corpus.registry import CASES
from tileiras.compiler.source import load
from tileiras.diag import Sink
from tileiras.run import launch
from tileiras.run.errors import LaunchError

MAIN = """#include "k_tile.h"
#include <stdio.h>
int main(void) {
  tileirasGrid grid = {3, 1, 1};
  float out[4];
  float *p = out;
  void *args[1];
  int i;
  args[0] = &p;
  for (i = 0; i < 2; ++i) {
    int status = (int)k_launch(0, grid, NULL, args);
    if (status) return status;
  }
  printf("%g %g\\n", (double)out[0], (double)out[3]);
  return 0;
}
"""


def program(text: str, folder: Path, arch: str = "x86_64") -> str:
    """What a C program says that launches the kernel twice for three blocks."""
    source, _ = source_of(load(text, Sink()), ["k"], arch, folder)
    (folder / "main.c").write_text(MAIN)
    words: list[Any] = ["cc"] if arch == "x86_64" else [CROSS, "-static"]
    words += ["-std=c99", "-Wall", "-Wextra", "-Werror", source, folder / "main.c", "-o", folder / "app"]
    built = subprocess.run([*words, "-lpthread", "-lm", "-ldl"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    start = [] if arch == "x86_64" else [QEMU]
    done = subprocess.run([*start, folder / "app"], capture_output=True, env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def archs() -> list[Any]:
    return ["x86_64", pytest.param("aarch64", marks=pytest.mark.full)]


def need(arch: str) -> None:
    for tool in (CROSS, QEMU) if arch == "aarch64" else ("cc",):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)")


@pytest.mark.parametrize("arch", archs())
def test_prints_are_those_of_the_reference_interpreter(tmp_path: Path, arch: str) -> None:
    need(arch)
    out = io.StringIO()
    for _ in range(2):
        launch(PRINTS, "k", 3, [np.zeros(4, np.float32)], target="reference", out=out)
    said = program(PRINTS, tmp_path, arch).splitlines()
    assert said[:-1] == out.getvalue().splitlines()
    assert len(said) == 2 * 3 * 4 + 1


@pytest.mark.parametrize("arch", archs())
def test_globals_live_as_long_as_the_program(tmp_path: Path, arch: str) -> None:
    """Two launches of three blocks: the counter stands at six, as it would on a GPU."""
    need(arch)
    out = np.zeros(4, np.float32)
    launch(GLOBALS, "k", 3, [out], target="cpu")
    assert 1 <= out[0] <= 3
    first, last = map(float, program(GLOBALS, tmp_path, arch).split())
    assert 4 <= first <= 6 and last == first + 3


def test_more_than_half_of_the_memory_is_refused_before_the_start(capfd: pytest.CaptureFixture[str]) -> None:
    need("x86_64")
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<f64>>) {
        %a = alloca num_elem = 1099511627776, alignment = 8 : tile<ptr<f64>>
        %v, %t = load_ptr_tko weak %a : tile<ptr<f64>> -> tile<f64>, token
        %s = store_ptr_tko weak %p, %v : tile<ptr<f64>>, tile<f64> -> token
        return } }"""
    with stand_in(run_here), pytest.raises(LaunchError, match="the launch ended with 2"):
        launch(text, "k", 1, [np.zeros(1)], target="cpu")
    said = capfd.readouterr().err
    assert "more than half of the machine's memory" in said and "cuda_tile.alloca makes 8796093022" in said


def sample(count: int) -> list[str]:
    names = sorted(CASES)
    random.Random(12).shuffle(names)
    return names[:count]


@pytest.mark.parametrize("name", [
    *sample(2), *(pytest.param(name, marks=pytest.mark.full) for name in sample(40)[2:])])  # fmt: skip
def test_cases_of_the_corpus_ahead_of_time(name: str) -> None:
    with stand_in(run_here):
        outcome = launch_case(CASES[name], "cpu", "", 120)
    assert outcome.word in ("pass", "skip"), outcome.detail


@pytest.mark.full
@pytest.mark.parametrize("name", sample(40))
def test_cases_of_the_corpus_under_qemu(name: str) -> None:
    need("aarch64")
    with stand_in(run_under_qemu):
        outcome = launch_case(CASES[name], "cpu", "", 120)
    assert outcome.word in ("pass", "skip"), outcome.detail


@pytest.mark.full
def test_blocks_wait_for_each_other_under_qemu() -> None:
    need("aarch64")
    counter = np.zeros(1, np.int32)
    with stand_in(run_under_qemu):
        launch(BARRIER, "meet", 40, [counter, np.int32(40)], target="cpu")
    assert counter[0] == 40
