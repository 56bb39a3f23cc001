#!/usr/bin/env python3
"""Runs cuTile Python's own tests on a machine without a GPU, and lists what does not pass and whose fault it is.

    python scripts/cutile_suite.py CHECKOUT [--target cpu] [--jobs 2] [-o report.txt] [test/test_mma.py ...]

CHECKOUT is a checkout of the public repository; nothing of it is stored here. The interpreter (--python) needs cuda-tile,
PyTorch (a build without CUDA will do), pytest, pytest-benchmark, pytest-env and `tileiras[cpu]`; where the first ptxas on PATH
is older than 13.2, tests of newer bytecode are skipped. One process a test file, so that a crash costs one file; a time limit for
each test. The rules that name whose fault it is read the message of the failure: what no rule knows is ours.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

RECORD, LIMIT = "CUTILE_SUITE_RECORD", "CUTILE_SUITE_LIMIT"
DEFAULT_LIMIT_S = 30
FILE_LIMIT_S = 1800
LAST_WORDS = 1500  # characters of a process that ended early
OURS = "ours"
# (whose fault, why, what its message has), first match counts
RULES: tuple[tuple[str, str, str], ...] = (
    ("time limit", "slower than the limit of a test", r"TimeLimit|ended with -1:"),
    (
        "needs a GPU",
        "CUDA graphs, timing, IPC, tools of the driver",
        r"CUDAGraph|cuda\.graph|nvidia-smi|cuGraph|cuIpc|not on a CUDA device|Timed benchmark worker",
    ),
    (
        "needs a GPU",
        "PyTorch's or Triton's code for CUDA",
        r"Torch not compiled with CUDA|_cuda_|triton|cudart|NVIDIA driver",
    ),
    (
        "test environment",
        "a package that the tests want is missing",
        r"ModuleNotFoundError|fixture '.*' not found",
    ),
    ("test environment", "ptxas is older than 13.2", r"cannot mark the kernels of --launch-abi=tile"),
    ("test environment", "NVIDIA's assembler is missing", r"'tileiras' compiler not found|tileirdisasm"),
    (
        "other release",
        "tests and cuda-tile differ",
        r"has no attribute|cannot import name|unexpected keyword|Expected compile\(\) to return"
        r"|benchmark_with_timeout\(\) missing|fake_benchmark\(\) takes|CompilerExecutionError.__init__\(\) missing"
        r"|DebugAttrTable.__init__\(\) missing|AttributeError: F8|TypeCheckingError"
        r"|Actual message: '(num_worker_warps should|Returning from a for loop)",
    ),
    (
        "no launch",
        "an image that cuTile's private functions assembled outside of a launch",
        r"the image was not made for this run",
    ),
    (
        "host library",
        "PyTorch lacks the operation on the CPU",
        r"not implemented for|\" not implemented|NotImplementedError: .*CPU",
    ),
    (
        "rounding",
        "few elements differ a little from PyTorch on the CPU",
        r"Mismatched elements: \d+ / \d+ \(0\.\d%\)",
    ),
    (
        "rounding",
        "PyTorch's sqrt, rsqrt, log, cos and tan on the CPU are up to a unit in the last place of float32 off",
        r"Greatest relative difference: (1\.[01]\d*e-07|\d[.\d]*e-(0[89]|[1-9]\d))",
    ),
)


STARTED: list[float] = []  # processor seconds at which the present test began


class TimeLimit(Exception):
    """A test ran longer than it may."""


def processor_seconds() -> float:
    """Of this process and of those that it started and that ended."""
    return sum(os.times()[:4])


# ---- inside pytest (-p cutile_suite)


def pytest_runtest_setup(item: Any) -> None:
    """Start the clocks of a test."""
    STARTED[:] = [processor_seconds()]

    def stop(_signal: int, _frame: Any) -> None:
        raise TimeLimit(f"{item.nodeid}: longer than {os.environ[LIMIT]} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ[LIMIT]))


def pytest_runtest_logreport(report: Any) -> None:
    """Add a line to the record for each test that ended, and for each part of one that failed."""
    if report.when == "call" or report.outcome != "passed":
        text = report.longreprtext if report.outcome == "failed" else ""
        said = [line[2:].strip() for line in text.splitlines() if line.startswith("E ")]
        if "CalledProcessError" in text:  # of a process that the test started
            said += report.capstderr.strip().splitlines()[-1:]
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            said = [str(report.longrepr[2])]  # path, line, reason
        add_record(
            test=report.nodeid,
            outcome=report.outcome,
            said="\n".join(said[:12]) or text[-400:],
            seconds=round(report.duration, 3),
            processor_seconds=round(processor_seconds() - STARTED[-1] if STARTED else 0.0, 3),
        )


def pytest_runtest_teardown() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported is one failure."""
    if report.outcome == "failed":
        add_record(test=report.nodeid, outcome="failed", said=report.longreprtext[-1500:])


