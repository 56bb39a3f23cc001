"""Kernels compiled ahead of time, built with the machine's C compiler, run here or under qemu, and compared.

`stand_in` lets a launch on the target cpu go that way, so
that whatever runs there can be tried ahead of time: the same arguments, the same memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tileiras.diag import ERROR, EXIT_COMPILE, Diag, Emitted
from tileiras.run.cpu import ahead
from tileiras.run.errors import LaunchError
from tileiras.tools.build import header_verb
from tileiras.tools.build.cpu_verb import kernel_row

FAILED = Diag("TEST-0001", ERROR, "the launch ended with {status}", "cpu")


class Grid(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


def source_of(module: Any, entries: list[str], arch: str, folder: Path) -> tuple[Path, list[str]]:
    """(the generated C source in `folder`, the kernels' symbols in the order of their index)."""
    assembly, rows = ahead.compile_ahead(module, arch, entries)
    ops = {op.attr("sym_name"): op for op in module.regions[0].block.ops if op.spec.name == "entry"}
    table = {
        "version": 1,
        "arch": "cpu",
        "launch_abi": "simt",
        "host_arch": arch,
        "kernels": [kernel_row(ops[row["symbol"]], row["symbol"]) for row in rows],
        "levels": [level.name for level in ahead.LEVELS[arch]],
        "cpu": rows,
        "globals": ahead.globals_of(module),
        "assembly": assembly,
    }
    unit = header_verb.gather("k", "k", [("k.json", json.dumps(table).encode())])
    header, source = header_verb.texts(unit, b"", "", "k_tile.h", "array")
    (folder / "k_tile.h").write_bytes(header)
    (folder / "k_tile.c").write_bytes(source)
    return folder / "k_tile.c", [entry.symbol for entry in unit.entries]


DRIVER = r"""
#define _GNU_SOURCE 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "k_tile.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static void need(int fine, const char *what) {
  if (fine) return;
  perror(what);
  exit(99);
}

/* FILE: index, grid, number of arguments and of regions; the arguments; address, size and bytes of each region. */
int main(int argc, char **argv) {
  FILE *file = fopen(argv[1], "rb");
  uint64_t head[6], *values, (*regions)[2], i;
  void **args;
  tileirasGrid grid;
  int status;
  (void)argc;
  need(file && fread(head, sizeof head, 1, file) == 1, "head");
  values = calloc(head[4] + 1, 8);
  args = calloc(head[4] + 1, sizeof *args);
  regions = calloc(head[5] + 1, sizeof *regions);
  for (i = 0; i < head[4]; ++i) {
    need(fread(&values[i], 8, 1, file) == 1, "argument");
    args[i] = &values[i];
  }
  for (i = 0; i < head[5]; ++i) {
    uint64_t page;
    need(fread(regions[i], 16, 1, file) == 1, "region");
    for (page = regions[i][0] & ~(uint64_t)4095; page < regions[i][0] + regions[i][1]; page += 4096) {
      mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    need(regions[i][1] == 0 || fread((void *)regions[i][0], regions[i][1], 1, file) == 1, "bytes");
  }
  fclose(file);
  grid.x = (unsigned)head[1], grid.y = (unsigned)head[2], grid.z = (unsigned)head[3];
  status = (int)k_launch((unsigned)head[0], grid, NULL, args);
  file = fopen(argv[1], "wb");
  for (i = 0; i < head[5]; ++i) need(regions[i][1] == 0 || fwrite((void *)regions[i][0], regions[i][1], 1, file) == 1, "out");
  fclose(file);
  return status ? 98 : 0;
}
"""
QEMU = "qemu-aarch64"
CROSS = "aarch64-linux-gnu-gcc"


def run_here(
    module: Any, entry: str, grid: tuple[int, int, int], data: list[bytes], arrays: list[Any]
) -> int:
    """The status of a launch by a library of this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, symbols = source_of(module, [entry], "x86_64", folder)
        words = ["cc", "-O1", "-shared", "-fPIC", source, "-o", folder / "k.so", "-lpthread", "-lm", "-ldl"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        launch = ctypes.CDLL(str(folder / "k.so")).k_launch
    launch.argtypes = [ctypes.c_uint, Grid, ctypes.c_void_p, ctypes.c_void_p]
    values = [ctypes.create_string_buffer(value.ljust(8, b"\0"), 8) for value in data]
    pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
    return int(launch(symbols.index(entry), Grid(*grid), None, pointers))


def run_under_qemu(
    module: Any, entry: str, grid: tuple[int, int, int], data: list[bytes], arrays: list[Any]
) -> int:
    """The status of a launch by an AArch64 program, whose memory lies where the arrays lie here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, symbols = source_of(module, [entry], "aarch64", folder)
        (folder / "main.c").write_text(DRIVER)
        words = [CROSS, "-O1", "-static", source, folder / "main.c", "-o", folder / "app", "-lpthread", "-lm"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        bounds = [byte_bounds(array) for array in arrays]
        head = [symbols.index(entry), *grid, len(data), len(bounds)]
        text = b"".join(value.to_bytes(8, "little") for value in head)
        text += b"".join(value.ljust(8, b"\0") for value in data)
        for start, end in bounds:
            text += start.to_bytes(8, "little") + (end - start).to_bytes(8, "little")
            text += ctypes.string_at(start, end - start)
        (folder / "memory").write_bytes(text)
        environment = {**os.environ, "TILEIRAS_CPU_THREADS": "2"}
        ran = subprocess.run(
            [QEMU, folder / "app", folder / "memory"], capture_output=True, text=True, env=environment
        )
        assert ran.returncode in (0, 98), (ran.returncode, ran.stderr[-2000:])
        result = (folder / "memory").read_bytes()
        at = 0
        for (start, end), array in zip(bounds, arrays):
            if array.flags.writeable:
                ctypes.memmove(start, result[at : at + end - start], end - start)
            at += end - start
        return ran.returncode


def byte_bounds(array: Any) -> tuple[int, int]:
    """Address of an array's first byte and of what follows its last."""
    first = last = array.ctypes.data
    for extent, stride in zip(array.shape, array.strides):
        if not extent:
            return first, first
        first, last = first + min(0, (extent - 1) * stride), last + max(0, (extent - 1) * stride)
    return first, last + array.itemsize


@contextlib.contextmanager
def stand_in(run: Any = run_here) -> Iterator[None]:
    """Inside, launches on the target cpu run code that was compiled ahead of time."""
    from tileiras.run import native

    def run_cpu(
        module: Any, entry: str, grid: Any, arguments: Any, memory: Any, check: bool, out: Any
    ) -> None:
        status = run(module, entry, grid, arguments.data, [*arguments.arrays, *memory])
        if status:
            raise LaunchError([Emitted(FAILED, None, None, [("status", status)])], EXIT_COMPILE)

    before, native.run_cpu = native.run_cpu, run_cpu
    device = os.environ.get("TILEIRAS_DEVICE")
    os.environ["TILEIRAS_DEVICE"] = "cpu"
    try:
        yield
    finally:
        native.run_cpu = before
        os.environ.pop("TILEIRAS_DEVICE")
        if device is not None:
            os.environ["TILEIRAS_DEVICE"] = device
