"""What verification of ops when they are made costs (layer 1): share of the time from Tile IR to PTX, and of a whole compile.

    python benchmarks/verification_cost.py [--gpu-name sm_90] [--every N] [--repeats 7] [-k SUBSTR]

Each kernel is compiled several times in forked processes that have loaded nothing of the compiler and load it as the command
does. The processor's clock is read in front of every check and behind it, which cuts a compile into the same intervals each
time, and of each interval the shortest counts, less what a reading costs: other work on the machine makes some repeats of an
interval longer, and hardly all. Prints the share of the checks, the first ones of a process with what they load, in the sum over
all kernels, and quartiles of the kernels' own shares; then their share of the command from bytecode to cubin, the start of the
interpreter and ptxas included, by the shortest processor time of as many runs.
"""

from __future__ import annotations

import argparse
import array
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

READINGS = 50  # one behind the other, for what one costs
REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY)]

from tests.fixtures import BYTECODE  # noqa: E402


def moments(data: bytes, gpu_name: str) -> array.array[float]:
    """CPU seconds of a child that begins with nothing: before a compile (READINGS times), around each check, behind."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            from tileiras import modules

            modules.install()
            from tileiras.compiler import pipeline
            from tileiras.compiler.ir import build, verify
            from tileiras.compiler.source import load
            from tileiras.compiler.target import sm
            from tileiras.diag import Sink

            check, now, found = verify.check_op, time.process_time, array.array("d")

            def timed(op: object) -> None:
                found.append(now())
                check(op)  # type: ignore[arg-type]
                found.append(now())

            build.check_op = timed
            for _ in range(READINGS):
                found.append(now())
            sink = Sink()
            module = load(data, sink)
            verify.verify(module, sink)
            pipeline.compile_module(module, sm.find(gpu_name), sink)
            found.append(now())
            with os.fdopen(write, "wb") as result:
                result.write(found.tobytes())
        finally:
            os._exit(0)
    os.close(write)
    found = array.array("d")
    with os.fdopen(read, "rb") as pipe:
        found.frombytes(pipe.read())
    os.waitpid(child, 0)
    return found


def measure(file: Path, gpu_name: str, repeats: int) -> tuple[float, float, int]:
    """Seconds of checks and of a whole compile, and how many checks there are."""
    data = file.read_bytes()
    moments(data, gpu_name)
    runs = [moments(data, gpu_name) for _ in range(repeats)]
    if len({len(run) for run in runs}) != 1 or not runs[0]:
        return 0.0, 0.0, 0
    every = [min(run[i + 1] - run[i] for run in runs) for i in range(len(runs[0]) - 1)]
    reading = statistics.median(every[: READINGS - 1])
    intervals = [max(seconds - reading, 0.0) for seconds in every[READINGS - 1 :]]
    return sum(intervals[1::2]), sum(intervals), len(intervals) // 2


def command(file: Path, gpu_name: str, repeats: int) -> float:
    """Processor seconds of the command from bytecode to cubin, all child processes included."""
    best = float("inf")
    words = [sys.executable, "-m", "tileiras", os.fspath(file), f"--gpu-name={gpu_name}", "-o", os.devnull]
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=True, env={**os.environ, "TILEIRAS_CACHE": "0"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--every", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    files = sorted(BYTECODE.glob("*.tilebc"))
    files = [file for file in files if options.k in file.name][:: options.every]
    sys.dont_write_bytecode = False
    done = [(file, measure(file, options.gpu_name, options.repeats)) for file in files]
    done = [(file, row) for file, row in done if row[2]]
    rows = [row for _, row in done]
    compiles = sum(command(file, options.gpu_name, options.repeats) for file, _ in done)
    checks, whole, count = (sum(column) for column in zip(*rows))
    quartiles = statistics.quantiles([row[0] / row[1] for row in rows], n=4)
    print(
        f"{len(rows)} kernels on {options.gpu_name}: {checks / whole:.2%} of {whole * 1e3 / len(rows):.1f} ms, "
        f"{checks * 1e6 / count:.1f} us a check; quartiles {', '.join(f'{q:.2%}' for q in quartiles)}"
    )
    print(
        f"of the command from bytecode to cubin: {checks / compiles:.2%} of {compiles * 1e3 / len(rows):.1f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