def add_record(**facts: str | float) -> None:
    if RECORD in os.environ:
        with open(os.environ[RECORD], "a", encoding="utf-8") as out:
            out.write(json.dumps(facts) + "\n")


# ---- outside


def blame(said: str) -> tuple[str, str]:
    """(whose fault, why) of a failure's message."""
    for whose, why, pattern in RULES:
        if re.search(pattern, said):
            return whose, why
    return OURS, "to be looked at"


def run_file(file: Path, options: argparse.Namespace, folder: Path) -> list[dict[str, str]]:
    """What the tests of one file ended with."""
    record = folder / (file.stem + ".jsonl")
    record.unlink(missing_ok=True)
    words = [options.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tileiras.pytest", "-p", "cutile_suite",
             f"--tileiras-target={options.target}", f"--tileiras-gpu-name={options.gpu_name}", "--tileiras-map-cuda",
             *(["-k", options.k] if options.k else []), str(file)]  # fmt: skip
    scripts = Path(__file__).resolve().parent
    # What an installed package's .pth file does for processes that a test starts.
    (folder / "sitecustomize.py").write_bytes((scripts / "tileiras_cutile.pth").read_bytes())
    path = [str(folder), str(scripts), str(scripts.parent), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        RECORD: str(record),
        LIMIT: str(options.limit_s),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        # behind everything else: this package's assembler, for tests that ask cuTile for one
        "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)]),
    }
    with open(folder / (file.stem + ".log"), "w") as log:
        try:
            code = subprocess.run(
                words, cwd=options.checkout, env=env, stdout=log, stderr=log, timeout=options.file_limit_s
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    if code not in (0, 1, 5) and not any(
        row["outcome"] == "failed" and row["test"] == str(file) for row in rows
    ):
        why = f"the process of the file ended with {code}: see {log.name}"
        if code > 0:  # pytest itself gave up and said why; after a crash the log has only the names of tests
            why += "\n" + Path(log.name).read_text(errors="replace")[-LAST_WORDS:]
        rows.append({"test": str(file), "outcome": "failed", "said": why})
    return rows


def write_report(rows: list[dict[str, str]], options: argparse.Namespace, seconds: float) -> str:
    """Totals, then every failure under whose fault it is, then why tests were skipped."""
    counts = Counter(row["outcome"] for row in rows)
    lines = [
        f"target {options.target}, {len(rows)} tests in {seconds:.0f} s: "
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    ]
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        if row["outcome"] == "failed":
            groups.setdefault(blame(row["said"]), []).append(row)
    for (whose, why), found in sorted(groups.items(), key=lambda item: -len(item[1])):
        lines += ["", f"{whose}: {why} ({len(found)})"]
        for row in found:
            first = next((line for line in row["said"].splitlines() if line.strip()), "")
            lines.append(f"  {row['test']}: {first[:160]}")
    why_skipped = Counter(
        row["said"].removeprefix("Skipped: ") for row in rows if row["outcome"] == "skipped"
    )
    lines += ["", *(f"skipped: {why[:160]} ({n})" for why, n in why_skipped.most_common())]
    return "\n".join(lines) + "\n"


def main() -> int:
    """0 when nothing of ours failed, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("checkout", type=Path)
    add("files", nargs="*", type=Path, help="test files, relative to the checkout (default: test/test_*.py)")
    add("--target", default="cpu")
    add("--gpu-name", default="sm_100")
    add("--python", default=sys.executable)
    add("--limit-s", type=float, default=DEFAULT_LIMIT_S, help="seconds for one test")
    add("--file-limit-s", type=float, default=FILE_LIMIT_S, help="seconds for one file")
    add("--jobs", type=int, default=os.cpu_count() or 1)
    add("-k", default="", help="as of pytest")
    add("-o", "--output", type=Path, default=Path("cutile_suite.txt"))
    options = parser.parse_intermixed_args()
    if not (options.checkout / "test").is_dir():
        print(f"cutile_suite: '{options.checkout}' has no folder test", file=sys.stderr)
        return 2
    names = sorted((options.checkout / "test").glob("test_*.py"))
    files = options.files or [name.relative_to(options.checkout) for name in names]
    folder = options.output.resolve().with_suffix(".logs")
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for file, found in zip(files, pool.map(lambda one: run_file(one, options, folder), files)):
            rows += found
            told = Counter(row["outcome"] for row in found)
            print(f"{file}: " + ", ".join(f"{n} {what}" for what, n in told.items()), flush=True)
    report = write_report(rows, options, time.monotonic() - start)
    options.output.write_text(report, encoding="utf-8")
    print(report.splitlines()[0])
    return int(any(row["outcome"] == "failed" and blame(row["said"])[0] == OURS for row in rows))


if __name__ == "__main__":
    sys.exit(main())
