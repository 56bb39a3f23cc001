"""What random kernels around products are put together from: lines of text, operands in memory, loops, an epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.corpus.fuzz import Choose, tile

ACC = {"f16": "f32", "bf16": "f32", "tf32": "f32", "f8E4M3FN": "f32", "f8E5M2": "f32", "i8": "i32", "f64": "f64",
       "f32": "f32"}  # fmt: skip
BYTES = {
    "f16": 2,
    "bf16": 2,
    "tf32": 4,
    "f32": 4,
    "f8E4M3FN": 1,
    "f8E5M2": 1,
    "i8": 1,
    "f64": 8,
    "i32": 4,
    "f8E8M0FNU": 1,
}
HINTS = (
    *[""] * 6,
    *(
        f" optimization_hints = <default = {{{h}}}>"
        for h in (
            "latency = 3",
            "latency = 1",
            "latency = 9",
            "allow_tma = false",
            "allow_tma = true, latency = 4",
        )
    ),
)
WIDER = {"f16": ("i8", "f8E4M3FN"), "bf16": ("i8",), "tf32": ("f32",), "f32": ("f16", "bf16")}


class Products:
    """A kernel under construction: its lines and the arrays that it wants (type, number of elements, written or not)."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.lines: list[str] = []
        self.count = 0
        self.depth = 0
        self.arrays: list[tuple[str, int, str]] = []
        self.scalars: list[int] = []
        self.grid = (1, 1, 1)

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
        promised = self.choose((1, 1, 1, 0))
        skew = "" if promised else self.choose(("", "", "", "@1", "@2", "@8"))
        self.arrays.append((dtype, n, skew + ("!" if written else "")))
        p, q = f"%a{len(self.arrays) - 1}", f"tile<ptr<{dtype}>>"
        return self.emit(f"assume div_by<16>, {p} : {q}") if promised else p

    def any_bytes(self) -> None:
        """The last array holds bytes of all values."""
        dtype, n, mark = self.arrays[-1]
        self.arrays[-1] = (dtype, n, mark + "~")

    def plain(self, value: int) -> str:
        """A scalar of which nothing is said."""
        self.scalars.append(value)
        return f"%s{len(self.scalars) - 1}"

    def scalar(self, value: int, divides: int = 1) -> str:
        self.scalars.append(value)
        s = f"%s{len(self.scalars) - 1}"
        known = self.choose(("", "", "", "0, ?", f"?, {value + 5}", f"-1, {value}"))
        if known:
            s = self.emit(f"assume bounded<{known}>, {s} : tile<i32>")
        if divides > 1 and value % divides == 0 and self.choose((1, 1, 1, 0)):
            return self.emit(f"assume div_by<{divides}>, {s} : tile<i32>")
        return s


