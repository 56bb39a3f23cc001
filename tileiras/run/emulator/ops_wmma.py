"""Handlers of wmma."""

from __future__ import annotations

from .gen import BlockGen, handles, vector_items
from .mma import dims
from .ops_int import type_of
from .ops_memory import address, space_of
from .syntax import WIDTH_BITS, Inst

_SMALL = {"s4": 8, "u4": 8, "b1": 32}  # elements of a word


@handles("wmma")
def wmma(g: BlockGen, inst: Inst) -> None:
    what, mods = inst.mods[0], inst.mods
    shape = next(m for m in mods if m[0] == "m" and m[1:2].isdigit())
    if what == "mma":
        multiply(g, inst, shape)
        return
    part = mods[1]
    load = what == "load"
    m, n, k = dims(shape)
    rows, columns = {"a": (m, k), "b": (n, k), "c": (m, n), "d": (m, n)}[part]
    type_ = type_of(inst)
    columns //= _SMALL.get(type_, 1)
    unit = 4 if type_ in _SMALL else WIDTH_BITS[type_] // 8
    mem, vector = (inst.ops[1], inst.ops[0]) if load else (inst.ops[0], inst.ops[1])
    items = vector_items(vector)
    along = (
        ("col" in mods) if part == "b" else ("row" in mods)
    )  # whether a row of the fragment's matrix is contiguous
    stride = columns if along else rows
    pitch = f"np.int64({stride})"
    if len(inst.ops) > 2:
        pitch = g.tmp(f"{g.use(inst.ops[2], 'u32')}.astype(np.int64)")
        if type_ in _SMALL:
            pitch = g.tmp(f"{pitch} // np.int64({_SMALL[type_]})")
    space = space_of(g, inst, mem)
    where = address(g, mem, space)
    size = "u64" if unit == 8 else "u32"
    if load:
        out = g.tmp(
            f"B.wmma_load({where}, {space!r}, {pitch}, {rows}, {columns}, {unit}, {len(items)}, {along}, idx, n)"
        )
        for i, item in enumerate(items):
            if item[0] != "sink":
                g.set(item, size, f"{out}[{i}]")
        return
    values = "".join(g.use(item, size) + ", " for item in items)
    g.emit(
        f"B.wmma_store({where}, {space!r}, {pitch}, {rows}, {columns}, {unit}, ({values}), {along}, idx, n)"
    )


def multiply(g: BlockGen, inst: Inst, shape: str) -> None:
    types = [m for m in inst.mods if m in WIDTH_BITS]
    dt, at, bt, ct = types if len(types) == 4 else (types[0], "f16", "f16", types[-1])
    bit_op = next((m for m in inst.mods if m in ("xor", "and")), "")

    def fragment(op, type_: str) -> str:
        flavour = type_ if type_ in ("f32", "f64", "s32") else "u32"
        return "(" + "".join(g.use(item, flavour) + ", " for item in vector_items(op)) + ")"

    a, b, c = (fragment(op, t) for op, t in zip(inst.ops[1:4], (at, bt, ct)))
    out = g.tmp(
        f"B.wmma({shape!r}, {dt!r}, {at!r}, {bt!r}, {ct!r}, {a}, {b}, {c}, {bit_op!r}, {'satfinite' in inst.mods}, idx, n)"
    )
    flavour = dt if dt in ("f32", "f64", "s32") else "u32"
    for i, item in enumerate(vector_items(inst.ops[0])):
        g.set(item, flavour, f"{out}[{i}]")
