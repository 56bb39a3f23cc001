"""The machine code of production-size kernels, ours beside NVIDIA's from the same bytecode, without a GPU.

    python benchmarks/code_quality.py [--target 80 90 100 120] [-k SUBSTR ...] [--set standard|full|unproven] [--ours-only]
                                      [--terms] [--json FILE] [--corpus] [--compare BASE.json] [--jobs N]
                                      [--option NAME=VALUE ...]

One table a target. Cells are ours/NVIDIA's: registers, bytes spilled (of all stores to local
memory in the code) and of the stack frame, shared memory in KB, threads, blocks that reside on
an SM; then the hot loop, that is the innermost loop with the most tensor work: instructions, barriers, stores to and loads
from shared memory, other instructions for each 4096-flop MMA, whether it is fed, bytes in flight, and the modelled share of
the tensor peak (tileiras/report/model.py). Memory-bound kernels: instructions an element. Below, the geometric mean of
ours over NVIDIA's. `--terms` prints every term of the model, and how much of the loop's flops the target's own tensor
instructions carry and of its bytes asynchronous copies; `--corpus` measures the corpus kernels too.

`--compare BASE.json` prints what got worse against an earlier `--json`: issued instructions, barriers, spills, resident
blocks, and the modelled share, and behind "for" what was gained by it; exit code 1 where anything got worse. `--option`
goes to our compile (launch_abi=simt tensor_maps=launcher). NVIDIA's images and exported bytecode are cached by content in
$TILEIRAS_QUALITY_CACHE, else .cache/quality; our compile is never cached.

"Fed" is read from the code here: asynchronous copies in the loop with a wait that leaves a group unfinished, or behind an
mbarrier with at least two steps' shared memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path[:0] = [p for p in (str(Path(__file__).resolve().parent),) if p not in sys.path]

import production  # noqa: E402
from exports import ExportError, bytecode, cache_folder, digest, keep  # noqa: E402
from hot_loop import MeasureError, Row, measure  # noqa: E402
from production import Production, Stream  # noqa: E402

from tileiras.report.model import GPUS, geometric_mean  # noqa: E402

Job = tuple[Production | str, int, bool, dict[str, Any]]
SLOWER = 1.02  # less than this is noise of instruction selection


# ---- images
def our_image(data: bytes, target: int, options: dict[str, Any] | None = None) -> tuple[bytes, int] | str:
    """The cubin of this checkout's compiler and the bytes of shared memory that a launch adds, or why there is none."""
    import tileiras

    before = os.environ.get("TILEIRAS_CACHE")
    os.environ["TILEIRAS_CACHE"] = "0"
    try:
        program = tileiras.compile(data, gpu_name=f"sm_{target}", **{"launch_abi": "tile", **(options or {})})
        return program.cubin, next(iter(program.kernels.values())).dynamic_shared
    except tileiras.CompileError as error:
        return f"{str(error).strip()[:160]}"
    finally:
        if before is None:
            del os.environ["TILEIRAS_CACHE"]
        else:
            os.environ["TILEIRAS_CACHE"] = before


def nvidia_image(data: bytes, target: int) -> bytes | str:
    """The cubin of NVIDIA's assembler, from the cache where it has compiled these bytes before, or why there is none."""
    import peers

    tool = peers.tool("tileiras")
    if tool is None:
        return "NVIDIA's tileiras is not installed: python tests/peers.py install"
    key = digest(f"tileiras {peers.MAIN_RELEASE} {tool.stat().st_size} sm_{target}", data)
    image, refusal = cache_folder() / f"{key}.cubin", cache_folder() / f"{key}.refused"
    if image.exists():
        return image.read_bytes()
    if refusal.exists():
        return refusal.read_text()
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "k.tilebc", Path(folder) / "k.cubin"
        source.write_bytes(data)
        words = [str(tool), str(source), "--gpu-name", f"sm_{target}", "-o", str(output)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=folder)
        except subprocess.TimeoutExpired:
            return "over 600 s"
        if done.returncode or not output.exists():
            text = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0][:160]
            keep(refusal, text.encode())
            return text
        keep(image, output.read_bytes())
    return image.read_bytes()


