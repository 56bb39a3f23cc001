"""Random loops over tiles in memory: products and sums of views that a compiler copies ahead of their use.

A program has one or two loops; each round loads tiles of views or pointers at places made from the induction variable,
of any element type, ragged at the ends, in either order of dimensions, with extents known or not. Rounds may be
skipped, ended early or store to memory that later rounds read by token. All numbers are small and whole, so every
order of summing gives the same. Results are compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.corpus.fuzz import Choose, tile
from tests.corpus.fuzz_effects import BITS, Effects, fill, product
from tests.corpus.fuzz_effects import differences as differences
from tests.corpus.fuzz_effects import draw_program as draw

ELEMENTS = {"f16": "f32", "bf16": "f32", "f32": "f32", "i8": "i32", "f64": "f64", "i32": "i32"}


class View:
    """A view of a cell: its text, type, tile, and how many tiles it has along each dimension."""

    def __init__(
        self, name: str, type: str, shape: Sequence[int], counts: Sequence[int], inside: bool
    ) -> None:
        self.name, self.type, self.shape, self.counts, self.inside = name, type, shape, counts, inside


def extent(p: Effects, step: int, limit: int) -> int:
    """Whole tiles, a ragged end, or less than one."""
    return min(limit, max(1, p.choose((1, 2, 3, 5)) * step - p.choose((0, 0, 0, 1, step // 2))))


def view_of(p: Effects, dtype: str, shape: Sequence[int], cell: int) -> View:
    """A partition view over a cell whose tiles have `shape`, row-major, column-major or with the dimensions mapped."""
    room = 2048 * 8 // BITS[dtype] // 2
    rows = extent(p, shape[0], max(1, room // max(shape[1], 16)))
    cols = extent(p, shape[1], max(1, room // rows))
    order, known, wide = p.choose(("rows", "columns", "mapped")), p.choose((True, False)), p.choose((0, 0, 8))
    base = p.cell(cell, dtype)
    sizes = (rows, cols) if order != "mapped" else (cols, rows)
    strides = (1, sizes[0] + wide) if order == "columns" else (sizes[1] + wide, 1)
    if max(strides) * (max(sizes) + 1) > room * 2:
        strides = (1, sizes[0]) if order == "columns" else (sizes[1], 1)
    outer = (
        [p.constant(s, "i32") if s != 1 else "1" for s in strides] if not known else [str(s) for s in strides]
    )
    ends = [str(n) if known else p.constant(n, "i32") for n in sizes]
    dims = "x".join(str(n) if known else "?" for n in sizes)
    steps = ",".join(str(s) if known or s == 1 else "?" for s in strides)
    tv = f"tensor_view<{dims}x{dtype}, strides=[{steps}]>"
    if p.choose((0, 1)):
        q = f"tile<ptr<{dtype}>>"
        base = p.emit(f"assume div_by<16>, {base} : {q}")
    kind = tv if known else f"tile<i32> -> {tv}"
    name = p.emit(
        f"make_tensor_view {base}, shape = [{', '.join(ends)}], strides = [{', '.join(outer)}] : {kind}"
    )
    mapped = ", dim_map=[1, 0]" if order == "mapped" else ""
    pv = f"partition_view<tile=({shape[0]}x{shape[1]}), padding_value = zero, {tv}{mapped}>"
    counts = (-(-rows // shape[0]), -(-cols // shape[1]))
    inside = rows % shape[0] == 0 and cols % shape[1] == 0
    return View(p.emit(f"make_partition_view {name} : {pv}"), pv, shape, counts, inside)


def load(p: Effects, view: View, index: Sequence[str], token: str, dtype: str) -> int:
    hints = p.choose(("", "", " optimization_hints = <default = {latency = 3}>",
                      " optimization_hints = <default = {allow_tma = false}>"))  # fmt: skip
    bounds = " inbounds = [true, true]" if view.inside and p.choose((0, 1)) else ""
    return p.op(
        f"load_view_tko weak {view.name}[{', '.join(index)}] token = {token}{hints}{bounds} : {view.type}, tile<i32> -> "
        f"{tile(dtype, view.shape)}, token"
    )


def rounds(p: Effects) -> None:
    """One loop."""
    dtype = p.choose(tuple(ELEMENTS))
    acc = ELEMENTS[dtype]
    m, n, k = p.choose((8, 16, 32, 64)), p.choose((8, 16, 32)), p.choose((8, 16, 32))
    use = p.choose(("product", "product", "sum", "both")) if dtype != "i32" else "sum"
    for cell in (0, 1):
        fill(p, cell, dtype, (2048 * 8 // BITS[dtype],))
    a = view_of(p, dtype, (m, k), 0)
    b = view_of(p, dtype, (k, n), 1)
    out = p.cell(2, acc)
    count = min(a.counts[1], b.counts[0])
    low, high = p.constant(p.choose((0, 0, 1)), "i32"), p.constant(count, "i32")
    if p.choose((0, 1)) and count >= 2:
        high = f"%k{p.choose(range(min(count, 3) + 1))}"
    step = p.constant(p.choose((1, 1, 2)), "i32")
    row = p.constant(p.choose(range(a.counts[0])), "i32")
    col = p.constant(p.choose(range(b.counts[1])), "i32")
    shape = (m, n) if use != "sum" else (m, k)
    zero = p.constant("0" if acc == "i32" else "0.0", acc, shape)
    start = p.before(0, True)
    other = p.before(1, True)
    start = p.joined((start, other, p.before(2, True)))
    carries = p.choose((False, True))
    p.count += 1
    r = p.count
    t = tile(acc, shape)
    types = f"{t}, token" if carries else t
    initial = f"%c{r} = {zero}" + (f", %w{r} = {start}" if carries else "")
    p.lines.append(
        f"  %v{r}{':2' if carries else ''} = for %i{r} in ({low} to {high}, step {step}) : tile<i32> "
        f"iter_values({initial}) -> ({types}) {{"
    )
    p.indent = "    "
    token = f"%w{r}" if carries else start
    total = f"%c{r}"
    if p.choose((0, 0, 1)):
        c = p.emit(f"cmpi equal %i{r}, %k1, signed : tile<i32> -> tile<i1>")
        p.lines += [
            f"    if {c} {{",
            f"      continue {total}{f', {token}' if carries else ''} : {types}",
            "    }",
        ]
    x = load(p, a, (row, f"%i{r}"), token, dtype)
    left = f"%v{x}"
    tokens = [token, f"%t{x}"]
    if use != "sum":
        y = load(p, b, (f"%i{r}", col), token, dtype)
        tokens.append(f"%t{y}")
        op, sign = ("mmai", " signed signed") if dtype == "i8" else ("mmaf", "")
        total = p.emit(
            f"{op} {left}, %v{y}, {total}{sign} : {tile(dtype, a.shape)}, {tile(dtype, b.shape)}, {t}"
        )
    if use == "sum":
        src = tile(dtype, a.shape)
        if dtype == "i8":
            left = p.emit(f"exti {left} signed : {src} -> {tile('i32', a.shape)}")
        elif acc != dtype:
            left = p.emit(f"ftof {left} : {src} -> {tile(acc, a.shape)}")
        total = p.emit(f"{'addi' if acc == 'i32' else 'addf'} {total}, {left} : {t}")
    if use == "both":  # what the round has so far goes to memory, and is there in the next one
        at = p.pointers(out, acc, shape)
        q = tile(f"ptr<{acc}>", shape)
        z = p.op(f"load_ptr_tko weak {at} token={p.joined(tokens)} : {q} -> {t}, token")
        value = p.emit(
            f"{'maxi' if acc == 'i32' else 'maxf'} {total}, %v{z}{' signed' if acc == 'i32' else ''} : {t}"
        )
        if carries:
            tokens = [p.token_op(f"store_ptr_tko weak {at}, {value} token=%t{z} : {q}, {t} -> token")]
        total = value
    last = p.joined(tokens) if carries else ""
    p.lines.append(f"    continue {total}{f', {last}' if carries else ''} : {types}")
    p.indent = "  "
    p.lines.append("  }")
    p.push(f"%v{r}#0" if carries else f"%v{r}", acc, shape)
    if carries:
        for cell in (0, 1, 2):
            p.after(cell, f"%v{r}#1", True)


def draw_program(choose: Choose, steps: Sequence[Any] = ()) -> str:
    """The text of one program."""
    return draw(choose, steps or (rounds, rounds, product), choose((1, 2)))
