"""A kernel that takes tensor maps, built by CMake: what its generated launcher asks of the driver makes the product right."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import peers
import pytest
from cmake_project import HEAD, CMakeProject

from tests.corpus.check import copy_of, judge
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.integration.test_build_tensor_maps import DRIVER
from tileiras.run import emulator, load_module
from tileiras.run.args import encode_arguments
from tileiras.run.emulator.tensor_map import encode
from tileiras.run.entries import find_entry

MAIN = r"""
#include <gemm/gemm_tile.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **words) { /* three of the grid, then the arguments as 64 bits each */
  unsigned long values[64];
  void *args[64];
  tileirasGrid grid;
  int i;
  grid.x = (unsigned)atoi(words[1]);
  grid.y = (unsigned)atoi(words[2]);
  grid.z = (unsigned)atoi(words[3]);
  for (i = 4; i < count; ++i) {
    values[i - 4] = strtoul(words[i], NULL, 10);
    args[i - 4] = &values[i - 4];
  }
  printf("%u maps\n", gemm_kernels[0].variants[0].map_count);
  printf("status %d\n", (int)gemm_launch(0, grid, NULL, args));
  return 0;
}
"""
LINE = re.compile(
    r"map type (\d+) rank (\d+) base ([0-9a-f]+) extents ([\d ]+) strides ?([\d ]*) box ([\d/ ]+) interleave 0 swizzle (\d) "
    r"promotion 2 fill (\d)"
)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def described(line: str) -> bytes:
    """A map of the emulator from what the driver was asked."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    kind, _, base, extents, strides, box, swizzle, fill = found.groups()
    numbers = [[int(n) for n in text.split()][::-1] for text in (extents, strides, box.replace("/1", ""))]
    swizzles = ("none", "32B", "64B", "128B")
    return encode(
        int(base, 16), int(kind), *numbers, swizzle=swizzles[int(swizzle)], fill=("zeros", "nan")[int(fill)]
    )


def save(case: Any, values: list[Any], flat: list[Any], path: Path) -> None:
    """The data of add_tile_test: arguments, and what the formula says of those that change."""
    entries: dict[str, Any] = {f"arg{i}": value for i, value in enumerate(flat)}
    for place, wanted in case.expect(*copy_of(values)).items():
        index = next(i for i, value in enumerate(flat) if value is values[place])
        entries[f"expected{index}"] = np.asarray(wanted).astype(values[place].dtype)
    np.savez(path, **entries)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["staged_f16_nt", "staged_flash_gqa_128"])
def test_the_launcher_asks_for_the_maps_that_the_code_needs(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    project = CMakeProject(tmp_path)
    project.write("CMakeLists.txt", HEAD + f"""
enable_testing()
add_tile_kernel(gemm SOURCES gemm.tilebc TENSOR_MAPS launcher ARCHITECTURES 90-real FORMATS ptx header)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE gemm)
add_tile_test(NAME built KERNEL gemm ENTRY {case.entry} DATA data.npz GRID {" ".join(map(str, case.grid))} RTOL {case.rtol}
  ATOL {case.atol})
""")  # fmt: skip
    values = case.make_values()
    flat, memory = case.flat(values)
    save(case, values, flat, project.source / "data.npz")
    project.write("gemm.tilebc", bytecode_path(case).read_bytes())
    project.write("main.c", MAIN)
    project.configure(f"-DTileiras_TOOLKIT_ROOT={peers.require_toolkit()}")
    project.make()
    (table,) = json.loads((project.build / "gemm.tile" / "gemm.sm_90.kernels.json").read_text())["kernels"]
    hidden = table["hidden"]
    assert hidden and all(row["kind"] == "tensor_map" and row["size"] == 128 for row in hidden)
    end = max(param["offset"] + param["size"] for param in table["params"])
    offsets = [row["offset"] for row in hidden]
    assert end <= offsets[0] < end + 128 and offsets == [offsets[0] + 128 * i for i in range(len(hidden))]

    before = copy_of(values)
    entry = find_entry(load_module(bytecode_path(case)), case.entry)
    arguments = encode_arguments(case.entry, [a.type for a in entry.regions[0].block.args], flat)
    assert len(arguments.data) == len(table["params"])

    (tmp_path / "driver.c").write_text(DRIVER)
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["gcc", "-DANY_KERNEL", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True
    )
    grid = (*case.grid, 1, 1)[:3]
    words = [*map(str, grid), *(str(int.from_bytes(data, "little")) for data in arguments.data)]
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    app = next(path for path in project.build.rglob("app") if path.is_file())
    done = subprocess.run([app, *words], env=env, capture_output=True, text=True, check=True)
    first, *lines, launch, status = done.stdout.splitlines()
    assert first == f"{len(hidden)} maps" and status == "status 0" and len(lines) == len(hidden)
    threads = "x".join(map(str, table["threads"]))
    assert launch == f"launch of {threads} threads with {table['dynamic_shared']} bytes"

    space = emulator.Memory()
    for array in [*arguments.arrays, *memory]:
        space.add(array)
    ptx = (project.build / "gemm.tile" / "gemm.sm_90.ptx").read_text()
    assert ptx.count("cp.async.bulk.tensor") >= len(hidden)
    emulator.launch(
        ptx, table["symbol"], grid, tuple(table["threads"]), [*arguments.data, *map(described, lines)], memory=space,
        dynamic_shared_bytes=table["dynamic_shared"],
    )  # fmt: skip
    arguments.unpack()
    assert judge(case, before, values) == ""
    ctest = [project.cmake.with_name("ctest"), "--test-dir", project.build, "--output-on-failure"]
    done = subprocess.run(ctest, capture_output=True, text=True, env=project.env)
    assert done.returncode == 0 and "100% tests passed" in done.stdout, done.stdout
