"""Runs an example program of CUTLASS on the emulator; its exit code is the program's.

python play.py FOLDER RUNTIME ARCH SEED WORD...: FOLDER has the program as a shared library and its PTX, RUNTIME is the shared
library of the CUDA runtime. ARCH is sm_90a, or sm_90a:8 for a device of eight multiprocessors in the place of four. SEED is
"none", or a number for a run with checks, which say what they find on the error stream.
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from tileiras.run.emulator import EmulatorError, launch
from tileiras.run.emulator.parse import parse


def play(folder: str, library_of_runtime: str, arch: str, seed: str, *words: str) -> int:
    """The exit code of an example that runs in this process."""
    text = (Path(folder) / "program.ptx").read_text()
    funcs = parse(text).funcs
    arrays = []
    how = {} if seed == "none" else {"check": True, "seed": int(seed)}

    def allocate(count):
        raw = np.zeros(max(count, 1) + 512, np.uint8)
        at = -raw.ctypes.data % 512
        arrays.append(raw[at : at + max(count, 1)])
        return arrays[-1].ctypes.data

    def run(name, grid, block, cluster, shared, args):
        name = name.decode()
        params = [ctypes.string_at(args[i], var.size) for i, var in enumerate(funcs[name].params)]
        try:
            report = launch(
                text, name, grid[:3], block[:3], params, memory=arrays, dynamic_shared_bytes=shared,
                cluster=cluster[:3] if max(cluster[:3]) > 1 else None, **how,
            )  # fmt: skip
        except EmulatorError as error:
            print(f"emulator: {name}: {error}", file=sys.stderr, flush=True)
            return 1
        print(f"emulator: ran {name}", file=sys.stderr, flush=True)
        for finding in report.findings:
            print(f"emulator: finding: {finding.text}", file=sys.stderr, flush=True)
        return 0

    numbers = ctypes.POINTER(ctypes.c_uint)
    kinds = (
        ctypes.CFUNCTYPE(
            ctypes.c_int,
            ctypes.c_char_p,
            numbers,
            numbers,
            numbers,
            ctypes.c_ulong,
            ctypes.POINTER(ctypes.c_void_p),
        ),
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ulong),
    )
    callbacks = [kind(function) for kind, function in zip(kinds, (run, allocate))]
    runtime = ctypes.CDLL(library_of_runtime, ctypes.RTLD_GLOBAL)
    number, count = (int(word) for word in re.findall(r"\d+", f"{arch}:4")[:2])
    runtime.emulator_device(*callbacks, number // 10, number % 10, count)
    library = ctypes.CDLL(str(Path(folder) / "program.so"), os.RTLD_LAZY)
    listing = subprocess.run(
        ["nm", "-D", Path(folder) / "program.so"], check=True, capture_output=True, text=True
    ).stdout
    (main,) = re.findall(r"T (\w*example_main\w*)", listing)
    argv = (ctypes.c_char_p * (len(words) + 2))(b"example", *(w.encode() for w in words), None)
    result = getattr(library, main)(len(words) + 1, argv)
    ctypes.CDLL(None).fflush(None)
    return int(result)


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(play(*sys.argv[1:]))