# ---- measuring
def one(job: Job) -> list[Row]:
    """The rows of one kernel on one target: ours, and NVIDIA's where asked."""
    kernel, target, both, options = job
    name = kernel if isinstance(kernel, str) else kernel.name
    work = None if isinstance(kernel, str) else kernel.work
    kind = "corpus" if work is None else "stream" if isinstance(work, Stream) else "tensor"
    head: Row = {"kernel": name, "target": target, "kind": kind}
    try:
        data = bytecode(kernel) if isinstance(kernel, Production) else _corpus_bytecode(kernel)
    except (ExportError, OSError) as error:
        return [{**head, "who": "ours", "problem": str(error)}]
    rows = []
    for who in ("ours", "nvidia"):
        if who == "nvidia" and not both:
            continue
        image = our_image(data, target, options) if who == "ours" else nvidia_image(data, target)
        dynamic = 0
        if isinstance(image, tuple):
            image, dynamic = image
        if isinstance(image, str):
            rows.append({**head, "who": who, "problem": image})
            continue
        try:
            rows.append({**head, "who": who, **measure(image, work, target, dynamic)})
        except MeasureError as error:
            rows.append({**head, "who": who, "problem": str(error)})
    return rows


def _corpus_bytecode(name: str) -> bytes:
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    return bytecode_path(CASES[name]).read_bytes()


def chosen(options: argparse.Namespace) -> list[Job]:
    """The jobs of a call: kernel or name of a corpus case, target, whether NVIDIA's too, options of our compile."""
    words = options.k
    given: dict[str, Any] = dict(word.split("=", 1) for word in options.option)
    named = [k for k in production.kernels(options.set) if not words or any(w in k.name for w in words)]
    jobs: list[Job] = [
        (k, t, not options.ours_only, given) for t in options.target for k in named if k.min_arch <= t
    ]
    if options.corpus:
        from tests.corpus.registry import CASES

        seen: dict[str, str] = {}
        for case in CASES.values():
            if case.frontend != "writer" and (not words or any(w in case.name for w in words)):
                seen.setdefault(case.module, case.name)
        jobs += [
            (n, t, False, given) for t in options.target for n in seen.values() if CASES[n].min_arch <= t
        ]
    return jobs


# ---- printing
def _pair(ours: Row | None, theirs: Row | None, key: str, scale: float = 1, form: str = "{:.0f}") -> str:
    def say(row: Row | None) -> str:
        value = row.get(key) if row else None
        if value is None:
            return "-"
        if isinstance(value, (bool, str)):
            return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else value
        return form.format(value / scale)

    return say(ours) if theirs is None else f"{say(ours)}/{say(theirs)}"


TENSOR_COLUMNS = (
    ("regs", "registers", 1, "{:.0f}"), ("spill", "spill", 1, "{:.0f}"), ("smem", "shared", 1024, "{:.0f}"),
    ("thr", "threads", 1, "{:.0f}"), ("blk", "blocks", 1, "{:.0f}"), ("loop", "hot", 1, "{:.0f}"),
    ("BAR", "bar", 1, "{:.0f}"), ("STS", "sts", 1, "{:.0f}"), ("LDS", "lds", 1, "{:.0f}"),
    ("oth/MMA", "other_per_mma", 1, "{:.1f}"), ("steps", "steps", 1, "{:.3g}"), ("KBfly", "in_flight", 1024, "{:.0f}"),
    ("fed", "fed", 1, ""), ("bound", "bound", 1, ""), ("share%", "share", 0.01, "{:.0f}"),
)  # fmt: skip
STREAM_COLUMNS = (
    ("regs", "registers", 1, "{:.0f}"), ("spill", "spill", 1, "{:.0f}"), ("smem", "shared", 1024, "{:.0f}"),
    ("thr", "threads", 1, "{:.0f}"), ("blk", "blocks", 1, "{:.0f}"), ("BAR", "bar", 1, "{:.0f}"),
    ("STS", "sts", 1, "{:.0f}"), ("LDS", "lds", 1, "{:.0f}"), ("KBfly", "in_flight", 1024, "{:.0f}"),
    ("i/elem", "per_element", 1, "{:.2f}"),
)  # fmt: skip


