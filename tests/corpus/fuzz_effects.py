"""Random Tile IR programs about effects and rare types: atomics of every mode, type, order and scope on pointers and
views, tokens as an arbitrary graph, prints of every format, block-local memory, globals, early returns, products of
every type, four-bit integers, tiles of rank 4 to 6.

Drawn, exact and compared like those of fuzz_wide.py, and what they print is compared too. The array `%sc` is a
scratch of 64 KiB: cells of 4 KiB, each of which has the last write and the reads since then as tokens, so that an
access waits for exactly what it must.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.corpus import fuzz as F
from tests.corpus import fuzz_wide as W
from tests.corpus.bits import unlike
from tests.corpus.case import place
from tests.corpus.fuzz import FLOATS, INTS, Choose, tile
from tests.corpus.fuzz_flow import ALL, Wide, branch, cond, loop, until
from tests.corpus.fuzz_memory import load

CELLS, CELL_BYTES = 16, 4096
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
SHAPES = ((1,), (2,), (16,), (64,), (128,), (256,), (4, 8), (16, 16), (1, 32), (32, 1), (8, 4, 2), (2, 2, 2, 2, 4),
          (2, 1, 4, 2, 1, 2), (4, 4, 4, 4))  # fmt: skip
SPEC = {"num_warps": (0, 0, 1, 2, 8, 16), "num_stages": (0, 0, 2, 3, 5)}
ORDERS, SCOPES = ("relaxed", "acquire", "release", "acq_rel"), ("tl_blk", "device", "sys")


class Effects(Wide):
    """A program with cells of scratch memory and globals of its module."""

    def __init__(self, choose: Choose, inner: Sequence[Callable[[Any], None]]) -> None:
        super().__init__(choose, inner)
        self.writes: list[str] = ["%tok"] * CELLS
        self.reads: list[list[str]] = [[] for _ in range(CELLS)]
        self.globals: list[str] = []
        self.returns = 0
        self.counted = 0

    @property
    def top(self) -> bool:
        return self.indent == "  "

    def op(self, text: str) -> int:
        """Appends `%vN, %tN = text` and returns N."""
        self.count += 1
        self.lines.append(f"{self.indent}%v{self.count}, %t{self.count} = {text}")
        return self.count

    def token_op(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"{self.indent}%t{self.count} = {text}")
        return f"%t{self.count}"

    def joined(self, tokens: Sequence[str]) -> str:
        """One token for several."""
        tokens = list(dict.fromkeys(tokens))
        if len(tokens) == 1:
            return tokens[0]
        return self.token_op(f"join_tokens {', '.join(tokens)} : token")

    def before(self, cell: int, write: bool) -> str:
        """The token that an access of a cell waits for; now and then it waits for another cell too."""
        tokens = [self.writes[cell], *(self.reads[cell] if write else ())]
        if self.choose((0, 0, 1)):
            tokens.append(self.writes[self.choose(range(CELLS))])
        return self.joined(tokens)

    def after(self, cell: int, token: str, write: bool) -> None:
        if write:
            self.writes[cell], self.reads[cell] = token, []
        else:
            self.reads[cell].append(token)

    def cell(self, number: int, dtype: str) -> str:
        """The start of a cell as a pointer to `dtype`."""
        at = self.constant(number * CELL_BYTES // 4, "i32")
        p = self.emit(f"offset %sc, {at} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>")
        if dtype == "i32":
            return p
        return self.emit(f"ptr_to_ptr {p} : tile<ptr<i32>> -> tile<ptr<{dtype}>>")

    def value(self, dtype: str, shape: Sequence[int], small: bool = False) -> str:
        """A tile of a type and shape made from data: whole numbers of either sign, small ones on demand."""
        n = math.prod(shape)
        at = self.pointers("%a", "i32", (n,))
        number = self.op(f"load_ptr_tko weak {at} : {tile('ptr<i32>', (n,))} -> {tile('i32', (n,))}, token")
        x = f"%v{number}"
        x = self.emit(f"reshape {x} : {tile('i32', (n,))} -> {tile('i32', shape)}") if shape != (n,) else x
        if small or dtype not in INTS:
            mask, low = self.constant(7, "i32", shape), self.constant(3, "i32", shape)
            x = self.emit(f"andi {x}, {mask} : {tile('i32', shape)}")
            x = self.emit(f"subi {x}, {low} : {tile('i32', shape)}")
        return self.convert(x, dtype, shape)

    def convert(self, x: str, dtype: str, shape: Sequence[int]) -> str:
        """An i32 tile as one of `dtype`."""
        src, dst = tile("i32", shape), tile(dtype, shape)
        if dtype == "i32":
            return x
        if dtype in INTS or dtype in ("i1", "i4"):
            return self.emit(
                f"exti {x} signed : {src} -> {dst}" if dtype == "i64" else f"trunci {x} : {src} -> {dst}"
            )
        if dtype in ("f16", "f32", "f64", "bf16"):
            return self.emit(f"itof {x} signed : {src} -> {dst}")
        x = self.emit(f"itof {x} signed : {src} -> {tile('f32', shape)}")
        mode = " rounding<zero>" if dtype == "f8E8M0FNU" else ""
        return self.emit(f"ftof {x}{mode} : {tile('f32', shape)} -> {dst}")

    def show(self, x: str, dtype: str, shape: Sequence[int]) -> None:
        """Pushes a value; bf16 as f32, which the other steps know."""
        if dtype == "bf16":
            x = self.emit(f"ftof {x} : {tile('bf16', shape)} -> {tile('f32', shape)}")
            dtype = "f32"
        self.push(x, dtype, shape)


def spread(p: Effects, base: str, dtype: str, shape: Sequence[int], apart: bool) -> str:
    """Addresses in a cell: one for each element, or all among the first eight."""
    if apart:
        return p.pointers(base, dtype, shape)
    n, q = math.prod(shape), f"ptr<{dtype}>"
    i = p.emit(f"iota : {tile('i32', (n,))}")
    seven = p.constant(7, "i32", (n,))
    i = p.emit(f"andi {i}, {seven} : {tile('i32', (n,))}")
    one = p.emit(f"reshape {base} : tile<{q}> -> {tile(q, (1,))}")
    many = p.emit(f"broadcast {one} : {tile(q, (1,))} -> {tile(q, (n,))}")
    at = p.emit(f"offset {many}, {i} : {tile(q, (n,))}, {tile('i32', (n,))} -> {tile(q, (n,))}")
    return p.emit(f"reshape {at} : {tile(q, (n,))} -> {tile(q, shape)}")


def fill(p: Effects, cell: int, dtype: str, shape: Sequence[int]) -> str:
    """Stores a tile at the start of a cell and returns the cell's pointer."""
    base = p.cell(cell, dtype)
    x, at = p.value(dtype, shape, small=True), p.pointers(base, dtype, shape)
    t = tile(dtype, shape)
    token = p.token_op(
        f"store_ptr_tko weak {at}, {x} token={p.before(cell, True)} : {tile(f'ptr<{dtype}>', shape)}, {t} -> token"
    )
    p.after(cell, token, True)
    return base


