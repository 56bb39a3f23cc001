"""Machines whose driver is missing or no use: a folder for LD_LIBRARY_PATH, with what stands there for libcuda.so.1."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

KINDS = ("missing", "no library", "not the driver", "no device", "too old")
_FUNCTIONS = (
    "cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload", "cuKernelSetAttribute", "cuCtxGetDevice",
    "cuDeviceGetAttribute", "cuLaunchKernel",
)  # fmt: skip
_DRIVER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
int cuInit(unsigned flags) { return STATUS; }
int cuGetErrorName(int code, const char **name) { *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : "?"; return 0; }
int cuDeviceGetCount(int *count) { *count = 0; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetProcAddress_v2(const char *name, void **slot, int version, unsigned long flags, void *status) {
  *slot = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
  return *slot ? 0 : 500;
}
"""


def environment(folder: Path, kind: str) -> dict[str, str]:
    """The environment of a process that finds this driver."""
    library = folder / "libcuda.so.1"
    if kind == "missing":
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            pass
        else:
            pytest.skip("this machine has a driver")
    elif kind == "no library":
        library.write_text("no library")
    else:
        source = folder / "driver.c"
        text = _DRIVER.replace("STATUS", "100" if kind == "no device" else "0")
        if kind == "no device":
            text += "".join(f"int {name}(void) {{ return 3; }}\n" for name in _FUNCTIONS)
        source.write_text("int unrelated(void) { return 0; }\n" if kind == "not the driver" else text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}