def ratio(ours: Row | None, theirs: Row | None) -> float | None:
    """Ours over NVIDIA's: modelled share for tensor work, NVIDIA's instructions over ours for memory-bound work."""
    if not ours or not theirs:
        return None
    if "share" in ours and "share" in theirs:
        return float(ours["share"]) / float(theirs["share"])
    if "per_element" in ours and "per_element" in theirs:
        return float(theirs["per_element"]) / float(ours["per_element"])
    return None


def pairs(rows: list[Row], target: int, kind: str) -> list[tuple[str, Row | None, Row | None]]:
    """(kernel, ours, NVIDIA's) of one table; a row with a problem stands as it is."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["target"] == target and row["kind"] == kind:
            found.setdefault(str(row["kernel"]), {})[str(row["who"])] = row
    return [(name, both.get("ours"), both.get("nvidia")) for name, both in found.items()]


def table(rows: list[Row], target: int, kind: str, terms: bool) -> list[str]:
    """The lines of one table, empty without kernels."""
    columns = STREAM_COLUMNS if kind == "stream" else TENSOR_COLUMNS
    cells = [["kernel", *(c[0] for c in columns), "ratio"]]
    notes: list[list[str]] = [[]]
    for name, ours, theirs in pairs(rows, target, kind):
        quotient = ratio(ours, theirs)
        line = [_pair(ours, theirs, key, scale, form) for _, key, scale, form in columns]
        cells.append([name, *line, "-" if quotient is None else f"{quotient:.2f}"])
        below = [f"    {r['who']}: {r['problem']}" for r in (ours, theirs) if r and "problem" in r]
        if terms:
            for r in (ours, theirs):
                if r and "problem" not in r:
                    said = " ".join(f"{k}={v}" for k, v in dict(r.get("terms") or {}).items())
                    by = " ".join(f"{k} {v}" for k, v in dict(r["blocks_by"]).items())
                    if "own_flops" in r:
                        said += f" own flops {r['own_flops']:.2f} bytes {r['own_bytes']:.2f}"
                    tail = f"{r.get('mma_kind', '')} | hot: {r['hot_global']} | all: {r['global']}"
                    below.append(f"    {r['who']:6} {said} | blocks by {by} | {tail}")
        notes.append(below)
    if len(cells) == 1:
        return []
    widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
    out = []
    for row, below in zip(cells, notes):
        out.append(
            "  ".join(
                cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths))
            )
        )
        out += below
    return out


def summary(rows: list[Row], targets: list[int]) -> dict[str, dict[str, object]]:
    """Geometric means of ours over NVIDIA's for each target and kind, with the kernels below 0.75."""
    out: dict[str, dict[str, object]] = {}
    for target in targets:
        for kind in ("tensor", "stream"):
            found = {n: q for n, o, t in pairs(rows, target, kind) if (q := ratio(o, t)) is not None}
            if found:
                out[f"sm_{target} {kind}"] = {
                    "geomean": round(geometric_mean(list(found.values())), 3), "kernels": len(found),
                    "below_0.75": sum(q < 0.75 for q in found.values()), "worst": min(found, key=lambda n: found[n]),
                }  # fmt: skip
    return out


# ---- comparison with an earlier run
def worse(now: Row, before: Row) -> list[str]:
    """What got worse in a kernel: "issued 10 -> 12", ... Loops are compared by what they issue for the same work."""
    found = []

    def each(row: Row, key: str) -> float:
        return float(row.get(key, 0)) / float(row.get("unit", 1))

    for key, label in (("issued", "instructions issued"), ("bar", "barriers")):
        if key in now and key in before and each(now, key) > each(before, key) * SLOWER + 1e-9:
            found.append(f"{label} {each(before, key):.4g} -> {each(now, key):.4g}")
    if int(now["spill"]) > int(before["spill"]):
        found.append(f"spilled bytes {before['spill']} -> {now['spill']}")
    if int(now["blocks"]) < int(before["blocks"]):
        found.append(f"resident blocks {before['blocks']} -> {now['blocks']}")
    if "share" in now and "share" in before and float(now["share"]) * SLOWER < float(before["share"]):
        found.append(f"modelled share {before['share']} -> {now['share']}")
    return found


