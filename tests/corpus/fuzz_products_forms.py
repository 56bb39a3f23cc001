"""Random kernels of the forms that libraries have: tiles by block and by loop, attention both ways, scaled blocks, products that
share operands or stand in branches, loops in loops, effects between products.
"""

from __future__ import annotations

from typing import Any

from tests.corpus.fuzz import tile
from tests.corpus.fuzz_products_kit import (
    ACC,
    BYTES,
    SIGNS,
    Loop,
    Operand,
    Products,
    arithmetic,
    epilogue,
    halves,
    multiply,
    rows,
    vector_of,
    zero_of,
)
from tests.corpus.fuzz_products_sources import Blocked, Deep, LookedUp, source

FLOATS16 = ("f16", "bf16")


class Sizes:
    """What is drawn first: types, tile, steps, and numbers for them."""

    def __init__(self, p: Products, types: tuple[str, ...] = ()) -> None:
        choose = p.choose
        self.dtype = choose(
            types or ("f16", "bf16", "bf16", "f16", "tf32", "i8", "f8E4M3FN", "f8E5M2", "f64", "f32")
        )
        self.acc = ACC[self.dtype]
        large = choose((False, True))  # what the instructions of warpgroups and of tensor memory want
        self.m = choose((64, 128, 128, 256) if large else (16, 32, 64, 128))
        self.n = choose((64, 128) if large or self.m == 256 else (8, 16, 32, 64, 128))
        deep = (32, 64, 64, 128) if large else (16, 32, 64, 128)
        self.k = choose(deep if BYTES[self.dtype] < 4 else (8, 16, 32))
        if self.dtype in ("f64", "f32"):
            self.m, self.n = min(self.m, 64), min(self.n, 64)
        self.steps = choose((1, 2, 3, 4, 5, 7))
        self.ragged = choose((0, 0, 0, 1))
        self.depth = max(
            1, self.k * self.steps - (choose((1, 3, min(8, self.k - 1), self.k // 2)) if self.ragged else 0)
        )
        self.zero, self.one = p.const(0, "i32"), p.const(1, "i32")
        self.vector = p.array("f32", 256) if choose((0, 1)) else ""
        self.low = self.zero if choose((1, 1, 1, 0)) else p.const(1, "i32")
        self.high = p.const(self.steps, "i32") if choose((0, 1)) else p.scalar(self.steps)
        if choose((0, 0, 0, 0, 0, 0, 0, 1)):  # nothing to do, also from one on
            self.high = p.scalar(0)
        self.step = self.one if choose((1, 1, 1, 0)) else p.const(2, "i32")

    def cut(self, p: Products, whole: int) -> int:
        """An extent a little short of whole tiles."""
        return whole - (p.choose((1, 5, 7)) if self.ragged else 0)

    def result(self, p: Products) -> str:
        if self.acc in ("i32", "f64") or p.choose((0, 1)):
            return self.acc
        return str(p.choose(FLOATS16))


def begin(p: Products, grid: tuple[int, int, int]) -> list[str]:
    """The numbers of this tile block."""
    p.grid = grid
    p.line("%b0, %b1, %b2 = get_tile_block_id : tile<i32>")
    return ["%b0", "%b1", "%b2"]


def equal(p: Products, x: str, y: str) -> str:
    return p.emit(f"cmpi equal {x}, {y}, signed : tile<i32> -> tile<i1>")


def clear(p: Products, dtype: str, shape: tuple[int, ...]) -> str:
    return p.const("0" if dtype == "i32" else "0.0", dtype, shape)


def add(p: Products, x: str, y: str, dtype: str, shape: tuple[int, ...]) -> str:
    return p.binary("addi" if dtype == "i32" else "addf", x, y, dtype, shape)


def low_of(p: Products, x: str, acc: str, dtype: str, shape: tuple[int, int]) -> str:
    """Products as an operand of the next: first into a range that every type has."""
    top, bottom = p.const("8.0", acc, shape), p.const("-8.0", acc, shape)
    x = p.binary("maxf", p.binary("minf", x, top, acc, shape), bottom, acc, shape)
    return p.emit(f"ftof {x} : {tile(acc, shape)} -> {tile(dtype, shape)}")


def turned(p: Products, x: str, dtype: str, shape: tuple[int, int]) -> str:
    return p.emit(f"permute {x} [1, 0] : {tile(dtype, shape)} -> {tile(dtype, shape[::-1])}")


def product_loop(
    p: Products, s: Sizes, a: Any, b: Any, i: str, j: str, start: str, low: str = "", high: str = ""
) -> str:
    """The plain loop over K."""
    shape = (s.m, s.n)
    loop = Loop(p, low or s.low, high or s.high, s.step, [(start, tile(s.acc, shape))])
    x = arithmetic(p, a.load(i, loop.i), s.dtype, (s.m, s.k), loop.i, s.vector)
    y = arithmetic(p, b.load(loop.i, j), s.dtype, (s.k, s.n), loop.i, s.vector)
    return loop.end([multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)])[0]


def tiles(p: Products) -> None:
    """A block for each tile of the result, or each block over some tiles; the order by rows, columns or in groups."""
    s = Sizes(p)
    count = (p.choose((1, 2, 3)), p.choose((1, 2, 2)))
    total = count[0] * count[1]
    height, width = s.cut(p, s.m * count[0]), s.cut(p, s.n * count[1])
    a, b = source(p, s.dtype, (s.m, s.k), (height, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, width))
    out = Operand(p, s.result(p), (s.m, s.n), (height, width), reads=False)
    way = p.choose(("grid", "flat", "persistent", "persistent", "rows"))
    if way == "grid":
        i, j, _ = begin(p, (*count, 1))
        one_tile(p, s, a, b, out, i, j)
        return
    if way == "rows":  # a block goes along a row of tiles
        i, *_ = begin(p, (count[0], 1, 1))
        loop = Loop(p, s.zero, p.const(count[1], "i32"), s.one, [(s.zero, "tile<i32>")])
        one_tile(p, s, a, b, out, i, loop.i)
        loop.end([loop.values[0]])
        return
    if way == "flat":
        t, *_ = begin(p, (total, 1, 1))
        one_tile(p, s, a, b, out, *place_of(p, t, count))
        return
    grid = p.choose((1, 2, total))
    t, *_ = begin(p, (grid, 1, 1))
    stride = p.const(grid, "i32")
    if p.choose((0, 1)):
        p.line("%n0, %n1, %n2 = get_num_tile_blocks : tile<i32>")
        stride = "%n0"
    end = p.const(total, "i32") if p.choose((0, 1)) else p.scalar(total)
    kept = p.choose((0, 1))
    carried = [(t if kept else s.zero, "tile<i32>")]
    loop = Loop(p, t, end, stride, carried, p.choose(("for", "for", "break", "while", "first")))
    one_tile(p, s, a, b, out, *place_of(p, loop.values[0] if kept else loop.i, count))
    loop.end([p.binary("addi", loop.values[0], stride, "i32")])


def place_of(p: Products, t: str, count: tuple[int, int]) -> tuple[str, str]:
    """The row and the column of tile number t."""
    if p.choose((0, 1)):
        n = p.const(count[1], "i32") if p.choose((0, 1)) else p.scalar(count[1])
        return p.emit(f"divi {t}, {n} signed : tile<i32>"), p.emit(f"remi {t}, {n} signed : tile<i32>")
    n = p.const(count[0], "i32")
    return p.emit(f"remi {t}, {n} signed : tile<i32>"), p.emit(f"divi {t}, {n} signed : tile<i32>")


def one_tile(p: Products, s: Sizes, a: Any, b: Any, out: Operand, i: str, j: str) -> None:
    x = product_loop(p, s, a, b, i, j, zero_of(p, s.acc, (s.m, s.n)))
    epilogue(p, x, s.acc, (s.m, s.n), out, "", i, j, s.vector)


def split(p: Products) -> None:
    """Parts of K by block, added by atomics."""
    s = Sizes(p)
    parts = p.choose((1, 2, 3))
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    base = p.array(s.acc, s.m * s.n, True)
    t, *_ = begin(p, (parts, 1, 1))
    each = p.const(-(-s.steps // parts), "i32")
    low = p.binary("muli", t, each, "i32")
    high = p.binary("addi", low, each, "i32")
    high = p.emit(f"mini {high}, {s.high} signed : tile<i32>")
    x = product_loop(p, s, a, b, s.zero, s.zero, clear(p, s.acc, (s.m, s.n)), low, high)
    added(p, base, x, s.acc, (s.m, s.n))


def added(p: Products, base: str, x: str, dtype: str, shape: tuple[int, int], token: str = "") -> str:
    """A tile added to memory by atomics, row by row."""
    q = f"ptr<{dtype}>"
    n = shape[0] * shape[1]
    at = p.emit(f"iota : {tile('i32', (n,))}")
    at = p.emit(f"reshape {at} : {tile('i32', (n,))} -> {tile('i32', shape)}")
    one = p.emit(f"reshape {base} : tile<{q}> -> {tile(q, (1, 1))}")
    many = p.emit(f"broadcast {one} : {tile(q, (1, 1))} -> {tile(q, shape)}")
    at = p.emit(f"offset {many}, {at} : {tile(q, shape)}, {tile('i32', shape)} -> {tile(q, shape)}")
    how = "add" if dtype == "i32" else "addf"
    after = f" token={token}" if token else ""
    _, done = p.op(
        f"atomic_rmw_tko relaxed device {at}, {how}, {x}{after} : {tile(q, shape)}, {tile(dtype, shape)} -> "
        f"{tile(dtype, shape)}, token"
    )
    return done


def two_loops(p: Products) -> None:
    """One accumulator through two loops: other operands, or the second part of K with a mask."""
    s = Sizes(p)
    same = p.choose((0, 1))
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    c, d = (a, b) if same else (
        source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n)))  # fmt: skip
    out = Operand(p, s.result(p), (s.m, s.n), (s.m, s.n), reads=False)
    x = zero_of(p, s.acc, (s.m, s.n))
    if same:
        middle = p.choose(
            (p.const(p.choose(range(s.steps + 1)), "i32"), p.scalar(p.choose(range(s.steps + 1))))
        )
        x = product_loop(p, s, a, b, s.zero, s.zero, x, s.zero, middle)
        x = product_loop(p, s, a, b, s.zero, s.zero, x, middle, s.high)
    else:
        x = product_loop(p, s, a, b, s.zero, s.zero, x)
        if p.choose((0, 1)):
            x = halves(p, x, s.acc, (s.m, s.n), s.vector)
        x = product_loop(p, s, c, d, s.zero, s.zero, x)
    epilogue(p, x, s.acc, (s.m, s.n), out, "", s.zero, s.zero, s.vector)


def nested(p: Products) -> None:
    """A loop in a loop over K: the sum of the inner one is scaled and added, or goes on."""
    s = Sizes(p)
    inner = p.choose((1, 2, 3))
    depth = s.k * s.steps * inner
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, depth)), source(p, s.dtype, (s.k, s.n), (depth, s.n))
    out = Operand(p, s.result(p), (s.m, s.n), (s.m, s.n), reads=False)
    shape = (s.m, s.n)
    outer = Loop(p, s.low, s.high, s.step, [(zero_of(p, s.acc, shape), tile(s.acc, shape))])
    each = p.const(inner, "i32") if p.choose((0, 1)) else p.scalar(inner)
    first = p.binary("muli", outer.i, each, "i32")
    through = p.choose((0, 1))
    start = outer.values[0] if through else clear(p, s.acc, shape)
    loop = Loop(p, s.zero, each, s.one, [(start, tile(s.acc, shape))])
    kk = p.binary("addi", first, loop.i, "i32")
    x = arithmetic(p, a.load(s.zero, kk), s.dtype, (s.m, s.k), kk, s.vector)
    y = arithmetic(p, b.load(kk, s.zero), s.dtype, (s.k, s.n), kk, s.vector)
    done = loop.end([multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)])[0]
    if not through:
        done = add(p, outer.values[0], halves(p, done, s.acc, shape, s.vector), s.acc, shape)
    done = outer.end([done])[0]
    epilogue(p, done, s.acc, shape, out, "", s.zero, s.zero, s.vector)


