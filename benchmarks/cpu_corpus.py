"""Speed of the CPU target beside the PTX emulator, over the corpus.

    python benchmarks/cpu_corpus.py [--family F ...] [-k SUBSTR ...] [--least-ms 100] [--part I/N] [--processor-time]
        [--json FILE]

A row is a case whose launch on the emulator takes at least `--least-ms`; both sides are compiled and translated before, by a
launch that is not timed, and the time of the CPU target is the median of fifteen launches. Then the geometric mean and the
smallest of the ratios. Sequential: nothing else should run. On a machine that does other work, --processor-time counts what the
launches used, on all threads together: the CPU target's share of several cores then counts against it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY)]

import tileiras  # noqa: E402
from tests.corpus.case import Case  # noqa: E402
from tests.corpus.export import bytecode_path  # noqa: E402
from tests.corpus.registry import CASES  # noqa: E402
from tileiras.diag import CompileError  # noqa: E402

REPEATS = 15
clock = time.perf_counter


def seconds(case: Case, source: Any, target: str, gpu_name: str) -> float:
    """How long one launch takes, with fresh arguments."""
    flat, memory = case.flat(case.make_values())
    more = {"memory": memory} if memory else {}
    start = clock()
    with contextlib.redirect_stdout(io.StringIO()):
        tileiras.launch(source, case.entry, case.grid, flat, target, gpu_name, **more)
    return clock() - start


def measure(case: Case, gpu_name: str, least: float) -> dict[str, Any] | None:
    """One row; None where the emulator needs less than `least` seconds, or the case is none for this GPU."""
    try:
        program = tileiras.compile(bytecode_path(case), gpu_name=gpu_name, emit="ptx", launch_abi="simt")
        first = seconds(case, program, "emulator", gpu_name)  # with the translation of the PTX
        if first < least:
            return None
        emulator = seconds(case, program, "emulator", gpu_name)
        if emulator < least:
            return None
        module = tileiras.load(bytecode_path(case))
        module.verify()
        seconds(case, module.op, "cpu", gpu_name)
        cpu = statistics.median(seconds(case, module.op, "cpu", gpu_name) for _ in range(REPEATS))
    except CompileError:
        return None
    return {"case": case.name, "emulator_ms": emulator * 1e3, "cpu_ms": cpu * 1e3, "ratio": emulator / cpu}


def main() -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("--family", action="append", default=[])
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--least-ms", type=float, default=100.0)
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every Nth case, from the Ith on")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.processor_time:
        global clock
        clock = time.process_time
    part, parts = map(int, options.part.split("/"))
    rows = []
    cases = [
        case for case in CASES.values()
        if (not options.family or case.family in options.family) and all(k in case.name for k in options.k)
    ]  # fmt: skip
    print(f"{'case':36}{'emulator ms':>13}{'cpu ms':>10}{'ratio':>8}")
    for case in cases[part - 1 :: parts]:
        row = measure(case, options.gpu_name, options.least_ms / 1e3)
        if row is not None:
            rows.append(row)
            print("{case:36}{emulator_ms:13.1f}{cpu_ms:10.3f}{ratio:8.0f}".format(**row), flush=True)
    if rows:
        ratios = sorted(row["ratio"] for row in rows)
        mean = statistics.geometric_mean(ratios)
        print(
            f"{len(rows)} cases: geometric mean {mean:.0f}, smallest {ratios[0]:.1f}, below 10: {sum(r < 10 for r in ratios)}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
