"""Operands of random products that no load fills, or not as it is: constants, rows and columns repeated, diagonals, triangles,
places; what is left beside the largest of a row, running sums, one of two loads.
"""

from __future__ import annotations

from tests.corpus.fuzz import tile
from tests.corpus.fuzz_products_kit import ACC, Operand, Products, rows, vector_of

Shape = tuple[int, int]


class Made:
    """A tile made of numbers and places, in front of the loop or in each step.

    constant: one number everywhere, known. number: one that comes as an argument. rows, columns: a vector from memory,
    repeated. diagonal: the unit matrix or one beside it. triangle: ones where a row has reached its column, as sums of
    what came before want them. places: small numbers of row, column and step.
    """

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.kind = p.choose(
            ("constant", "constant", "number", "rows", "columns", "diagonal", "triangle", "places")
        )
        self.number = p.choose((0, 1, 1, 2, -1))
        self.base = p.array("f32", shape[self.kind == "columns"]) if self.kind in ("rows", "columns") else ""
        self.scalar = p.scalar(p.choose((-1, 1, 2))) if self.kind == "number" else ""
        self.ahead = self.made(p.const(0, "i32")) if p.choose((0, 1)) else ""

    def load(self, i: str, j: str) -> str:
        return self.ahead or self.made(j if self.p.choose((0, 1)) else i)

    def made(self, step: str) -> str:
        p, shape = self.p, self.shape
        if self.kind == "constant":
            if self.dtype == "tf32":
                return self.of(p.const(self.number, "i32", shape))
            return p.const(self.number if self.dtype == "i8" else f"{self.number}.0", self.dtype, shape)
        if self.kind == "number":
            return self.of(self.everywhere(self.scalar))
        if self.kind in ("rows", "columns"):
            dim = 0 if self.kind == "rows" else 1
            n, first = shape[dim], "f32" if self.dtype in ("i8", "tf32") else self.dtype
            x = vector_of(p, self.base, first, n)
            if self.dtype == "i8":
                x = p.emit(f"ftoi {x} signed : {tile('f32', (n,))} -> {tile('i8', (n,))}")
            elif self.dtype == "tf32":
                x = p.emit(f"ftof {x} : {tile('f32', (n,))} -> {tile('tf32', (n,))}")
            return p.spread(x, self.dtype, n, shape, dim)
        t, bits = tile("i32", shape), tile("i1", shape)
        row, column = (
            p.spread(p.emit(f"iota : {tile('i32', (n,))}"), "i32", n, shape, dim)
            for dim, n in enumerate(shape)
        )
        if self.kind == "places":
            x = p.binary(
                "addi", p.binary("addi", row, column, "i32", shape), self.everywhere(step), "i32", shape
            )
            x = p.binary("andi", x, p.const(3, "i32", shape), "i32", shape)
            return self.of(p.binary("subi", x, p.const(1, "i32", shape), "i32", shape))
        if self.number > 1:
            column = p.binary("addi", column, p.const(1, "i32", shape), "i32", shape)
        compared = "equal" if self.kind == "diagonal" else "greater_than_or_equal"
        there = p.emit(f"cmpi {compared} {row}, {column}, signed : {t} -> {bits}")
        one, zero = self.of(p.const(1, "i32", shape)), self.of(p.const(0, "i32", shape))
        return p.emit(f"select {there}, {one}, {zero} : {bits}, {tile(self.dtype, shape)}")

    def everywhere(self, x: str) -> str:
        p = self.p
        x = p.emit(f"reshape {x} : tile<i32> -> {tile('i32', (1, 1))}")
        return p.emit(f"broadcast {x} : {tile('i32', (1, 1))} -> {tile('i32', self.shape)}")

    def of(self, x: str) -> str:
        """Whole numbers as the operand's type."""
        p, shape, whole = self.p, self.shape, tile("i32", self.shape)
        if self.dtype == "i8":
            return p.emit(f"trunci {x} : {whole} -> {tile('i8', shape)}")
        first = self.dtype if self.dtype in ("f16", "bf16", "f32", "f64") else "f32"
        x = p.emit(f"itof {x} signed : {whole} -> {tile(first, shape)}")
        if first == self.dtype:
            return x
        return p.emit(f"ftof {x} : {tile(first, shape)} -> {tile(self.dtype, shape)}")