def look(p: Effects, cell: int, base: str, dtype: str, shape: Sequence[int]) -> None:
    """Loads what lies at the start of a cell."""
    at, t = p.pointers(base, dtype, shape), tile(dtype, shape)
    n = p.op(
        f"load_ptr_tko weak {at} token={p.before(cell, False)} : {tile(f'ptr<{dtype}>', shape)} -> {t}, token"
    )
    p.after(cell, f"%t{n}", False)
    p.show(f"%v{n}", dtype, shape)


def masked(p: Effects, shape: Sequence[int]) -> str:
    """A mask that lets some elements through, or all, or none."""
    n = math.prod(shape)
    limit = p.constant(p.choose((0, 1, 3, n // 2, n)), "i32", (n,))
    i = p.emit(f"iota : {tile('i32', (n,))}")
    m = p.emit(f"cmpi less_than {i}, {limit}, signed : {tile('i32', (n,))} -> {tile('i1', (n,))}")
    return p.emit(f"reshape {m} : {tile('i1', (n,))} -> {tile('i1', shape)}")


RMW = {"i32": ("and", "or", "xor", "add", "max", "min", "umax", "umin", "xchg"), "f32": ("addf", "xchg"),
       "f64": ("addf", "xchg"), "f16": ("addf",), "bf16": ("addf",)}  # fmt: skip
RMW["i64"] = RMW["i32"]


def rmw(p: Effects) -> None:
    """Any read-modify-write; its old values count where every element has an address of its own and no mask."""
    if not p.top:
        return
    dtype, shape, cell = p.choose(tuple(RMW)), p.choose(SHAPES), p.choose(range(CELLS))
    mode = p.choose(RMW[dtype])
    apart = mode == "xchg" or p.choose((True, False))
    base = fill(p, cell, dtype, shape)
    x, at, t = (
        p.value(dtype, shape, small=dtype not in INTS),
        spread(p, base, dtype, shape, apart),
        tile(dtype, shape),
    )
    mask = masked(p, shape) if p.choose((0, 1)) else ""
    m1, m2 = (f", {mask}", f", {tile('i1', shape)}") if mask else ("", "")
    order, scope = p.choose(ORDERS), p.choose(SCOPES)
    n = p.op(
        f"atomic_rmw_tko {order} {scope} {at}, {mode}, {x}{m1} token={p.before(cell, True)} : "
        f"{tile(f'ptr<{dtype}>', shape)}, {t}{m2} -> {t}, token"
    )
    p.after(cell, f"%t{n}", True)
    if apart and not mask and p.choose((0, 1)):
        p.show(f"%v{n}", dtype, shape)
    look(p, cell, base, dtype, shape)


def cas(p: Effects) -> None:
    """Compare and swap: values that are there and values that are not; a masked-off element gives its comparand."""
    if not p.top:
        return
    dtype, shape, cell = p.choose(("i32", "i64", "f32", "f64")), p.choose(SHAPES), p.choose(range(CELLS))
    base = fill(p, cell, dtype, shape)
    at, t = p.pointers(base, dtype, shape), tile(dtype, shape)
    old = p.choose(
        (p.value(dtype, shape, small=True), p.constant("2" if dtype in INTS else "2.0", dtype, shape))
    )
    new = p.constant("77" if dtype in INTS else "77.5", dtype, shape)
    mask = masked(p, shape) if p.choose((0, 1)) else ""
    m1, m2 = (f", {mask}", f", {tile('i1', shape)}") if mask else ("", "")
    n = p.op(
        f"atomic_cas_tko {p.choose(ORDERS)} {p.choose(SCOPES)} {at}, {old}, {new}{m1} token={p.before(cell, True)} : "
        f"{tile(f'ptr<{dtype}>', shape)}, {t}{m2} -> {t}, token"
    )
    p.after(cell, f"%t{n}", True)
    p.show(f"%v{n}", dtype, shape)
    look(p, cell, base, dtype, shape)


def red_view(p: Effects) -> None:
    """An update through a ragged view of any kind."""
    if not p.top:
        return
    dtype, cell = p.choose(("i32", "i64", "f32", "f64", "f16", "bf16")), p.choose(range(CELLS))
    mode = p.choose([m for m in RMW[dtype] if m != "xchg"])
    rows, cols = p.choose(((5, 7), (8, 16), (9, 3), (1, 40), (16, 16)))
    base = fill(p, cell, dtype, (256,))
    shape = p.choose(((4, 8), (16, 16), (8, 2), (1, 32), (2, 1)))
    view = f"tensor_view<{rows}x{cols}x{dtype}, strides=[{cols},1]>"
    tv = p.emit(f"make_tensor_view {base}, shape = [{rows}, {cols}], strides = [{cols}, 1] : {view}")
    dims = "x".join(map(str, shape))
    kind = p.choose(("partition", "strided"))
    if kind == "partition":
        pv = f"partition_view<tile=({dims}), {view}>"
        name, steps = p.emit(f"make_partition_view {tv} : {pv}"), shape
    else:
        steps = (p.choose((1, 3)), p.choose((1, 2, 5)))
        pv = f"strided_view<tile=({dims}), traversal_strides=[{steps[0]},{steps[1]}], {view}>"
        name = p.emit(f"make_strided_view {tv} : {pv}")
    at = [p.choose(range(min(4, -(-e // s)))) for e, s in zip((rows, cols), steps)]
    index = ", ".join(p.choose((p.constant(k, "i32"), f"%k{k}")) for k in at)
    x = p.value(dtype, shape, small=dtype not in INTS)
    token = p.token_op(
        f"atomic_red_view_tko relaxed {p.choose(('tl_blk', 'device'))} {name}[{index}], {mode}, {x} token = "
        f"{p.before(cell, True)} : {tile(dtype, shape)}, {pv}, tile<i32> -> token"
    )
    p.after(cell, token, True)
    look(p, cell, base, dtype, (256,))


def ordered(p: Effects) -> None:
    """Loads and stores of any order and scope, in any of the cells."""
    if not p.top:
        return
    for _ in range(p.choose((1, 2, 4))):
        dtype, shape, cell = p.choose(tuple(BITS)), p.choose(SHAPES), p.choose(range(CELLS))
        base = fill(p, cell, dtype, shape)
        at, t, q = p.pointers(base, dtype, shape), tile(dtype, shape), tile(f"ptr<{dtype}>", shape)
        if p.choose((0, 1)):
            how = p.choose(("relaxed", "acquire")) + " " + p.choose(SCOPES)
            n = p.op(f"load_ptr_tko {how} {at} token={p.before(cell, False)} : {q} -> {t}, token")
            p.after(cell, f"%t{n}", False)
            p.show(f"%v{n}", dtype, shape)
        else:
            how = p.choose(("relaxed", "release")) + " " + p.choose(SCOPES)
            x = p.value(dtype, shape, small=dtype not in INTS)
            mask = masked(p, shape) if p.choose((0, 1)) else ""
            m1, m2 = (f", {mask}", f", {tile('i1', shape)}") if mask else ("", "")
            token = p.token_op(
                f"store_ptr_tko {how} {at}, {x}{m1} token={p.before(cell, True)} : {q}, {t}{m2} -> token"
            )
            p.after(cell, token, True)
            look(p, cell, base, dtype, shape)


def graph(p: Effects) -> None:
    """Stores and loads over all cells whose only order is that of their tokens, in a random graph."""
    if not p.top:
        return
    for _ in range(p.choose((3, 6, 10))):
        cell, shape = p.choose(range(4)), p.choose(((64,), (256,), (16, 16), (8, 32)))
        base = p.cell(cell, "i32")
        if p.choose((0, 1)):
            one = p.pick(("i32",), shape)
            x = one[0] if one else p.value("i32", shape)
            at = p.pointers(base, "i32", shape)
            token = p.token_op(
                f"store_ptr_tko weak {at}, {x} token={p.before(cell, True)} : {tile('ptr<i32>', shape)}, "
                f"{tile('i32', shape)} -> token"
            )
            p.after(cell, token, True)
        else:
            look(p, cell, base, "i32", shape)


def token_loop(p: Effects) -> None:
    """A loop that carries a token: each round reads what the one before wrote; another token waits outside."""
    if not p.top:
        return
    cell, shape = p.choose(range(CELLS)), p.choose(((32,), (256,), (16, 16)))
    base = fill(p, cell, "i32", shape)
    at, q, t = p.pointers(base, "i32", shape), tile("ptr<i32>", shape), tile("i32", shape)
    other = p.pointers(base, "i32", shape[::-1]) if len(shape) > 1 else at
    zero, one = p.constant(0, "i32"), p.constant(1, "i32")
    add = p.constant(p.choose((1, 5)), "i32", shape)
    start = p.before(cell, True)
    p.count += 1
    n = p.count
    p.lines += [
        f"  %t{n} = for %i{n} in ({zero} to %k{p.choose((0, 1, 3))}, step {one}) : tile<i32> "
        f"iter_values(%w{n} = {start}) -> (token) {{",
        f"    %x{n}, %r{n} = load_ptr_tko weak {at} token=%w{n} : {q} -> {t}, token",
        f"    %y{n} = addi %x{n}, {add} : {t}",
        f"    %s{n} = store_ptr_tko weak {other}, %y{n} token=%r{n} : {q}, {t} -> token",
    ]
    if p.choose((0, 1)):
        p.lines += [
            f"    %c{n} = cmpi equal %i{n}, %k{p.choose((0, 1))}, signed : tile<i32> -> tile<i1>",
            f"    if %c{n} {{",
            f"      %u{n}, %e{n} = atomic_rmw_tko relaxed device {at}, add, {add} token=%s{n} : {q}, {t} -> {t}, token",
            f"      continue %e{n} : token",
            "    }",
        ]
    p.lines += [f"    continue %s{n} : token", "  }"]
    p.after(cell, f"%t{n}", True)
    look(p, cell, base, "i32", shape)


CONVERSIONS = {"i": ("d", "i", "u", "x", "X", "o"), "f": ("f", "e", "g", "E", "G", "F", "a")}


def printing(p: Effects) -> None:
    """A print of scalars and small tiles with flags, widths and precisions."""
    fits = [v for v in p.values if math.prod(v[2] or (1,)) <= 64 and v[1] in (*ALL, "i1")]
    if not fits or len(p.indent) > 4:
        return
    text, names, types = "", [], []
    for _ in range(p.choose((1, 2, 3))):
        name, dtype, shape = p.choose(fits)
        kind = "f" if dtype in FLOATS else "i"
        conversion = p.choose(CONVERSIONS[kind])
        flags = p.choose(("", "-", "0", "+", " ", "#", "-+"))
        if conversion in "uxXo":
            flags = flags.replace("+", "").replace(" ", "")
        if conversion in "du" or conversion == "i":
            flags = flags.replace("#", "")
        width = p.choose(("", "3", "12"))
        exact = p.choose(("", "", ".0", ".3", ".9")) if conversion != "a" else ""
        size = p.choose(("", "ll")) if dtype == "i64" else p.choose(("", "h")) if dtype == "i16" else ""
        text += (
            p.choose(("x=", "%%", "", "a, "))
            + f"%{flags}{width}{exact}{size}{conversion}"
            + p.choose((" ", "|"))
        )
        names.append(name)
        types.append(tile(dtype, shape))
    text += p.choose(("", "\\0A", "\\0A\\00"))
    p.token_op(f'print_tko "{text}", {", ".join(names)} : {", ".join(types)} -> token')


def asserting(p: Effects) -> None:
    """An assertion that holds for every element."""
    one = p.pick(("i32",))
    if not one:
        return
    a, d, s = one
    c = p.emit(f"cmpi equal {a}, {a}, signed : {tile(d, s)} -> {tile('i1', s)}")
    p.lines.append(f'{p.indent}assert {c}, "equal" : {tile("i1", s)}')


def local(p: Effects) -> None:
    """Memory of the tile block: written, read in another shape, exchanged by atomics."""
    if not p.top:
        return
    dtype, n = p.choose(("i8", "i32", "f32", "i64", "f16")), p.choose((16, 64, 256))
    align = p.choose((BITS[dtype] // 8, 16, 128))
    base = p.emit(
        f"alloca num_elem = {n}, alignment = {align}{p.choose(('', ' global'))} : tile<ptr<{dtype}>>"
    )
    shape = W.any_shape(p, n)
    x, at = p.value(dtype, shape, small=dtype not in INTS), p.pointers(base, dtype, shape)
    q, t = tile(f"ptr<{dtype}>", shape), tile(dtype, shape)
    last = p.token_op(f"store_ptr_tko weak {at}, {x} : {q}, {t} -> token")
    if dtype in ("i32", "i64") and p.choose((0, 1)):
        last = (
            f"%t{p.op(f'atomic_rmw_tko relaxed tl_blk {at}, xor, {x} token={last} : {q}, {t} -> {t}, token')}"
        )
    shape = W.any_shape(p, n)
    at, q, t = p.pointers(base, dtype, shape), tile(f"ptr<{dtype}>", shape), tile(dtype, shape)
    p.push(f"%v{p.op(f'load_ptr_tko weak {at} token={last} : {q} -> {t}, token')}", dtype, shape)


def table(p: Effects) -> None:
    """A global of the module, read by number."""
    dtype, n = p.choose(("i8", "i16", "i32", "i64", "f32", "f64")), p.choose((1, 4, 32))
    name = f"table{len(p.globals)}"
    values = [str(p.choose(range(-9, 10))) + ("" if dtype in INTS else ".5") for _ in range(n)]
    dense = f"[{', '.join(values)}]" if p.choose((0, 1)) else values[0]
    constant = p.choose(("constant ", ""))
    p.globals.append(
        f"global {constant}@{name} alignment = {BITS[dtype] // 8} <{dtype}: {dense}> : {tile(dtype, (n,))}"
    )
    base = p.emit(f"get_global @{name} : tile<ptr<{dtype}>>")
    at, t = p.pointers(base, dtype, (n,)), tile(dtype, (n,))
    q = tile(f"ptr<{dtype}>", (n,))
    p.push(f"%v{p.op(f'load_ptr_tko weak {at} : {q} -> {t}, token')}", dtype, (n,))


def counted(p: Effects) -> None:
    """A `for`, which knows that it is one."""
    p.counted += 1
    loop(p)
    p.counted -= 1


def leave(p: Effects) -> None:
    """A return from inside an `if`, taken or not by the arguments; a `for` may hold none."""
    if len(p.indent) > 4 or p.returns > 1 or p.counted:
        return
    p.returns += 1
    c = cond(p)
    p.lines.append(f"{p.indent}if {c} {{")
    if p.top and p.choose((0, 1)):
        p.lines += [f"{p.indent}  loop {{", f"{p.indent}    return", f"{p.indent}  }}", f"{p.indent}  return"]
    else:
        p.lines.append(f"{p.indent}  return")
    p.lines.append(f"{p.indent}}}")


PRODUCTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "f32": ("f32",), "tf32": ("f32",), "f64": ("f64",), "i8": ("i32",),
            "f8E4M3FN": ("f16", "f32"), "f8E5M2": ("f16", "f32")}  # fmt: skip


def product(p: Effects) -> None:
    """mmaf or mmai of any types; whole numbers, so that every order of summing gives the same."""
    dtype = p.choose(tuple(PRODUCTS))
    acc = p.choose(PRODUCTS[dtype])
    m, n, k = (p.choose((1, 2, 4, 8, 16, 32, 64)) for _ in range(3))
    batch = p.choose(((), (), (1,), (2,)))
    a, b, c = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    x, y = p.value(dtype, a, small=dtype != "i8"), p.value(dtype, b, small=dtype != "i8")
    z = p.value(acc, c, small=acc != "i32")
    if p.choose((0, 0, 1)):
        r = len(batch)
        y = p.value(dtype, (*batch, n, k), small=dtype != "i8")
        y = p.emit(f"permute {y} {[*range(r), r + 1, r]} : {tile(dtype, (*batch, n, k))} -> {tile(dtype, b)}")
    sides = ("signed", "unsigned")
    sign = f" {p.choose(sides)} {p.choose(sides)}" if dtype == "i8" else ""
    op = "mmai" if dtype == "i8" else "mmaf"
    p.push(p.emit(f"{op} {x}, {y}, {z}{sign} : {tile(dtype, a)}, {tile(dtype, b)}, {tile(acc, c)}"), acc, c)


def scaled(p: Effects) -> None:
    """mmaf_scaled: scales are powers of two near one, so that the sum is exact."""
    dtype, scale, each = p.choose(
        (("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
         ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16))
    )  # fmt: skip
    m, n, k = p.choose((1, 4, 16, 32)), p.choose((1, 8, 16)), p.choose((32, 64))
    batch = p.choose(((), (), (2,)))

    def powers(shape: Sequence[int]) -> str:
        x = p.value("i32", shape)
        three, one = (p.constant(c, "i32", shape) for c in (3, 1))
        x = p.emit(f"andi {x}, {three} : {tile('i32', shape)}")
        x = p.emit(f"shli {one}, {x} : {tile('i32', shape)}")
        return p.convert(x, scale, shape)

    a, b, c = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    sa, sb = (*batch, m, k // each), (*batch, k // each, n)
    x, y, z = p.value(dtype, a, small=True), p.value(dtype, b, small=True), p.value("f32", c, small=True)
    types = ", ".join((tile(dtype, a), tile(dtype, b), tile("f32", c), tile(scale, sa), tile(scale, sb)))
    p.push(p.emit(f"mmaf_scaled {x}, {y}, {z}, {powers(sa)}, {powers(sb)} : {types}"), "f32", c)


def nibbles(p: Effects) -> None:
    """Four-bit integers: cut, moved about, packed to bytes and back, widened."""
    n = p.choose((2, 8, 64, 256))
    x = p.value("i4", (n,))
    kind = p.choose(range(4))
    if kind == 0 and n >= 2:
        x = p.emit(f"pack {x} : {tile('i4', (n,))} -> {tile('i8', (n // 2,))}")
        p.push(x, "i8", (n // 2,))
        return
    if kind == 1:
        y = p.value("i8", (n // 2,))
        x = p.emit(f"unpack {y} : {tile('i8', (n // 2,))} -> {tile('i4', (n,))}")
    to, sign = p.choose(("i8", "i16", "i32", "i64")), p.choose(("signed", "unsigned"))
    p.push(p.emit(f"exti {x} {sign} : {tile('i4', (n,))} -> {tile(to, (n,))}"), to, (n,))


def packing(p: Effects) -> None:
    """Floats and integers of any width as bytes, and bytes as them; bytes are of finite numbers."""
    dtype, n = p.choose(("i16", "i32", "i64", "f16", "f32", "f64", "bf16")), p.choose((1, 4, 32, 128))
    size = BITS[dtype] // 8
    x = p.value(dtype, (n,), small=dtype not in INTS)
    y = p.emit(f"pack {x} : {tile(dtype, (n,))} -> {tile('i8', (n * size,))}")
    p.push(y, "i8", (n * size,))
    if p.choose((0, 1)):
        to = p.choose([d for d in ("i16", "i32", "i64") if n * size >= BITS[d] // 8])
        shape = (n * size * 8 // BITS[to],)
        p.push(p.emit(f"unpack {y} : {tile('i8', (n * size,))} -> {tile(to, shape)}"), to, shape)
    else:
        p.show(p.emit(f"unpack {y} : {tile('i8', (n * size,))} -> {tile(dtype, (n,))}"), dtype, (n,))


def ranks(p: Effects) -> None:
    """Up to rank 6: reshapes that split, permutations, broadcasts of extents of 1, and back."""
    one = p.pick((*ALL, "i1"))
    if not one or not one[2]:
        return
    a, d, s = one
    n = math.prod(s)
    for _ in range(p.choose((1, 2, 3))):
        r = p.choose((3, 4, 5, 6))
        cuts = [p.choose(range(r)) for _ in range(n.bit_length() - 1)]
        to = tuple(1 << cuts.count(k) for k in range(r))
        a, s = p.emit(f"reshape {a} : {tile(d, s)} -> {tile(d, to)}"), to
        left, order = list(range(r)), []
        while left:
            order.append(p.choose(left))
            left.remove(order[-1])
        to = tuple(s[k] for k in order)
        a, s = p.emit(f"permute {a} {order} : {tile(d, s)} -> {tile(d, to)}"), to
        if 1 in s and n <= 1024:
            to = tuple(p.choose((1, 2, 4)) if e == 1 else e for e in s)
            if math.prod(to) <= 4096:
                a, s = p.emit(f"broadcast {a} : {tile(d, s)} -> {tile(d, to)}"), to
                n = math.prod(s)
    p.push(a, d, s)


def scatter(p: Effects) -> None:
    """Rows or columns of a cell by their numbers, read with padding and written where they are inside."""
    if not p.top:
        return
    dtype, cell = p.choose(("i32", "f32", "i8", "f16", "i64")), p.choose(range(CELLS))
    base = fill(p, cell, dtype, (256,))
    rows, cols, sparse = p.choose((3, 7, 16)), p.choose((5, 8, 13)), p.choose((0, 1))
    shape = p.choose(((4, 8), (8, 4), (16, 2), (1, 16), (2, 2)))
    dynamic = p.choose((0, 1))
    extent = "?x?" if dynamic else f"{rows}x{cols}"
    view = f"tensor_view<{extent}x{dtype}, strides=[{cols},1]>"
    ends = f"{p.constant(rows, 'i32')}, {p.constant(cols, 'i32')}" if dynamic else f"{rows}, {cols}"
    kind = f"tile<i32> -> {view}" if dynamic else view
    tv = p.emit(f"make_tensor_view {base}, shape = [{ends}], strides = [{cols}, 1] : {kind}")
    pad = p.choose(("zero", "nan", "neg_inf", "neg_zero") if dtype[0] == "f" else ("zero",))
    gv = f"gather_scatter_view<tile=({shape[0]}x{shape[1]}), padding_value = {pad}, {view}, sparse_dim={sparse}>"
    name = p.emit(f"make_gather_scatter_view {tv} : {gv}")
    n = shape[sparse]
    places = list(range(20))
    at = [str(places.pop(p.choose(range(len(places))))) for _ in range(n)]
    lines = p.constant(f"[{', '.join(at)}]", "i32", (n,))
    start = p.choose(range(4))
    dense = p.choose((p.constant(start, "i32"), f"%k{start}"))
    index = f"{lines}, {dense}" if sparse == 0 else f"{dense}, {lines}"
    types = f"{tile('i32', (n,))}, tile<i32>" if sparse == 0 else f"tile<i32>, {tile('i32', (n,))}"
    t = tile(dtype, shape)
    k = p.op(
        f"load_view_tko weak {name}[{index}] token = {p.before(cell, False)} : {gv}, {types} -> {t}, token"
    )
    p.after(cell, f"%t{k}", False)
    p.show(f"%v{k}", dtype, shape)
    x = p.value(dtype, shape, small=dtype not in INTS)
    token = p.token_op(
        f"store_view_tko weak {x}, {name}[{index}] token = {p.before(cell, True)} : {t}, {gv}, {types} -> token"
    )
    p.after(cell, token, True)
    look(p, cell, base, dtype, (256,))


def dependent(p: Effects) -> None:
    """Dependent launches and alias fences order nothing that shows."""
    if not p.top:
        return
    cell = p.choose(range(CELLS))
    op = p.choose(("gdc_launch_dependents_tko", "gdc_wait_tko"))
    p.writes[cell] = p.token_op(f"{op} token = {p.before(cell, True)} -> token")
    p.reads[cell] = []


INNER = (load, F.binary, F.unary, F.select, F.cast, W.reshape, W.permute, W.broadcast, W.extract, W.insert, W.cat,
         W.reduce, W.compare, W.logic, ranks, ranks, packing, nibbles, table, asserting, printing, product, scaled,
         branch, counted, until, leave)  # fmt: skip
STEPS = (*INNER, rmw, rmw, cas, red_view, red_view, ordered, graph, token_loop, local, scatter, dependent, product,
         scaled, printing)  # fmt: skip


def draw_program(choose: Choose, steps: Sequence[Callable[[Any], None]] = (), count: int = 0) -> str:
    """The text of one program."""
    p = Effects(choose, INNER)
    p.lines.append("  %tok = make_token : token")
    load(p)
    for _ in range(count or choose(range(2, 12))):
        choose(steps or STEPS)(p)
    shown = [v for v in p.values if v[1] in (*ALL, "i1") and math.prod(v[2] or (1,)) <= 16384]
    shown = shown[-2:] + ([choose(shown)] if len(shown) > 2 else [])
    outs = []
    for k, (name, d, s) in enumerate(shown):
        if d == "i1":
            name, d = p.emit(f"exti {name} unsigned : {tile('i1', s)} -> {tile('i8', s)}"), "i8"
        at = p.pointers(f"%o{k}", d, s)
        p.token_op(f"store_ptr_tko weak {at}, {name} : {tile(f'ptr<{d}>', s)}, {tile(d, s)} -> token")
        outs.append((d, math.prod(s)))
    args = [
        *(f"%{n}: tile<ptr<{d}>>" for n, (d, _) in zip("ab", W.INPUTS)),
        *(f"%o{k}: tile<ptr<{d}>>" for k, (d, _) in enumerate(outs)),
        "%sc: tile<ptr<i32>>",
        *(f"%k{i}: tile<i32>" for i in range(4)),
    ]
    attrs = [f"tt.{name} = {n} : i32" for name in ("num_warps", "num_stages") if (n := choose(SPEC[name]))]
    given = f" attributes {{{', '.join(attrs)}}}" if attrs else ""
    lines = [f"// outputs {' '.join(f'{d}:{n}' for d, n in outs)}", f"cuda_tile.module @fuzz{given} {{"]
    lines += [f"  {g}" for g in p.globals]
    lines += [
        f"  entry @k({', '.join(args)}) {{",
        *(f"  {line}" for line in p.lines),
        "    return",
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def arguments_of(text: str) -> list[Any]:
    """Fresh arguments for a program; those of fuzz_wide.py, with a scratch array that starts as zeros."""
    values = W.arguments_of(text)
    at = len(values) - 5
    values[at] = place(np.zeros(CELLS * CELL_BYTES // 4, np.int32))
    return values


def run(text: str, target: str, gpu_name: str = "sm_90", **more: Any) -> tuple[list[Any], str]:
    """(arguments after the launch, what was printed)."""
    import tileiras

    values, out = arguments_of(text), io.StringIO()
    with contextlib.redirect_stdout(out):
        tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, gpu_name=gpu_name, **more)
    return values, out.getvalue()


def differences(text: str, gpu_name: str, target: str = "emulator", **more: Any) -> list[str]:
    """What machine code, emulated or of this CPU, leaves in memory or prints differently from the interpreter."""
    want, said = run(text, "reference")
    got, says = run(text, target, gpu_name, **more)
    printed = [] if said == says else [f"printed {says!r}, not {said!r}"]
    return [*printed, *unlike(got, want)]
