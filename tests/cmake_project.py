"""A small CMake project in a temporary folder, and questions about its builds: what ran, what changed, what was said.

Whether a build step ran is read off a launcher (LAUNCHER of add_tile_kernel) that logs every call of the compiler, and
off the time stamps of everything below `*.tile`, which also covers the steps that no launcher sees. The tests use the
real compiler and the real CMake; which CMake and which generator is a parameter.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
GENERATORS = ("Ninja", "Unix Makefiles", "Ninja Multi-Config")
LOGGER = """#!/bin/sh
# Logs the source and the output of each compile, then runs it. An old-fashioned launcher: argv is the command.
if [ -n "$LAUNCHER_LOG" ]; then printf '%s\\n' "$*" >> "$LAUNCHER_LOG"; fi
exec "$@"
"""

HEAD = """cmake_minimum_required(VERSION 3.20)
project(kernels_test LANGUAGES C CXX)
find_package(Tileiras REQUIRED)
set(CMAKE_TILE_ARCHITECTURES 80-real 90-real)
"""


_SNAPSHOT: list[Path] = []


def package_snapshot() -> Path:
    """Returns a copy of the checkout's package as it is now.

    Every image depends on the compiler's sources: an edit between two builds of a test would be seen, rightly, and would
    fail a test that expects nothing to run.
    """
    if not _SNAPSHOT:
        folder = Path(tempfile.mkdtemp(prefix="tileiras-checkout-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        for name in ("tileiras", "cmake", "nvcc_shim", "setuptools_ext", "bazel"):
            shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
        _SNAPSHOT.append(folder)
    return _SNAPSHOT[0]


def find_cmake(version: str = "newest") -> Path:
    """Returns a CMake: `newest` of PyPI in the test environment, `3.25` of the peers or of Debian; else skips."""
    if version == "newest":
        beside = Path(sys.executable).parent / "cmake"
        found = str(beside) if beside.exists() else shutil.which("cmake")
        if found is None:
            peers.missing("cmake")
        return Path(str(found))
    pinned = peers.cmake(version)
    if pinned is not None:
        return pinned
    system = shutil.which("cmake", path="/usr/bin")
    if (
        system
        and f" {version}." in subprocess.run([system, "--version"], capture_output=True, text=True).stdout
    ):
        return Path(system)
    peers.missing(f"cmake {version}")
    raise AssertionError


def find_ninja() -> str:
    """Returns a ninja, else skips."""
    beside = Path(sys.executable).parent / "ninja"
    found = str(beside) if beside.exists() else shutil.which("ninja")
    if found is None:
        peers.missing("ninja")
    return str(found)


class CMakeProject:
    """Source and build folder of one project."""

    def __init__(
        self, root: Path, cmake: str = "newest", generator: str = "Ninja", build: str = "build"
    ) -> None:
        self.cmake = find_cmake(cmake)
        self.generator = generator
        self.source = root / "source"
        self.build = root / build
        self.log = root / "launcher.log"
        self.launcher = root / "launcher"
        self.source.mkdir(parents=True)
        self.launcher.write_text(LOGGER)
        self.launcher.chmod(0o755)
        self.env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("TILE", "CUDA", "CMAKE", "NINJA", "MAKE"))
        }
        self.env.update(LAUNCHER_LOG=str(self.log), TILEIRAS_CACHE_DIR=str(root / "cache"))

    @property
    def is_multi_config(self) -> bool:
        return self.generator == "Ninja Multi-Config"

    def write(self, name: str, text: str | bytes) -> Path:
        """Returns the path of a file of the source tree after writing it."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def configure(self, *options: str, source: Path | None = None, build: Path | None = None,
                  check: bool = True) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Returns the finished `cmake -S -B`; fails the test when it failed, unless `check` is false."""
        argv = [
            str(self.cmake),
            "-S",
            str(source or self.source),
            "-B",
            str(build or self.build),
            "-G",
            self.generator,
        ]
        if "Ninja" in self.generator:
            argv.append(f"-DCMAKE_MAKE_PROGRAM={find_ninja()}")
        if not any(option.startswith("-DTileiras_DIR=") for option in options):
            argv.append(f"-DTileiras_DIR={package_snapshot() / 'cmake'}")
        argv += [
            f"-DTileiras_PYTHON_EXECUTABLE={sys.executable}",
            f"-DTILE_COMPILER_LAUNCHER={self.launcher}",
            *options,
        ]
        return self.run(argv, check)

    def make(self, *options: str, config: str = "Release", target: str = "", build: Path | None = None,
             check: bool = True) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Returns the finished `cmake --build`."""
        argv = [str(self.cmake), "--build", str(build or self.build), "-j4"]
        if self.is_multi_config:
            argv += ["--config", config]
        if target:
            argv += ["--target", target]
        return self.run([*argv, *options], check)

    def run(self, argv: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
        """Returns the finished command, with its output and errors as one text."""
        done = subprocess.run(argv, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if check and done.returncode:
            pytest.fail(f"{' '.join(argv)}\nexit code {done.returncode}\n{done.stdout}", pytrace=False)
        return done

    def compiled(self) -> list[str]:
        """Returns the names of the primary outputs of the compiler calls since the last question, sorted."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        names = []
        for line in lines:
            # One of -o, --ptx or --tilebc comes first in the rules; names here have no blanks.
            for flag in (" -o ", " --ptx "):
                if flag in line:
                    names.append(line.split(flag)[1].split(" -")[0].rsplit("/", 1)[-1])
                    break
            else:
                names.append(line)
        return sorted(names)

    def artefacts(self, pattern: str = "*") -> list[Path]:
        """Returns the files below every `*.tile` folder of the build tree, sorted."""
        found = [p for folder in self.build.rglob("*.tile") if folder.is_dir() for p in folder.rglob(pattern)]
        return sorted({p for p in found if p.is_file() and "CMakeFiles" not in p.parts})

    def stamps(self) -> dict[str, int]:
        """Returns the modification times of all artefacts and programs: equal before and after a null build."""
        files = [*self.artefacts(), *(p for p in self.build.rglob("*") if p.suffix in (".o", ".a", ".so"))]
        return {str(p): p.stat().st_mtime_ns for p in files if p.exists()}

    def assert_null_build(self, config: str = "Release") -> None:
        """Fails when another build does anything."""
        self.compiled()
        before = self.stamps()
        assert before
        out = self.make(config=config).stdout
        assert self.compiled() == [], out
        assert self.stamps() == before, out
        if "Ninja" in self.generator:
            assert "no work to do" in out


def make_read_only(folder: Path) -> None:
    """Removes write permission below `folder`."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def make_writable(folder: Path) -> None:
    """Gives the owner write permission below `folder` again, so that pytest can remove it."""
    folder.chmod(folder.stat().st_mode | stat.S_IWUSR)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


def kernel(name: str = "scale", factor: float = 2.0) -> str:
    """Returns a Tile IR text: y[i] = factor * x[i] for i < n, 128 elements a block."""
    view = "tensor_view<?xf32, strides=[1]>"
    tiles = f"partition_view<tile=(128), {view}>"
    return f"""
cuda_tile.module @{name} {{
  entry @{name}(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {{
    %size = assume bounded<0, ?>, %n : tile<i32>
    %xv = make_tensor_view %x, shape = [%size], strides = [1] : tile<i32> -> {view}
    %yv = make_tensor_view %y, shape = [%size], strides = [1] : tile<i32> -> {view}
    %xs = make_partition_view %xv : {tiles}
    %ys = make_partition_view %yv : {tiles}
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %t = make_token : token
    %v, %r = load_view_tko weak %xs[%b] token = %t : {tiles}, tile<i32> -> tile<128xf32>, token
    %f = constant <f32: {factor:e}> : tile<128xf32>
    %p = mulf %v, %f : tile<128xf32>
    %w = store_view_tko weak %p, %ys[%b] token = %t : tile<128xf32>, {tiles}, tile<i32> -> token
    return
  }}
}}
"""


def program(*stems: str, prefixes: tuple[str, ...] = ()) -> str:
    """Returns a C program that checks the embedded image and table of each kernel: "target/stem", or one name for both."""
    names = prefixes or tuple(stem.replace("/", "_") for stem in stems)
    headers = [stem if "/" in stem else f"{stem}/{stem}" for stem in stems]
    includes = "\n".join(f'#include "{header}_tile.h"' for header in headers)
    checks = "\n".join(
        f"  if ({p}_image_size < 64 || {p}_kernel_count < 1 || {p}_kernels[0].param_count < 1) return {i + 1};\n"
        f'  printf("%s %u\\n", {p}_kernels[0].name, (unsigned){p}_kernels[0].block[0]);'
        for i, p in enumerate(names)
    )
    return f"#include <stdio.h>\n{includes}\nint main(void) {{\n{checks}\n  return 0;\n}}\n"


def run_program(project: CMakeProject, name: str, config: str = "Release", build: Path | None = None) -> str:
    """Returns what a built program prints; fails the test when it exits with anything but 0."""
    folder = build or project.build
    found = [
        p for p in folder.rglob(name) if p.is_file() and os.access(p, os.X_OK) and "CMakeFiles" not in p.parts
    ]
    found = [p for p in found if not project.is_multi_config or config in p.parts]
    assert len(found) == 1, found
    return subprocess.run([found[0]], check=True, capture_output=True, text=True).stdout
