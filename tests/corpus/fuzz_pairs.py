"""Random products that pairs of CTAs multiply as one: tile blocks of 2, 4 or 8 CTAs, at least 128 rows each.

Operands have tensor maps for certain: views of aligned arrays whose lines are whole chunks of 16 bytes, of two dimensions or a
matrix of several, in either order, with ragged ends. All else is drawn: types, how many rows a CTA has, columns, steps, a block
for each tile or some tiles a block, one product in the loop or two that share an operand, and what becomes of the sums.
"""

from __future__ import annotations

from tests.corpus.fuzz import Choose, tile
from tests.corpus.fuzz_products import text_of
from tests.corpus.fuzz_products_forms import begin, clear, number_at, place_of
from tests.corpus.fuzz_products_kit import ACC, BYTES, Loop, Operand, Products, multiply, rows, vector_of

TYPES = ("f16", "bf16", "f8E4M3FN", "f8E5M2", "i8")
CHUNK = 16
SHARED_BYTES, COLUMNS = (
    192 << 10,
    512,
)  # of a CTA: three stages and an exchange in the one, two buffers of sums in the other
HINTS = ("", "", "", "", " optimization_hints = <default = {latency = 2}>",
         " optimization_hints = <default = {latency = 8}>", " optimization_hints = <default = {allow_tma = true}>")  # fmt: skip