class Reduced:
    """What is left of a tile beside the largest of each row or column, or its running sums."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.part = Operand(p, dtype, shape, extents)
        self.dim = p.choose((0, 1))
        self.running = p.choose((0, 0, 1))

    def load(self, i: str, j: str) -> str:
        p, shape, dim, acc = self.p, self.shape, self.dim, ACC[self.dtype]
        x, t, wide = self.part.load(i, j), tile(self.dtype, shape), tile(acc, shape)
        if self.dtype == "i8":
            x = p.emit(f"exti {x} signed : {t} -> {wide}")
        elif acc != self.dtype:
            x = p.emit(f"ftof {x} : {t} -> {wide}")
        add, sub = ("addi", "subi") if acc == "i32" else ("addf", "subf")
        if self.running:
            p.count += 1
            name = f"%v{p.count}"
            none = "0" if acc == "i32" else "0.0"
            p.line(
                f"{name} = scan {x} dim={dim} reverse=false identities=[{none} : {acc}] : {wide} -> {wide}"
            )
            p.line(f"(%x: tile<{acc}>, %y: tile<{acc}>) {{")
            p.line(f"  %z = {add} %x, %y : tile<{acc}>")
            p.line(f"  yield %z : tile<{acc}>")
            p.line("}")
            low, high = (p.const(n if acc == "i32" else f"{n}.0", acc, shape) for n in (-8, 8))
            least, most = ("maxi", "mini") if acc == "i32" else ("maxf", "minf")
            sign = " signed" if acc == "i32" else ""
            x = p.emit(f"{least} {name}, {low}{sign} : {wide}")
            x = p.emit(f"{most} {x}, {high}{sign} : {wide}")
        else:
            top = rows(p, x, acc, shape, dim, "max")
            x = p.binary(sub, x, p.spread(top, acc, shape[1 - dim], shape, 1 - dim), acc, shape)
        if self.dtype == "i8":
            return p.emit(f"trunci {x} : {wide} -> {t}")
        return x if acc == self.dtype else p.emit(f"ftof {x} : {wide} -> {t}")


class Either:
    """One of two loads, by the number of the tile: both are there, or a branch loads one."""

    def __init__(self, p: Products, dtype: str, shape: Shape, extents: Shape) -> None:
        self.p, self.dtype, self.shape = p, dtype, shape
        self.parts = [Operand(p, dtype, shape, extents) for _ in range(2)]
        self.branch = p.choose((0, 1))

    def load(self, i: str, j: str) -> str:
        p, t = self.p, tile(self.dtype, self.shape)
        odd = p.binary("andi", p.binary("addi", i, j, "i32"), p.const(1, "i32"), "i32")
        c = p.emit(f"cmpi equal {odd}, {p.const(0, 'i32')}, signed : tile<i32> -> tile<i1>")
        if not self.branch:
            x, y = (part.load(i, j) for part in self.parts)
            one = p.emit(f"reshape {c} : tile<i1> -> {tile('i1', (1, 1))}")
            bits = p.emit(f"broadcast {one} : {tile('i1', (1, 1))} -> {tile('i1', self.shape)}")
            return p.emit(f"select {bits}, {x}, {y} : {tile('i1', self.shape)}, {t}")
        p.count += 1
        name = f"%v{p.count}"
        p.line(f"{name} = if {c} -> ({t}) {{")
        for k, part in enumerate(self.parts):
            p.depth += 1
            p.line(f"yield {part.load(i, j)} : {t}")
            p.depth -= 1
            p.line("}" if k else "} else {")
        return name
