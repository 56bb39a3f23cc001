"""Handlers of tcgen05."""

from __future__ import annotations

from .blocks import copies, defs_uses
from .gen import BEFORE, BlockGen, handles, vector_items
from .ops_memory import address, mask_of
from .syntax import Inst, Reg

_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}  # registers of .x1


_NO_CC = Reg(-1, "", "pred")


def loaded_registers(g: BlockGen) -> set[int]:
    """Registers of a function that a tcgen05.ld writes, and those that a chain of mov copies them to."""
    got = g.unit.loaded.get(g.func.name)
    if got is None:
        written = {
            op[1].id
            for item in g.func.body
            if isinstance(item, Inst) and item.op == "tcgen05" and item.mods[0] == "ld"
            for op in vector_items(item.ops[0])
            if op[0] == "reg"
        }
        got = g.unit.loaded[g.func.name] = written | copies(g.func.body, written, _NO_CC)
    return got


def use(g: BlockGen, inst: Inst) -> None:
    """Before an instruction that uses such registers: whether they are there is looked at when it runs."""
    loaded = loaded_registers(g)
    if not loaded:
        return
    defs, uses = defs_uses(inst, _NO_CC)
    read = {r.id for r in uses} & loaded
    written = {r.id for r in defs} & loaded if inst.op != "tcgen05" else set()
    if read or written:
        regs, writes = (tuple(sorted(k + g.base for k in some)) for some in (read, written))
        g.emit(f"B.tensor_use({g.instruction(inst)}, {regs}, {writes}, {mask_of(g)}, idx, n)")


BEFORE.append(use)


@handles("tcgen05")
def tcgen05(g: BlockGen, inst: Inst) -> None:
    what = inst.mods[0]
    group = 2 if "cta_group::2" in inst.mods else 1
    mask, name = mask_of(g), g.instruction(inst)
    if group == 2 and g.unit.cluster_size % 2:
        g.fail("cta_group::2 needs a cluster of an even number of CTAs")
    other = next(
        (
            i
            for p in g.unit.pieces
            for i in p.insts
            if i.op == "tcgen05" and f"cta_group::{3 - group}" in i.mods
        ),
        None,
    )
    if f"cta_group::{group}" in inst.mods and other is not None:
        g.fail(
            f"a kernel's tcgen05 instructions have one .cta_group: that at PTX line {other.line} has another"
        )
    if what == "alloc":
        space = "shared" if any(m.startswith("shared") for m in inst.mods) else "generic"
        where, count = address(g, inst.ops[0], space), g.use(inst.ops[1], "u32")
        g.emit(f"B.tensor_alloc({name}, {group == 2}, {where}, {space!r}, {count}, idx, n)")
    elif what == "dealloc":
        g.emit(
            f"B.tensor_dealloc({name}, {group == 2}, {g.use(inst.ops[0], 'u32')}, {g.use(inst.ops[1], 'u32')}, idx, n)"
        )
    elif what.startswith("relinquish"):
        g.emit("B.tensor_relinquish(idx, n)")
    elif what.startswith("fence"):
        g.emit(f"B.tensor_fence({what.endswith('after_thread_sync')}, {mask}, idx, n)")
    elif what.startswith("wait"):
        g.emit(f"B.tensor_wait({name}, idx, n)")
    elif what in ("ld", "st"):
        registers(g, inst, name)
    elif what == "commit":
        ranks = g.use(inst.ops[1], "u16") if "multicast::cluster" in inst.mods else "None"
        g.emit(f"B.tensor_commit({name}, {address(g, inst.ops[0], '')}, {ranks}, idx, n, {mask})")
    elif what == "cp":
        copy(g, inst, name, group)
    elif what == "mma":
        mma(g, inst, name, group)
    else:
        g.fail("this instruction is not supported by the emulator")


