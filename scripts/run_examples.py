#!/usr/bin/env python3
"""The main job, end to end, on a machine with nothing but Python 3.10+ and a C++ compiler: `python3 scripts/run_examples.py`.

Makes an environment below the checkout, installs the package into it with NVIDIA's ptxas, CMake and Ninja from PyPI,
builds examples/cmake (kernels -> cubins -> fatbin -> header -> C++ program), runs that program, then runs the kernels on
the CPU, interpreted and as compiled PTX, and compares with NumPy. Ends with one line: OK or FAILED. A second run reuses
what the first one made. No GPU and no CUDA toolkit are needed; with a GPU the program launches the kernels there, too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from environment import (
    REPOSITORY,
    SetupError,
    cache_root,
    clean_environ,
    create_venv,
    digest_of,
    locked,
    run,
    share_equal_files,
)

EXAMPLE = REPOSITORY / "examples" / "cmake"
PACKAGE_FOLDERS = ("tileiras", "cmake", "bazel", "setuptools_ext", "nvcc_shim")
BUILD_TOOLS = ("cmake>=3.25", "ninja")
# Of the extra [toolkit] this is what compiles Tile IR; the rest of it compiles CUDA C++ and is larger.
PTXAS_WHEEL = "nvidia-cuda-nvcc==13.4.*"


def find_cxx() -> str:
    """Returns the C++ compiler that CMake will use. Errors: none is installed."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        path = shutil.which(name.split()[0]) if name.strip() else None
        if path:
            return path
    raise SetupError("no C++ compiler found (apt install g++, or set CXX)")


def package_digest() -> str:
    """Returns a fingerprint of everything that the wheel is made from."""
    files: list[Path] = [
        REPOSITORY / "pyproject.toml",
        REPOSITORY / "CMakeLists.txt",
        REPOSITORY / "README.md",
    ]
    files += sorted((REPOSITORY / "scripts").glob("*.in"))
    for folder in (*PACKAGE_FOLDERS, "share"):
        files += sorted(
            p for p in (REPOSITORY / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts
        )
    return digest_of(*[part for p in files for part in (str(p.relative_to(REPOSITORY)), p)])


def install(home: Path) -> Path:
    """Returns the interpreter of an environment that holds this checkout's package, as a user would install it."""
    python = create_venv(home / "venv")
    stamp = home / "venv" / ".installed"
    wanted = package_digest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    pip: list[str | os.PathLike[str]] = [python, "-m", "pip", "install", "--quiet", "--no-compile"]
    print(f"installing the package, ptxas, NumPy, CMake and Ninja into {home / 'venv'}", flush=True)
    run([*pip, f"{REPOSITORY}[run]", *BUILD_TOOLS], "installing the package")
    run([*pip, "--no-deps", PTXAS_WHEEL], "installing ptxas")
    # The version number does not change with every edit of the sources: replace what an earlier run installed.
    run([*pip, "--force-reinstall", "--no-deps", REPOSITORY], "installing the package")
    for unused in (home / "venv" / "lib").glob("python3.*/site-packages/cmake/data/bin/cpack"):
        unused.unlink()
    share_equal_files(home / "venv", cache_root() / "peers" / "v134")
    stamp.write_text(wanted)
    return python


def build(home: Path, python: Path) -> Path:
    """Returns the program that CMake made of examples/cmake."""
    tree = home / "build"
    cache = tree / "CMakeCache.txt"
    if cache.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={EXAMPLE}\n" not in cache.read_text(
        errors="replace"
    ):
        shutil.rmtree(tree)  # the checkout was moved; CMake refuses a tree of another place
    bin_dir = python.parent
    env = clean_environ(PATH=f"{bin_dir}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    for name in ("CMAKE_GENERATOR", "CMAKE_PREFIX_PATH", "CUDAARCHS", "TILEARCHS", "TILEIRAS_COMPILER"):
        env.pop(name, None)  # the example says what it builds
    cmake_dir = capture([python, "-c", "from tileiras.cmake_dir import cmake_dir; print(cmake_dir())"], env)
    run(
        [bin_dir / "cmake", "-S", EXAMPLE, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_MAKE_PROGRAM={bin_dir / 'ninja'}", f"-DTileiras_DIR={cmake_dir}"],
        "configuring examples/cmake", env=env,
    )  # fmt: skip
    run([bin_dir / "cmake", "--build", tree], "building examples/cmake", env=env)
    return tree / "run_kernels"


def capture(argv: list[str | os.PathLike[str]], env: dict[str, str]) -> str:
    """Returns what a command prints, without its last newline. Errors: it failed."""
    import subprocess

    done = subprocess.run(
        [os.fspath(a) for a in argv], env=env, stdout=subprocess.PIPE, text=True, cwd=os.path.sep
    )
    if done.returncode:
        raise SetupError(f"exit code {done.returncode}: {' '.join(map(str, argv))}")
    return done.stdout.rstrip("\n")


def main(argv: list[str]) -> int:
    """Returns 0 when every number is right."""
    parser = argparse.ArgumentParser(description="Build and run the examples on this machine, from nothing.")
    parser.add_argument("--clean", action="store_true", help="throw away what earlier runs made")
    options = parser.parse_args(argv)
    home = cache_root() / "examples"
    try:
        with locked(cache_root() / "examples.lock"):
            if options.clean:
                shutil.rmtree(home, ignore_errors=True)
            find_cxx()
            python = install(home)
            program = build(home, python)
            print("\n== the C++ program with the embedded images", flush=True)
            run([program], "the example program")
            print("\n== the kernels on the CPU, against NumPy", flush=True)
            run(
                [python, "-P" if sys.version_info >= (3, 11) else "-s", EXAMPLE / "check_kernels.py"],
                "checking numbers",
            )
    except SetupError as error:
        print(f"run_examples: {error}", file=sys.stderr)
        print("FAILED")
        return 1
    print("OK: built, linked and right on every CPU target")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
