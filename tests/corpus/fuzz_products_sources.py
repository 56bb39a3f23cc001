"""Where the operands of random products come from when it is not one load of a matrix: pieces, ranks, bytes with scales."""

from __future__ import annotations

from typing import Any

from tests.corpus.fuzz import tile
from tests.corpus.fuzz_products_kit import BYTES, HINTS, WIDER, Operand, Products
from tests.corpus.fuzz_products_made import Either, Made, Reduced

Shape = tuple[int, int]
NIBBLES = ("f16", "bf16", "f8E4M3FN", "i8")


def fits(shape: Shape, extents: Shape) -> bool:
    """Whether an array is made of whole tiles."""
    return all(e % s == 0 for e, s in zip(extents, shape))


class Halves:
    """Two tiles side by side, joined."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.dim = p.choose((0, 1))
        half = (shape[0] // 2, shape[1]) if self.dim == 0 else (shape[0], shape[1] // 2)
        self.half = half
        self.part = Operand(p, dtype, half, extents, inside=fits(shape, extents))

    def load(self, i: str, j: str) -> str:
        p = self.p
        two, one = p.const(2, "i32"), p.const(1, "i32")
        first = p.binary("muli", (i, j)[self.dim], two, "i32")
        second = p.binary("addi", first, one, "i32")
        parts = [self.part.load(n, j) if self.dim == 0 else self.part.load(i, n) for n in (first, second)]
        t = tile(self.dtype, self.half)
        return p.emit(
            f"cat {parts[0]}, {parts[1]} dim = {self.dim} : {t}, {t} -> {tile(self.dtype, self.shape)}"
        )


class Slice:
    """A half of a tile twice as large."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.dim = p.choose((0, 1))
        self.twice = (2 * shape[0], shape[1]) if self.dim == 0 else (shape[0], 2 * shape[1])
        self.whole = Operand(p, dtype, self.twice, extents)

    def load(self, i: str, j: str) -> str:
        p = self.p
        two, zero = p.const(2, "i32"), p.const(0, "i32")
        n = (i, j)[self.dim]
        at = p.emit(f"divi {n}, {two} signed : tile<i32>")
        side = p.emit(f"remi {n}, {two} signed : tile<i32>")
        x = self.whole.load(at, j) if self.dim == 0 else self.whole.load(i, at)
        where = f"{side}, {zero}" if self.dim == 0 else f"{zero}, {side}"
        return p.emit(
            f"extract {x}[{where}] : {tile(self.dtype, self.twice)} -> {tile(self.dtype, self.shape)}"
        )


