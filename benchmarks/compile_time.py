"""Cold compile time of the corpus as a ratio to NVIDIA's own assembler, measured in one run.

    python benchmarks/compile_time.py [--nvidia TOOL] [--ours CMD ...] [--gpu-name sm_90] [--repeats 5]
                                      [--family F ...] [-k SUBSTR] [--json FILE] [--every N]

For each kernel both commands run in turn, as separate processes, `--repeats` times, in an order that alternates;
the compile cache is off. The ratio of a kernel is the median of ours over the median of NVIDIA's. At the end: the
geometric mean, the quartiles, the worst kernels, and the start-up of each command. Ratios, never absolute times,
are what one may compare between machines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from tests.corpus.case import Case  # noqa: E402
from tests.corpus.check import arch_number  # noqa: E402
from tests.corpus.export import bytecode_path  # noqa: E402
from tests.corpus.registry import CASES  # noqa: E402


def find_nvidia() -> str | None:
    """NVIDIA's `tileiras` in this environment, or among the peers."""
    for root in sys.path:
        tool = Path(root) / "nvidia" / "cu13" / "bin" / "tileiras"
        if tool.exists():
            return str(tool)
    import peers

    found = peers.tool("tileiras")
    return str(found) if found else None


def our_command() -> list[str]:
    """The checkout's command, started as the installed script starts it (no site, isolated)."""
    start = f"import gc, sys; gc.set_threshold(100_000); sys.path.insert(0, {str(REPOSITORY)!r}); from tileiras.cli import main; "
    start += "status = main(sys.argv[1:]); gc.freeze(); sys.exit(status)"
    return [sys.executable, "-I", "-S", "-c", start]


class Failure(Exception):
    """A command did not produce an output; the text says why."""


def run_once(command: list[str], source: Path, gpu_name: str, output: Path, limit_s: float) -> float:
    """Seconds of one compile. Errors: Failure."""
    output.unlink(missing_ok=True)
    environment = {**os.environ, "TILEIRAS_CACHE": "0"}
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, str(source), "--gpu-name", gpu_name, "-o", str(output)],
            capture_output=True,
            text=True,
            timeout=limit_s,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"over {limit_s:g} s") from None
    seconds = time.perf_counter() - start
    if done.returncode or not output.exists():
        lines = done.stderr.strip().splitlines() or ["no text"]
        raise Failure(f"status {done.returncode}: {lines[0][:120]}")
    return seconds


def start_up(command: list[str], repeats: int) -> float:
    """Median seconds of `--version`."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([*command, "--version"], capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(case: Case, options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """One row: medians, ratio, or the reason that there is none."""
    commands = {"ours": options.ours, "nvidia": [options.nvidia]}
    times: dict[str, list[float]] = {"ours": [], "nvidia": []}
    row: dict[str, object] = {"case": case.name, "family": case.family}
    try:
        for turn in range(options.repeats):
            for who in ("ours", "nvidia") if turn % 2 else ("nvidia", "ours"):
                output = folder / f"{who}.cubin"
                times[who].append(
                    run_once(commands[who], bytecode_path(case), options.gpu_name, output, options.limit)
                )
    except Failure as failure:
        return {**row, "failed": who, "reason": str(failure)}
    ours, nvidia = (statistics.median(times[who]) for who in ("ours", "nvidia"))
    return {**row, "ours_s": round(ours, 4), "nvidia_s": round(nvidia, 4), "ratio": round(ours / nvidia, 3)}


def report(rows: list[dict[str, object]], options: argparse.Namespace) -> dict[str, object]:
    """Prints the summary and returns it."""
    good = [r for r in rows if "ratio" in r]
    failed = [r for r in rows if "failed" in r]
    summary: dict[str, object] = {"gpu_name": options.gpu_name, "measured": len(good), "failed": len(failed)}
    for row in failed:
        print(f"failed  {row['case']:34} {row['failed']}: {row['reason']}")
    if good:
        ratios = sorted(float(r["ratio"]) for r in good)  # type: ignore[arg-type]
        summary["geomean"] = round(math.exp(statistics.fmean(map(math.log, ratios))), 3)
        summary["max"] = ratios[-1]
        summary["quartiles"] = (
            [round(q, 3) for q in statistics.quantiles(ratios, n=4)] if len(ratios) > 1 else ratios
        )
        print("\nworst:")
        for row in sorted(good, key=lambda r: -float(r["ratio"]))[:10]:  # type: ignore[arg-type]
            print(
                f"  {row['ratio']:6.2f}  {row['case']:34} {row['ours_s']:.3f} s against {row['nvidia_s']:.3f} s"
            )
    ours, nvidia = start_up(options.ours, options.repeats), start_up([options.nvidia], options.repeats)
    summary["startup_ratio"] = round(ours / nvidia, 3)
    print("\n" + ", ".join(f"{k} {v}" for k, v in summary.items()))
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nvidia", default=None, help="NVIDIA's tileiras (default: found)")
    parser.add_argument("--ours", nargs="+", default=None, help="our command (default: this checkout)")
    parser.add_argument("--gpu-name", default="sm_90")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one compile")
    parser.add_argument("--family", nargs="+")
    parser.add_argument("-k", default="")
    parser.add_argument("--every", type=int, default=1, help="take each N-th kernel only")
    parser.add_argument("--ops", action="store_true", help="the single-op modules too")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.nvidia = options.nvidia or find_nvidia() or shutil.which("nvidia-tileiras")
    options.ours = options.ours or our_command()
    if not options.nvidia:
        print("no NVIDIA tileiras found: pass --nvidia TOOL", file=sys.stderr)
        return 2
    cases = [
        c
        for c in CASES.values()
        if options.k in c.name
        and (not options.family or c.family in options.family)
        and (options.ops or options.family or c.frontend != "writer")
        and c.min_arch <= arch_number(options.gpu_name)
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases[:: options.every]:
            row = measure(case, options, Path(folder))
            rows.append(row)
            print(f"{row.get('ratio', 'failed')!s:>7}  {case.name}", flush=True)
    summary = report(rows, options)
    if options.json:
        partial = f"{options.json}.{os.getpid()}.tmp"
        Path(partial).write_text(json.dumps({"summary": summary, "rows": rows}, indent=1))
        os.replace(partial, options.json)
    return 1 if summary["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
