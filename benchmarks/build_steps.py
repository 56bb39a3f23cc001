"""What a CMake project of many kernels costs to build: cold, from the cache, when nothing changed, and after small changes.

    python benchmarks/build_steps.py                                   # 300 kernels by three targets, Ninja
    python benchmarks/build_steps.py --kernels 60 --generator "Unix Makefiles" --batch OFF

One static library of N sources for three GPUs is built in a temporary folder with a cache of its own. Each row is one
`cmake --build`: real seconds, seconds of processor time (user and system, all processes) and the largest process so far in MB;
`steps` are the commands of the generated build that made something. Rows of one run may be compared with each other, and
with another run of the same idle machine; --load waits until the machine is idle.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cmake_project import find_cmake, find_ninja, kernel, program  # noqa: E402

GENERATORS = ("Ninja", "Unix Makefiles", "Ninja Multi-Config")
LISTS = """cmake_minimum_required(VERSION 3.20)
project(steps LANGUAGES C)
find_package(Tileiras REQUIRED)
file(GLOB sources k*.tileir)
add_tile_kernel(many SOURCES ${sources} TYPE STATIC ARCHITECTURES %s)
add_executable(app main.c)
target_link_tile_kernels(app PRIVATE many)
"""


class Project:
    """A project of `count` kernels, and the clock of its builds."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.source, self.build = folder / "source", folder / "build"
        self.arguments = arguments
        self.env = {
            k: v for k, v in os.environ.items() if not k.startswith(("TILE", "CUDA", "CMAKE", "MAKE"))
        }
        self.env["TILEIRAS_CACHE_DIR"] = str(folder / "cache")
        self.source.mkdir()
        for i in range(arguments.kernels):
            self.write(i, 1.0)
        (self.source / "main.c").write_text(program("many/k0", f"many/k{arguments.kernels - 1}"))
        (self.source / "CMakeLists.txt").write_text(LISTS % " ".join(arguments.archs))

    def write(self, number: int, factor: float) -> None:
        (self.source / f"k{number}.tileir").write_text(kernel(f"k{number}", factor + number))

    def run(self, argv: list[str]) -> str:
        done = subprocess.run(argv, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def configure(self) -> None:
        shutil.rmtree(self.build, ignore_errors=True)
        words = [
            str(find_cmake()),
            "-S",
            str(self.source),
            "-B",
            str(self.build),
            "-G",
            self.arguments.generator,
        ]
        words += [f"-DTileiras_DIR={ROOT / 'cmake'}", f"-DTileiras_PYTHON_EXECUTABLE={sys.executable}"]
        words += ["-DCMAKE_BUILD_TYPE=Release"] if "Multi" not in self.arguments.generator else []
        words += [f"-DCMAKE_MAKE_PROGRAM={find_ninja()}"] if "Ninja" in self.arguments.generator else []
        words += [f"-DCMAKE_TILE_BATCH={self.arguments.batch}"] if self.arguments.batch else []
        self.run(words)

    def measure(self, name: str) -> None:
        """Prints one row."""
        words = [str(find_cmake()), "--build", str(self.build), "--config", "Release"]
        words += ["-j", str(self.arguments.jobs)]
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        said = self.run(words)
        real, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        steps = sum("Built target" not in line and line.startswith("[") for line in said.splitlines())
        print(f"{name:9}{steps:6}{real:9.2f}{used:9.2f}{after.ru_maxrss / 1024:8.0f}", flush=True)


def wait_until_idle(most: float) -> None:
    while os.getloadavg()[0] > most:
        print(f"load {os.getloadavg()[0]:.1f}, waiting for {most}", file=sys.stderr)
        time.sleep(10)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=300, help="sources (default 300)")
    parser.add_argument("--archs", nargs="+", default=["80-real", "90-real", "120-real"])
    parser.add_argument("--generator", choices=GENERATORS, default="Ninja")
    parser.add_argument(
        "--batch", default="", help="CMAKE_TILE_BATCH: a number of sources, or OFF (default: chosen by CMake)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--load", type=float, metavar="L", help="wait until the load average is below L")
    arguments = parser.parse_args()
    if arguments.kernels < 2:
        parser.error("--kernels takes 2 and more")
    if arguments.load is not None:
        wait_until_idle(arguments.load)
    with tempfile.TemporaryDirectory(prefix="tileiras-steps-") as folder:
        project = Project(Path(folder), arguments)
        print(
            f"{arguments.kernels} kernels by {len(arguments.archs)}, {arguments.generator}, -j{arguments.jobs}"
        )
        print(f"{'':9}{'steps':>6}{'real s':>9}{'cpu s':>9}{'MB':>8}")
        project.configure()
        project.measure("cold")
        project.configure()
        project.measure("cached")
        project.measure("null")
        (project.source / "k1.tileir").touch()
        project.measure("touched")
        project.write(1, 0.5)
        project.measure("edited")
    return 0


if __name__ == "__main__":
    sys.exit(main())