class Deep:
    """A matrix of several, as heads and batches are: a view of three or four dimensions, the first ones taken one by one."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape, reads: bool = True) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        choose = p.choose
        rank = choose((3, 3, 4))
        counts = [choose((1, 2, 3)) for _ in range(rank - 2)]
        self.counts = counts
        self.turned = choose((False, True))
        inner = extents[::-1] if self.turned else extents
        middle = rank == 4 and choose(
            (0, 1)
        )  # batch, row, head, column: what attention's arguments look like
        row = inner[1] + choose((0, 0, 16))
        if middle:
            row *= counts[1]
        steps = [row, 1]
        size = row * inner[0]
        leading: list[int] = []
        for k in reversed(range(rank - 2)):
            if middle and k == 1:
                leading.insert(0, row // counts[1])
                continue
            leading.insert(0, size)
            size *= counts[k]
        stored = self.stored = "f32" if dtype == "tf32" else dtype
        base = p.array(stored, size, not reads)
        sizes = [*counts, *inner]
        strides = [*leading, *steps]
        shown = [
            str(s) if choose((1, 1, 0)) or s == 1 else p.scalar(s, 16 // min(BYTES[dtype], 8))
            for s in strides
        ]
        ends = [str(n) if choose((1, 1, 0)) else p.scalar(n, 8) for n in sizes]
        dims = "x".join("?" if e.startswith("%") else e for e in ends)
        steps_text = ",".join("?" if s.startswith("%") else s for s in shown)
        tv = f"tensor_view<{dims}x{stored}, strides=[{steps_text}]>"
        kind = f"tile<i32> -> {tv}" if "?" in tv else tv
        view = p.emit(
            f"make_tensor_view {base}, shape = [{', '.join(ends)}], strides = [{', '.join(shown)}] : {kind}"
        )
        part = [1] * (rank - 2) + list(shape[::-1] if self.turned else shape)
        self.by_view = rank == 3 and choose((False, False, True))  # the tile is turned by the view
        order = ", dim_map=[0, 2, 1]" if self.by_view else ""
        self.tiles = tiles = [1, part[2], part[1]] if self.by_view else part
        self.type = f"partition_view<tile=({'x'.join(map(str, tiles))}), padding_value = zero, {tv}{order}>"
        self.view = p.emit(f"make_partition_view {view} : {self.type}")
        self.lead = [p.const(choose(range(c)), "i32") for c in counts]

    def index(self, i: str, j: str) -> str:
        turned = self.turned != self.by_view
        return ", ".join([*self.lead, *((j, i) if turned else (i, j))])

    def load(self, i: str, j: str) -> str:
        p = self.p
        got = tile(self.stored, self.tiles)
        x, _ = p.op(
            f"load_view_tko weak {self.view}[{self.index(i, j)}]{p.choose(HINTS)} : {self.type}, tile<i32> -> {got}, token"
        )
        turned = self.turned != self.by_view
        if turned and p.choose((0, 1)):  # turned before it is flat
            n = len(self.tiles)
            order = [*range(n - 2), n - 1, n - 2]
            last = [*self.tiles[:-2], self.tiles[-1], self.tiles[-2]]
            x = p.emit(f"permute {x} {order} : {got} -> {tile(self.stored, last)}")
            x = p.emit(f"reshape {x} : {tile(self.stored, last)} -> {tile(self.stored, self.shape)}")
        else:
            flat = self.shape[::-1] if turned else self.shape
            x = p.emit(f"reshape {x} : {got} -> {tile(self.stored, flat)}")
            if turned:
                x = p.emit(
                    f"permute {x} [1, 0] : {tile(self.stored, flat)} -> {tile(self.stored, self.shape)}"
                )
        if self.stored != self.dtype:
            x = p.emit(f"ftof {x} : {tile(self.stored, self.shape)} -> {tile(self.dtype, self.shape)}")
        return x


class Blocked:
    """Each tile lies in one piece, one after the other."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.wide = -(-extents[1] // shape[1])
        count = -(-extents[0] // shape[0]) * self.wide
        n = shape[0] * shape[1]
        self.stored = "f32" if dtype == "tf32" else dtype
        base = p.array(self.stored, count * n)
        self.turned = p.choose((0, 1))
        self.flat = p.choose((0, 1))
        if self.flat:
            tv, self.part = f"tensor_view<{count * n}x{self.stored}, strides=[1]>", (n,)
        else:
            tv, self.part = f"tensor_view<{count}x{n}x{self.stored}, strides=[{n},1]>", (1, n)
        sizes = f"{count * n}" if self.flat else f"{count}, {n}"
        steps = "1" if self.flat else f"{n}, 1"
        view = p.emit(f"make_tensor_view {base}, shape = [{sizes}], strides = [{steps}] : {tv}")
        self.type = f"partition_view<tile=({'x'.join(map(str, self.part))}), {tv}>"
        self.view = p.emit(f"make_partition_view {view} : {self.type}")

    def load(self, i: str, j: str) -> str:
        p = self.p
        at = p.binary("muli", i, p.const(self.wide, "i32"), "i32")
        at = p.binary("addi", at, j, "i32")
        if not self.flat:
            at += f", {p.const(0, 'i32')}"
        got = tile(self.stored, self.part)
        x, _ = p.op(f"load_view_tko weak {self.view}[{at}] : {self.type}, tile<i32> -> {got}, token")
        flat = self.shape[::-1] if self.turned else self.shape
        x = p.emit(f"reshape {x} : {got} -> {tile(self.stored, flat)}")
        if self.turned:
            x = p.emit(f"permute {x} [1, 0] : {tile(self.stored, flat)} -> {tile(self.stored, self.shape)}")
        if self.stored != self.dtype:
            x = p.emit(f"ftof {x} : {tile(self.stored, self.shape)} -> {tile(self.dtype, self.shape)}")
        return x


class Scaled:
    """Narrow numbers with a factor for each group along a dimension: weights of 8 or 4 bits."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        choose = p.choose
        self.narrow = choose(("i8", "f8E4M3FN", "nibbles", "nibbles"))
        self.dim = choose((0, 1))  # groups run along it
        group = choose((1, 2, 4))
        self.groups = max(1, shape[self.dim] // choose((8, 16, 32, 64))) if group > 1 else 1
        inner, inside = shape, fits(shape, extents)
        if self.narrow == "nibbles":
            inner = (shape[0] // 2, shape[1]) if self.dim == 0 else (shape[0], shape[1] // 2)
            extents = (extents[0] // 2, extents[1]) if self.dim == 0 else (extents[0], extents[1] // 2)
            extents = (max(1, extents[0]), max(1, extents[1]))
        stored = "i8" if self.narrow == "nibbles" else self.narrow
        self.inner = inner
        self.weights = Operand(p, stored, inner, extents, inside=inside)
        self.weights.stored = stored
        if self.narrow == "nibbles":
            p.any_bytes()
        tiles = [-(-e // s) for e, s in zip(extents, inner)]
        part = (self.groups, shape[1]) if self.dim == 0 else (shape[0], self.groups)
        self.part = part
        self.scales = Operand(p, dtype, part, (part[0] * tiles[0], part[1] * tiles[1]), inside=inside)
        self.zero = choose((0, 0, 1))

    def load(self, i: str, j: str) -> str:
        p, shape = self.p, self.shape
        x = self.weights.load(i, j)
        t = tile(self.dtype, shape)
        if self.narrow == "nibbles":
            x = self.unpacked(x)
        if self.narrow == "f8E4M3FN":
            x = p.emit(f"ftof {x} : {tile('f8E4M3FN', shape)} -> {t}")
        else:
            if self.zero:
                x = p.binary("subi", x, p.const(1, "i8", shape), "i8", shape)
            x = p.emit(f"itof {x} signed : {tile('i8', shape)} -> {t}")
        s = self.scales.load(i, j)
        d, g, part = self.dtype, self.groups, self.part
        each = shape[self.dim] // g
        if self.dim == 0:
            one, many = (g, 1, shape[1]), (g, each, shape[1])
        else:
            one, many = (shape[0], g, 1), (shape[0], g, each)
        s = p.emit(f"reshape {s} : {tile(d, part)} -> {tile(d, one)}")
        s = p.emit(f"broadcast {s} : {tile(d, one)} -> {tile(d, many)}")
        if p.choose((0, 1)):
            s = p.emit(f"reshape {s} : {tile(d, many)} -> {t}")
            return p.binary("mulf", x, s, d, shape)
        x = p.emit(f"reshape {x} : {t} -> {tile(d, many)}")
        x = p.binary("mulf", x, s, d, many)
        return p.emit(f"reshape {x} : {tile(d, many)} -> {t}")

    def unpacked(self, x: str) -> str:
        """Low and high halves of bytes, in turn or one behind the other."""
        p, inner, shape = self.p, self.inner, self.shape
        t = tile("i8", inner)
        four = p.const(4, "i8", inner)
        low = p.emit(f"shli {x}, {four} : {t}")
        low = p.emit(f"shri {low}, {four} signed : {t}")
        high = p.emit(f"shri {x}, {four} signed : {t}")
        if p.choose((0, 1)):
            return p.emit(f"cat {low}, {high} dim = {self.dim} : {t}, {t} -> {tile('i8', shape)}")
        if self.dim == 0:
            one, two = (inner[0], 1, inner[1]), (inner[0], 2, inner[1])
        else:
            one, two = (inner[0], inner[1], 1), (inner[0], inner[1], 2)
        low, high = (p.emit(f"reshape {v} : {t} -> {tile('i8', one)}") for v in (low, high))
        u = tile("i8", one)
        dim = 1 if self.dim == 0 else 2
        both = p.emit(f"cat {low}, {high} dim = {dim} : {u}, {u} -> {tile('i8', two)}")
        return p.emit(f"reshape {both} : {tile('i8', two)} -> {tile('i8', shape)}")


class Sum:
    """Two loads added."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.parts = [Operand(p, dtype, shape, extents) for _ in range(2)]

    def load(self, i: str, j: str) -> str:
        x, y = (part.load(i, j) for part in self.parts)
        return self.p.binary("addf", x, y, self.dtype, self.shape)


class Listed(Operand):
    """Rows that an array of numbers names, a few of them outside of the matrix; it is read by tiles or number by number."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.stored = p.choose(("f32" if dtype == "tf32" else dtype, *WIDER.get(dtype, ())))
        self.stride = p.scalar(extents[1] + p.choose((0, 16, 16, 3)), 8) if p.choose((0, 1)) else ""
        self.row = p.scalars[-1] if self.stride else extents[1]
        self.base = p.array(self.stored, extents[0] * self.row)
        self.ends = [p.const(n, "i32") for n in extents]
        count = -(-extents[0] // shape[0]) * shape[0]
        self.count = p.const(count, "i32")
        self.names = p.array("i32", count)
        p.any_bytes()
        self.by_view = p.choose((True, True, False))
        tv = f"tensor_view<{count}xi32, strides=[1]>"
        view = p.emit(f"make_tensor_view {self.names}, shape = [{count}], strides = [1] : {tv}")
        self.type = f"partition_view<tile=({shape[0]}), padding_value = zero, {tv}>"
        self.view = p.emit(f"make_partition_view {view} : {self.type}")
        self.mask = (1 << extents[0].bit_length()) - 1  # up to twice as many as there are rows

    def along(self, x: str, dtype: str, n: int) -> str:
        """A number, n times."""
        one, all = tile(dtype, (1,)), tile(dtype, (n,))
        x = self.p.emit(f"reshape {x} : {tile(dtype, ())} -> {one}")
        return self.p.emit(f"broadcast {x} : {one} -> {all}")

    def rows(self, i: str) -> str:
        """The numbers of the rows of tile i."""
        p, n = self.p, self.shape[0]
        t = tile("i32", (n,))
        if self.by_view:
            x, _ = p.op(f"load_view_tko weak {self.view}[{i}] : {self.type}, tile<i32> -> {t}, token")
        else:
            first = self.along(p.binary("muli", i, p.const(n, "i32"), "i32"), "i32", n)
            at = p.binary("addi", p.emit(f"iota : {t}"), first, "i32", (n,))
            end = self.along(self.count, "i32", n)
            there = p.emit(f"cmpi less_than {at}, {end}, unsigned : {t} -> {tile('i1', (n,))}")
            q = tile("ptr<i32>", (n,))
            many = p.emit(f"offset {self.along(self.names, 'ptr<i32>', n)}, {at} : {q}, {t} -> {q}")
            none = p.const(0, "i32", (n,))
            x, _ = p.op(
                f"load_ptr_tko weak {many}, {there}, {none} : {q}, {tile('i1', (n,))}, {t} -> {t}, token"
            )
        return p.binary("andi", x, p.const(self.mask, "i32", (n,)), "i32", (n,))

    def load(self, i: str, j: str) -> str:
        p, (m, n) = self.p, self.shape
        rows = self.rows(i)
        first = self.along(p.binary("muli", j, p.const(n, "i32"), "i32"), "i32", n)
        columns = p.binary("addi", p.emit(f"iota : {tile('i32', (n,))}"), first, "i32", (n,))
        there = ""
        for dim, (x, size) in enumerate(((rows, m), (columns, n))):
            end = self.along(self.ends[dim], "i32", size)
            t = tile("i32", (size,))
            b = p.emit(f"cmpi less_than {x}, {end}, unsigned : {t} -> {tile('i1', (size,))}")
            b = p.spread(b, "i1", size, self.shape, dim)
            there = p.binary("andi", there, b, "i1", self.shape) if there else b
        pitch = self.along(self.stride or p.const(self.row, "i32"), "i32", m)
        lines = p.spread(p.binary("muli", rows, pitch, "i32", (m,)), "i32", m, self.shape, 0)
        offset = p.binary("addi", lines, p.spread(columns, "i32", n, self.shape, 1), "i32", self.shape)
        q, t, bits = (
            tile(f"ptr<{self.stored}>", self.shape),
            tile(self.stored, self.shape),
            tile("i1", self.shape),
        )
        one = p.emit(
            f"reshape {self.base} : tile<ptr<{self.stored}>> -> {tile(f'ptr<{self.stored}>', (1, 1))}"
        )
        many = p.emit(f"broadcast {one} : {tile(f'ptr<{self.stored}>', (1, 1))} -> {q}")
        at = p.emit(f"offset {many}, {offset} : {q}, {tile('i32', self.shape)} -> {q}")
        zero = p.const("0" if self.stored == "i8" else "0.0", self.stored, self.shape)
        x, _ = p.op(f"load_ptr_tko weak {at}, {there}, {zero} : {q}, {bits}, {t} -> {t}, token")
        return self.converted(x)


class LookedUp:
    """What codes name in a table: a byte a code, two codes a byte, or a code for some neighbours along one dimension; one table,
    or one for each step along K (`along`)."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape, along: int) -> None:
        self.p, self.dtype, self.shape, self.along = p, dtype, shape, along
        choose = p.choose
        self.dim = choose((0, 1))
        fields = ["one", "one", "one"]
        if shape[self.dim] >= 16 and extents[self.dim] % 8 == 0:
            fields += ["two", "two", "many"]
        self.way = choose(fields)
        self.part = {"one": 1, "two": 2, "many": choose((4, 8))}[self.way]
        stored, wide = [list(shape), list(extents)], self.dim
        for sizes in stored:
            sizes[wide] //= self.part
        self.few: Shape = (stored[0][0], stored[0][1])
        self.codes = Operand(p, "i8", self.few, (stored[1][0], stored[1][1]))
        p.any_bytes()
        self.entries = 16 if self.way == "two" else choose((16, 256))
        self.held = choose(
            ("f32" if dtype == "tf32" else dtype, *WIDER.get(dtype, ()), "i32" if dtype == "i8" else "f32")
        )
        self.tables = -(-extents[along] // shape[along]) if choose((0, 0, 1)) else 1
        self.vector = self.part if self.way == "many" else 1
        self.base = p.array(self.held, (self.tables + 1) * self.entries * self.vector)
        self.masked = choose((0, 0, 1))

    def numbers(self, i: str, j: str) -> tuple[str, Any]:
        """The place of every element in the table, and their shape."""
        p, few = self.p, self.few
        x = p.emit(f"exti {self.codes.load(i, j)} signed : {tile('i8', few)} -> {tile('i32', few)}")
        if self.way != "two":
            x = p.binary("andi", x, p.const(self.entries - 1, "i32", few), "i32", few)
        if self.way == "one":
            return x, few
        dim = self.dim + 1
        apart = (*few[:dim], 1, *few[dim:])
        if self.way == "two":
            low = p.binary("andi", x, p.const(15, "i32", few), "i32", few)
            high = p.emit(f"shri {x}, {p.const(4, 'i32', few)} unsigned : {tile('i32', few)}")
            high = p.binary("andi", high, p.const(15, "i32", few), "i32", few)
            t = tile("i32", apart)
            parts = [p.emit(f"reshape {v} : {tile('i32', few)} -> {t}") for v in (low, high)]
            both = tuple(2 if d == dim else e for d, e in enumerate(apart))
            x = p.emit(f"cat {parts[0]}, {parts[1]} dim = {dim} : {t}, {t} -> {tile('i32', both)}")
            return p.emit(f"reshape {x} : {tile('i32', both)} -> {tile('i32', self.shape)}"), self.shape
        whole = tuple(self.part if d == dim else e for d, e in enumerate(apart))
        x = p.binary("muli", x, p.const(self.part, "i32", few), "i32", few)
        x = p.emit(f"reshape {x} : {tile('i32', few)} -> {tile('i32', apart)}")
        x = p.emit(f"broadcast {x} : {tile('i32', apart)} -> {tile('i32', whole)}")
        lane = tuple(self.part if d == dim else 1 for d in range(3))
        k = p.emit(f"iota : {tile('i32', (self.part,))}")
        k = p.emit(f"reshape {k} : {tile('i32', (self.part,))} -> {tile('i32', lane)}")
        k = p.emit(f"broadcast {k} : {tile('i32', lane)} -> {tile('i32', whole)}")
        return p.binary("addi", x, k, "i32", whole), whole

    def load(self, i: str, j: str) -> str:
        p = self.p
        at, shape = self.numbers(i, j)
        t, q, ones = tile("i32", shape), tile(f"ptr<{self.held}>", shape), (1,) * len(shape)
        if self.tables > 1:
            size = p.const(self.entries * self.vector, "i32")
            first = p.binary("muli", (i, j)[self.along], size, "i32")
            first = p.emit(f"reshape {first} : tile<i32> -> {tile('i32', ones)}")
            at = p.binary("addi", at, p.emit(f"broadcast {first} : {tile('i32', ones)} -> {t}"), "i32", shape)
        one = p.emit(f"reshape {self.base} : tile<ptr<{self.held}>> -> {tile(f'ptr<{self.held}>', ones)}")
        many = p.emit(f"broadcast {one} : {tile(f'ptr<{self.held}>', ones)} -> {q}")
        place, got = p.emit(f"offset {many}, {at} : {q}, {t} -> {q}"), tile(self.held, shape)
        if self.masked:
            end = p.const(self.entries * self.vector * (self.tables + 1) - 3, "i32", shape)
            there = p.emit(f"cmpi less_than {at}, {end}, unsigned : {t} -> {tile('i1', shape)}")
            zero = p.const("0" if self.held in ("i8", "i32") else "0.0", self.held, shape)
            x, _ = p.op(
                f"load_ptr_tko weak {place}, {there}, {zero} : {q}, {tile('i1', shape)}, {got} -> {got}, token"
            )
        else:
            x, _ = p.op(f"load_ptr_tko weak {place} : {q} -> {got}, token")
        if shape != self.shape:
            x = p.emit(f"reshape {x} : {got} -> {tile(self.held, self.shape)}")
        if self.held == self.dtype:
            return x
        src, dst = tile(self.held, self.shape), tile(self.dtype, self.shape)
        if self.held == "i32":
            return p.emit(f"trunci {x} : {src} -> {dst}")
        return p.emit(
            f"itof {x} signed : {src} -> {dst}" if self.held == "i8" else f"ftof {x} : {src} -> {dst}"
        )


def source(p: Products, dtype: str, shape: Shape, extents: Shape) -> Any:
    """An operand of any kind that fits the type and the shape."""
    kinds: list[Any] = [Operand] * 5 + [Deep, Deep, Listed, Made, Reduced, Either]
    if min(shape) >= 16:
        kinds += [Halves]
    if max(shape) <= 128 and BYTES[dtype] <= 2:
        kinds += [Slice]
    if fits(shape, extents):
        kinds += [Blocked]
    if dtype in ("f16", "bf16"):
        kinds += [Sum]
        if min(shape) >= 16:
            kinds += [Scaled, Scaled]
    return p.choose(kinds)(p, dtype, shape, extents)
