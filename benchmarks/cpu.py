"""Speed of the CPU target as a ratio to NumPy on the same machine, in one run.

    python benchmarks/cpu.py [-k SUBSTR ...] [--repeats 7] [--threads N] [--processor-time] [--json FILE]

Each row runs a kernel and NumPy's best composition in turn, `--repeats` times each, and prints the medians and their
ratio (above 1: faster than NumPy); the results are compared first. NumPy's BLAS is held to the same number of threads.
Ratios, never absolute times, are what one may compare between machines. A pause before each run lets the other side's threads
go to sleep: OpenBLAS's keep looking for work on their CPU for some 30 ms. Beside other work, `--threads 1 --processor-time` is
what one may believe: it leaves out the time in which others ran.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))
if "--threads" in sys.argv:  # before NumPy is loaded
    count = sys.argv[sys.argv.index("--threads") + 1]
    for name in ("TILEIRAS_CPU_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = count

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import tileiras  # noqa: E402

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32}


PAUSE_S = 0.1
clock = time.process_time if "--processor-time" in sys.argv else time.perf_counter


def view_type(dtype: str, shape: tuple[int, ...], tile: tuple[int, ...]) -> str:
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    tensor = f"tensor_view<{'x'.join(map(str, shape))}x{dtype}, strides=[{','.join(map(str, strides))}]>"
    return f"partition_view<tile=({'x'.join(map(str, tile))}), {tensor}>"


class Text:
    """A kernel under construction, `k`, whose parameters are pointers."""

    def __init__(self, **views: tuple[str, tuple[int, ...], tuple[int, ...]]) -> None:
        self.views, self.lines, self.count = views, [], 0
        params = ", ".join(f"%p_{n}: tile<ptr<{d}>>" for n, (d, _, _) in views.items())
        self.head = f"cuda_tile.module @m {{\n  entry @k({params}) {{\n"
        for n, (d, shape, tile) in views.items():
            tensor = view_type(d, shape, tile).split(", ", 1)[1][:-1]
            strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            self.lines.append(
                f"%{n}_v = make_tensor_view %p_{n}, shape = {list(shape)}, strides = {strides} : {tensor}"
            )
            self.lines.append(f"%{n} = make_partition_view %{n}_v : {view_type(d, shape, tile)}")
        self.lines.append("%x, %y, %z = get_tile_block_id : tile<i32>")
        self.lines.append("%t = make_token : token")

    def op(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%r{self.count} = {text}")
        return f"%r{self.count}"

    def tile(self, name: str) -> str:
        d, _, tile = self.views[name]
        return f"tile<{'x'.join(map(str, tile))}x{d}>"

    def load(self, name: str, *index: str) -> str:
        self.count += 1
        out = f"%r{self.count}"
        self.lines.append(
            f"{out}, %t{self.count} = load_view_tko weak %{name}[{', '.join(index)}] : "
            f"{view_type(*self.views[name])}, tile<i32> -> {self.tile(name)}, token"
        )
        return out

    def store(self, value: str, name: str, *index: str) -> None:
        self.op(
            f"store_view_tko weak {value}, %{name}[{', '.join(index)}] : "
            f"{self.tile(name)}, {view_type(*self.views[name])}, tile<i32> -> token"
        )

    def constant(self, value: str, dtype: str, *shape: int) -> str:
        return self.op(f"constant <{dtype}: {value}> : tile<{'x'.join([*map(str, shape), dtype])}>")

    def reduce(self, op: str, value: str, rows: int, columns: int, identity: str) -> str:
        """Rows x 1 from rows x columns."""
        out = self.op(
            f"reduce {value} dim=1 identities=[{identity} : f32] : tile<{rows}x{columns}xf32> -> tile<{rows}xf32>\n"
            f"(%a{self.count}: tile<f32>, %b{self.count}: tile<f32>) {{\n"
            f"%c{self.count} = {op} %a{self.count}, %b{self.count} : tile<f32>\nyield %c{self.count} : tile<f32>\n}}"
        )
        return self.op(f"reshape {out} : tile<{rows}xf32> -> tile<{rows}x1xf32>")

    def spread(self, value: str, rows: int, columns: int) -> str:
        return self.op(f"broadcast {value} : tile<{rows}x1xf32> -> tile<{rows}x{columns}xf32>")

    def text(self) -> str:
        body = "\n".join("    " + line for line in self.lines)
        return f"{self.head}{body}\n    return\n  }}\n}}\n"


def vadd(n: int = 1 << 24, block: int = 4096) -> tuple:
    k = Text(a=("f32", (n,), (block,)), b=("f32", (n,), (block,)), c=("f32", (n,), (block,)))
    k.store(k.op(f"addf {k.load('a', '%x')}, {k.load('b', '%x')} : tile<{block}xf32>"), "c", "%x")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(n, np.float32) for _ in range(2))
    out, want = np.zeros(n, np.float32), np.zeros(n, np.float32)
    return k, (n // block,), [a, b, out], out, lambda: np.add(a, b, out=want), want, 0.0


def transpose(n: int = 4096, block: int = 64) -> tuple:
    k = Text(a=("f32", (n, n), (block, block)), c=("f32", (n, n), (block, block)))
    t = f"tile<{block}x{block}xf32>"
    k.store(k.op(f"permute {k.load('a', '%x', '%y')} [1, 0] : {t} -> {t}"), "c", "%y", "%x")
    a = np.random.default_rng(1).standard_normal((n, n), np.float32)
    out, want = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    return k, (n // block, n // block), [a, out], out, lambda: np.copyto(want, a.T), want, 0.0


def softmax(n: int = 4096) -> tuple:
    k = Text(a=("f32", (n, n), (1, n)), c=("f32", (n, n), (1, n)))
    row = f"tile<1x{n}xf32>"
    x = k.load("a", "%x", "%y")
    high = k.spread(k.reduce("maxf", x, 1, n, "0xFF800000"), 1, n)
    e = k.op(f"exp {k.op(f'subf {x}, {high} : {row}')} : {row}")
    total = k.spread(k.reduce("addf", e, 1, n, "0.000000e+00"), 1, n)
    k.store(k.op(f"divf {e}, {total} : {row}"), "c", "%x", "%y")
    a = np.random.default_rng(1).standard_normal((n, n), np.float32)
    out, want, part = (np.zeros((n, n), np.float32) for _ in range(3))

    def numpy() -> None:
        np.subtract(a, a.max(1, keepdims=True), out=part)
        np.exp(part, out=part)
        np.divide(part, part.sum(1, keepdims=True), out=want)

    return k, (n,), [a, out], out, numpy, want, 1e-5


def norm(n: int = 4096, center: bool = True) -> tuple:
    """Layer norm, or RMS norm without the mean."""
    k = Text(a=("f32", (n, n), (1, n)), w=("f32", (1, n), (1, n)), c=("f32", (n, n), (1, n)))
    row, one = f"tile<1x{n}xf32>", "tile<1x1xf32>"
    x, zero = k.load("a", "%x", "%y"), k.constant("0", "i32")
    scale = k.constant(repr(1.0 / n), "f32", 1, 1)
    if center:
        mean = k.op(f"mulf {k.reduce('addf', x, 1, n, '0.000000e+00')}, {scale} : {one}")
        x = k.op(f"subf {x}, {k.spread(mean, 1, n)} : {row}")
    square = k.op(f"mulf {x}, {x} : {row}")
    var = k.op(f"mulf {k.reduce('addf', square, 1, n, '0.000000e+00')}, {scale} : {one}")
    eps = k.constant("1.0e-05", "f32", 1, 1)
    inverse = k.op(f"rsqrt {k.op(f'addf {var}, {eps} : {one}')} : {one}")
    y = k.op(f"mulf {x}, {k.spread(inverse, 1, n)} : {row}")
    k.store(k.op(f"mulf {y}, {k.load('w', zero, zero)} : {row}"), "c", "%x", "%y")
    rng = np.random.default_rng(1)
    a, w = rng.standard_normal((n, n), np.float32), rng.standard_normal((1, n), np.float32)
    out, want = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)

    def numpy() -> None:
        x = a - a.mean(1, keepdims=True) if center else a
        var = np.einsum("ij,ij->i", x, x)[:, None] / n
        np.multiply(x, 1.0 / np.sqrt(var + 1e-5), out=want)
        np.multiply(want, w, out=want)

    return k, (n,), [a, w, out], out, numpy, want, 1e-4


def matmul(dtype: str, block: tuple[int, int, int], n: int = 1024) -> tuple:
    bm, bn, bk = block
    acc = "i32" if dtype == "i8" else "f32"
    k = Text(a=(dtype, (n, n), (bm, bk)), b=(dtype, (n, n), (bk, bn)), c=(acc, (n, n), (bm, bn)))
    tile = f"tile<{bm}x{bn}x{acc}>"
    start = k.constant("0.0" if acc == "f32" else "0", acc, bm, bn)
    zero, steps, one = k.constant("0", "i32"), k.constant(str(n // bk), "i32"), k.constant("1", "i32")
    k.lines.append(
        f"%sum = for %i in ({zero} to {steps}, step {one}) : tile<i32> iter_values(%acc = {start}) -> ({tile}) {{"
    )
    a, b = k.load("a", "%x", "%i"), k.load("b", "%i", "%y")
    kind, sign = ("mmai", " signed signed") if dtype == "i8" else ("mmaf", "")
    r = k.op(f"{kind} {a}, {b}, %acc{sign} : {k.tile('a')}, {k.tile('b')}, {tile}")
    k.lines.append(f"continue {r} : {tile}\n}}")
    k.store("%sum", "c", "%x", "%y")
    rng = np.random.default_rng(1)
    if dtype == "i8":
        x, y = (rng.integers(-128, 128, (n, n)).astype(np.int8) for _ in range(2))
    else:
        x, y = (rng.standard_normal((n, n), np.float32).astype(DTYPES[dtype]) for _ in range(2))
    p, q, want = x.astype(np.float32), y.astype(np.float32), np.zeros((n, n), np.float32)
    out = np.zeros((n, n), DTYPES[acc])
    return k, (n // bm, n // bn), [x, y, out], out, lambda: np.matmul(p, q, out=want), want, 1e-4


def attention(heads: int = 8, length: int = 1024, width: int = 128, bm: int = 128, bn: int = 128) -> tuple:
    k = Text(
        q=("f32", (heads, length, width), (1, bm, width)), k=("f32", (heads, length, width), (1, bn, width)),
        v=("f32", (heads, length, width), (1, bn, width)), c=("f32", (heads, length, width), (1, bm, width)),
    )  # fmt: skip
    zero, one = k.constant("0", "i32"), k.constant("1", "i32")
    steps = k.constant(str(length // bn), "i32")

    def flat(name: str, index: str, rows: int) -> str:
        x = k.load(name, "%y", index, zero)
        return k.op(f"reshape {x} : tile<1x{rows}x{width}xf32> -> tile<{rows}x{width}xf32>")

    q = flat("q", "%x", bm)
    scale = k.constant(repr(width**-0.5), "f32", bm, bn)
    start_m = k.constant("-1.0e+30", "f32", bm, 1)
    start_l, start_o = k.constant("0.0", "f32", bm, 1), k.constant("0.0", "f32", bm, width)
    col, out_t, score = f"tile<{bm}x1xf32>", f"tile<{bm}x{width}xf32>", f"tile<{bm}x{bn}xf32>"
    k.lines.append(
        f"%m, %l, %o = for %i in ({zero} to {steps}, step {one}) : tile<i32> iter_values(%m0 = {start_m}, "
        f"%l0 = {start_l}, %o0 = {start_o}) -> ({col}, {col}, {out_t}) {{"
    )
    keys = flat("k", "%i", bn)
    keys = k.op(f"permute {keys} [1, 0] : tile<{bn}x{width}xf32> -> tile<{width}x{bn}xf32>")
    empty = k.constant("0.0", "f32", bm, bn)
    s = k.op(f"mmaf {q}, {keys}, {empty} : {out_t}, tile<{width}x{bn}xf32>, {score}")
    s = k.op(f"mulf {s}, {scale} : {score}")
    m = k.op(f"maxf %m0, {k.reduce('maxf', s, bm, bn, '0xFF800000')} : {col}")
    alpha = k.op(f"exp {k.op(f'subf %m0, {m} : {col}')} : {col}")
    p = k.op(f"exp {k.op(f'subf {s}, {k.spread(m, bm, bn)} : {score}')} : {score}")
    sums = k.reduce("addf", p, bm, bn, "0.000000e+00")
    total = k.op(f"addf {k.op(f'mulf %l0, {alpha} : {col}')}, {sums} : {col}")
    o = k.op(f"mulf %o0, {k.spread(alpha, bm, width)} : {out_t}")
    o = k.op(f"mmaf {p}, {flat('v', '%i', bn)}, {o} : {score}, tile<{bn}x{width}xf32>, {out_t}")
    k.lines.append(f"continue {m}, {total}, {o} : {col}, {col}, {out_t}\n}}")
    r = k.op(f"divf %o, {k.spread('%l', bm, width)} : {out_t}")
    r = k.op(f"reshape {r} : {out_t} -> tile<1x{bm}x{width}xf32>")
    k.store(r, "c", "%y", "%x", zero)
    rng = np.random.default_rng(1)
    x, y, z = (rng.standard_normal((heads, length, width), np.float32) for _ in range(3))
    out, want = np.zeros_like(x), np.zeros_like(x)

    def numpy() -> None:
        s = np.matmul(x, y.transpose(0, 2, 1))
        s *= np.float32(width**-0.5)
        s -= s.max(-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(-1, keepdims=True)
        np.matmul(s, z, out=want)

    return k, (length // bm, heads), [x, y, z, out], out, numpy, want, 1e-4


ROWS = {
    "vadd": vadd,
    "transpose": transpose,
    "softmax": softmax,
    "layer_norm": norm,
    "rms_norm": lambda: norm(center=False),
    "matmul_f32_64x64x32": lambda: matmul("f32", (64, 64, 32)),
    "matmul_f32_128x128x32": lambda: matmul("f32", (128, 128, 32)),
    "matmul_bf16_128x128x32": lambda: matmul("bf16", (128, 128, 32)),
    "matmul_f16_128x128x32": lambda: matmul("f16", (128, 128, 32)),
    "matmul_i8_128x128x32": lambda: matmul("i8", (128, 128, 32)),
    "attention": attention,
}
GOALS = {
    "vadd": 0.9, "transpose": 0.6, "softmax": 1.5, "layer_norm": 1.5, "rms_norm": 1.5, "matmul_f32_64x64x32": 0.6,
    "matmul_f32_128x128x32": 0.6, "matmul_bf16_128x128x32": 0.4, "matmul_f16_128x128x32": 0.4,
    "matmul_i8_128x128x32": 0.6, "attention": 2.0,
}  # fmt: skip


def measure(name: str, repeats: int) -> dict[str, Any]:
    kernel, grid, args, out, numpy, want, tolerance = ROWS[name]()
    module = tileiras.load(kernel.text())
    module.verify()
    start = time.perf_counter()
    tileiras.launch(module.op, "k", grid, args, target="cpu")
    first = time.perf_counter() - start
    numpy()
    wrong = np.abs(out.astype(np.float64) - want) > tolerance * (1 + np.abs(want)) * (10 if tolerance else 1)
    if wrong.any():
        raise SystemExit(f"{name}: {int(wrong.sum())} of {wrong.size} elements are wrong")
    ours, theirs = [], []
    for _ in range(repeats):
        time.sleep(PAUSE_S)
        start = clock()
        tileiras.launch(module.op, "k", grid, args, target="cpu")
        ours.append(clock() - start)
        time.sleep(PAUSE_S)
        start = clock()
        numpy()
        theirs.append(clock() - start)
    a, b = statistics.median(ours), statistics.median(theirs)
    return {
        "name": name,
        "ours_ms": a * 1e3,
        "numpy_ms": b * 1e3,
        "ratio": b / a,
        "goal": GOALS[name],
        "first_ms": first * 1e3,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("-k", action="append", default=[])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = []
    print(f"{'kernel':26}{'ours ms':>10}{'NumPy ms':>10}{'ratio':>8}{'goal':>6}{'first launch ms':>17}")
    for name in ROWS:
        if all(k in name for k in options.k):
            row = measure(name, options.repeats)
            rows.append(row)
            print(
                "{name:26}{ours_ms:10.2f}{numpy_ms:10.2f}{ratio:8.2f}{goal:6.1f}{first_ms:17.0f}".format(
                    **row
                ),
                flush=True,
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
