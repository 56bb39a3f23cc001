"""Compile time and register spills over growing tiles, ours beside NVIDIA's own assembler.

    python benchmarks/tile_sizes.py [--nvidia TOOL | --alone] [--gpu-name sm_90] [--family F ...] [--log2 8 20 2]
                                    [--limit 120] [--json FILE]
    python benchmarks/tile_sizes.py --matmul [--gpu-name sm_80 ...] [--elem f16 ...] [--json FILE]

The first form compiles kernels of one pattern (elementwise chain, row softmax, reduction, scan, transpose, gather,
reshape, carried tile, cat, matrix product) on tiles of 2^8, 2^10, ... elements, three shapes each, with this
checkout and with NVIDIA's `tileiras` in turn, as separate processes with the cache off. One row a kernel: processor
seconds of both (user and system, `ptxas` included, so that other work on the machine does not count), the ratio,
lines of PTX, registers, spilled bytes. A command that took longer than `--limit` seconds of real time is not asked
for larger tiles of that shape.

The second form compiles matrix products over a grid of tile shapes and element types and adds what `ptxas` says of
spills. NVIDIA's assembler prints no statistics: its registers and stack bytes are read from its cubin.

Both forms write their kernels as text, so that they need no frontend; nothing is run. Absolute seconds are for
reading down one table; only the ratio may be compared between machines.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks")]

from compile_time import Failure, find_nvidia, our_command, run_once  # noqa: E402
from tile_text import (  # noqa: E402
    Shape,
    carried,
    elementwise,
    gather,
    joined,
    matmul,
    prefix,
    reduction,
    reshaped,
    softmax,
    transpose,
)

# ---- families: log2 of elements -> (shape name, text) of up to three kernels
Variants = Iterator[tuple[str, str]]


def _named(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _square(log2: int) -> Shape:
    return 1 << (log2 + 1) // 2, 1 << log2 // 2


def families() -> dict[str, Callable[[int], Variants]]:
    """Name -> generator of kernels for a size. Every kernel of a family has the same order of shapes."""

    def simple(make: Callable[[Shape], str]) -> Callable[[int], Variants]:
        def go(log2: int) -> Variants:
            for shape in ((1 << log2,), _square(log2), (1 << log2 - 4, 16)):
                yield _named(shape), make(shape)

        return go

    def softmaxes(log2: int) -> Variants:
        for shape in ((1, 1 << log2), (4, 1 << log2 - 2), (1 << log2 // 2, 1 << (log2 + 1) // 2)):
            yield _named(shape), softmax(shape)

    def folds(make: Callable[[Shape, int], str]) -> Callable[[int], Variants]:
        def go(log2: int) -> Variants:
            for shape, dim in (((1 << log2,), 0), (_square(log2), 0), (_square(log2), 1)):
                yield f"{_named(shape)} dim {dim}", make(shape, dim)

        return go

    def transposes(log2: int) -> Variants:
        for shape, order in (
            (_square(log2), (1, 0)),
            ((1 << log2 - 4, 16), (1, 0)),
            ((4, *_square(log2 - 2)), (2, 0, 1)),
        ):
            yield f"{_named(shape)} {list(order)}", transpose(shape, order)

    def reshapes(log2: int) -> Variants:
        line = (1 << log2,)
        for source, target in (
            (line, (2, 1 << log2 - 1)),
            (_square(log2), line),
            (_square(log2), (1 << log2 - 4, 16)),
        ):
            yield f"{_named(source)} to {_named(target)}", reshaped(source, target)

    def cats(log2: int) -> Variants:
        for shape, dim in (((1 << log2,), 0), (_square(log2), 0), (_square(log2), 1)):
            yield f"{_named(shape)} dim {dim}", joined(shape, dim)

    def products(log2: int) -> Variants:
        m, n = _square(log2)
        for depth in (32, 64, 128):
            yield f"{m}x{n}x{depth}", matmul(m, n, depth, "f16")

    return {
        "elementwise": simple(elementwise), "softmax": softmaxes, "reduce": folds(reduction), "scan": folds(prefix),
        "transpose": transposes, "gather": simple(gather), "reshape": reshapes, "carried": simple(carried),
        "cat": cats, "matmul": products,
    }  # fmt: skip


# ---- measuring
def processor_seconds() -> float:
    """Of all child processes so far, user and system."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command: list[str], source: Path, gpu_name: str, output: Path, limit_s: float) -> float:
    """Processor seconds of one compile: other work on the machine does not count. Errors: Failure."""
    before = processor_seconds()
    run_once(command, source, gpu_name, output, limit_s)
    return processor_seconds() - before


