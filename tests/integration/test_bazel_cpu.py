"""Kernels for the CPU through the Bazel rules: programs that run here, kernel tests, what is refused when configuring."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from cpu_kernels import BARRIER, DOUBLE, environment
from integration import bazel_support as support

pytest.importorskip("llvmlite")

BUILD = """
load("@tileiras//:compat.bzl", "cc_binary")
load("@tileiras//:defs.bzl", "tile_fatbin", "tile_kernels_json", "tile_library", "tile_test")

tile_library(name = "both", srcs = ["twice.tileir", "meet.tileir"], archs = ["90-real", "cpu"])

tile_library(name = "alone", srcs = ["twice.tileir"], archs = ["cpu"])

cc_binary(name = "program", srcs = ["main.c"], deps = [":both"])

cc_binary(name = "small", srcs = ["small.c"], deps = [":alone"])

tile_kernels_json(name = "table", deps = [":both"])

tile_test(name = "doubled", data = "case.npz", entry = "twice", grid = [3], kernel = ":alone", target = "cpu")

tile_test(name = "wrong", data = "wrong.npz", entry = "twice", grid = [3], kernel = ":alone", target = "cpu")

tile_library(name = "budget", srcs = ["twice.tileir"], archs = ["90", "cpu"], no_spills = True)

tile_library(name = "vendor", srcs = ["twice.tileir"], archs = ["90", "cpu"], compiler = "nvidia")

tile_library(name = "incbin", srcs = ["twice.tileir"], archs = ["cpu"], embed = "incbin")

tile_fatbin(name = "empty", deps = [":alone"])
"""
MAIN = """#include <stdio.h>
#include "k/both_tile.h"

int main(void) {
  float x[128] = {1.5f};
  float *p = x;
  int n = 128, counter = 0, status;
  int *q = &counter;
  void *args[2];
  tileirasGrid one = {1, 1, 1}, many = {40, 1, 1};
  args[0] = &p, args[1] = &n;
  status = (int)both_twice_launch(both_twice_twice, one, NULL, args);
  printf("%d %g", status, (double)x[0]);
  n = 40, args[0] = &q;
  status = (int)both_meet_launch(both_meet_meet, many, NULL, args);
  printf(" %d %d %s\\n", status, counter, both_meet_kernels[0].archs);
  return 0;
}
"""
SMALL = """#include <stdio.h>
#include "k/alone_tile.h"

int main(void) {
  float x[128] = {1.5f};
  float *p = x;
  int n = 128, status;
  void *args[2];
  tileirasGrid one = {1, 1, 1};
  args[0] = &p, args[1] = &n;
  status = (int)alone_launch(0, one, NULL, args);
  printf("%d %g %d\\n", status, (double)x[0], (int)alone_image_size);
  return 0;
}
"""


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory):
    base = tmp_path_factory.mktemp("bazel")
    workspace = support.Workspace(base / "ws", base / "out")
    workspace.register()
    for name, text in (
        ("BUILD", BUILD),
        ("twice.tileir", DOUBLE),
        ("meet.tileir", BARRIER),
        ("main.c", MAIN),
        ("small.c", SMALL),
    ):
        workspace.write(f"k/{name}", text)
    x = np.arange(300, dtype=np.float32)
    for name, wanted in (("case", 2 * x), ("wrong", 3 * x)):
        np.savez(workspace.root / f"k/{name}.npz", arg0=x, arg1=np.int32(300), expected0=wanted)
    yield workspace
    workspace.shutdown()


@pytest.mark.full
def test_programs_run_on_the_cpu(ws: support.Workspace) -> None:
    ws.build("//k:program", "//k:small", "//k:table")
    for name, says in (("program", "0 3 0 40 sm_90 cpu\n"), ("small", "0 3 0\n")):
        done = subprocess.run(
            [ws.bin / "k" / name], capture_output=True, text=True, env=environment(), timeout=60
        )
        assert done.stdout == says, done.stderr
    assert not (ws.bin / "k/alone.fatbin").exists()
    table = json.loads((ws.bin / "k/table.json").read_text())
    assert sorted(image["arch"] for image in table["images"]) == ["cpu", "cpu", "sm_90", "sm_90"]
    assert not any("assembly" in image for image in table["images"])
    assert ws.build("//k:program", "//k:small").ran() == 0


@pytest.mark.full
def test_workers_and_sandboxes_make_the_same_table(ws: support.Workspace) -> None:
    seen = []
    for number, strategy in enumerate(("worker", "sandboxed")):
        marker = f"--action_env=MARK={number}"
        ws.build("//k:alone", f"--strategy=TileCompile={strategy}", marker)
        seen.append((ws.bin / "k/_tile/alone/twice.cpu.kernels.json").read_bytes())
    assert seen[0] == seen[1]
    assert str(ws.root).encode() not in seen[0] and b"sandbox" not in seen[0]


@pytest.mark.full
def test_kernel_tests_on_the_cpu(ws: support.Workspace) -> None:
    assert "1 test passes" in ws.run("test", "//k:doubled", "--test_output=errors").out
    assert ws.run("test", "//k:wrong", check=False).code == 3


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("budget", "are budgets of a GPU's image"),
        ("vendor", "'cpu' needs compiler = \"builtin\""),
        ("incbin", "has no image to embed"),
        ("empty", "deps have no image"),
    ],
)
def test_what_makes_no_sense_stops_the_analysis(ws: support.Workspace, target: str, says: str) -> None:
    done = ws.build(f"//k:{target}", "--nobuild", check=False)
    assert says in done.err
