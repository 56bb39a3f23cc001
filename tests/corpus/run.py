"""Runs the corpus and prints a table: `python -m tests.corpus.run [--target reference emulator] [-k softmax]`.

--target reference emulator  which witnesses (default: both); with --compile-only none is run
--gpu-name sm_80 sm_90       targets to compile for (the reference runs once)
--family F, -k SUBSTR, --tag which cases
--tensor-maps launcher       lets kernels take tensor maps (emulator, gpu)
--fail-only                  shows only what did not pass
--limit 60                   seconds for each case
--json FILE                  writes all outcomes; -v shows tracebacks
--nvidia TOOL                instead: does NVIDIA's assembler TOOL accept every module, for each --gpu-name
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.corpus.case import Case
from tests.corpus.check import ERROR, PASS, SKIP, Outcome, arch_number, compile_case, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES, one_per_module


def select(options: argparse.Namespace) -> list[Case]:
    """The cases that the flags name."""
    return [
        c
        for c in CASES.values()
        if all(k in c.name for k in options.k)
        and (not options.family or c.family in options.family)
        and (not options.tag or set(options.tag) & set(c.tags))
        and (not options.frontend or c.frontend == options.frontend)
    ]


def nvidia_case(case: Case, gpu_name: str, tool: str, limit: float) -> Outcome:
    """Whether NVIDIA's assembler accepts a case's module."""
    if arch_number(gpu_name) < case.min_arch:
        return Outcome(case, "nvidia", gpu_name, SKIP, 0.0, f"needs sm_{case.min_arch}")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [tool, str(bytecode_path(case)), "--gpu-name", gpu_name, "-o", str(Path(folder) / "k.cubin")],
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return Outcome(case, "nvidia", gpu_name, "timeout", limit, f"over {limit:g} s")
    seconds = time.perf_counter() - start
    if done.returncode == 0:
        return Outcome(case, "nvidia", gpu_name, PASS, seconds)
    first = (done.stderr.strip().splitlines() or [""])[0]
    return Outcome(
        case, "nvidia", gpu_name, ERROR, seconds, f"status {done.returncode}: {first}", done.stderr
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument(
        "--target",
        nargs="+",
        default=["reference", "emulator"],
        choices=["reference", "emulator", "cpu", "gpu"],
    )
    parser.add_argument("--gpu-name", nargs="+", default=["sm_90"])
    parser.add_argument("--family", nargs="+")
    parser.add_argument("--tag", nargs="+")
    parser.add_argument("--frontend", choices=["python", "cpp", "writer"])
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--tensor-maps", choices=["none", "launcher"], default="none")
    parser.add_argument("--nvidia", metavar="TOOL")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--fail-only", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("-v", action="store_true")
    options = parser.parse_args(argv)
    cases = select(options)
    if not cases:
        print("no case matches", file=sys.stderr)
        return 1
    if options.list:
        for case in cases:
            print(f"{case.name:36} {case.family:14} {case.frontend:6} {case.version} grid={case.grid}")
        print(len(cases), "cases")
        return 0
    jobs = []
    for case in one_per_module(cases) if options.nvidia or options.compile_only else cases:
        if options.nvidia:
            jobs += [(nvidia_case, (case, gpu, options.nvidia)) for gpu in options.gpu_name]
        elif options.compile_only:
            jobs += [(compile_case, (case, gpu)) for gpu in options.gpu_name]
        else:
            for target in options.target:
                compiled = target in ("emulator", "gpu")
                more = {"tensor_maps": options.tensor_maps} if compiled else {}
                gpus = options.gpu_name if target not in ("reference", "cpu") else options.gpu_name[:1]
                jobs += [(functools.partial(launch_case, **more), (case, target, gpu)) for gpu in gpus]
    outcomes: list[Outcome] = []
    try:
        for function, arguments in jobs:
            outcome = function(*arguments, limit=options.limit)
            outcomes.append(outcome)
            if options.fail_only and outcome.word in (PASS, SKIP):
                continue
            print(
                f"{outcome.word:7} {outcome.seconds:6.2f}s {outcome.case.name:34} {outcome.target:9} "
                f"{outcome.gpu_name:6} {outcome.reason}",
                flush=True,
            )
            if options.v and outcome.detail:
                print(outcome.detail, flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    summarise(outcomes)
    if options.json:
        partial = f"{options.json}.{os.getpid()}.tmp"
        Path(partial).write_text(json.dumps([o.as_dict() for o in outcomes], indent=1))
        os.replace(partial, options.json)
    return 0 if all(o.word in (PASS, SKIP) for o in outcomes) else 1


def summarise(outcomes: list[Outcome]) -> None:
    """Prints counts per target and family, and the most frequent reasons."""
    print()
    keys = sorted({(o.target, o.gpu_name) for o in outcomes})
    for target, gpu in keys:
        mine = [o for o in outcomes if (o.target, o.gpu_name) == (target, gpu)]
        words = collections.Counter(o.word for o in mine)
        print(
            f"{target} {gpu}: "
            + ", ".join(f"{n} {w}" for w, n in words.most_common())
            + f", {sum(o.seconds for o in mine):.1f} s"
        )
        short = [
            (
                f,
                sum(o.word == PASS for o in mine if o.case.family == f),
                sum(o.case.family == f for o in mine),
            )
            for f in dict.fromkeys(o.case.family for o in mine)
        ]
        print("   " + "  ".join(f"{f} {p}/{n}" for f, p, n in short))
    reasons = collections.Counter(o.reason for o in outcomes if o.word == ERROR)
    for reason, count in reasons.most_common(8):
        if count > 1:
            print(f"   {count:3} x {reason[:160]}")


if __name__ == "__main__":
    sys.exit(main())