class Mapped:
    """A matrix of which tiles are loaded by a tensor map: as it is or its transpose, alone or one of several."""

    def __init__(self, p: Products, dtype: str, shape: tuple[int, int], extents: tuple[int, int]) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        choose, chunk = p.choose, CHUNK // BYTES[dtype]
        self.turned = choose((False, True))
        self.by_view = self.turned and choose((False, True))
        outer, inner = extents[::-1] if self.turned else extents
        pitch = -(-inner // chunk) * chunk + choose((0, 0, chunk, 3 * chunk))
        count = choose((1, 1, 1, 2, 3))
        sizes, strides = [count, outer, inner], [outer * pitch, pitch, 1]
        part = [1, *(shape[::-1] if self.turned else shape)]
        order = [0, 1, 2]
        if count == 1 and choose((1, 1, 0)):
            sizes, strides, part, order = sizes[1:], strides[1:], part[1:], [0, 1]
        if self.by_view:
            part[-2:], order[-2:] = part[:-3:-1], order[:-3:-1]
        p.arrays.append((dtype, count * outer * pitch, ""))
        name = f"%a{len(p.arrays) - 1}"
        base = p.emit(f"assume div_by<16>, {name} : tile<ptr<{dtype}>>")
        ends = [str(n) if choose((1, 1, 0)) else p.scalar(n) for n in sizes]
        steps = [str(n) if n == 1 or choose((1, 1, 0)) else self.number(n, chunk) for n in strides]
        dims = "x".join("?" if e.startswith("%") else e for e in ends)
        shown = ",".join("?" if s.startswith("%") else s for s in steps)
        tv = f"tensor_view<{dims}x{dtype}, strides=[{shown}]>"
        kind = f"tile<i32> -> {tv}" if "?" in tv else tv
        view = p.emit(
            f"make_tensor_view {base}, shape = [{', '.join(ends)}], strides = [{', '.join(steps)}] : {kind}"
        )
        maps = f", dim_map={order}" if order != sorted(order) else ""
        self.part = part
        self.type = f"partition_view<tile=({'x'.join(map(str, part))}), padding_value = zero, {tv}{maps}>"
        self.view = p.emit(f"make_partition_view {view} : {self.type}")
        self.lead = [p.const(choose(range(count)), "i32")] if len(part) == 3 else []
        self.hint = choose(HINTS)

    def number(self, value: int, divides: int) -> str:
        """A stride that is known to have whole chunks."""
        p = self.p
        p.scalars.append(value)
        return p.emit(f"assume div_by<{divides}>, %s{len(p.scalars) - 1} : tile<i32>")

    def load(self, i: str, j: str) -> str:
        p, got = self.p, tile(self.dtype, self.part)
        turned = self.turned and not self.by_view
        index = ", ".join([*self.lead, *((j, i) if turned else (i, j))])
        x, _ = p.op(
            f"load_view_tko weak {self.view}[{index}]{self.hint} : {self.type}, tile<i32> -> {got}, token"
        )
        if len(self.part) == 3:
            flat = tile(self.dtype, self.part[1:])
            x, got = p.emit(f"reshape {x} : {got} -> {flat}"), flat
        if turned:
            x = p.emit(f"permute {x} [1, 0] : {got} -> {tile(self.dtype, self.shape)}")
        return x


class Result(Operand):
    """What is stored is no tile's transpose: rows of the first store are what CTAs share out."""

    WAYS = ("strides",)


def draw_pairs(choose: Choose, types: tuple[str, ...] = TYPES, long: bool = False) -> str:
    """The text of one program, as `fuzz_products.draw_program` has it. `long`: steps of which no three fit a CTA; whether they
    are cut, and the sums go on from part to part, is decided later than clusters are."""
    p = Products(choose)
    p.depth = 1
    dtype = choose(types)
    acc, size = ACC[dtype], BYTES[dtype]
    ctas, form = choose((2, 2, 2, 4, 8)), choose(("one", "one", "one", "lefts", "rights"))
    each = choose((128, 128, 256))
    n = choose((32, 64, 128, 128, 256) if size > 1 else (64, 128, 128, 256))  # half of a line: 32 bytes
    k = choose((256, 512) if long else (32, 64, 128)) // size
    sums = 2 if form != "one" else 1
    while 2 * sums * n * (each // 128) > COLUMNS:
        n, each = (n // 2, each) if n > 64 else (n, 128)
    m = ctas * each
    while (
        3 * size * k * (each * (1 + (form == "lefts")) + n * (1 + (form == "rights")))
        > (2 if long else 1) * SHARED_BYTES
    ):
        k //= 2
    steps = choose((0, 1, 2, 3, 4, 5, 7, 9))
    ragged = choose((0, 0, 1))
    depth = max(1, k * steps - (choose((1, 3, 8, k // 2)) if ragged else 0))
    count = (choose((1, 1, 2)), choose((1, 2, 2)))
    height = m * count[0] - (choose((0, 1, 8, each, each + 3)) if ragged else 0)
    width = n * count[1] - (choose((0, 1, 8, 5 * n // 8)) if ragged else 0)
    shape, t = (m, n), tile(acc, (m, n))
    vector = p.array("f32", 2048) if acc == "f32" else ""
    left = [Mapped(p, dtype, (m, k), (height, depth)) for _ in range(1 + (form == "lefts"))]
    right = [Mapped(p, dtype, (k, n), (depth, width)) for _ in range(1 + (form == "rights"))]
    result = acc if acc == "i32" or choose((0, 1)) else choose(("f16", "bf16"))
    out = Result(p, result, shape, (height, width), reads=False)
    rest = Result(p, acc, shape, (height, width), reads=False) if sums == 2 and choose((0, 1)) else None
    zero, one = p.const(0, "i32"), p.const(1, "i32")
    low = zero if choose((1, 1, 1, 0)) else one
    high = p.const(steps, "i32") if choose((0, 1)) else p.scalar(steps)
    step = one if choose((1, 1, 1, 0)) else p.const(2, "i32")

    ways = choose(("counted", "counted", "counted", "reckoned"))
    table = p.array("i32", 64) if ways == "listed" else ""

    def place(i: str) -> str:
        """The number of the step that iteration i takes."""
        if ways == "reckoned":
            i = p.binary("muli", i, p.const(3, "i32"), "i32")
            return p.emit(f"remi {i}, {p.const(max(1, steps), 'i32')} signed : tile<i32>")
        return number_at(p, table, i) if table else i

    def one_tile(i: str, j: str) -> None:
        loop = Loop(
            p,
            low,
            high,
            step,
            [(clear(p, acc, shape), t)] * sums,
            choose(("for", "for", "for", "break", "while")),
        )
        s = place(loop.i)
        xs, ys = [x.load(i, s) for x in left], [y.load(s, j) for y in right]
        done = loop.end([
            multiply(p, xs[at % len(xs)], ys[at % len(ys)], loop.values[at], dtype, m, n, k) for at in range(sums)
        ])  # fmt: skip
        x = done[0]
        if rest is not None:
            rest.store(i, j, done[1])
        elif sums == 2:
            x = p.binary("addi" if acc == "i32" else choose(("addf", "mulf")), *done, acc, shape)
        finish(p, x, acc, shape, out, i, j, vector)

    total = count[0] * count[1]
    way = choose(("grid", "grid", "flat", "persistent", "persistent", "rows"))
    if way == "grid":
        i, j, _ = begin(p, (*count, 1))
        one_tile(i, j)
    elif way == "flat":
        b, *_ = begin(p, (total, 1, 1))
        one_tile(*place_of(p, b, count))
    else:
        blocks = count[0] if way == "rows" else choose((1, 2))
        b, *_ = begin(p, (blocks, 1, 1))
        if way == "rows":
            around = Loop(p, zero, p.const(count[1], "i32"), one, [(zero, "tile<i32>")], "for")
            one_tile(b, around.i)
        else:
            end = p.const(total, "i32") if choose((0, 1)) else p.scalar(total)
            around = Loop(
                p, b, end, p.const(blocks, "i32"), [(zero, "tile<i32>")], choose(("for", "for", "while"))
            )
            one_tile(*place_of(p, around.i, count))
        around.end([around.values[0]])
    return text_of(p, f"num_cta_in_cga = {ctas}")


def finish(
    p: Products, x: str, acc: str, shape: tuple[int, int], out: Operand, i: str, j: str, vector: str
) -> None:
    """What becomes of sums, each row for itself: no CTA has a column whole."""
    n = shape[1]
    if vector and p.choose((0, 0, 1)):
        dim = p.choose((0, 1))
        v = vector_of(p, vector, acc, shape[dim])
        x = p.binary("addf", x, p.spread(v, acc, shape[dim], shape, dim), acc, shape)
    if vector and p.choose((0, 0, 1)):
        top = p.spread(rows(p, x, acc, shape, 1, "max"), acc, shape[0], shape, 0)
        x = p.binary("subf", x, top, acc, shape)
    if p.choose((0, 0, 1)):
        x = p.binary(
            *(("muli", x, x) if acc == "i32" else ("maxf", x, clear(p, acc, (shape[0], n)))), acc, shape
        )
    if out.dtype != acc:
        x = p.emit(f"ftof {x} : {tile(acc, shape)} -> {tile(out.dtype, shape)}")
    out.store(i, j, x)
