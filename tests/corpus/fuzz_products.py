"""Random kernels around tensor products: what matmul, attention and their relatives are made of, put together at random.

A program loads operands in a loop from views or pointers in any arrangement, converts, scales, masks or permutes them,
multiplies, rescales what it adds up, feeds products with products, goes over tiles in an outer loop, and ends in an
epilogue. Tiles are as large as the asynchronous instructions want them, arrays a few of them. All numbers are small
and whole, so every order of summing gives the same; results are compared bit for bit with the interpreter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.corpus.bits import unlike
from tests.corpus.case import DTYPES, place
from tests.corpus.fuzz import Choose, tile

NAMES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "tf32": "tf32"}
ACC = {"f16": "f32", "bf16": "f32", "tf32": "f32", "f8E4M3FN": "f32", "f8E5M2": "f32", "i8": "i32", "f64": "f64",
       "f32": "f32"}  # fmt: skip
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f8E4M3FN": 1, "f8E5M2": 1, "i8": 1, "f64": 8, "i32": 4}
WIDER = {"f16": ("i8", "f8E4M3FN"), "bf16": ("i8",), "tf32": ("f32",), "f32": ("f16", "bf16")}


class Products:
    """A kernel under construction: its lines and the arrays that it wants (type, number of elements, written or not)."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.count = 0
        self.depth = 0
        self.arrays: list[tuple[str, int, bool]] = []
        self.scalars: list[int] = []

    # text

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def emit(self, text: str) -> str:
        self.count += 1
        self.line(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def op(self, text: str) -> tuple[str, str]:
        """An op with a token behind its result."""
        self.count += 1
        self.line(f"%v{self.count}, %t{self.count} = {text}")
        return f"%v{self.count}", f"%t{self.count}"

    def const(self, value: Any, dtype: str, shape: Sequence[int] = ()) -> str:
        return self.emit(f"constant <{dtype}: {value}> : {tile(dtype, shape)}")

    def binary(self, op: str, x: str, y: str, dtype: str, shape: Sequence[int] = ()) -> str:
        return self.emit(f"{op} {x}, {y} : {tile(dtype, shape)}")

    def spread(self, x: str, dtype: str, n: int, shape: tuple[int, int], dim: int) -> str:
        """A vector along dimension `dim` of a tile."""
        flat = (n, 1) if dim == 0 else (1, n)
        x = self.emit(f"reshape {x} : {tile(dtype, (n,))} -> {tile(dtype, flat)}")
        return self.emit(f"broadcast {x} : {tile(dtype, flat)} -> {tile(dtype, shape)}")

    # arguments

    def array(self, dtype: str, n: int, written: bool = False) -> str:
        self.arrays.append((dtype, n, written))
        p, q = f"%a{len(self.arrays) - 1}", f"tile<ptr<{dtype}>>"
        return self.emit(f"assume div_by<16>, {p} : {q}") if self.choose((1, 1, 1, 0)) else p

    def scalar(self, value: int, divides: int = 1) -> str:
        self.scalars.append(value)
        s = f"%s{len(self.scalars) - 1}"
        if divides > 1 and value % divides == 0 and self.choose((1, 1, 1, 0)):
            return self.emit(f"assume div_by<{divides}>, {s} : tile<i32>")
        return s


class Operand:
    """An array of logical (rows, columns), read in tiles of `shape`; `at` gives the tile at two tile numbers.

    stored: the type in memory, converted where it is read. turned: memory holds its transpose row by row; `by` says
    whether the view has column strides or the tile is permuted. how: "view" or "pointers".
    """

    def __init__(
        self, p: Products, dtype: str, shape: tuple[int, int], extents: tuple[int, int], reads: bool = True
    ) -> None:
        self.p, self.dtype, self.shape, self.extents = p, dtype, shape, extents
        choose = p.choose
        self.stored = choose((dtype, dtype, dtype, *WIDER.get(dtype, ()))) if reads else dtype
        if self.stored == "tf32":  # tf32 is a type of values only
            self.stored = "f32"
        self.turned = choose((False, True))
        self.by = choose(("strides", "permute")) if self.turned else ""
        whole = all(e % s == 0 for e, s in zip(extents, shape))
        self.how = choose(("view", "view", "view", "pointers")) if whole else "view"
        wide = choose((0, 0, 16))
        outer, inner = extents[::-1] if self.turned else extents
        self.pitch = inner + wide
        self.base = p.array(self.stored, outer * self.pitch, not reads)
        known = choose((True, False))
        self.pitch_text = str(self.pitch) if known else p.scalar(self.pitch, 16 // min(BYTES[self.stored], 8))
        self.known = known
        self.number = p.scalar(self.pitch) if self.how == "pointers" and known else self.pitch_text
        if self.how == "view":
            self.view = self.make_view(p.choose((True, False)))

    def make_view(self, sized: bool) -> str:
        p = self.p
        sizes, steps = list(self.extents), [self.pitch_text, "1"]
        shape = list(self.shape)
        if self.by == "strides":
            steps.reverse()
        elif self.by == "permute":
            sizes.reverse()
            shape.reverse()
        ends = [str(n) if sized else p.scalar(n, 8) for n in sizes]
        dims = "x".join(str(n) if sized else "?" for n in sizes)
        strides = ",".join("?" if s.startswith("%") else s for s in steps)
        tv = f"tensor_view<{dims}x{self.stored}, strides=[{strides}]>"
        kind = f"tile<i32> -> {tv}" if not sized or "?" in strides else tv
        name = p.emit(
            f"make_tensor_view {self.base}, shape = [{', '.join(ends)}], strides = [{', '.join(steps)}] : {kind}"
        )
        self.type = f"partition_view<tile=({shape[0]}x{shape[1]}), padding_value = zero, {tv}>"
        return p.emit(f"make_partition_view {name} : {self.type}")

    def pointers(self, i: str, j: str) -> str:
        """A tile of addresses, in the order of memory."""
        p = self.p
        rows, cols = self.shape
        q = f"ptr<{self.stored}>"

        def line(start: str, n: int, dim: int, step: str) -> str:
            k = p.emit(f"iota : {tile('i32', (n,))}")
            size = p.const(n, "i32")
            first = p.binary("muli", start, size, "i32")
            first = p.emit(f"reshape {first} : tile<i32> -> {tile('i32', (1,))}")
            first = p.emit(f"broadcast {first} : {tile('i32', (1,))} -> {tile('i32', (n,))}")
            k = p.binary("addi", k, first, "i32", (n,))
            if step != "1":
                s = p.emit(f"reshape {step} : tile<i32> -> {tile('i32', (1,))}")
                s = p.emit(f"broadcast {s} : {tile('i32', (1,))} -> {tile('i32', (n,))}")
                k = p.binary("muli", k, s, "i32", (n,))
            return p.spread(k, "i32", n, self.shape, dim)

        steps = ("1", self.number) if self.turned else (self.number, "1")
        offset = p.binary("addi", line(i, rows, 0, steps[0]), line(j, cols, 1, steps[1]), "i32", self.shape)
        one = p.emit(f"reshape {self.base} : tile<{q}> -> {tile(q, (1, 1))}")
        many = p.emit(f"broadcast {one} : {tile(q, (1, 1))} -> {tile(q, self.shape)}")
        return p.emit(
            f"offset {many}, {offset} : {tile(q, self.shape)}, {tile('i32', self.shape)} -> {tile(q, self.shape)}"
        )

    def load(self, i: str, j: str) -> str:
        """The tile of row and column number i and j as a value of `dtype`."""
        p = self.p
        t = tile(self.stored, self.shape)
        if self.how == "pointers":
            at = self.pointers(i, j)
            x, _ = p.op(f"load_ptr_tko weak {at} : {tile(f'ptr<{self.stored}>', self.shape)} -> {t}, token")
        else:
            hint = p.choose(("", "", "", " optimization_hints = <default = {latency = 3}>"))
            i, j = (j, i) if self.by == "permute" else (i, j)
            got = t if self.by != "permute" else tile(self.stored, self.shape[::-1])
            x, _ = p.op(
                f"load_view_tko weak {self.view}[{i}, {j}]{hint} : {self.type}, tile<i32> -> {got}, token"
            )
            if self.by == "permute":
                x = p.emit(f"permute {x} [1, 0] : {got} -> {t}")
        return self.converted(x)

    def converted(self, x: str) -> str:
        if self.stored == self.dtype:
            return x
        src, dst = tile(self.stored, self.shape), tile(self.dtype, self.shape)
        if self.stored == "i8":
            return self.p.emit(f"itof {x} signed : {src} -> {dst}")
        return self.p.emit(f"ftof {x} : {src} -> {dst}")

    def store(self, i: str, j: str, x: str) -> None:
        p, t = self.p, tile(self.dtype, self.shape)
        if self.how == "pointers":
            at = self.pointers(i, j)
            p.emit(f"store_ptr_tko weak {at}, {x} : {tile(f'ptr<{self.dtype}>', self.shape)}, {t} -> token")
            return
        if self.by == "permute":
            turned = tile(self.dtype, self.shape[::-1])
            x, t = p.emit(f"permute {x} [1, 0] : {t} -> {turned}"), turned
            i, j = j, i
        p.emit(f"store_view_tko weak {x}, {self.view}[{i}, {j}] : {t}, {self.type}, tile<i32> -> token")


def arithmetic(p: Products, x: str, dtype: str, shape: tuple[int, int], k: str, vector: str) -> str:
    """What stands between a load and a product: nothing most of the time."""
    if dtype in ("i8", "tf32", "f8E4M3FN", "f8E5M2"):
        return x
    what = p.choose(("", "", "", "", "twice", "negated", "masked", "vector"))
    if what == "twice":
        return p.binary("mulf", x, p.const("2.0", dtype, shape), dtype, shape)
    if what == "negated":
        return p.emit(f"negf {x} : {tile(dtype, shape)}")
    if what == "masked":
        dim = p.choose((0, 1))
        i = p.emit(f"iota : {tile('i32', (shape[dim],))}")
        limit = p.emit(f"reshape {k} : tile<i32> -> {tile('i32', (1,))}")
        limit = p.emit(f"broadcast {limit} : {tile('i32', (1,))} -> {tile('i32', (shape[dim],))}")
        eight = p.const(p.choose((1, 8, 32)), "i32", (shape[dim],))
        limit = p.binary("muli", limit, eight, "i32", (shape[dim],))
        m = p.emit(
            f"cmpi greater_than_or_equal {i}, {limit}, signed : {tile('i32', (shape[dim],))} -> {tile('i1', (shape[dim],))}"
        )
        m = p.spread(m, "i1", shape[dim], shape, dim)
        zero = p.const("0.0", dtype, shape)
        return p.emit(f"select {m}, {x}, {zero} : {tile('i1', shape)}, {tile(dtype, shape)}")
    if what == "vector" and vector:
        dim = p.choose((0, 1))
        v = vector_of(p, vector, dtype, shape[dim])
        return p.binary("mulf", x, p.spread(v, dtype, shape[dim], shape, dim), dtype, shape)
    return x


def vector_of(p: Products, base: str, dtype: str, n: int) -> str:
    """n numbers of an f32 array as `dtype`."""
    q = "ptr<f32>"
    one = p.emit(f"reshape {base} : tile<{q}> -> {tile(q, (1,))}")
    many = p.emit(f"broadcast {one} : {tile(q, (1,))} -> {tile(q, (n,))}")
    i = p.emit(f"iota : {tile('i32', (n,))}")
    at = p.emit(f"offset {many}, {i} : {tile(q, (n,))}, {tile('i32', (n,))} -> {tile(q, (n,))}")
    x, _ = p.op(f"load_ptr_tko weak {at} : {tile(q, (n,))} -> {tile('f32', (n,))}, token")
    return x if dtype == "f32" else p.emit(f"ftof {x} : {tile('f32', (n,))} -> {tile(dtype, (n,))}")


def multiply(p: Products, x: str, y: str, z: str, dtype: str, m: int, n: int, k: int) -> str:
    acc = ACC[dtype]
    op, sign = ("mmai", " signed signed") if dtype == "i8" else ("mmaf", "")
    return p.emit(
        f"{op} {x}, {y}, {z}{sign} : {tile(dtype, (m, k))}, {tile(dtype, (k, n))}, {tile(acc, (m, n))}"
    )


def rows(p: Products, x: str, dtype: str, shape: tuple[int, int], dim: int, op: str) -> str:
    """The maxima or sums along a dimension."""
    low = {"f32": "0xFF800000", "f64": "0xFFF0000000000000", "i32": -(2**31)}[dtype]
    neutral = low if op == "max" else "0.0" if dtype != "i32" else 0
    word = {"max": "max", "sum": "add"}[op] + ("i" if dtype == "i32" else "f")
    tail = " signed" if word == "maxi" else ""
    to = (shape[1 - dim],)
    p.count += 1
    name = f"%v{p.count}"
    p.line(
        f"{name} = reduce {x} dim={dim} identities=[{neutral} : {dtype}] : {tile(dtype, shape)} -> {tile(dtype, to)}"
    )
    p.line(f"(%x: tile<{dtype}>, %y: tile<{dtype}>) {{")
    p.line(f"  %z = {word} %x, %y{tail} : tile<{dtype}>")
    p.line(f"  yield %z : tile<{dtype}>")
    p.line("}")
    return name


def zero_of(p: Products, dtype: str, shape: tuple[int, int]) -> str:
    start = p.choose((0, 0, 0, 1))
    return p.const(start if dtype == "i32" else f"{start}.0", dtype, shape)


def halves(p: Products, x: str, dtype: str, shape: tuple[int, int], vector: str) -> str:
    """Rescaled as attention does: by rows, by columns or by one number, exact in floating point."""
    if dtype == "i32":
        return x
    what = p.choose(("one", "rows", "columns", "rows"))
    if what == "one" or not vector:
        return p.binary("mulf", x, p.const("0.5", dtype, shape), dtype, shape)
    dim = 0 if what == "rows" else 1
    n = shape[dim]
    v = vector_of(p, vector, "f32", n)
    c = p.emit(
        f"cmpf greater_than ordered {v}, {p.const('0.0', 'f32', (n,))} : {tile('f32', (n,))} -> {tile('i1', (n,))}"
    )
    s = p.emit(
        f"select {c}, {p.const('0.5', dtype, (n,))}, {p.const('1.0', dtype, (n,))} : {tile('i1', (n,))}, {tile(dtype, (n,))}"
    )
    return p.binary("mulf", x, p.spread(s, dtype, n, shape, dim), dtype, shape)


class Loop:
    """A loop over steps of K, counted or left by `break`, whose body is written by `with`."""

    def __init__(
        self, p: Products, low: str, high: str, step: str, carried: Sequence[tuple[str, str]]
    ) -> None:
        self.p, self.low, self.high, self.step, self.carried = p, low, high, step, carried
        p.count += 1
        self.n = p.count
        self.kind = p.choose(("for", "for", "for", "loop"))
        self.i = f"%i{self.n}"
        self.values = [f"%c{self.n}_{k}" for k in range(len(carried))]
        types = ", ".join(t for _, t in carried)
        self.types = types
        names = ", ".join(f"{c} = {v}" for c, (v, _) in zip(self.values, carried))
        result = f"%v{self.n}" + (f":{len(carried)}" if len(carried) > 1 else "")
        self.results = (
            [f"%v{self.n}#{k}" for k in range(len(carried))] if len(carried) > 1 else [f"%v{self.n}"]
        )
        if self.kind == "for":
            p.line(
                f"{result} = for {self.i} in ({low} to {high}, step {step}) : tile<i32> iter_values({names}) -> ({types}) {{"
            )
            p.depth += 1
            return
        p.line(f"{result} = loop iter_values({self.i} = {low}, {names}) : tile<i32>, {types} -> {types} {{")
        p.depth += 1
        c = p.emit(f"cmpi greater_than_or_equal {self.i}, {high}, signed : tile<i32> -> tile<i1>")
        p.line(f"if {c} {{")
        p.line(f"  break {', '.join(self.values)} : {types}")
        p.line("}")

    def skip(self, condition: str) -> None:
        """Goes on with what the round began with."""
        p = self.p
        p.line(f"if {condition} {{")
        p.depth += 1
        self.go_on(self.values)
        p.depth -= 1
        p.line("}")

    def go_on(self, values: Sequence[str]) -> None:
        p = self.p
        if self.kind == "for":
            p.line(f"continue {', '.join(values)} : {self.types}")
            return
        nxt = p.binary("addi", self.i, self.step, "i32")
        p.line(f"continue {', '.join([nxt, *values])} : tile<i32>, {self.types}")

    def end(self, values: Sequence[str]) -> list[str]:
        self.go_on(values)
        self.p.depth -= 1
        self.p.line("}")
        return self.results


def epilogue(
    p: Products,
    x: str,
    acc: str,
    shape: tuple[int, int],
    out: Operand,
    sums: str,
    i: str,
    j: str,
    vector: str,
) -> None:
    """From the accumulator to memory."""
    if acc != "i32" and p.choose((0, 0, 1)) and vector:
        dim = p.choose((0, 1))
        v = vector_of(p, vector, acc, shape[dim])
        x = p.binary("addf", x, p.spread(v, acc, shape[dim], shape, dim), acc, shape)
    if p.choose((0, 0, 1)):
        zero = p.const(0 if acc == "i32" else "0.0", acc, shape)
        x = (
            p.emit(f"maxi {x}, {zero} signed : {tile(acc, shape)}")
            if acc == "i32"
            else p.binary("maxf", x, zero, acc, shape)
        )
    if sums:
        dim = p.choose((0, 1))
        s = rows(p, x, acc, shape, dim, p.choose(("max", "sum")))
        n = shape[1 - dim]
        q = f"ptr<{acc}>"
        one = p.emit(f"reshape {sums} : tile<{q}> -> {tile(q, (1,))}")
        many = p.emit(f"broadcast {one} : {tile(q, (1,))} -> {tile(q, (n,))}")
        k = p.emit(f"iota : {tile('i32', (n,))}")
        at = p.emit(f"offset {many}, {k} : {tile(q, (n,))}, {tile('i32', (n,))} -> {tile(q, (n,))}")
        p.emit(f"store_ptr_tko weak {at}, {s} : {tile(q, (n,))}, {tile(acc, (n,))} -> token")
    if out.dtype != acc:
        x = p.emit(f"ftof {x} : {tile(acc, shape)} -> {tile(out.dtype, shape)}")
    out.store(i, j, x)


def draw_program(choose: Choose) -> str:
    """The text of one program, its arguments in the first line (see `arguments_of`)."""
    p = Products(choose)
    form = choose(
        ("matmul", "matmul", "matmul", "gated", "rescaled", "attention", "attention", "outer", "chain")
    )
    dtype = choose(("f16", "bf16", "bf16", "f16", "tf32", "i8", "f8E4M3FN", "f8E5M2", "f64", "f32"))
    if form == "attention" and dtype not in ("f16", "bf16", "f8E4M3FN"):
        dtype = "f16"
    acc = ACC[dtype]
    m, n = choose((16, 32, 64, 128, 128)), choose((8, 16, 32, 64, 128))
    k = choose((16, 32, 64, 128)) if BYTES[dtype] < 4 else choose((8, 16, 32))
    if dtype in ("f64", "f32"):
        m, n = min(m, 64), min(n, 64)
    steps = choose((1, 2, 3, 4, 5, 7))
    ragged = choose((0, 0, 0, 1))
    depth = max(1, k * steps - (min(k - 1, choose((1, 3, 8, k // 2))) if ragged else 0))
    tiles = choose((1, 1, 2))
    height = m * tiles - (choose((0, 1, 8)) if ragged else 0)
    p.depth = 1
    vector = p.array("f32", 256) if choose((0, 1)) else ""
    zero, one = p.const(0, "i32"), p.const(1, "i32")
    low = zero if choose((1, 1, 0)) else p.const(1, "i32")
    high = choose((p.const(steps, "i32"), p.scalar(steps)))
    step = one if choose((1, 1, 1, 0)) else p.const(2, "i32")
    result = acc if choose((0, 1)) or acc in ("i32", "f64") else choose(("f16", "bf16"))
    if form == "attention":
        attention(p, dtype, m, n, k, steps, low, high, step, vector, ragged)
    else:
        a = Operand(p, dtype, (m, k), (height, depth))
        b = Operand(p, dtype, (k, n), (depth, n))
        c = Operand(p, dtype, (k, n), (depth, n)) if form == "gated" else None
        out = Operand(p, result, (m, n), (height, n), reads=False)
        sums = p.array(acc, 256, True) if choose((0, 0, 1)) else ""
        outer: Loop | None = None
        i = zero if tiles == 1 else p.const(choose(range(tiles)), "i32")
        if form == "outer":
            unit = p.const(0, "i32")
            outer = Loop(p, zero, p.const(tiles, "i32"), one, [(unit, "tile<i32>")])
            i = outer.i
        t = tile(acc, (m, n))
        carried = [(zero_of(p, acc, (m, n)), t)] * (2 if c else 1)
        inner = Loop(p, low, high, step, carried)
        if inner.kind == "for" and choose((0, 0, 0, 1)):
            inner.skip(
                p.emit(
                    f"cmpi equal {inner.i}, {p.const(choose((0, 1, 2)), 'i32')}, signed : tile<i32> -> tile<i1>"
                )
            )
        x = arithmetic(p, a.load(i, inner.i), dtype, (m, k), inner.i, vector)
        y = arithmetic(p, b.load(inner.i, zero), dtype, (k, n), inner.i, vector)
        if form == "rescaled":
            way = choose(("before", "after", "each"))
            z = inner.values[0]
            if way == "before":
                z = multiply(p, x, y, halves(p, z, acc, (m, n), vector), dtype, m, n, k)
            elif way == "after":
                z = halves(p, multiply(p, x, y, z, dtype, m, n, k), acc, (m, n), vector)
            else:
                part = multiply(p, x, y, p.const(0 if acc == "i32" else "0.0", acc, (m, n)), dtype, m, n, k)
                part = halves(p, part, acc, (m, n), vector)
                z = p.binary("addi" if acc == "i32" else "addf", z, part, acc, (m, n))
            values = [z]
        else:
            values = [multiply(p, x, y, inner.values[0], dtype, m, n, k)]
            if c:
                w = arithmetic(p, c.load(inner.i, zero), dtype, (k, n), inner.i, vector)
                values.append(multiply(p, x, w, inner.values[1], dtype, m, n, k))
        done = inner.end(values)
        x = done[0]
        if c:
            x = p.binary("addi" if acc == "i32" else choose(("mulf", "addf")), x, done[1], acc, (m, n))
        if form == "chain" and dtype in ("f16", "bf16", "f8E4M3FN") and n >= 16:
            d = Operand(p, dtype, (n, n), (n, n))
            h = p.emit(f"ftof {x} : {t} -> {tile(dtype, (m, n))}")
            x = multiply(p, h, d.load(zero, zero), p.const("0.0", acc, (m, n)), dtype, m, n, n)
        epilogue(p, x, acc, (m, n), out, sums, i, zero, vector)
        if outer:
            outer.end([outer.values[0]])
    return text_of(p)


def attention(
    p: Products,
    dtype: str,
    m: int,
    n: int,
    k: int,
    steps: int,
    low: str,
    high: str,
    step: str,
    vector: str,
    ragged: int,
) -> None:
    """Scores, what is done with rows, and their product with values: m queries, n of k numbers a step."""
    n = max(n, 16)
    keys = max(1, n * steps - (p.choose((1, 8)) if ragged else 0))
    acc, width = "f32", p.choose((k, max(16, k // 2)))
    q, kt, v = (
        Operand(p, dtype, (m, k), (m, k)),
        Operand(p, dtype, (k, n), (k, keys)),
        Operand(p, dtype, (n, width), (keys, width)),
    )
    out = Operand(p, p.choose((acc, "f16", "bf16")), (m, width), (m, width), reads=False)
    sums = p.array(acc, 256, True) if p.choose((0, 1)) else ""
    zero = p.const(0, "i32")
    query = q.load(zero, zero)
    total, tops = zero_of(p, acc, (m, width)), p.const("0.0", acc, (m,))
    loop = Loop(p, low, high, step, [(total, tile(acc, (m, width))), (tops, tile(acc, (m,)))])
    s = multiply(p, query, kt.load(zero, loop.i), p.const("0.0", acc, (m, n)), dtype, m, n, k)
    if p.choose((0, 1)):
        r = p.spread(p.emit(f"iota : {tile('i32', (m,))}"), "i32", m, (m, n), 0)
        size = p.binary("muli", loop.i, p.const(n, "i32"), "i32")
        c = p.emit(f"iota : {tile('i32', (n,))}")
        first = p.emit(f"reshape {size} : tile<i32> -> {tile('i32', (1,))}")
        first = p.emit(f"broadcast {first} : {tile('i32', (1,))} -> {tile('i32', (n,))}")
        c = p.spread(p.binary("addi", c, first, "i32", (n,)), "i32", n, (m, n), 1)
        mask = p.emit(
            f"cmpi greater_than_or_equal {r}, {c}, signed : {tile('i32', (m, n))} -> {tile('i1', (m, n))}"
        )
        s = p.emit(
            f"select {mask}, {s}, {p.const('-4.0', acc, (m, n))} : {tile('i1', (m, n))}, {tile(acc, (m, n))}"
        )
    top = rows(p, s, acc, (m, n), 1, "max")
    top = p.emit(f"maxf {loop.values[1]}, {top} : {tile(acc, (m,))}")
    grown = p.emit(
        f"cmpf greater_than ordered {top}, {loop.values[1]} : {tile(acc, (m,))} -> {tile('i1', (m,))}"
    )
    scale = p.emit(
        f"select {grown}, {p.const('0.5', acc, (m,))}, {p.const('1.0', acc, (m,))} : {tile('i1', (m,))}, {tile(acc, (m,))}"
    )
    t, bits = tile(acc, (m, n)), tile("i1", (m, n))
    if p.choose((1, 1, 0)):  # what exp does: numbers between nothing and one, here a half or one
        over = p.emit(
            f"cmpf greater_than_or_equal ordered {s}, {p.spread(top, acc, m, (m, n), 0)} : {t} -> {bits}"
        )
        one, half = p.const("1.0", acc, (m, n)), p.const("0.5", acc, (m, n))
        s = p.emit(f"select {over}, {one}, {half} : {bits}, {t}")
    else:
        s = p.emit(f"minf {s}, {p.const('8.0', acc, (m, n))} : {t}")
        s = p.emit(f"maxf {s}, {p.const('-8.0', acc, (m, n))} : {t}")
    low_p = p.emit(f"ftof {s} : {tile(acc, (m, n))} -> {tile(dtype, (m, n))}")
    z = p.binary("mulf", loop.values[0], p.spread(scale, acc, m, (m, width), 0), acc, (m, width))
    z = multiply(p, low_p, v.load(loop.i, zero), z, dtype, m, width, n)
    done = loop.end([z, top])
    epilogue(p, done[0], acc, (m, width), out, sums, zero, zero, vector)


def text_of(p: Products) -> str:
    args = [f"%a{k}: tile<ptr<{d}>>" for k, (d, _, _) in enumerate(p.arrays)]
    args += [f"%s{k}: tile<i32>" for k in range(len(p.scalars))]
    hints = p.choose(("", "", "", " optimization_hints=<default = {occupancy = 2}>"))
    head = " ".join([*(f"{d}:{n}{'!' if w else ''}" for d, n, w in p.arrays), *map(str, p.scalars)])
    return (
        "\n".join(
            [f"// {head}", "cuda_tile.module @fuzz {", f"  entry @k({', '.join(args)}){hints} {{"]
            + [f"  {line}" for line in p.lines]
            + ["    return", "  }", "}"]
        )
        + "\n"
    )


def arguments_of(text: str) -> list[Any]:
    """Fresh arguments for a program: small whole numbers, and what is written starts as sevens."""
    rng = np.random.default_rng(len(text))
    values: list[Any] = []
    for word in text.splitlines()[0][3:].split():
        if ":" not in word:
            values.append(int(word))
            continue
        dtype, size = word.split(":")
        kind = DTYPES[NAMES.get(dtype, dtype)]
        n = int(size.rstrip("!"))
        values.append(
            place(np.full(n, 7).astype(kind) if size.endswith("!") else rng.integers(-2, 3, n).astype(kind))
        )
    return values


def run(text: str, target: str, gpu_name: str = "sm_90", **more: Any) -> list[Any]:
    """The arguments after the launch."""
    import tileiras

    values = arguments_of(text)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, gpu_name=gpu_name, **more)
    return values


def differences(text: str, gpu_name: str, target: str = "emulator", **more: Any) -> list[str]:
    """What machine code, emulated or of this CPU, leaves in memory differently from the interpreter."""
    return unlike(run(text, target, gpu_name, **more), run(text, "reference"))
