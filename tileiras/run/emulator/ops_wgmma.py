"""Handlers of wgmma. Where the order is perturbed, accumulators leave the generated code's variables at issue."""

from __future__ import annotations

from .blocks import copies, defs_uses
from .gen import BEFORE, BlockGen, handles, is_type, vector_items
from .ops_memory import mask_of
from .syntax import Inst, Reg
from .wgmma import BITS, Shape

_NO_CC = Reg(-1, "", "pred")


def held_registers(g: BlockGen) -> tuple[set[int], set[int], set[int]]:
    """Registers of a function that wgmma may have in flight: accumulators, fragments of A, and copies of accumulators."""
    got = g.unit.held.get(g.func.name)
    if got is None:
        accumulators: set[int] = set()
        fragments: set[int] = set()
        for item in g.func.body:
            if isinstance(item, Inst) and item.op == "wgmma" and item.mods[0] == "mma_async":
                accumulators |= {op[1].id for op in vector_items(item.ops[0]) if op[0] == "reg"}
                if item.ops[1][0] == "vec":
                    fragments |= {op[1].id for op in item.ops[1][1] if op[0] == "reg"}
        got = g.unit.held[g.func.name] = (
            accumulators, fragments, copies(g.func.body, accumulators, _NO_CC)
        )  # fmt: skip
    return got


def touch(g: BlockGen, inst: Inst) -> None:
    """Before an instruction that uses such registers: the runtime looks whether they are in flight."""
    accumulators, fragments, copied = held_registers(g)
    if not accumulators or inst.op == "wgmma":
        return
    defs, uses = defs_uses(inst, _NO_CC)
    read = {r.id for r in uses} & (accumulators | copied)
    written = {r.id for r in defs} & (accumulators | fragments)
    renewed = {r.id for r in defs} & copied
    if not read and not written and not renewed:
        return
    regs, writes, to = (tuple(sorted(k + g.base for k in some)) for some in (read, written, renewed))
    g.emit(f"B.wgmma_touch({g.instruction(inst)}, {regs}, {writes}, {to}, {mask_of(g)}, idx, n)")
    for k in read & accumulators:  # the registers may have been renewed
        if k not in g.written:
            g.views.pop(k, None)


BEFORE.append(touch)


@handles("wgmma")
def wgmma(g: BlockGen, inst: Inst) -> None:
    what = inst.mods[0]
    ordered = g.unit.ordered
    if what == "mma_async":
        mma_async(g, inst)
    elif what in ("fence", "commit_group", "wait_group"):
        if not ordered:
            return
        if what == "fence":
            g.emit(f"B.wgmma_fence({mask_of(g)}, idx, n)")
        elif what == "commit_group":
            g.emit(f"B.wgmma_commit({mask_of(g)}, idx, n)")
        else:
            forget(g, held_registers(g)[0])
            g.emit(f"B.wgmma_wait({int(inst.ops[0][1])}, {mask_of(g)}, idx, n)")
    else:
        g.fail("this instruction is not supported by the emulator")


def forget(g: BlockGen, regs: set[int]) -> None:
    """Stores registers that changed and reads them again where they are next used."""
    for k in sorted(regs & g.written):
        g.store_register(k)
        g.written.discard(k)
    for k in regs:
        g.views.pop(k, None)


def mma_async(g: BlockGen, inst: Inst) -> None:
    mods = inst.mods
    types = [m for m in mods if is_type(m)]
    shape = next((m for m in mods if m.startswith("m64n")), None)
    if shape is None or len(types) != 3 or types[1] not in BITS:
        g.fail("this form of wgmma is not supported by the emulator")
    n, k = (int(v) for v in shape[4:].split("k"))
    d_type, a_type, b_type = types
    bits = BITS[a_type]
    if k * bits != (512 if "sp" in mods else 256) or n % 8 or not 8 <= n <= 256:
        g.fail("no such shape of wgmma")
    items, ops = vector_items(inst.ops[0]), list(inst.ops)
    places, selector = "None", None
    if "sp" in mods:
        places, selector = g.use(ops[3], "u32"), int(ops[4][1])
        del ops[3:5]
    if len(items) != (n // 4 if d_type == "f16" else n // 2):
        g.fail(f"{len(items)} accumulator registers for {shape} in {d_type}")
    in_registers = ops[1][0] == "vec"
    rest = [int(op[1]) for op in ops[4:]]
    sign_a, sign_b = rest[:2] if rest else (1, 1)
    trans = [bool(v) for v in rest[2:]]
    a_trans, b_trans = (False, *trans) if in_registers and trans else trans if trans else (False, False)
    negative = sign_a * sign_b < 0
    record = Shape(n, k, d_type, a_type, b_type, negative, a_trans, b_trans, "satfinite" in mods, selector)
    name = g.unit.object(record)
    flavour = {"f32": "f32", "s32": "s32", "f16": "u32"}[d_type]
    if in_registers:
        fragments = "(" + "".join(g.use(op, "u32") + ", " for op in vector_items(ops[1])) + ")"
        sources = tuple(op[1].id + g.base for op in vector_items(ops[1]) if op[0] == "reg")
    else:
        fragments, sources = g.use(ops[1], "u64"), ()
    b = g.use(ops[2], "u64")
    scale = g.use(ops[3], "pred")
    if not g.unit.ordered:
        c = "(" + "".join(g.use(op, flavour) + ", " for op in items) + ")"
        out = g.tmp(f"B.wgmma({name}, {fragments}, {b}, {places}, {c}, {scale}, {mask_of(g)}, idx, n)")
        mask, g.guard = g.guard, None
        for i, item in enumerate(items):
            g.set(item, flavour, f"{out}[{i}]")
        g.guard = mask
        return
    if any(op[0] != "reg" for op in items):
        g.fail("accumulators must be registers")
    ids = {op[1].id for op in items}
    forget(g, ids)
    for op in items:
        g.regs[op[1].id] = op[1]
    regs = tuple(op[1].id + g.base for op in items)
    g.emit(
        f"B.wgmma_issue({g.instruction(inst)}, {name}, {regs}, {sources}, {fragments}, {b}, {places}, {scale}, "
        f"{mask_of(g)}, idx, n)"
    )
