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

Shape = tuple[int, ...]


# ---- kernels as text
def tile(shape: Shape, elem: str) -> str:
    return f"tile<{''.join(f'{e}x' for e in shape)}{elem}>"


def view_type(shape: Shape, elem: str) -> str:
    """A static row-major view that is one tile of `shape`."""
    strides = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * shape[d + 1]
    dims = "x".join(map(str, shape))
    return f"tensor_view<{dims}x{elem}, strides=[{','.join(map(str, strides))}]>"


class Kernel:
    """Lines of one entry; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.params: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pointer(self, elem: str) -> str:
        name = f"%p{len(self.params)}"
        self.params.append(f"{name}: tile<ptr<{elem}>>")
        out = self.name()
        self.lines.append(f"{out} = assume div_by<16>, {name} : tile<ptr<{elem}>>")
        return out

    def let(self, text: str) -> str:
        out = self.name()
        self.lines.append(f"{out} = {text}")
        return out

    def zero(self) -> str:
        return self.let("constant <i32: 0> : tile<i32>")

    def partition(self, pointer: str, shape: Shape, elem: str, whole: Shape | None = None) -> tuple[str, str]:
        view = view_type(whole or shape, elem)
        base = self.let(f"make_tensor_view {pointer}, shape = [{', '.join(map(str, whole or shape))}], "
                        f"strides = {view[view.index('strides=') + 8:-1]} : {view}")  # fmt: skip
        type = f"partition_view<tile=({'x'.join(map(str, shape))}), {view}>"
        return self.let(f"make_partition_view {base} : {type}"), type

    def load(
        self, shape: Shape, elem: str, index: dict[int, str] | None = None, whole: Shape | None = None
    ) -> str:
        part, type = self.partition(self.pointer(elem), shape, elem, whole)
        return self.load_from(part, type, shape, elem, index)

    def load_from(
        self, part: str, type: str, shape: Shape, elem: str, index: dict[int, str] | None = None
    ) -> str:
        zero = self.zero()
        at = ", ".join((index or {}).get(d, zero) for d in range(len(shape)))
        out, token = self.name(), self.name()
        self.lines.append(
            f"{out}, {token} = load_view_tko weak {part}[{at}] : {type}, tile<i32> -> {tile(shape, elem)}, token"
        )
        return out

    def store(self, value: str, shape: Shape, elem: str) -> None:
        part, type = self.partition(self.pointer(elem), shape, elem)
        zero = self.zero()
        at = ", ".join([zero] * len(shape))
        self.let(
            f"store_view_tko weak {value}, {part}[{at}] : {tile(shape, elem)}, {type}, tile<i32> -> token"
        )

    def fold(self, kind: str, value: str, shape: Shape, dim: int, op: str = "addf") -> str:
        """reduce or scan of f32 along `dim`."""
        identity = "0.0" if op == "addf" else "0xFF800000"
        kept = shape[:dim] + shape[dim + 1 :] if kind == "reduce" else shape
        more = " reverse=false" if kind == "scan" else ""
        a, b, c = self.name(), self.name(), self.name()
        return self.let(f"{kind} {value} dim={dim}{more} identities=[{identity} : f32] : {tile(shape, 'f32')} -> "
                        f"{tile(kept, 'f32')} ({a}: tile<f32>, {b}: tile<f32>) "
                        f"{{ {c} = {op} {a}, {b} : tile<f32> yield {c} : tile<f32> }}")  # fmt: skip

    def text(self) -> str:
        body = "\n    ".join([*self.lines, "return"])
        return f"cuda_tile.module @m {{\n  entry @k({', '.join(self.params)}) {{\n    {body}\n  }}\n}}\n"


def spread(k: Kernel, value: str, kept: Shape, dim: int, shape: Shape) -> str:
    """A reduced tile broadcast along the dimension that it lost."""
    one = (*kept[:dim], 1, *kept[dim:])
    made = k.let(f"reshape {value} : {tile(kept, 'f32')} -> {tile(one, 'f32')}")
    return k.let(f"broadcast {made} : {tile(one, 'f32')} -> {tile(shape, 'f32')}")


def elementwise(shape: Shape) -> str:
    k, t = Kernel(), tile(shape, "f32")
    x, y = k.load(shape, "f32"), k.load(shape, "f32")
    for _ in range(4):
        p = k.let(f"mulf {x}, {y} : {t}")
        q = k.let(f"addf {p}, {x} : {t}")
        x, y = k.let(f"maxf {q}, {y} : {t}"), k.let(f"exp2 {q} : {t}")
    k.store(k.let(f"addf {x}, {y} : {t}"), shape, "f32")
    return k.text()


def softmax(shape: Shape) -> str:
    k, t, dim = Kernel(), tile(shape, "f32"), len(shape) - 1
    kept = shape[:dim]
    x = k.load(shape, "f32")
    top = spread(k, k.fold("reduce", x, shape, dim, "maxf"), kept, dim, shape)
    e = k.let(f"exp {k.let(f'subf {x}, {top} : {t}')} : {t}")
    total = spread(k, k.fold("reduce", e, shape, dim), kept, dim, shape)
    k.store(k.let(f"divf {e}, {total} : {t}"), shape, "f32")
    return k.text()


def reduction(shape: Shape, dim: int) -> str:
    k = Kernel()
    x = k.load(shape, "f32")
    y = k.let(f"mulf {x}, {x} : {tile(shape, 'f32')}")
    kept = shape[:dim] + shape[dim + 1 :]
    total = k.fold("reduce", y, shape, dim)
    if not kept:
        total, kept = k.let(f"reshape {total} : tile<f32> -> tile<1xf32>"), (1,)
    k.store(total, kept, "f32")
    return k.text()


def prefix(shape: Shape, dim: int) -> str:
    k = Kernel()
    k.store(k.fold("scan", k.load(shape, "f32"), shape, dim), shape, "f32")
    return k.text()


def transpose(shape: Shape, order: Shape) -> str:
    k = Kernel()
    out = tuple(shape[d] for d in order)
    x = k.load(shape, "f32")
    y = k.let(f"permute {x} {list(order)} : {tile(shape, 'f32')} -> {tile(out, 'f32')}")
    k.store(y, out, "f32")
    return k.text()


def gather(shape: Shape) -> str:
    k = Kernel()
    index = k.load(shape, "i32")
    table = k.pointer("f32")
    ones = (1,) * len(shape)
    p = k.let(f"reshape {table} : tile<ptr<f32>> -> {tile(ones, 'ptr<f32>')}")
    p = k.let(f"broadcast {p} : {tile(ones, 'ptr<f32>')} -> {tile(shape, 'ptr<f32>')}")
    p = k.let(
        f"offset {p}, {index} : {tile(shape, 'ptr<f32>')}, {tile(shape, 'i32')} -> {tile(shape, 'ptr<f32>')}"
    )
    out, token = k.name(), k.name()
    k.lines.append(
        f"{out}, {token} = load_ptr_tko weak {p} : {tile(shape, 'ptr<f32>')} -> {tile(shape, 'f32')}, token"
    )
    k.store(out, shape, "f32")
    return k.text()


def reshaped(source: Shape, target: Shape) -> str:
    k = Kernel()
    x = k.load(source, "f32")
    y = k.let(f"reshape {x} : {tile(source, 'f32')} -> {tile(target, 'f32')}")
    k.store(k.let(f"mulf {y}, {y} : {tile(target, 'f32')}"), target, "f32")
    return k.text()


def carried(shape: Shape) -> str:
    """acc = acc * x + x, four times over blocks of rows."""
    k, t = Kernel(), tile(shape, "f32")
    part, type = k.partition(k.pointer("f32"), shape, "f32", (4 * shape[0], *shape[1:]))
    start = k.let(f"constant <f32: 1.0> : {t}")
    low, high, one = (k.let(f"constant <i32: {v}> : tile<i32>") for v in (0, 4, 1))
    result, iv, acc = k.name(), k.name(), k.name()
    k.lines.append(f"{result} = for {iv} in ({low} to {high}, step {one}) : tile<i32> "
                   f"iter_values({acc} = {start}) -> ({t}) {{")  # fmt: skip
    x = k.load_from(part, type, shape, "f32", {0: iv})
    y = k.let(f"addf {k.let(f'mulf {acc}, {x} : {t}')}, {x} : {t}")
    k.lines += [f"continue {y} : {t}", "}"]
    k.store(result, shape, "f32")
    return k.text()


def joined(shape: Shape, dim: int) -> str:
    k = Kernel()
    half = tuple(e // 2 if d == dim else e for d, e in enumerate(shape))
    x, y = k.load(half, "f32"), k.load(half, "f32")
    z = k.let(f"cat {x}, {y} dim = {dim} : {tile(half, 'f32')}, {tile(half, 'f32')} -> {tile(shape, 'f32')}")
    k.store(k.let(f"mulf {z}, {z} : {tile(shape, 'f32')}"), shape, "f32")
    return k.text()


def matmul(m: int, n: int, k_extent: int, elem: str) -> str:
    """C = sum over 4 blocks of K of A[:, k] B[k, :], accumulated in f32 (i8: i32)."""
    k = Kernel()
    out = "i32" if elem == "i8" else "f64" if elem == "f64" else "f32"
    acc_type = tile((m, n), out)
    a, a_type = k.partition(k.pointer(elem), (m, k_extent), elem, (m, 4 * k_extent))
    b, b_type = k.partition(k.pointer(elem), (k_extent, n), elem, (4 * k_extent, n))
    start = k.let(f"constant <{out}: {'0' if out == 'i32' else '0.0'}> : {acc_type}")
    low, high, one = (k.let(f"constant <i32: {v}> : tile<i32>") for v in (0, 4, 1))
    result, iv, acc = k.name(), k.name(), k.name()
    k.lines.append(f"{result} = for {iv} in ({low} to {high}, step {one}) : tile<i32> "
                   f"iter_values({acc} = {start}) -> ({acc_type}) {{")  # fmt: skip
    x = k.load_from(a, a_type, (m, k_extent), elem, {1: iv})
    y = k.load_from(b, b_type, (k_extent, n), elem, {0: iv})
    op, signs = ("mmai", " signed signed") if elem == "i8" else ("mmaf", "")
    z = k.let(
        f"{op} {x}, {y}, {acc}{signs} : {tile((m, k_extent), elem)}, {tile((k_extent, n), elem)}, {acc_type}"
    )
    k.lines += [f"continue {z} : {acc_type}", "}"]
    k.store(result, (m, n), out)
    return k.text()


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