def compile_ours(
    command: list[str], source: Path, gpu_name: str, folder: Path, limit_s: float
) -> dict[str, object]:
    """One row: seconds, PTX lines, registers, spilled bytes, threads; or `failed`."""
    ptx, table = folder / "ours.ptx", folder / "ours.json"
    more = ["--ptx-output", str(ptx), "--kernels-json", str(table)]
    try:
        seconds = timed([*command, *more], source, gpu_name, folder / "ours.cubin", limit_s)
    except Failure as failure:
        return {"failed": str(failure)}
    kernel = json.loads(table.read_text())["kernels"][0]
    return {
        "s": round(seconds, 3), "lines": ptx.read_text().count("\n"), "threads": kernel["block"][0],
        "registers": kernel["registers"], "spill_bytes": kernel["spill_bytes"],
    }  # fmt: skip


def compile_nvidia(tool: str, source: Path, gpu_name: str, folder: Path, limit_s: float) -> dict[str, object]:
    """One row: seconds, registers, stack bytes (it prints no spills), threads; or `failed`."""
    from tileiras.toolchain.cubin import read_cubin

    output = folder / "nvidia.cubin"
    try:
        seconds = timed([tool], source, gpu_name, output, limit_s)
    except Failure as failure:
        return {"failed": str(failure)}
    kernel = next(iter(read_cubin(output.read_bytes()).kernels.values()))
    return {
        "s": round(seconds, 3), "threads": (kernel.block or (0,))[0], "registers": kernel.registers,
        "stack_bytes": kernel.stack_bytes,
    }  # fmt: skip


def measure(
    text: str, gpu_name: str, options: argparse.Namespace, folder: Path, skip: set[str]
) -> dict[str, object]:
    """Both compilers on one kernel, `--repeats` times in turn; the fastest run of each counts."""
    import tileiras

    source = folder / "k.tilebc"
    source.write_bytes(tileiras.load(text).to_bytecode(version="13.1"))
    row: dict[str, object] = {}
    for who in ("nvidia", "ours"):
        if who in skip or (who == "nvidia" and not options.nvidia):
            continue
        best: dict[str, object] = {}
        for _ in range(options.repeats):
            if who == "ours":
                found = compile_ours(options.ours, source, gpu_name, folder, options.limit)
            else:
                found = compile_nvidia(options.nvidia, source, gpu_name, folder, options.limit)
            if not best or "failed" in found or found["s"] < best["s"]:  # type: ignore[operator]
                best = found
            if "failed" in found:
                break
        row[who] = best
    ours, nvidia = row.get("ours"), row.get("nvidia")
    if isinstance(ours, dict) and isinstance(nvidia, dict) and "s" in ours and "s" in nvidia:
        row["ratio"] = round(ours["s"] / nvidia["s"], 2)
    return row


def spell(row: dict[str, object]) -> str:
    """One line of the table."""
    out = []
    for who, fields in (("ours", ("lines", "threads", "registers", "spill_bytes")),
                        ("nvidia", ("threads", "registers", "stack_bytes"))):  # fmt: skip
        found = row.get(who)
        if not isinstance(found, dict):
            out.append(f"{who} -")
        elif "failed" in found:
            out.append(f"{who} {found['failed']}")
        else:
            out.append(f"{who} {found['s']:.2f} s (" + ", ".join(f"{f} {found[f]}" for f in fields) + ")")
    return f"{row.get('ratio', '-')!s:>6}  {'; '.join(out)}"


