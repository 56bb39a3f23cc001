"""Control flow for the random programs of fuzz_wide.py: branches, counted loops and loops left from nested ifs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.corpus.fuzz import FLOATS, INTS, Choose, Program, tile

ALL = INTS + FLOATS


class Wide(Program):
    """A program whose blocks draw from `inner`. `tok` is the last token of the scratch array."""

    def __init__(self, choose: Choose, inner: Sequence[Callable[[Any], None]]) -> None:
        super().__init__(choose)
        self.inner, self.tok = inner, ""


def cond(p: Wide) -> str:
    """A condition: known to be so, or from the data."""
    one = p.pick(("i32",))
    if p.choose((0, 1)) or not one:
        c = p.constant(p.choose((0, 1, 2, 3)), "i32")
        return p.emit(f"cmpi less_than {c}, %k2, signed : tile<i32> -> tile<i1>")
    a, d, s = one
    if s:
        w = [p.constant(0, "i32") for _ in s]
        a = p.emit(f"extract {a}[{', '.join(w)}] : {tile(d, s)} -> {tile(d, [1] * len(s))}")
        a = p.emit(f"reshape {a} : {tile(d, [1] * len(s))} -> tile<i32>")
    return p.emit(f"cmpi less_than {a}, %k0, signed : tile<i32> -> tile<i1>")


def block(p: Wide, n: int) -> tuple[list[tuple[str, str, tuple[int, ...]]], str]:
    """Opens a block of n steps; returns what to restore when it is closed."""
    save, p.values, ind = p.values, list(p.values), p.indent
    p.indent += "  "
    for _ in range(n):
        p.choose(p.inner)(p)
    return save, ind


def branch(p: Wide) -> None:
    """An `if` that yields tiles; blocks draw their own steps."""
    if len(p.indent) > 6:
        return
    vals = [p.pick(ALL + ("i1",)) for _ in range(p.choose((1, 2, 3)))]
    if not all(vals):
        return
    c = cond(p)
    ts = ", ".join(tile(d, s) for _, d, s in vals)
    p.count += 1
    n = p.count
    res = f"%v{n}" + (f":{len(vals)}" if len(vals) > 1 else "")
    p.lines.append(f"{p.indent}{res} = if {c} -> ({ts}) {{")
    for k in range(2):
        save, ind = block(p, p.choose((0, 1, 2, 3)))
        ys = [p.pick((d,), s)[0] for _, d, s in vals]
        p.lines.append(f"{p.indent}yield {', '.join(ys)} : {ts}")
        p.values, p.indent = save, ind
        p.lines.append(f"{p.indent}}} else {{" if k == 0 else f"{p.indent}}}")
    for i, (_, d, s) in enumerate(vals):
        p.push(f"%v{n}" + (f"#{i}" if len(vals) > 1 else ""), d, s)


def loop(p: Wide) -> None:
    """A `for` with carried tiles, some rounds continued early."""
    if len(p.indent) > 6:
        return
    vals = [p.pick(ALL + ("i1",)) for _ in range(p.choose((1, 2, 3)))]
    if not all(vals):
        return
    ts = ", ".join(tile(d, s) for _, d, s in vals)
    it = p.choose(("i32", "i64", "i32"))
    lo, hi, st = (
        p.constant(p.choose((0, 1, -2)), it),
        p.constant(p.choose((0, 1, 3, 4)), it),
        p.constant(p.choose((1, 2)), it),
    )
    if it == "i32" and p.choose((0, 1)):
        hi = "%k3"
    p.count += 1
    n = p.count
    res = f"%v{n}" + (f":{len(vals)}" if len(vals) > 1 else "")
    carried = ", ".join(f"%c{n}_{k} = {v[0]}" for k, v in enumerate(vals))
    p.lines.append(
        f"{p.indent}{res} = for %i{n} in ({lo} to {hi}, step {st}) : tile<{it}> iter_values({carried}) -> ({ts}) {{"
    )
    save, ind = p.values, p.indent
    p.values = [*save, *((f"%c{n}_{k}", v[1], v[2]) for k, v in enumerate(vals)), (f"%i{n}", it, ())]
    p.indent += "  "
    for _ in range(p.choose((1, 2, 3))):
        p.choose(p.inner)(p)
    if p.choose((0, 1)):
        c = p.emit(f"cmpi equal %i{n}, {p.constant(1, it)}, signed : tile<{it}> -> tile<i1>")
        p.lines.append(f"{p.indent}if {c} {{")
        s2, i2 = block(p, p.choose((0, 1)))
        p.lines.append(f"{p.indent}continue {', '.join(p.pick((d,), s)[0] for _, d, s in vals)} : {ts}")
        p.values, p.indent = s2, i2
        p.lines.append(f"{p.indent}}}")
    p.lines.append(f"{p.indent}continue {', '.join(p.pick((d,), s)[0] for _, d, s in vals)} : {ts}")
    p.values, p.indent = save, ind
    p.lines.append(f"{p.indent}}}")
    for i, (_, d, s) in enumerate(vals):
        p.push(f"%v{n}" + (f"#{i}" if len(vals) > 1 else ""), d, s)


def until(p: Wide) -> None:
    """A `loop` left from nested ifs; what it gives differs from what it carries."""
    if len(p.indent) > 6:
        return
    vals = [p.pick(ALL) for _ in range(p.choose((1, 2)))]
    out = [p.pick(ALL) for _ in range(p.choose((1, 2)))]
    if not all(vals) or not all(out):
        return
    ts = ", ".join(["tile<i32>"] + [tile(d, s) for _, d, s in vals])
    os_ = ", ".join(tile(d, s) for _, d, s in out)
    z = p.constant(0, "i32")
    p.count += 1
    n = p.count
    res = f"%v{n}" + (f":{len(out)}" if len(out) > 1 else "")
    its = ", ".join([f"%j{n} = {z}"] + [f"%c{n}_{k} = {v[0]}" for k, v in enumerate(vals)])
    p.lines.append(f"{p.indent}{res} = loop iter_values({its}) : {ts} -> {os_} {{")
    save, ind = p.values, p.indent
    p.values = [*save, *((f"%c{n}_{k}", v[1], v[2]) for k, v in enumerate(vals)), (f"%j{n}", "i32", ())]
    p.indent += "  "
    for _ in range(p.choose((0, 1, 2))):
        p.choose(p.inner)(p)
    one = p.constant(1, "i32")
    nx = p.emit(f"addi %j{n}, {one} : tile<i32>")
    lim = p.constant(p.choose((1, 2, 3)), "i32")
    c = p.emit(f"cmpi greater_than_or_equal {nx}, {lim}, signed : tile<i32> -> tile<i1>")
    p.lines.append(f"{p.indent}if {c} {{")
    s2, i2 = block(p, p.choose((0, 1)))
    if p.choose((0, 1)):
        c2 = cond(p)
        p.lines.append(f"{p.indent}if {c2} {{")
        s3, i3 = block(p, p.choose((0, 1)))
        p.lines.append(f"{p.indent}break {', '.join(p.pick((d,), s)[0] for _, d, s in out)} : {os_}")
        p.values, p.indent = s3, i3
        p.lines.append(f"{p.indent}}}")
    p.lines.append(f"{p.indent}break {', '.join(p.pick((d,), s)[0] for _, d, s in out)} : {os_}")
    p.values, p.indent = s2, i2
    p.lines.append(f"{p.indent}}}")
    for _ in range(p.choose((0, 1))):
        p.choose(p.inner)(p)
    p.lines.append(f"{p.indent}continue {', '.join([nx] + [p.pick((d,), s)[0] for _, d, s in vals])} : {ts}")
    p.values, p.indent = save, ind
    p.lines.append(f"{p.indent}}}")
    for i, (_, d, s) in enumerate(out):
        p.push(f"%v{n}" + (f"#{i}" if len(out) > 1 else ""), d, s)