def shared(p: Products) -> None:
    """Products that share an operand: as it is, turned, or with itself."""
    s = Sizes(p, ("f16", "bf16", "f16", "bf16", "f8E4M3FN", "i8", "tf32"))
    s.k = max(s.k, 16)
    way = p.choose(("self", "turned", "both sides", "three"))
    shape = (s.m, s.n)
    if way == "self":  # x by its own transpose
        a = source(p, s.dtype, (s.m, s.k), (s.m, s.k * s.steps))
        out = Operand(p, s.result(p), (s.m, s.m), (s.m, s.m), reads=False)
        loop = Loop(p, s.low, s.high, s.step, [(zero_of(p, s.acc, (s.m, s.m)), tile(s.acc, (s.m, s.m)))])
        x = a.load(s.zero, loop.i)
        y = turned(p, x, s.dtype, (s.m, s.k))
        done = loop.end([multiply(p, x, y, loop.values[0], s.dtype, s.m, s.m, s.k)])[0]
        epilogue(p, done, s.acc, (s.m, s.m), out, "", s.zero, s.zero, s.vector)
        return
    a = source(p, s.dtype, (s.m, s.k), (s.m, s.k * s.steps))
    b = source(p, s.dtype, (s.k, s.n), (s.k * s.steps, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    start = (zero_of(p, s.acc, shape), tile(s.acc, shape))
    if way == "turned":  # x by y, and x turned by z
        c = source(p, s.dtype, (s.m, s.n), (s.m * s.steps, s.n))
        second = (s.k, s.n)
        rest = Operand(p, s.acc, second, second, reads=False)
        loop = Loop(p, s.low, s.high, s.step, [start, (clear(p, s.acc, second), tile(s.acc, second))])
        x = a.load(s.zero, loop.i)
        v = multiply(p, x, b.load(loop.i, s.zero), loop.values[0], s.dtype, s.m, s.n, s.k)
        changed = arithmetic(p, x, s.dtype, (s.m, s.k), loop.i, s.vector)
        w = multiply(
            p,
            turned(p, changed, s.dtype, (s.m, s.k)),
            c.load(loop.i, s.zero),
            loop.values[1],
            s.dtype,
            s.k,
            s.n,
            s.m,
        )
        done = loop.end([v, w])
        rest.store(s.zero, s.zero, done[1])
    elif way == "both sides":  # x by y, z by y
        c = source(p, s.dtype, (s.m, s.k), (s.m, s.k * s.steps))
        rest = Operand(p, s.acc, shape, shape, reads=False)
        loop = Loop(p, s.low, s.high, s.step, [start, start])
        y = b.load(loop.i, s.zero)
        v = multiply(p, a.load(s.zero, loop.i), y, loop.values[0], s.dtype, s.m, s.n, s.k)
        w = multiply(p, c.load(s.zero, loop.i), y, loop.values[1], s.dtype, s.m, s.n, s.k)
        done = loop.end([v, w])
        rest.store(s.zero, s.zero, done[1])
    else:  # x by y, the sum of two of them and a product in a branch
        loop = Loop(p, s.low, s.high, s.step, [start])
        x, y = a.load(s.zero, loop.i), b.load(loop.i, s.zero)
        z = multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)
        c = equal(p, p.binary("andi", loop.i, s.one, "i32"), s.zero)
        p.count += 1
        name = f"%v{p.count}"
        p.line(f"{name} = if {c} -> ({tile(s.acc, shape)}) {{")
        p.depth += 1
        again = multiply(p, x, y, z, s.dtype, s.m, s.n, s.k)
        p.line(f"yield {again} : {tile(s.acc, shape)}")
        p.depth -= 1
        p.line("} else {")
        p.line(f"  yield {z} : {tile(s.acc, shape)}")
        p.line("}")
        done = loop.end([name])
    epilogue(p, done[0], s.acc, shape, out, "", s.zero, s.zero, s.vector)


def guarded(p: Products) -> None:
    """Loads or products that stand in a branch of the loop, by position or by a flag in memory."""
    s = Sizes(p)
    shape = (s.m, s.n)
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    outside = p.choose((0, 1, 2))  # how many loads are in front of the branch
    loop = Loop(p, s.low, s.high, s.step, [(zero_of(p, s.acc, shape), tile(s.acc, shape))])
    loads = [lambda: a.load(s.zero, loop.i), lambda: b.load(loop.i, s.zero)]
    values = [load() for load in loads[:outside]]
    test = p.choose(("less_than", "greater_than_or_equal", "not_equal"))
    limit = p.const(p.choose((1, 2, 3)), "i32") if p.choose((0, 1)) else p.scalar(p.choose((0, 1, 2)))
    c = p.emit(f"cmpi {test} {loop.i}, {limit}, signed : tile<i32> -> tile<i1>")
    p.count += 1
    name, t = f"%v{p.count}", tile(s.acc, shape)
    p.line(f"{name} = if {c} -> ({t}) {{")
    p.depth += 1
    values += [load() for load in loads[outside:]]
    x = multiply(p, *values, loop.values[0], s.dtype, s.m, s.n, s.k)
    p.line(f"yield {x} : {t}")
    p.depth -= 1
    p.line("} else {")
    p.depth += 1
    other = loop.values[0]
    if p.choose((0, 1)):
        other = halves(p, other, s.acc, shape, "")
    p.line(f"yield {other} : {t}")
    p.depth -= 1
    p.line("}")
    done = loop.end([name])[0]
    epilogue(p, done, s.acc, shape, out, "", s.zero, s.zero, s.vector)


def number_at(p: Products, array: str, i: str) -> str:
    at = p.emit(f"offset {array}, {i} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
    return p.op(f"load_ptr_tko weak {at} : tile<ptr<i32>> -> tile<i32>, token")[0]


def left_out(p: Products) -> None:
    """Steps that a condition leaves out: by a flag, a list of places, the place itself, a number that is stepped in each round,
    or one that only the rounds with work change. What is carried beside the sum is stored."""
    s = Sizes(p)
    choose, shape = p.choose, (s.m, s.n)
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    flags, seen = p.array("i32", 64), p.array("i32", 4, True)
    way = choose(("flag", "flag", "flag", "listed", "place", "both", "stepped", "taken"))
    test = choose(("not_equal", "greater_than", "greater_than_or_equal", "equal", "less_than"))
    number, t = "tile<i32>", tile(s.acc, shape)
    start = (zero_of(p, s.acc, shape), t)
    limit = p.scalar(choose((0, 1, 2)))
    three = p.const(3, "i32")
    rounds = choose((0, 1))
    i = p.scalar(choose((0, 5, 61)))
    loop = Loop(
        p, s.low, s.high, s.step, [start, (s.zero, number), (i, number)][: 2 + (rounds or way == "stepped")]
    )
    k, place = loop.i, loop.i
    total, taken = loop.values[:2]

    def compare(x: str, y: str, how: str) -> str:
        return p.emit(f"cmpi {how} {x}, {y}, signed : {number} -> tile<i1>")

    if way == "listed":
        place = number_at(p, flags, k)
        c = compare(place, s.zero, "greater_than_or_equal")
        place = p.emit(f"mini {place}, {p.const(s.steps - 1, 'i32')} signed : {number}")
        place = p.emit(f"maxi {place}, {s.zero} signed : {number}")
    elif way == "place":
        c = compare(p.emit(f"remi {k}, {three} signed : {number}"), limit, test)
    elif way == "stepped":
        at = p.emit(f"remi {loop.values[2]}, {p.const(64, 'i32')} signed : {number}")
        c = compare(number_at(p, flags, at), s.zero, test)
    elif way == "taken":
        c = compare(taken, limit, "less_than")
    else:
        c = compare(number_at(p, flags, k), s.zero, test)
        if way == "both":
            c = p.emit(f"andi {c}, {compare(k, limit, 'greater_than_or_equal')} : tile<i1>")
    early = a.load(s.zero, place) if choose((0, 0, 0, 1)) else ""

    def worked() -> list[str]:
        x = early or a.load(s.zero, place)
        x = arithmetic(p, x, s.dtype, (s.m, s.k), k, s.vector)
        y = arithmetic(p, b.load(place, s.zero), s.dtype, (s.k, s.n), k, s.vector)
        z = multiply(p, x, y, total, s.dtype, s.m, s.n, s.k)
        return [z, p.binary("addi", taken, k if choose((0, 1)) else s.one, "i32")]

    stepped = [p.binary("addi", v, three, "i32") for v in loop.values[2:]]
    if choose((0, 0, 0, 1)):  # the round ends there
        loop.skip(p.emit(f"xori {c}, {p.const('true', 'i1')} : tile<i1>"))
        done = loop.end([*worked(), *stepped])
    else:
        p.count += 1
        name, types = f"%v{p.count}", f"{t}, {number}"
        other = choose((0, 0, 1))
        kept = f"yield {total}, {taken} : {types}"
        p.line(f"{name}:2 = if {c} -> ({types}) {{")
        if other:
            p.line(f"  {kept}")
            p.line("} else {")
        p.depth += 1
        p.line(f"yield {', '.join(worked())} : {types}")
        p.depth -= 1
        if not other:
            p.line("} else {")
            p.line(f"  {kept}")
        p.line("}")
        done = loop.end([f"{name}#0", f"{name}#1", *stepped])
    for n, value in enumerate(done[1:]):
        at = p.emit(f"offset {seen}, {p.const(n, 'i32')} : tile<ptr<i32>>, {number} -> tile<ptr<i32>>")
        p.emit(f"store_ptr_tko weak {at}, {value} : tile<ptr<i32>>, {number} -> token")
    epilogue(p, done[0], s.acc, shape, out, "", s.zero, s.zero, s.vector)


def in_branches(p: Products) -> None:
    """Products on both sides of a branch, of the same operands or others, for one sum or two; the branch asks something of each
    step, or the same in all. Or a number of a list ends the loop."""
    s = Sizes(p)
    choose, shape, t = p.choose, (s.m, s.n), tile(s.acc, (s.m, s.n))
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    other = source(p, s.dtype, (s.k, s.n), (s.depth, s.n)) if choose((0, 1)) else b
    two = choose((0, 0, 1))
    outs = [Operand(p, s.result(p), shape, shape, reads=False) for _ in range(1 + two)]
    way = choose(("ends", "ends", "mode", "parity", "flag", "flag"))
    flags, mode = p.array("i32", 64), p.scalar(choose((0, 1)))
    zero = zero_of(p, s.acc, shape)
    ends = ("left", "left", "while", "break", "first", "early")
    loop = Loop(p, s.low, s.high, s.step, [(zero, t)] * (1 + two), choose(ends) if way == "ends" else "")

    def asks(x: str, how: str) -> str:
        return p.emit(f"cmpi {how} {x}, {s.zero}, signed : tile<i32> -> tile<i1>")

    def worked(sums: list[str], x: str, y: str, right: Any) -> list[str]:
        """The sums behind a step that adds to one of them, and may change it before or behind."""
        number = choose(range(len(sums)))
        x = x or a.load(s.zero, loop.i)
        y = y or right.load(loop.i, s.zero)
        begun = choose((0, 0, 0, 1))
        z = multiply(p, x, y, zero if begun else sums[number], s.dtype, s.m, s.n, s.k)
        if choose((0, 0, 1)):
            z = halves(p, z, s.acc, shape, "")
        return [z if n == number else value for n, value in enumerate(sums)]

    if way == "ends":
        test = choose(("less_than", "less_than", "greater_than", "equal", "not_equal"))
        loop.ends_where(asks(number_at(p, flags, loop.i), test))
        values = worked(loop.values, "", "", b)
    else:
        at = {"mode": mode, "parity": p.emit(f"remi {loop.i}, {p.const(2, 'i32')} signed : tile<i32>")}.get(
            way
        )
        c = asks(at or number_at(p, flags, loop.i), choose(("equal", "greater_than", "less_than")))
        x = a.load(s.zero, loop.i) if choose((0, 1)) else ""
        y = b.load(loop.i, s.zero) if choose((0, 1)) else ""
        p.count += 1
        name, types = f"%v{p.count}", ", ".join([t] * (1 + two))
        p.line(f"{name}{':2' if two else ''} = if {c} -> ({types}) {{")
        for number, right in enumerate((b, other)):
            if number:
                p.line("} else {")
            p.depth += 1
            kept = number and choose((0, 0, 0, 0, 1))
            p.line(f"yield {', '.join(loop.values if kept else worked(loop.values, x, y, right))} : {types}")
            p.depth -= 1
        p.line("}")
        values = [f"{name}#{n}" for n in range(2)] if two else [name]
    done = loop.end(values)
    for value, out in zip(done, outs):
        epilogue(p, value, s.acc, shape, out, "", s.zero, s.zero, s.vector)


def carried(p: Products) -> None:
    """Tile numbers that the loop carries, reckons, or reads from a table."""
    s = Sizes(p)
    shape = (s.m, s.n)
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    way = p.choose(("own", "own", "wraps", "reckoned", "table", "ends"))
    count = p.const(s.steps, "i32")
    table = p.array("i32", 256, False) if way == "table" else ""
    start = (zero_of(p, s.acc, shape), tile(s.acc, shape))
    first = p.const(p.choose(range(s.steps)), "i32")
    loop = Loop(p, s.low, s.high, s.step, [(first, "tile<i32>"), start, (s.zero, "tile<i32>")])
    k = loop.values[0]
    nxt = p.binary("addi", k, s.one, "i32")
    if way == "own":
        nxt = p.emit(f"mini {nxt}, {p.const(s.steps - 1, 'i32')} signed : tile<i32>")
    elif way == "ends":  # from the other end
        k = p.binary("subi", p.binary("subi", count, loop.i, "i32"), s.one, "i32")
    elif way == "wraps":
        nxt = p.emit(f"remi {nxt}, {count} signed : tile<i32>")
    elif way == "reckoned":
        k = p.emit(f"remi {p.binary('muli', loop.i, p.const(3, 'i32'), 'i32')}, {count} signed : tile<i32>")
    else:
        at = p.emit(f"offset {table}, {loop.i} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        k, _ = p.op(f"load_ptr_tko weak {at} : tile<ptr<i32>> -> tile<i32>, token")
        k = p.emit(f"maxi {k}, {s.zero} signed : tile<i32>")
        k = p.emit(f"mini {k}, {p.const(s.steps - 1, 'i32')} signed : tile<i32>")
    x = arithmetic(p, a.load(s.zero, k), s.dtype, (s.m, s.k), k, s.vector)
    y = b.load(p.choose((k, loop.i)), s.zero)
    z = multiply(p, x, y, loop.values[1], s.dtype, s.m, s.n, s.k)
    sums = p.binary("addi", loop.values[2], k, "i32")
    done = loop.end([nxt, z, sums])
    seen = p.array("i32", 4, True)
    p.emit(f"store_ptr_tko weak {seen}, {done[2]} : tile<ptr<i32>>, tile<i32> -> token")
    epilogue(p, done[1], s.acc, shape, out, "", s.zero, s.zero, s.vector)


def one_loop(p: Products) -> None:
    """One loop over the steps of all of a block's tiles, and maybe some more: a branch ends a tile behind its last step."""
    s = Sizes(p)
    shape, types = (s.m, s.n), f"{tile(s.acc, (s.m, s.n))}, tile<i32>, tile<i32>"
    count = (p.choose((1, 2, 3)), p.choose((1, 2)))
    total, first = count[0] * count[1], p.choose((0, 0, 0, 1))
    a = source(p, s.dtype, (s.m, s.k), (s.cut(p, s.m * count[0]), s.depth))
    b = source(p, s.dtype, (s.k, s.n), (s.depth, s.cut(p, s.n * count[1])))
    out = Operand(p, s.result(p), shape, (s.m * count[0], s.n * count[1]), reads=False)
    grid = p.choose((1, 1, 2))
    t, *_ = begin(p, (grid, 1, 1))
    steps = s.steps - min(first, s.steps - 1)
    low = p.const(s.steps - steps, "i32")
    bound = p.const(s.steps, "i32") if p.choose((0, 1)) else p.scalar(s.steps)
    last = p.binary("subi", bound, s.one, "i32")
    left = p.emit(f"subi {p.const(total + grid - 1, 'i32')}, {t} : tile<i32>")
    mine = p.emit(f"divi {left}, {p.const(grid, 'i32')} signed : tile<i32>")
    trips = p.binary("muli", mine, p.const(steps, "i32"), "i32")
    more = steps > 1 and p.choose((0, 0, 1))
    if more:  # a tile that never ends
        trips = p.binary("addi", trips, p.const(p.choose((1, steps - 1)), "i32"), "i32")
    elif total >= grid and p.choose((0, 0, 0, 1)):
        trips = p.scalar(p.choose((0, -1, steps - 1, steps)))
    zero = (zero_of(p, s.acc, shape), tile(s.acc, shape))
    carried = [zero, (low, "tile<i32>"), (t, "tile<i32>")]
    loop = Loop(p, s.zero, trips, s.one, carried, p.choose(("for", "for", "for", "first", "while")))
    acc, k, t = loop.values
    now = p.emit(f"mini {t}, {p.const(total - 1, 'i32')} signed : tile<i32>") if more else t
    i, j = place_of(p, now, count)
    x = arithmetic(p, a.load(i, k), s.dtype, (s.m, s.k), k, s.vector)
    y = b.load(k, j)
    z = multiply(p, x, y, acc, s.dtype, s.m, s.n, s.k)
    following = p.binary("addi", k, s.one, "i32")
    test, others = p.choose((
        (f"equal {following}, {bound}", False), (f"equal {bound}, {following}", False), (f"equal {k}, {last}", False),
        (f"not_equal {following}, {bound}", True), (f"greater_than_or_equal {following}, {bound}", False),
        (f"less_than {following}, {bound}", True), (f"greater_than {bound}, {following}", True),
        (f"greater_than {following}, {last}", False), (f"less_than_or_equal {last}, {k}", False),
    ))  # fmt: skip
    c = p.emit(f"cmpi {test}, signed : tile<i32> -> tile<i1>")
    chosen = p.choose((0, 0, 1))
    if chosen:
        sides = (following, low) if others else (low, following)
        restarted = p.emit(f"select {c}, {sides[0]}, {sides[1]} : tile<i1>, tile<i32>")
    p.count += 1
    name = f"%b{p.count}"

    def side(ends: bool) -> None:
        p.depth += 1
        if ends:
            epilogue(p, z, s.acc, shape, out, "", i, j, s.vector)
            far = p.binary("addi", t, p.const(grid, "i32"), "i32")
            p.line(f"yield {zero_of(p, s.acc, shape)}, {low}, {far} : {types}")
        else:
            p.line(f"yield {z}, {following}, {t} : {types}")
        p.depth -= 1

    p.line(f"{name}:3 = if {c} -> ({types}) {{")
    side(not others)
    p.line("} else {")
    side(others)
    p.line("}")
    done = loop.end([f"{name}#0", restarted if chosen else f"{name}#1", f"{name}#2"])
    asked = p.choose((0, 0, 1, 2))
    if asked:
        seen = p.array("i32", 4, True)
        at = p.emit(f"offset {seen}, {s.zero} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        if grid == 1:
            p.emit(f"store_ptr_tko weak {at}, {done[asked]} : tile<ptr<i32>>, tile<i32> -> token")


def operands_ahead(p: Products) -> None:
    """The program carries one or both operands of the next step; what follows the loop is one more step, or nothing."""
    s = Sizes(p)
    shape = (s.m, s.n)
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    tail = p.choose((0, 1, 1))
    which = "xy" if tail else p.choose(("x", "y", "xy"))
    low = p.const(1, "i32") if tail else s.zero
    first = p.const(min(p.choose((0, 0, 0, 1)), s.steps - 1), "i32")
    converts = p.choose((0, 0, 1))

    def left(k: str) -> str:
        x = a.load(s.zero, k)
        if converts and s.dtype in FLOATS16:
            x = p.binary("addf", x, x, s.dtype, (s.m, s.k))
        return x

    zero = (zero_of(p, s.acc, shape), tile(s.acc, shape))
    carried = [zero]
    if "x" in which:
        carried.append((left(first), tile(s.dtype, (s.m, s.k))))
    if "y" in which:
        carried.append((b.load(first, s.zero), tile(s.dtype, (s.k, s.n))))
    high = s.high if tail else p.const(max(s.steps - 1, 0), "i32")
    loop = Loop(p, low, high, s.one, carried, p.choose(("for", "for", "for", "first", "while")))
    k = loop.i if tail else p.binary("addi", loop.i, s.one, "i32")
    following = [left(k)] if "x" in which else []
    following += [b.load(k, s.zero)] if "y" in which else []
    x = loop.values[1] if "x" in which else left(loop.i)
    y = loop.values[-1] if "y" in which else b.load(loop.i, s.zero)
    z = multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)
    done = loop.end([z, *following])
    total = done[0]
    if tail:
        total = multiply(p, done[1], done[2], total, s.dtype, s.m, s.n, s.k)
    epilogue(p, total, s.acc, shape, out, "", s.zero, s.zero, s.vector)


def effects(p: Products) -> None:
    """Between the products of a loop: prints, atomics, stores, and loads of what was stored."""
    s = Sizes(p)
    shape = (s.m, s.n)
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out = Operand(p, s.result(p), shape, shape, reads=False)
    way = p.choose(("print", "atomic", "atomic", "store", "written", "barrier"))
    token = p.emit("make_token : token")
    base = p.array("i32" if way in ("atomic", "barrier") else s.acc, s.m * s.n, True)
    start = (zero_of(p, s.acc, shape), tile(s.acc, shape))
    low = s.zero if way == "written" else s.low
    loop = Loop(p, low, s.high, s.one if way == "written" else s.step, [start, (token, "token")])
    x = arithmetic(p, a.load(s.zero, loop.i), s.dtype, (s.m, s.k), loop.i, s.vector)
    y = arithmetic(p, b.load(loop.i, s.zero), s.dtype, (s.k, s.n), loop.i, s.vector)
    z, after = loop.values
    if way == "written":  # the sum rests in memory
        old = Memory(p, base, s.acc, shape)
        z = multiply(p, x, y, z, s.dtype, s.m, s.n, s.k)
        after = old.store(z, after)
        z, after = old.load(after)
    else:
        z = multiply(p, x, y, z, s.dtype, s.m, s.n, s.k)
        if way == "print":
            p.count += 1
            after = f"%t{p.count}"
            p.line(f'{after} = print_tko "%d ", {loop.i} token={loop.values[1]} : tile<i32> -> token')
        elif way == "store":
            after = Memory(p, base, s.acc, shape).store(z, after)
        else:
            at = p.emit(f"offset {base}, {loop.i} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
            _, after = p.op(
                f"atomic_rmw_tko {'acq_rel' if way == 'barrier' else 'relaxed'} device {at}, add, {s.one} token={after} : "
                "tile<ptr<i32>>, tile<i32> -> tile<i32>, token"
            )
    done = loop.end([z, after])
    epilogue(p, done[0], s.acc, shape, out, "", s.zero, s.zero, s.vector)


class Memory:
    """A tile at the start of an array."""

    def __init__(self, p: Products, base: str, dtype: str, shape: tuple[int, int]) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        tv = f"tensor_view<{shape[0]}x{shape[1]}x{dtype}, strides=[{shape[1]},1]>"
        self.type = f"partition_view<tile=({shape[0]}x{shape[1]}), {tv}>"
        view = p.emit(
            f"make_tensor_view {base}, shape = [{shape[0]}, {shape[1]}], strides = [{shape[1]}, 1] : {tv}"
        )
        self.view = p.emit(f"make_partition_view {view} : {self.type}")
        self.zero = p.const(0, "i32")

    def store(self, x: str, token: str) -> str:
        return self.p.emit(
            f"store_view_tko weak {x}, {self.view}[{self.zero}, {self.zero}] token = {token} : "
            f"{tile(self.dtype, self.shape)}, {self.type}, tile<i32> -> token"
        )

    def load(self, token: str) -> tuple[str, str]:
        return self.p.op(
            f"load_view_tko weak {self.view}[{self.zero}, {self.zero}] token = {token} : {self.type}, tile<i32> -> "
            f"{tile(self.dtype, self.shape)}, token"
        )


def batch(p: Products) -> None:
    """Products of several matrices at once."""
    s = Sizes(p, ("f16", "bf16", "i8", "f8E4M3FN", "tf32"))
    b = p.choose((1, 2, 4))
    s.m, s.n = min(s.m, 64), min(s.n, 64)
    depth = s.k * s.steps
    stored = "f32" if s.dtype == "tf32" else s.dtype

    def view(
        dtype: str, n: int, rows: int, cols: int, shape: tuple[int, int], turn: bool, reads: bool
    ) -> tuple[str, str]:
        if turn:
            rows, cols, shape = cols, rows, shape[::-1]
        base = p.array(dtype, n * rows * cols, not reads)
        tv = f"tensor_view<{n}x{rows}x{cols}x{dtype}, strides=[{rows * cols},{cols},1]>"
        v = p.emit(
            f"make_tensor_view {base}, shape = [{n}, {rows}, {cols}], strides = [{rows * cols}, {cols}, 1] : {tv}"
        )
        part = f"partition_view<tile=({b}x{shape[0]}x{shape[1]}), padding_value = zero, {tv}>"
        return p.emit(f"make_partition_view {v} : {part}"), part

    turn_a, turn_b = p.choose((False, True)), p.choose((False, True))
    a = view(stored, 2 * b, s.m, depth, (s.m, s.k), turn_a, True)
    c = view(stored, 2 * b, depth, s.n, (s.k, s.n), turn_b, True)
    out = view(s.acc, 2 * b, s.m, s.n, (s.m, s.n), False, False)
    t, *_ = begin(p, (2, 1, 1))
    shape = (b, s.m, s.n)

    def load(v: tuple[str, str], i: str, j: str, size: tuple[int, int], turn: bool) -> str:
        got = (b, *(size[::-1] if turn else size))
        at = f"{t}, {j}, {i}" if turn else f"{t}, {i}, {j}"
        x, _ = p.op(f"load_view_tko weak {v[0]}[{at}] : {v[1]}, tile<i32> -> {tile(stored, got)}, token")
        if turn:
            x = p.emit(f"permute {x} [0, 2, 1] : {tile(stored, got)} -> {tile(stored, (b, *size))}")
        if stored != s.dtype:
            x = p.emit(f"ftof {x} : {tile(stored, (b, *size))} -> {tile(s.dtype, (b, *size))}")
        return x

    loop = Loop(p, s.low, s.high, s.step, [(clear(p, s.acc, shape), tile(s.acc, shape))])
    x = load(a, s.zero, loop.i, (s.m, s.k), turn_a)
    y = load(c, loop.i, s.zero, (s.k, s.n), turn_b)
    op, sign = ("mmai", p.choose(SIGNS)) if s.dtype == "i8" else ("mmaf", "")
    z = p.emit(
        f"{op} {x}, {y}, {loop.values[0]}{sign} : {tile(s.dtype, (b, s.m, s.k))}, {tile(s.dtype, (b, s.k, s.n))}, "
        f"{tile(s.acc, shape)}"
    )
    done = loop.end([z])[0]
    p.emit(
        f"store_view_tko weak {done}, {out[0]}[{t}, {s.zero}, {s.zero}] : {tile(s.acc, shape)}, {out[1]}, tile<i32> -> token"
    )


def block_scaled(p: Products) -> None:
    """Operands of 8 and 4 bits with a factor for each block along K."""
    choose = p.choose
    elem, scale, block = choose(
        (("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
         ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16)))  # fmt: skip
    m, n, k = choose((16, 64, 128, 128, 128)), choose((16, 32, 64, 128, 128)), choose((32, 64, 128, 128))
    steps = choose((1, 2, 3, 5))
    zero, one = p.const(0, "i32"), p.const(1, "i32")
    high = p.const(steps, "i32") if choose((0, 1)) else p.scalar(steps)
    a = Narrow(p, elem, (m, k), (m, k * steps), False)
    b = Narrow(p, elem, (n, k), (n, k * steps), True)
    kind: Any = choose((Operand, Operand, Deep, Blocked))
    sa = kind(p, scale, (m, k // block), (m, k // block * steps))
    sb = kind(p, scale, (k // block, n), (k // block * steps, n))
    out = Operand(p, choose(("f32", "f32", "bf16")), (m, n), (m, n), reads=False)
    t = tile("f32", (m, n))
    loop = Loop(p, zero, high, one, [(zero_of(p, "f32", (m, n)), t)])
    x, y = a.load(zero, loop.i), b.load(zero, loop.i)
    u, v = sa.load(zero, loop.i), sb.load(loop.i, zero)
    z = p.emit(
        f"mmaf_scaled {x}, {y}, {loop.values[0]}, {u}, {v} : {tile(elem, (m, k))}, {tile(elem, (k, n))}, {t}, "
        f"{tile(scale, (m, k // block))}, {tile(scale, (k // block, n))}"
    )
    if choose((0, 0, 0, 1)):
        z = halves(p, z, "f32", (m, n), "")
    done = loop.end([z])[0]
    epilogue(p, done, "f32", (m, n), out, "", zero, zero, "")


class Narrow:
    """Rows of numbers of 8 bits, or of 4 as bytes; turned: its transpose is the operand."""

    def __init__(
        self, p: Products, elem: str, shape: tuple[int, int], extents: tuple[int, int], turn: bool
    ) -> None:
        self.p, self.elem, self.shape, self.turn = p, elem, shape, turn
        self.four = elem == "f4E2M1FN"
        if not self.four:
            plain = (shape[1], shape[0]) if turn else shape
            self.whole = source(p, elem, plain, extents[::-1] if turn else extents)
            return
        self.half = (shape[0], shape[1] // 2)
        self.whole = p.choose((Operand, Blocked))(p, "i8", self.half, (extents[0], extents[1] // 2))
        p.any_bytes()

    def load(self, i: str, j: str) -> str:
        p = self.p
        if not self.four:
            return self.whole.load(*((j, i) if self.turn else (i, j)))
        x = self.whole.load(i, j)
        n = self.half[0] * self.half[1]
        x = p.emit(f"reshape {x} : {tile('i8', self.half)} -> {tile('i8', (n,))}")
        x = p.emit(f"unpack {x} : {tile('i8', (n,))} -> {tile(self.elem, (2 * n,))}")
        x = p.emit(f"reshape {x} : {tile(self.elem, (2 * n,))} -> {tile(self.elem, self.shape)}")
        return turned(p, x, self.elem, self.shape) if self.turn else x


def flash(p: Products) -> None:
    """Attention of several heads and query tiles: positions decide, in one loop or in two."""
    choose = p.choose
    dtype = choose(("f16", "bf16", "bf16", "f8E4M3FN"))
    acc = "f32"
    m, n, d = choose((16, 32, 64, 64, 128, 128)), choose((16, 32, 64, 64, 128)), choose((16, 32, 64, 64, 128))
    queries, heads, group = choose((1, 2)), choose((1, 2)), choose((1, 2))
    keys = choose((n, 2 * n, 3 * n)) - (choose((0, 0, 3, 8)))
    zero, one = p.const(0, "i32"), p.const(1, "i32")
    deep = choose((True, True, False))

    def array(dtype: str, shape: tuple[int, int], extents: tuple[int, int], reads: bool = True) -> Any:
        return Operand(p, dtype, shape, extents, reads)

    q = array(dtype, (m, d), (m * queries * heads, d))
    kt = (Deep if deep else Operand)(p, dtype, (d, n), (d, keys))
    v = (Deep if deep else Operand)(p, dtype, (n, d), (keys, d))
    out = array(
        choose((acc, dtype if dtype in FLOATS16 else "bf16")), (m, d), (m * queries * heads, d), False
    )
    tops_at = p.array(acc, m * queries * heads, True)
    block, head, _ = begin(p, (queries, heads, 1))
    row = p.binary("addi", p.binary("muli", head, p.const(queries, "i32"), "i32"), block, "i32")
    if deep and isinstance(kt, Deep):  # heads share keys by group
        for x in (kt, v):
            last = x.counts[-1]
            own = p.emit(f"divi {head}, {p.const(group, 'i32')} signed : tile<i32>")
            x.lead[-1] = p.emit(f"remi {own}, {p.const(last, 'i32')} signed : tile<i32>")
    query = q.load(row, zero)
    if choose((0, 0, 1)):
        query = (
            p.binary("mulf", query, p.const("0.5", dtype, (m, d)), dtype, (m, d))
            if dtype in FLOATS16
            else query
        )
    count = -(-keys // n)
    last = p.const(count, "i32")
    causal = choose((True, True, False))
    line = tile(acc, (m,))
    state = [
        (clear(p, acc, (m, d)), tile(acc, (m, d))),
        (p.const("-16.0", acc, (m,)), line),
        (clear(p, acc, (m,)), line),
    ]

    def rounds(low: str, high: str, state: list[tuple[str, str]], masked: bool) -> list[str]:
        loop = Loop(p, low, high, one, state, choose(("for", "for", "for", "while", "first", "break")))
        total, top, size = loop.values
        s = multiply(p, query, kt.load(zero, loop.i), clear(p, acc, (m, n)), dtype, m, n, d)
        if masked:
            r = p.emit(f"iota : {tile('i32', (m,))}")
            r = p.binary(
                "addi", r, wide(p, p.binary("muli", block, p.const(m, "i32"), "i32"), m), "i32", (m,)
            )
            c = p.emit(f"iota : {tile('i32', (n,))}")
            c = p.binary(
                "addi", c, wide(p, p.binary("muli", loop.i, p.const(n, "i32"), "i32"), n), "i32", (n,)
            )
            mask = p.emit(
                f"cmpi greater_than_or_equal {p.spread(r, 'i32', m, (m, n), 0)}, {p.spread(c, 'i32', n, (m, n), 1)}, signed : "
                f"{tile('i32', (m, n))} -> {tile('i1', (m, n))}"
            )
            low_s = p.const("-32.0", acc, (m, n))
            s = p.emit(f"select {mask}, {s}, {low_s} : {tile('i1', (m, n))}, {tile(acc, (m, n))}")
        new = p.binary("maxf", top, rows(p, s, acc, (m, n), 1, "max"), acc, (m,))
        grown = p.emit(f"cmpf greater_than ordered {new}, {top} : {tile(acc, (m,))} -> {tile('i1', (m,))}")
        scale = p.emit(
            f"select {grown}, {p.const('0.5', acc, (m,))}, {p.const('1.0', acc, (m,))} : {tile('i1', (m,))}, {tile(acc, (m,))}"
        )
        t, bits = tile(acc, (m, n)), tile("i1", (m, n))
        over = p.emit(
            f"cmpf greater_than_or_equal ordered {s}, {p.spread(new, acc, m, (m, n), 0)} : {t} -> {bits}"
        )
        s = p.emit(
            f"select {over}, {p.const('1.0', acc, (m, n))}, {p.const('0.5', acc, (m, n))} : {bits}, {t}"
        )
        size = p.binary("mulf", size, scale, acc, (m,))
        size = p.binary("addf", size, rows(p, s, acc, (m, n), 1, "sum"), acc, (m,))
        weights = p.emit(f"ftof {s} : {t} -> {tile(dtype, (m, n))}")
        total = p.binary("mulf", total, p.spread(scale, acc, m, (m, d), 0), acc, (m, d))
        total = multiply(p, weights, v.load(loop.i, zero), total, dtype, m, d, n)
        return loop.end([total, new, size])

    if causal:
        first = p.binary("muli", block, p.const(m, "i32"), "i32")
        whole = p.emit(f"divi {first}, {p.const(n, 'i32')} signed : tile<i32>")
        whole = p.emit(f"mini {whole}, {last} signed : tile<i32>")
        end = p.binary("addi", first, p.const(m + n - 1, "i32"), "i32")
        end = p.emit(f"divi {end}, {p.const(n, 'i32')} signed : tile<i32>")
        end = p.emit(f"mini {end}, {last} signed : tile<i32>")
        if choose((0, 1)):
            got = rounds(zero, whole, state, False)
            got = rounds(whole, end, [(g, t) for g, (_, t) in zip(got, state)], True)
        else:
            got = rounds(zero, end, state, True)
    else:
        got = rounds(zero, last, state, False)
    epilogue(p, got[0], acc, (m, d), out, "", row, zero, "")
    q1 = f"ptr<{acc}>"
    start = wide(p, p.binary("muli", row, p.const(m, "i32"), "i32"), m)
    place = p.binary("addi", p.emit(f"iota : {tile('i32', (m,))}"), start, "i32", (m,))
    one_p = p.emit(f"reshape {tops_at} : tile<{q1}> -> {tile(q1, (1,))}")
    many = p.emit(f"broadcast {one_p} : {tile(q1, (1,))} -> {tile(q1, (m,))}")
    at = p.emit(f"offset {many}, {place} : {tile(q1, (m,))}, {tile('i32', (m,))} -> {tile(q1, (m,))}")
    sums = p.binary("addf", got[1], got[2], acc, (m,))
    p.emit(f"store_ptr_tko weak {at}, {sums} : {tile(q1, (m,))}, {tile(acc, (m,))} -> token")


def wide(p: Products, x: str, n: int) -> str:
    """A number as a vector of n."""
    x = p.emit(f"reshape {x} : tile<i32> -> {tile('i32', (1,))}")
    return p.emit(f"broadcast {x} : {tile('i32', (1,))} -> {tile('i32', (n,))}")


def backward(p: Products) -> None:
    """What attention's gradients are made of: scores again, the gradient of the weights, and two or three sums of products."""
    choose = p.choose
    dtype, acc = choose(FLOATS16), "f32"
    m, n, d = choose((16, 32, 64, 64, 128)), choose((16, 32, 64, 64, 128)), choose((16, 32, 64, 64, 128))
    steps = choose((1, 2, 3, 4))
    zero, one = p.const(0, "i32"), p.const(1, "i32")
    high = p.const(steps, "i32") if choose((0, 1)) else p.scalar(steps)
    by_keys = choose((True, False))  # keys and values stay, queries go by; or the other way round
    transposed = choose((True, False))  # scores as keys by queries
    long_q, long_k = (m * steps, n) if by_keys else (m, n * steps)
    q, do = source(p, dtype, (m, d), (long_q, d)), source(p, dtype, (m, d), (long_q, d))
    k, v = source(p, dtype, (n, d), (long_k, d)), source(p, dtype, (n, d), (long_k, d))
    delta = p.array(acc, 256)
    first = Operand(
        p, choose((acc, dtype)), (n, d) if by_keys else (m, d), (n, d) if by_keys else (m, d), False
    )
    second = Operand(p, acc, (n, d), (n, d), False) if by_keys else None
    third = Operand(p, acc, (m, d), (m, d), False) if by_keys and choose((True, False)) else None
    if by_keys:
        kk, vv = k.load(zero, zero), v.load(zero, zero)
        start = [(clear(p, acc, (n, d)), tile(acc, (n, d)))] * 2
        if third is not None:
            start.append((clear(p, acc, (m, d)), tile(acc, (m, d))))
    else:
        qq, dd = q.load(zero, zero), do.load(zero, zero)
        start = [(clear(p, acc, (m, d)), tile(acc, (m, d)))]
    loop = Loop(p, zero, high, one, start)
    if by_keys:
        qq, dd = q.load(loop.i, zero), do.load(loop.i, zero)
    else:
        kk, vv = k.load(loop.i, zero), v.load(loop.i, zero)

    def scores(x: str, y: str) -> str:
        """x (queries) by y (keys), in the order that was drawn."""
        if transposed:
            return multiply(p, y, turned(p, x, dtype, (m, d)), clear(p, acc, (n, m)), dtype, n, m, d)
        return multiply(p, x, turned(p, y, dtype, (n, d)), clear(p, acc, (m, n)), dtype, m, n, d)

    shape = (n, m) if transposed else (m, n)
    t, bits = tile(acc, shape), tile("i1", shape)
    s = scores(qq, kk)
    over = p.emit(f"cmpf greater_than ordered {s}, {p.const('1.0', acc, shape)} : {t} -> {bits}")
    weights = p.emit(
        f"select {over}, {p.const('1.0', acc, shape)}, {p.const('0.5', acc, shape)} : {bits}, {t}"
    )
    ds = scores(dd, vv)
    per_query = p.spread(vector_of(p, delta, acc, m), acc, m, shape, 1 if transposed else 0)
    ds = p.binary("mulf", weights, p.binary("subf", ds, per_query, acc, shape), acc, shape)
    lw, lds = low_of(p, weights, acc, dtype, shape), low_of(p, ds, acc, dtype, shape)
    if by_keys:
        by_query = turned(p, lds, dtype, shape) if transposed else lds
        if not transposed:
            lw, lds = turned(p, lw, dtype, shape), turned(p, lds, dtype, shape)
        sums = [multiply(p, lw, dd, loop.values[0], dtype, n, d, m)]
        sums.append(multiply(p, lds, qq, loop.values[1], dtype, n, d, m))
        if third is not None:  # of what no load of the loop brings: all queries' gradients together
            sums.append(multiply(p, by_query, kk, loop.values[2], dtype, m, d, n))
        done = loop.end(sums)
    else:
        if transposed:
            lds = turned(p, lds, dtype, shape)
        done = loop.end([multiply(p, lds, kk, loop.values[0], dtype, m, d, n)])
    size = (n, d) if by_keys else (m, d)
    epilogue(p, done[0], acc, size, first, "", zero, zero, "")
    if second is not None:
        second.store(zero, zero, done[1])
    if third is not None:
        third.store(zero, zero, done[2])


def beside(p: Products) -> None:
    """A product, and what the same loop reduces of its operands: sums or maxima of their rows or columns."""
    s = Sizes(p, ("f16", "bf16", "f16", "bf16", "f8E4M3FN", "i8", "i8"))
    s.k = max(s.k, 16)
    high, wide_ = s.cut(p, s.m), s.cut(p, s.n)
    a = source(p, s.dtype, (s.m, s.k), (high, s.depth))
    b = source(p, s.dtype, (s.k, s.n), (s.depth, wide_))
    out = Operand(p, s.result(p), (s.m, s.n), (high, wide_), reads=False)
    which = p.choose(("right", "right", "left", "both"))
    parts = []  # which operand, its shape, the dimension that goes, how, where to
    for side, shape in ((0, (s.m, s.k)), (1, (s.k, s.n))):
        if which in ("both", ("left", "right")[side]):
            dim = p.choose((1, 0)) if side == 0 else p.choose((0, 0, 1))
            parts.append((side, shape, dim, p.choose(("sum", "max")), p.array(s.acc, shape[1 - dim], True)))
    carried = [(zero_of(p, s.acc, (s.m, s.n)), tile(s.acc, (s.m, s.n)))]
    for _, shape, dim, way, _ in parts:
        start = p.choose((0, 0, 7)) if way == "sum" else -128
        first = p.const(start if s.acc == "i32" else f"{start}.0", s.acc, (shape[1 - dim],))
        carried.append((first, tile(s.acc, (shape[1 - dim],))))
    loop = Loop(p, s.low, s.high, s.step, carried)
    x = a.load(s.zero, loop.i)
    y = b.load(loop.i, s.zero)
    values = [multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)]
    for (side, shape, dim, way, _), value in zip(parts, loop.values[1:]):
        whole = s.acc == "i32"
        word, sign = ("exti", p.choose((" signed", " signed", " unsigned"))) if whole else ("ftof", "")
        wider = p.emit(f"{word} {(x, y)[side]}{sign} : {tile(s.dtype, shape)} -> {tile(s.acc, shape)}")
        if p.choose((0, 0, 1)):
            wider = p.binary("muli" if whole else "mulf", wider, wider, s.acc, shape)
        found = rows(p, wider, s.acc, shape, dim, way)
        word = ("add" if way == "sum" else "max") + ("i" if whole else "f")
        pair = (found, value) if p.choose((0, 0, 1)) else (value, found)
        tail = " signed" if word == "maxi" else ""
        values.append(p.emit(f"{word} {', '.join(pair)}{tail} : {tile(s.acc, (shape[1 - dim],))}"))
    done = loop.end(values)
    epilogue(p, done[0], s.acc, (s.m, s.n), out, "", s.zero, s.zero, s.vector)
    q = f"ptr<{s.acc}>"
    for (_, shape, dim, _, base), value in zip(parts, done[1:]):
        n = shape[1 - dim]
        one = p.emit(f"reshape {base} : tile<{q}> -> {tile(q, (1,))}")
        many = p.emit(f"broadcast {one} : {tile(q, (1,))} -> {tile(q, (n,))}")
        each = p.emit(f"iota : {tile('i32', (n,))}")
        at = p.emit(f"offset {many}, {each} : {tile(q, (n,))}, {tile('i32', (n,))} -> {tile(q, (n,))}")
        p.emit(f"store_ptr_tko weak {at}, {value} : {tile(q, (n,))}, {tile(s.acc, (n,))} -> token")


def looked_up(p: Products) -> None:
    """Codes that name the elements of one operand, or of both, in a table."""
    s = Sizes(p, ("f16", "bf16", "f16", "bf16", "tf32", "i8", "f8E4M3FN"))
    s.k = max(s.k, 16)
    s.depth = s.k * s.steps - (p.choose((8, 0)) if s.ragged else 0)
    shape, which = (s.m, s.n), p.choose(("right", "right", "left", "both"))
    high, wide_ = max(8, s.cut(p, s.m) // 8 * 8), max(8, s.cut(p, s.n) // 8 * 8)
    sides = (("left", (s.m, s.k), (high, s.depth), 1), ("right", (s.k, s.n), (s.depth, wide_), 0))
    a, b = (
        LookedUp(p, s.dtype, size, extents, along)
        if which in (side, "both")
        else source(p, s.dtype, size, extents)
        for side, size, extents, along in sides
    )
    out = Operand(p, s.result(p), shape, (high, wide_), reads=False)
    loop = Loop(p, s.low, s.high, s.step, [(zero_of(p, s.acc, shape), tile(s.acc, shape))])
    x = arithmetic(p, a.load(s.zero, loop.i), s.dtype, (s.m, s.k), loop.i, s.vector)
    y = arithmetic(p, b.load(loop.i, s.zero), s.dtype, (s.k, s.n), loop.i, s.vector)
    z = multiply(p, x, y, loop.values[0], s.dtype, s.m, s.n, s.k)
    if p.choose((0, 0, 0, 1)):
        z = multiply(p, x, b.load(loop.i, s.zero), z, s.dtype, s.m, s.n, s.k)
    done = loop.end([z])
    epilogue(p, done[0], s.acc, shape, out, "", s.zero, s.zero, s.vector)


def second_tile(p: Products) -> None:
    """A tile that is loaded behind the loop is added to the sums, or they are multiplied by it."""
    s = Sizes(p, ("f16", "bf16", "tf32"))
    count = (p.choose((1, 2)), p.choose((1, 2)))
    height, width = s.cut(p, s.m * count[0]), s.cut(p, s.n * count[1])
    a, b = source(p, s.dtype, (s.m, s.k), (height, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, width))
    shape = (s.m, s.n)
    other = Operand(p, p.choose(("f32", "f32", "f16", "bf16")), shape, (height, width))
    out = Operand(p, s.result(p), shape, (height, width), reads=False)
    i, j, _ = begin(p, (*count, 1))
    x = product_loop(p, s, a, b, i, j, zero_of(p, s.acc, shape))
    y = other.load(i, j)
    if other.dtype != s.acc:
        y = p.emit(f"ftof {y} : {tile(other.dtype, shape)} -> {tile(s.acc, shape)}")
    x = p.binary(p.choose(("addf", "addf", "mulf")), x, y, s.acc, shape)
    epilogue(p, x, s.acc, shape, out, "", i, j, s.vector)


def several_sums(p: Products) -> None:
    """Sums that live together: two change places, two go on from one, one begins again where it was added to another, or one
    waits for that of a second loop."""
    s = Sizes(p, ("f16", "bf16", "f16", "bf16", "f8E4M3FN", "i8", "tf32"))
    if s.m == 128 and BYTES[s.dtype] < 4:
        s.n = p.choose((s.n, s.n, 256))
    shape, t = (s.m, s.n), tile(s.acc, (s.m, s.n))
    a, b = source(p, s.dtype, (s.m, s.k), (s.m, s.depth)), source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
    out, rest = (Operand(p, d, shape, shape, reads=False) for d in (s.result(p), s.acc))
    start, none = (zero_of(p, s.acc, shape), t), (clear(p, s.acc, shape), t)
    way = p.choose(("swapped", "forked", "again", "again", "waiting"))
    if way == "waiting":
        c = source(p, s.dtype, (s.k, s.n), (s.depth, s.n))
        x = product_loop(p, s, a, b, s.zero, s.zero, start[0])
        y = product_loop(p, s, a, c, s.zero, s.zero, none[0])
        if p.choose((0, 1)):
            x = add(p, x, y, s.acc, shape)
            y = product_loop(p, s, a, c, s.zero, s.zero, x)
        done = [x, y]
    elif way == "again":
        loop = Loop(p, s.low, s.high, s.step, [start, none])
        z = multiply(
            p, a.load(s.zero, loop.i), b.load(loop.i, s.zero), loop.values[0], s.dtype, s.m, s.n, s.k
        )
        part = p.emit(f"remi {loop.i}, {p.const(p.choose((1, 2, 3)), 'i32')} signed : tile<i32>")
        c = equal(p, part, s.zero)
        p.count += 1
        name = f"%v{p.count}"
        p.line(f"{name}:2 = if {c} -> ({t}, {t}) {{")
        p.depth += 1
        total = add(p, loop.values[1], z, s.acc, shape)
        p.line(f"yield {clear(p, s.acc, shape)}, {total} : {t}, {t}")
        p.depth -= 1
        p.line("} else {")
        p.line(f"  yield {z}, {loop.values[1]} : {t}, {t}")
        p.line("}")
        done = loop.end([f"{name}#0", f"{name}#1"])
    else:
        loop = Loop(p, s.low, s.high, s.step, [start, none])
        x, y = a.load(s.zero, loop.i), b.load(loop.i, s.zero)
        first, second = loop.values
        z = multiply(p, x, y, second if way == "swapped" else first, s.dtype, s.m, s.n, s.k)
        if way == "forked":
            other = b.load(loop.i, s.zero) if p.choose((0, 1)) else y
            first = multiply(p, x, other, first, s.dtype, s.m, s.n, s.k)
        done = loop.end([z, first])
    rest.store(s.zero, s.zero, done[1])
    epilogue(p, done[0], s.acc, shape, out, "", s.zero, s.zero, s.vector)


FORMS = (tiles, tiles, tiles, split, two_loops, nested, shared, guarded, left_out, left_out, carried, effects, batch,
         block_scaled, flash, flash, backward, beside, one_loop, operands_ahead, looked_up, second_tile,
         several_sums, in_branches, in_branches)  # fmt: skip


def draw_form(p: Products) -> None:
    p.choose(FORMS)(p)