def gained(now: Row, before: Row) -> str:
    """What a kernel got for it, where it is faster by the model: "modelled share 0.5 -> 0.9", or nothing."""
    for key, label, sign in (("share", "modelled share", 1), ("per_element", "instructions an element", -1)):
        if key in now and key in before:
            old, new = float(before[key]), float(now[key])
            if (new - old) * sign > (SLOWER - 1) * old:
                return f"{label} {old:.3g} -> {new:.3g}"
    return ""


def compare(rows: list[Row], base: list[Row]) -> int:
    """Prints the table of what got worse and what was gained by it, and counts; returns the number of kernels that did."""
    before = {(r["kernel"], r["target"]): r for r in base if r["who"] == "ours"}
    bad, paid, better, same, gone = 0, 0, 0, 0, []
    for row in rows:
        old = before.get((row["kernel"], row["target"]))
        if row["who"] != "ours" or old is None:
            continue
        name = f"sm_{row['target']} {row['kernel']}"
        if "problem" in row or "problem" in old:
            if "problem" in row and "problem" not in old:
                gone.append(f"{name}: no longer compiles: {row['problem']}")
            continue
        found = worse(row, old)
        if found:
            bad += 1
            gain = gained(row, old)
            paid += bool(gain)
            print(f"worse  {name}: {'; '.join(found)}" + (f"   for {gain}" if gain else ""))
        elif worse(old, row):
            better += 1
        else:
            same += 1
    print("\n".join(gone), end="\n" if gone else "")
    whole = bad + len(gone) + better + same
    print(
        f"{bad + len(gone)} worse ({paid} faster all the same), {better} better, {same} the same, of {whole}"
    )
    return bad + len(gone)


def named(word: str) -> str:
    """A word of the form NAME=VALUE."""
    if "=" not in word:
        raise argparse.ArgumentTypeError(f"'{word}' is not NAME=VALUE")
    return word


def parser() -> argparse.ArgumentParser:
    """The command line."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--target", type=int, nargs="+", default=sorted(GPUS), choices=sorted(GPUS))
    out.add_argument(
        "-k", nargs="+", default=[], metavar="SUBSTR", help="only kernels with one of these in the name"
    )
    out.add_argument("--set", choices=("standard", "full", "unproven"), default="standard")
    out.add_argument("--ours-only", action="store_true")
    out.add_argument("--corpus", action="store_true", help="the corpus kernels too, ours only")
    out.add_argument(
        "--terms", action="store_true", help="the model's terms and access widths below each kernel"
    )
    out.add_argument("--json", metavar="FILE")
    out.add_argument("--compare", metavar="BASE", help="a file that --json wrote")
    out.add_argument("--jobs", type=int, default=1)
    out.add_argument(
        "--option", nargs="+", default=[], metavar="NAME=VALUE", type=named, help="of our compile"
    )
    return out


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    base = None
    if options.compare:
        try:
            base = json.loads(Path(options.compare).read_text())["rows"]
        except (OSError, ValueError, KeyError) as error:
            print(f"code_quality: cannot read {options.compare}: {error}", file=sys.stderr)
            return 1
    jobs = chosen(options)
    if not jobs:
        print("code_quality: no kernel has such a name", file=sys.stderr)
        return 1
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else nullcontext() as pool:
        for n, found in enumerate(pool.map(one, jobs) if pool else map(one, jobs), 1):
            rows += found
            if sys.stderr.isatty():
                print(f"\r{n}/{len(jobs)}", end="\n" if n == len(jobs) else "", file=sys.stderr, flush=True)
    results = summary(rows, options.target)
    if options.json:
        keep(Path(options.json), json.dumps({"summary": results, "rows": rows}, indent=1).encode())
    if base is not None:
        return 1 if compare(rows, base) else 0
    for target in options.target:
        for kind in ("tensor", "stream"):
            lines = table(rows, target, kind, options.terms)
            if lines:
                print(
                    f"\n## sm_{target}, {'matrix products and attention' if kind == 'tensor' else 'memory-bound'}\n"
                )
                print("\n".join(lines))
    corpus = [r for r in rows if r["kind"] == "corpus"]
    if corpus:
        failed = [r for r in corpus if "problem" in r]
        print(f"\ncorpus: {len(corpus)} measured, {len(failed)} without an image")
    print()
    for name, means in results.items():
        print(f"{name:16} " + ", ".join(f"{k} {v}" for k, v in means.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
