"""Random kernels around tensor products: what matmul, attention and their relatives are made of, put together at random.

A program loads operands in a loop from views or pointers in any arrangement, aligned or not, converts, scales or permutes them,
multiplies, rescales what it adds up, feeds products with products, goes over tiles in an outer loop, and ends in an
epilogue. Tiles are as large as the asynchronous instructions want them, arrays a few of them. All numbers are small
and whole, so every order of summing gives the same; results are compared bit for bit with the interpreter's.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from tests.corpus.bits import unlike
from tests.corpus.case import DTYPES, place
from tests.corpus.fuzz import Choose, tile
from tests.corpus.fuzz_products_forms import draw_form
from tests.corpus.fuzz_products_kit import (
    ACC,
    BYTES,
    Loop,
    Operand,
    Products,
    arithmetic,
    epilogue,
    halves,
    multiply,
    rows,
    zero_of,
)
from tests.corpus.fuzz_products_sources import source

NAMES = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f8E8M0FNU": "e8m0"}


def draw_program(choose: Choose) -> str:
    """The text of one program, its arguments in the first line (see `arguments_of`)."""
    p = Products(choose)
    if choose((0, 1, 1)):
        p.depth = 1
        draw_form(p)
        return text_of(p)
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
        a = source(p, dtype, (m, k), (height, depth))
        b = source(p, dtype, (k, n), (depth, n))
        c = Operand(p, dtype, (k, n), (depth, n)) if form == "gated" else None
        out = Operand(p, result, (m, n), (height, n), reads=False)
        sums = p.array(acc, 256, True) if form != "outer" and choose((0, 0, 1)) else ""
        outer: Loop | None = None
        i = zero if tiles == 1 else p.const(choose(range(tiles)), "i32")
        if form == "outer":
            unit = p.const(0, "i32")
            outer = Loop(p, zero, p.const(tiles, "i32"), one, [(unit, "tile<i32>")])
            i = outer.i
        t = tile(acc, (m, n))
        carried = [(zero_of(p, acc, (m, n)), t)] * (2 if c else 1)
        pointers = ((o, dim) for o, dim in ((a, 1), (b, 0)) if getattr(o, "how", "") == "pointers")
        walking = [(o, dim) for o, dim in pointers if choose((1, 0, 0))]
        for o, dim in walking:
            begin = o.pointers(*((i, low) if dim else (low, zero)))
            carried.append((begin, o.type_of_pointers()))
        inner = Loop(p, low, high, step, carried, choose(("for", "for", "break", "while")) if walking else "")
        for (o, _), value in zip(walking, inner.values[-len(walking) :]):
            o.at = value
        if choose((0, 0, 0, 1)):
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
        done = inner.end([*values, *(o.stepped(dim, step) for o, dim in walking)])
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


ENTRY_HINTS = ("occupancy = 1", "occupancy = 2", "occupancy = 4", "num_cta_in_cga = 2", "num_cta_in_cga = 4",
               "num_worker_warps_per_cta = 4", "num_worker_warps_per_cta = 8", "num_worker_warps_per_cta = 16",
               "num_cta_in_cga = 2, occupancy = 1")  # fmt: skip


def text_of(p: Products, hint: str = "") -> str:
    """The program's text. `hint`: of its entry, where none is to be drawn."""
    args = [f"%a{k}: tile<ptr<{d}>>" for k, (d, _, _) in enumerate(p.arrays)]
    args += [f"%s{k}: tile<i32>" for k in range(len(p.scalars))]
    hint = hint or p.choose((*[""] * 10, *ENTRY_HINTS))
    hints = hint and f" optimization_hints=<default = {{{hint}}}>"
    spec = p.choose(
        (*[""] * 8, "tt.num_stages = 2 : i32", "tt.num_stages = 4 : i32", "tt.num_warps = 8 : i32")
    )
    module = f" attributes {{{spec}}}" if spec else ""
    head = " ".join(
        ["x".join(map(str, p.grid)), *(f"{d}:{n}{w}" for d, n, w in p.arrays), *map(str, p.scalars)]
    )
    return (
        "\n".join(
            [f"// {head}", f"cuda_tile.module @fuzz{module} {{", f"  entry @k({', '.join(args)}){hints} {{"]
            + [f"  {line}" for line in p.lines]
            + ["    return", "  }", "}"]
        )
        + "\n"
    )


def arguments_of(text: str) -> list[Any]:
    """Fresh arguments for a program: small whole numbers, and what is written (!) starts as sevens; ~: bytes of all values;
    @n: it begins n elements behind an aligned address."""
    rng = np.random.default_rng(len(text))
    values: list[Any] = []
    for word in text.splitlines()[0][3:].split():
        if ":" not in word:
            if "x" not in word:  # the grid
                values.append(int(word))
            continue
        dtype, size = word.split(":")
        n, skew = map(int, f"{size.rstrip('!~')}@0".split("@")[:2])
        kind, n = DTYPES[NAMES.get(dtype, dtype)], n + skew
        if size.endswith("!"):
            value = np.full(n, 7).astype(kind)
        elif size.endswith("~"):
            value = rng.integers(-128, 128, n).astype(kind)
        elif dtype == "f8E8M0FNU":
            value = (2.0 ** rng.integers(-2, 3, n)).astype(kind)
        else:
            value = rng.integers(-2, 3, n).astype(kind)
        values.append(place(value)[skew:])
    return values


def grid_of(text: str) -> tuple[int, ...]:
    first = text.splitlines()[0][3:].split()[0]
    return tuple(map(int, first.split("x"))) if "x" in first and ":" not in first else (1, 1, 1)


def run(text: str, target: str, gpu_name: str = "sm_90", **more: Any) -> tuple[list[Any], str]:
    """The arguments after the launch, and what was printed."""
    import tileiras

    values, out = arguments_of(text), io.StringIO()
    tileiras.launch(
        text, "k", grid=grid_of(text), args=values, target=target, gpu_name=gpu_name, out=out, **more
    )
    return values, out.getvalue()


def differences(text: str, gpu_name: str, target: str = "emulator", **more: Any) -> list[str]:
    """What machine code, emulated or of this CPU, leaves in memory or prints differently from the interpreter."""
    (got, says), (want, said) = run(text, target, gpu_name, **more), run(text, "reference")
    printed = [] if says == said else [f"printed {says!r}, not {said!r}"]
    return [*printed, *unlike(got, want)]