def run_sizes(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    rows = []
    first, last, step = options.log2
    for gpu_name in options.gpu_name:
        for family, make in families().items():
            if options.family and family not in options.family:
                continue
            slow: dict[int, set[str]] = {}
            for log2 in range(first, last + 1, step):
                if family == "matmul" and log2 > 16:  # accumulators beyond the register file of one SM
                    continue
                for i, (shape, text) in enumerate(make(log2)):
                    row = measure(text, gpu_name, options, folder, slow.get(i, set()))
                    for who in ("ours", "nvidia"):
                        found = row.get(who)
                        if isinstance(found, dict) and str(found.get("failed", "")).startswith("over"):
                            slow.setdefault(i, set()).add(who)
                    rows.append({"gpu_name": gpu_name, "family": family, "log2": log2, "shape": shape, **row})
                    print(f"{gpu_name:7}{family:12}2^{log2:<3}{shape:22}{spell(row)}", flush=True)
    return rows


def run_matmul(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    rows = []
    for gpu_name in options.gpu_name:
        for elem in options.elem:
            for m, n in ((64, 64), (128, 64), (64, 128), (128, 128), (128, 256), (256, 128), (256, 256)):
                for depth in options.depth:
                    row = measure(matmul(m, n, depth, elem), gpu_name, options, folder, set())
                    shape = f"{m}x{n}x{depth}"
                    rows.append({"gpu_name": gpu_name, "elem": elem, "shape": shape, **row})
                    print(f"{gpu_name:7}{elem:9}{shape:13}{spell(row)}", flush=True)
    return rows


def report(rows: list[dict[str, object]]) -> None:
    """What to look at: ratios above 1, seconds above 5, spills."""
    ratios = sorted(float(r["ratio"]) for r in rows if "ratio" in r)  # type: ignore[arg-type]
    if ratios:
        print(
            f"\n{len(ratios)} compared: geometric mean {statistics.geometric_mean(ratios):.3f}, max {ratios[-1]:.2f}"
        )
    for title, wanted in (
        ("slower than NVIDIA's", lambda r: float(r.get("ratio", 0)) > 1),
        ("ours above 5 s or failed", lambda r: r.get("ours", {}).get("s", 99) > 5 and "ours" in r),
        ("spills", lambda r: r.get("ours", {}).get("spill_bytes", 0) > 0),
    ):
        found = [r for r in rows if wanted(r)]
        print(f"{title}: {len(found)}")
        for r in found:
            print(f"  {r['gpu_name']} {r.get('family', r.get('elem'))} {r['shape']}: {spell(r)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nvidia", default=None, help="NVIDIA's tileiras (default: found)")
    parser.add_argument("--alone", action="store_true", help="measure ours only")
    parser.add_argument("--ours", nargs="+", default=None, help="our command (default: this checkout)")
    parser.add_argument("--gpu-name", nargs="+", default=["sm_90"])
    parser.add_argument("--family", nargs="+", choices=sorted(families()))
    parser.add_argument("--log2", nargs=3, type=int, default=(8, 20, 2), metavar=("FIRST", "LAST", "STEP"))
    parser.add_argument("--matmul", action="store_true", help="the grid of matrix products instead")
    parser.add_argument("--elem", nargs="+", default=["f16", "bf16", "tf32", "f32", "i8", "f8E4M3FN"])
    parser.add_argument("--depth", nargs="+", type=int, default=[32, 64, 128])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one compile")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.nvidia = (
        None if options.alone else options.nvidia or find_nvidia() or shutil.which("nvidia-tileiras")
    )
    options.ours = options.ours or our_command()
    if not options.nvidia and not options.alone:
        print("no NVIDIA tileiras found: pass --nvidia TOOL or --alone", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = (run_matmul if options.matmul else run_sizes)(options, Path(folder))
    report(rows)
    if options.json:
        partial = f"{options.json}.{os.getpid()}.tmp"
        Path(partial).write_text(json.dumps(rows, indent=1))
        os.replace(partial, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