class Operand:
    """An array of logical (rows, columns), read in tiles of `shape`; `at` gives the tile at two tile numbers.

    stored: the type in memory, converted where it is read. turned: memory holds its transpose row by row; `by` says
    whether the view has column strides or the tile is permuted. how: "view" or "pointers", which a loop may carry (`at`).
    inside: no tile is read that lies outside of the array.
    """

    WAYS: tuple[str, ...] = ("strides", "permute")

    def __init__(
        self,
        p: Products,
        dtype: str,
        shape: tuple[int, int],
        extents: tuple[int, int],
        reads: bool = True,
        inside: bool = True,
    ) -> None:
        self.p, self.dtype, self.shape, self.extents = p, dtype, shape, extents
        choose = p.choose
        self.stored = choose((dtype, dtype, dtype, *WIDER.get(dtype, ()))) if reads else dtype
        if self.stored == "tf32":  # tf32 is a type of values only
            self.stored = "f32"
        self.turned = choose((False, True))
        self.by = choose(self.WAYS) if self.turned else ""
        whole = all(e % s == 0 for e, s in zip(extents, shape))
        self.how = choose(("view", "view", "pointers") if inside and (reads or whole) else ("view",))
        self.masked = self.how == "pointers" and (not whole or choose((0, 1)))
        wide = choose((0, 0, 16, 16, 8, 3))
        outer, inner = extents[::-1] if self.turned else extents
        self.pitch = inner + wide
        self.base = p.array(self.stored, outer * self.pitch, not reads)
        known = choose((True, False))
        self.pitch_text = str(self.pitch) if known else p.scalar(self.pitch, 16 // min(BYTES[self.stored], 8))
        self.known = known
        self.number = p.scalar(self.pitch) if self.how == "pointers" and known else self.pitch_text
        if self.how == "view":
            self.view = self.make_view(p.choose((True, False)))
        elif self.masked:
            known = choose((True, False))
            self.ends = [p.const(n, "i32") if known else p.scalar(n, 8) for n in extents]
        self.at = ""

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

    def inside(self, i: str, j: str) -> str:
        """Which elements of the tile of row and column number i and j there are."""
        p = self.p
        both = ""
        for dim, (number, n, end) in enumerate(zip((i, j), self.shape, self.ends)):
            k = p.emit(f"iota : {tile('i32', (n,))}")
            first = p.binary("muli", number, p.const(n, "i32"), "i32")
            left = p.choose((True, False))  # held against what is left, or against the end
            limit = p.binary("subi", end, first, "i32") if left else end
            spread = []
            for s in (first, limit):
                s = p.emit(f"reshape {s} : tile<i32> -> {tile('i32', (1,))}")
                spread.append(p.emit(f"broadcast {s} : {tile('i32', (1,))} -> {tile('i32', (n,))}"))
            if not left:
                k = p.binary("addi", k, spread[0], "i32", (n,))
            m = p.emit(f"cmpi less_than {k}, {spread[1]}, signed : {tile('i32', (n,))} -> {tile('i1', (n,))}")
            m = p.spread(m, "i1", n, self.shape, dim)
            both = p.binary("andi", both, m, "i1", self.shape) if both else m
        return both

    def type_of_pointers(self) -> str:
        return tile(f"ptr<{self.stored}>", self.shape)

    def stepped(self, dim: int, by: str) -> str:
        """The carried pointers `by` tiles further along a dimension."""
        p, q, t = self.p, self.type_of_pointers(), tile("i32", self.shape)
        count = p.binary("muli", by, p.const(self.shape[dim], "i32"), "i32")
        if dim != (0 if self.turned else 1):
            pitch = self.number if self.number.startswith("%") else p.const(self.pitch, "i32")
            count = p.binary("muli", count, pitch, "i32")
        count = p.emit(f"reshape {count} : tile<i32> -> {tile('i32', (1, 1))}")
        count = p.emit(f"broadcast {count} : {tile('i32', (1, 1))} -> {t}")
        return p.emit(f"offset {self.at}, {count} : {q}, {t} -> {q}")

    def load(self, i: str, j: str) -> str:
        """The tile of row and column number i and j as a value of `dtype`."""
        p = self.p
        t = tile(self.stored, self.shape)
        if self.how == "pointers":
            at, q = self.at or self.pointers(i, j), self.type_of_pointers()
            if self.masked:
                m = self.inside(i, j)
                zero = p.const("0" if self.stored == "i8" else "0.0", self.stored, self.shape)
                bits = tile("i1", self.shape)
                x, _ = p.op(f"load_ptr_tko weak {at}, {m}, {zero} : {q}, {bits}, {t} -> {t}, token")
            else:
                x, _ = p.op(f"load_ptr_tko weak {at} : {q} -> {t}, token")
        else:
            hint = p.choose(HINTS)
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
    op, sign = ("mmai", p.choose(SIGNS)) if dtype == "i8" else ("mmaf", "")
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


SIGNS = (" signed signed", " signed signed", " unsigned unsigned", " signed unsigned", " unsigned signed")
KINDS = ("for", "for", "for", "for", "break", "while", "first", "down", "unsigned", "early", "left")


class Loop:
    """A loop over steps of K in one of the ways that frontends write it; the body is what is written up to `end`.

    for: counted. break: a `loop` that is left in front of the work. while: the work, the step and `continue` stand in an
    `if`, `break` behind it. first: as while, where a flag says whether the index is stepped. down: from above, as while.
    """

    def __init__(
        self, p: Products, low: str, high: str, step: str, carried: Sequence[tuple[str, str]], kind: str = ""
    ) -> None:
        self.p, self.step, self.carried = p, step, carried
        p.count += 1
        n = p.count
        self.kind = kind or p.choose(KINDS)
        self.i = f"%i{n}"
        self.values = [f"%c{n}_{k}" for k in range(len(carried))]
        self.types = ", ".join(t for _, t in carried)
        self.index = "tile<i32>"
        names = ", ".join(f"{c} = {v}" for c, (v, _) in zip(self.values, carried))
        result = f"%v{n}" + (f":{len(carried)}" if len(carried) > 1 else "")
        self.results = [f"%v{n}#{k}" for k in range(len(carried))] if len(carried) > 1 else [f"%v{n}"]
        self.high, self.flag, self.behind = high, "", False
        if self.kind == "left":
            self.flag, self.behind = f"%l{n}", p.choose((False, True))
            names += f", {self.flag} = {p.const('false', 'i1')}"
            high = p.binary("addi", high, p.const(p.choose((0, 1, 5)), "i32"), "i32")
            result = f"%v{n}:{len(carried) + 1}"
            self.results = [f"%v{n}#{k}" for k in range(len(carried))]
        if self.kind in ("for", "unsigned", "left"):
            how = "unsigned " if self.kind == "unsigned" else ""
            types = self.types + (", tile<i1>" if self.flag else "")
            p.line(
                f"{result} = for {how}{self.i} in ({low} to {high}, step {step}) : tile<i32> iter_values({names}) -> ({types}) {{"
            )
            p.depth += 1
            if self.flag:
                self.leaves(self.flag, self.values)
                self.leaves(self.beyond(self.i), self.values, True)
            return
        start = low
        if self.kind == "down":
            start = p.binary("subi", high, p.const(1, "i32"), "i32")
        flag = one = ""
        if self.kind == "first":
            one = p.const(1, "i32")
            self.zero = p.const(0, "i32")
            flag = f"%f{n} = {one}, "
            self.index = "tile<i32>, tile<i32>"
        p.line(
            f"{result} = loop iter_values({self.i} = {start}, {flag}{names}) : {self.index}, {self.types} -> {self.types} {{"
        )
        p.depth += 1
        if self.kind == "first":
            self.stepped(n)
        test = {"break": "greater_than_or_equal", "down": "greater_than_or_equal"}.get(self.kind, "less_than")
        bound = low if self.kind == "down" else high
        if self.kind == "early":
            test, far = p.choose((
                ("not_equal", -1), ("not_equal", 1 << 20), ("less_than_or_equal", (1 << 31) - 1), ("less_than", 1 << 30),
                ("less_than_or_equal", 5), ("less_than", 3),
            ))  # fmt: skip
            bound = p.const(far, "i32") if p.choose((0, 1)) else p.plain(far)
        c = p.emit(f"cmpi {test} {self.i}, {bound}, signed : tile<i32> -> tile<i1>")
        p.line(f"if {c} {{")
        p.depth += 1
        if self.kind == "break":
            self.leave()
        if self.kind == "early":
            p.line(f"if {self.beyond(self.i)} {{")
            p.line(f"  break {', '.join(self.values)} : {self.types}")
            p.line("}")

    def beyond(self, i: str) -> str:
        """Whether an index is no longer below the end, also of a multiple of both."""
        p, high = self.p, self.high
        by = p.choose((0, 0, 16))
        if by:
            size = p.const(by, "i32")
            flags = p.choose(("", " overflow<no_signed_wrap>"))
            i, high = (p.emit(f"muli {x}, {size}{flags} : tile<i32>") for x in (i, high))
        return p.emit(f"cmpi greater_than_or_equal {i}, {high}, signed : tile<i32> -> tile<i1>")

    def leaves(self, condition: str, values: Sequence[str], now: bool = False) -> None:
        """Goes on with values, and does nothing from `now` on, where a condition holds."""
        p = self.p
        p.line(f"if {condition} {{")
        p.depth += 1
        flag = p.const("true", "i1") if now else self.flag
        p.line(f"continue {', '.join([*values, flag])} : {self.types}, tile<i1>")
        p.depth -= 1
        p.line("}")

    def ends_where(self, condition: str) -> None:
        """Ends the loop in front of the work of a round; not of one that is counted, or counted down."""
        if self.kind == "left":
            self.leaves(condition, self.values, True)
            return
        p = self.p
        p.line(f"if {condition} {{")
        p.line(f"  break {', '.join(self.values)} : {self.types}")
        p.line("}")

    def stepped(self, n: int) -> None:
        p = self.p
        c = p.emit(f"cmpi not_equal %f{n}, {self.zero}, signed : tile<i32> -> tile<i1>")
        p.line(f"%j{n} = if {c} -> (tile<i32>) {{")
        p.line(f"  yield {self.i} : tile<i32>")
        p.line("} else {")
        p.depth += 1
        up = p.emit(f"addi {self.i}, {self.step} overflow<no_signed_wrap> : tile<i32>")
        p.line(f"yield {up} : tile<i32>")
        p.depth -= 1
        p.line("}")
        self.i = f"%j{n}"

    def leave(self) -> None:
        """Out of the loop, and of the `if`."""
        p = self.p
        if self.kind == "break":
            p.line(f"break {', '.join(self.values)} : {self.types}")
        p.depth -= 1
        p.line("}")
        if self.kind != "break":
            p.line(f"break {', '.join(self.values)} : {self.types}")

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
        if self.kind in ("for", "unsigned"):
            p.line(f"continue {', '.join(values)} : {self.types}")
            return
        if self.kind == "left":
            p.line(f"continue {', '.join([*values, self.flag])} : {self.types}, tile<i1>")
            return
        if self.kind == "first":
            p.line(f"continue {', '.join([self.i, self.zero, *values])} : {self.index}, {self.types}")
            return
        flags = p.choose(("", " overflow<no_signed_wrap>"))
        op = "subi" if self.kind == "down" else "addi"
        nxt = p.emit(f"{op} {self.i}, {self.step}{flags} : tile<i32>")
        p.line(f"continue {', '.join([nxt, *values])} : {self.index}, {self.types}")

    def end(self, values: Sequence[str]) -> list[str]:
        if self.behind:
            self.leaves(self.beyond(self.p.binary("addi", self.i, self.step, "i32")), values, True)
        self.go_on(values)
        if self.kind not in ("for", "break", "unsigned", "left"):
            self.leave()
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