def registers(g: BlockGen, inst: Inst, name: str) -> None:
    load = inst.mods[0] == "ld"
    shape = next((m for m in inst.mods if m in _SHAPES), None)
    if shape is None or "red" in inst.mods:
        g.fail("this form of tcgen05.ld is not supported by the emulator")
    times = next(int(m[1:]) for m in inst.mods if m[0] == "x" and m[1:].isdigit())
    pack = any(m.startswith(("pack::", "unpack::")) for m in inst.mods)
    mem, vector = (inst.ops[1], inst.ops[0]) if load else (inst.ops[0], inst.ops[-1])
    items = vector_items(vector)
    if len(items) != times * _SHAPES[shape]:
        g.fail(f"{len(items)} registers for .{shape}.x{times}")
    split = 0
    if shape == "16x32bx2":
        split = int(inst.ops[2][1] if load else inst.ops[1][1])
    where = address(g, mem, "")
    if load:
        out = g.tmp(
            f"B.tensor_load_registers({name}, {shape!r}, {where}, {len(items)}, {pack}, {split}, idx, n)"
        )
        for i, item in enumerate(items):
            if item[0] != "sink":
                g.set(item, "u32", f"{out}[{i}]")
        if g.unit.ordered:
            regs = tuple(item[1].id + g.base for item in items if item[0] == "reg")
            g.emit(f"B.tensor_pending({name}, {regs}, idx, n)")
        return
    values = "(" + "".join(g.use(item, "u32") + ", " for item in items) + ")"
    g.emit(f"B.tensor_store_registers({name}, {shape!r}, {where}, {values}, {pack}, {split}, idx, n)")


def copy(g: BlockGen, inst: Inst, name: str, group: int) -> None:
    shape = next((m for m in inst.mods if m in ("128x256b", "128x128b", "64x128b", "32x128b")), None)
    if shape is None or any(m.startswith(("b8x16", "b4x16", "b6x16")) for m in inst.mods):
        g.fail("this form of tcgen05.cp is not supported by the emulator")
    pattern = next((m.partition("::")[2] for m in inst.mods if m.startswith("warpx2")), "")
    g.emit(
        f"B.tensor_copy({name}, {shape!r}, {group}, {pattern!r}, {address(g, inst.ops[0], '')}, "
        f"{g.use(inst.ops[1], 'u64')}, {mask_of(g)}, idx, n)"
    )


def mma(g: BlockGen, inst: Inst, name: str, group: int) -> None:
    kind = next(m[6:] for m in inst.mods if m.startswith("kind::"))
    if "sp" in inst.mods or "ws" in inst.mods:
        g.fail("this form of tcgen05.mma is not supported by the emulator")
    to, a, b, idesc, *rest = inst.ops
    in_tensor = a[0] == "mem"
    blocks, scale_a, scale_b = 0, "None", "None"
    if "block_scale" in inst.mods:
        default = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
        size = next((m for m in inst.mods if m.startswith(("scale_vec", "block")) and m != "block_scale"), "")
        blocks = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4,
                  "block32": 1 if kind == "mxf8f6f4" else 2}.get(size, default)  # fmt: skip
        scale_a, scale_b = address(g, rest[0], ""), address(g, rest[1], "")
        rest = rest[2:]
    off = "()"
    if rest[0][0] == "vec":
        off = "(" + "".join(g.use(op, "u32") + ", " for op in rest[0][1]) + ")"
        rest = rest[1:]
    enable = g.use(rest[0], "pred")
    scale_d = int(rest[1][1]) if len(rest) > 1 else 0
    a_name = address(g, a, "") if in_tensor else g.use(a, "u64")
    g.emit(
        f"B.tensor_mma({name}, {kind!r}, {group}, {blocks}, {in_tensor}, {address(g, to, '')}, {a_name}, "
        f"{g.use(b, 'u64')}, {g.use(idesc, 'u32')}, {off}, {enable}, {scale_d}, {scale_a}, {scale_b}, {mask_of(g)}, "
        "idx, n)"
    )
