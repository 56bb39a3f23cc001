"""Control flow, calls, warp-wide and CTA-wide instructions.

Handlers of terminators leave the next state in `g.result`: a piece number, or a call on the batch that splits lanes.
"""

from __future__ import annotations

import numpy as np

from .blocks import barrier_count, call_args, call_target, is_builtin
from .gen import BlockGen, handles, vector_items
from .ops_int import type_of
from .ops_memory import mask_of
from .syntax import WIDTH_BITS, Inst, Reg


def _or_next(g: BlockGen, target: str) -> str:
    """The target, or under a guard a split between target and the next piece."""
    if g.guard is None:
        return target
    return f"B.branch({g.guard}, {target}, {g.after()}, idx, n)"


@handles("bra", "$skip")
def bra(g: BlockGen, inst: Inst) -> None:
    g.result = _or_next(g, str(g.piece.targets[0].pc))


@handles("brx")
def brx(g: BlockGen, inst: Inst) -> None:
    index = g.use(inst.ops[0], "u32")
    pcs = tuple(t.pc for t in g.piece.targets)
    after = g.after() if g.guard is not None else -1
    g.result = f"B.jump_table({index}, {pcs}, {mask_of(g)}, {after}, idx, n)"


@handles("exit")
def exit_(g: BlockGen, inst: Inst) -> None:
    g.result = _or_next(g, "-1")


@handles("ret")
def ret(g: BlockGen, inst: Inst) -> None:
    if g.func.is_entry:
        g.result = _or_next(g, "-1")
        return
    for var, at in g.unit.abi(g.func.returns):
        if isinstance(var, Reg):
            flavour = f"u{var.width}"
            g.emit(f"B.local_store({at}, {g.use(('reg', var), flavour)}, {mask_of(g)}, idx, n)")
        else:
            g.emit(f"B.local_copy({at}, {var.offset}, {var.size}, {mask_of(g)}, idx, n)")
    g.result = f"B.ret({mask_of(g)}, {g.after() if g.guard is not None else -1}, idx, n)"


@handles("$params")
def params(g: BlockGen, inst: Inst) -> None:
    for var, at in g.unit.abi(g.func.params):
        if isinstance(var, Reg):
            g.set(("reg", var), f"u{var.width}", f"B.local_load({at}, {var.width // 8}, idx, n)")
        else:
            g.emit(f"B.local_copy({var.offset}, {at}, {var.size}, None, idx, n)")


@handles("$results")
def results(g: BlockGen, inst: Inst) -> None:
    targets = inst.ops[0][1]
    sizes = [op[3] if op[0] == "sym" else op[1] for op in targets]
    for op, (var, at) in zip(targets, g.unit.abi(sizes)):
        if op[0] == "sym":
            g.emit(f"B.local_copy({var.offset}, {at}, {var.size}, {mask_of(g)}, idx, n)")
        else:
            g.set(op, f"u{var.width}", f"B.local_load({at}, {var.width // 8}, idx, n)")


@handles("call")
def call(g: BlockGen, inst: Inst) -> None:
    target, args = call_target(inst), call_args(inst)
    if is_builtin(inst):
        offsets = tuple(a[3].offset for a in args if a[0] == "sym")
        sizes = tuple(a[3].size for a in args if a[0] == "sym")
        out = inst.ops[0][1][0][3].offset if inst.ops[0][0] == "list" and inst.ops[0][1] else -1
        g.emit(f"B.builtin('{target[1]}', {offsets}, {sizes}, {out}, {mask_of(g)}, idx, n)")
        return
    shapes = [a[3] if a[0] == "sym" else a[1] if a[0] == "reg" else None for a in args]
    if any(s is None for s in shapes):
        g.fail("arguments of a call must be variables or registers")
    for arg, (shape, at) in zip(args, g.unit.abi(shapes)):
        if arg[0] == "sym":
            g.emit(f"B.local_copy({at}, {shape.offset}, {shape.size}, {mask_of(g)}, idx, n)")
        else:
            g.emit(f"B.local_store({at}, {g.use(arg, f'u{shape.width}')}, {mask_of(g)}, idx, n)")
    after = g.after()
    if target[0] == "sym":
        g.result = f"B.call({g.unit.entry_pc(g, target[1])}, {after}, {mask_of(g)}, idx, n)"
    else:
        g.result = f"B.call_indirect({g.use(target, 'u64')}, {after}, {mask_of(g)}, idx, n)"


@handles("trap", "brkpt")
def trap(g: BlockGen, inst: Inst) -> None:
    if inst.op == "brkpt":
        g.result = str(g.after())
        return
    g.emit(f"B.trap({mask_of(g)}, idx, n)")
    g.result = _or_next(g, "-1")


@handles("nanosleep", "griddepcontrol")
def nothing(g: BlockGen, inst: Inst) -> None:
    """No effect on values; a lane that sleeps lets others go first."""
    if inst.op == "nanosleep":
        g.emit("B.spins += 1")


# barriers
@handles("bar", "barrier")
def bar(g: BlockGen, inst: Inst) -> None:
    """Reached in line only when the whole CTA (or warp) is here: nothing to wait for. `barrier_call` is the other way."""
    if inst.mods[0] == "warp":
        g.emit(f"B.warp_barrier({g.use(inst.ops[0], 'u32')}, idx, n)")
        return
    if "red" not in inst.mods:
        g.emit("B.cta_barrier(idx, n)")
        return
    negated = inst.ops[-1][0] == "not"
    pred = g.use(inst.ops[-1][1] if negated else inst.ops[-1], "pred")
    how = next(m for m in inst.mods if m in ("popc", "and", "or"))
    expr = f"B.cta_reduce('{how}', {'~' if negated else ''}{pred}, idx, n)"
    g.set(inst.ops[0], "u32" if how == "popc" else "pred", expr)


def barrier_call(g: BlockGen, inst: Inst) -> str:
    """The expression that describes an arrival to the scheduler: (ids, counts, predicate, mask)."""
    g.inst = inst
    guard = "None"
    if inst.guard is not None:
        name = g.use_reg(inst.guard[0], "pred")
        guard = f"~{name}" if inst.guard[1] else name
    if inst.mods[0] == "cluster":
        return f"(None, None, None, {guard})"
    red = "red" in inst.mods
    ident = inst.ops[1] if red else inst.ops[0]
    ident = g.use(ident, "u32")
    count = barrier_count(inst)
    count = "None" if count is None else g.use(count, "u32")
    pred = "None"
    if red:
        op = inst.ops[-1]
        pred = f"~{g.use(op[1], 'pred')}" if op[0] == "not" else g.use(op, "pred")
    return f"({ident}, {count}, {pred}, {guard})"


def member_mask(g: BlockGen, inst: Inst) -> str:
    """The expression of the lanes that a warp-wide instruction waits for (full for .aligned forms without a mask)."""
    g.inst = inst
    op = inst.op
    if op == "bar":
        return g.use(inst.ops[0], "u32")
    if op in ("shfl", "vote", "match", "redux", "elect") and "sync" in inst.mods:
        return g.use(inst.ops[-1], "u32")
    return g.const(np.array([0xFFFFFFFF], np.uint32))


# warp-wide values
@handles("shfl")
def shfl(g: BlockGen, inst: Inst) -> None:
    ops = inst.ops
    mode = next(m for m in inst.mods if m in ("up", "down", "bfly", "idx"))
    a, b, c = g.use(ops[1], "u32"), g.use(ops[2], "u32"), g.use(ops[3], "u32")
    out = g.tmp(f"B.shfl('{mode}', {a}, {b}, {c}, idx, n)")
    dst, p = (ops[0][1], ops[0][2]) if ops[0][0] == "pair" else (ops[0], None)
    g.set(dst, "u32", f"{out}[0]")
    if p is not None:
        g.set(p, "pred", f"{out}[1]")


@handles("vote")
def vote(g: BlockGen, inst: Inst) -> None:
    how = next(m for m in inst.mods if m in ("all", "any", "uni", "ballot"))
    src = inst.ops[1]
    pred = g.use(src, "pred")
    mask = g.use(inst.ops[2], "u32") if "sync" in inst.mods else "None"
    g.set(
        inst.ops[0],
        "u32" if how == "ballot" else "pred",
        f"B.vote('{how}', {pred}, {mask}, {mask_of(g)}, idx, n)",
    )


@handles("match")
def match(g: BlockGen, inst: Inst) -> None:
    bits = WIDTH_BITS[type_of(inst)]
    value, mask = g.use(inst.ops[1], f"u{bits}"), g.use(inst.ops[2], "u32")
    out = g.tmp(f"B.match({'all' in inst.mods}, {value}, {mask}, idx, n)")
    dst, p = (inst.ops[0][1], inst.ops[0][2]) if inst.ops[0][0] == "pair" else (inst.ops[0], None)
    g.set(dst, "u32", f"{out}[0]")
    if p is not None:
        g.set(p, "pred", f"{out}[1]")


@handles("redux")
def redux(g: BlockGen, inst: Inst) -> None:
    how = next(m for m in inst.mods if m in ("add", "min", "max", "and", "or", "xor"))
    type_ = type_of(inst)
    flavour = {"b32": "u32"}.get(type_, type_)
    value, mask = g.use(inst.ops[1], flavour), g.use(inst.ops[2], "u32")
    expr = f"B.redux('{how}', {value}, {mask}, {'abs' in inst.mods}, {'NaN' in inst.mods}, idx, n)"
    g.set(inst.ops[0], flavour, expr)


@handles("activemask")
def activemask(g: BlockGen, inst: Inst) -> None:
    g.set(inst.ops[0], "u32", f"B.vote('ballot', np.ones(1, bool), None, {mask_of(g)}, idx, n)")


@handles("elect")
def elect(g: BlockGen, inst: Inst) -> None:
    out = g.tmp(f"B.elect({g.use(inst.ops[1], 'u32')}, idx, n)")
    dst, p = (inst.ops[0][1], inst.ops[0][2]) if inst.ops[0][0] == "pair" else (inst.ops[0], ("sink",))
    if dst[0] != "sink":
        g.set(dst, "u32", f"{out}[0]")
    g.set(p, "pred", f"{out}[1]")


@handles("movmatrix")
def movmatrix(g: BlockGen, inst: Inst) -> None:
    g.set(inst.ops[0], "u32", f"B.movmatrix({g.use(inst.ops[1], 'u32')}, idx, n)")


@handles("mma")
def mma(g: BlockGen, inst: Inst) -> None:
    """mma.sync: fragments in registers, by shape and types; see `mma.py` for the layouts."""
    shape = next(m for m in inst.mods if m[0] == "m" and m[1].isdigit())
    types = [m for m in inst.mods if m in WIDTH_BITS]
    if len(types) < 4:
        g.fail("this form of mma is not supported by the emulator")
    sparse, ops = "None", list(inst.ops)
    if any(m.partition("::")[0] == "sp" for m in inst.mods):
        words, selector = ops[4:6]
        sparse = f"({g.use(words, 'u32')}, {int(selector[1])})"
        del ops[4:6]
    if "block_scale" in inst.mods:
        scaled_mma(g, inst, shape, types, ops, sparse)
        return
    dt, at, bt, ct = types[:4]
    bit_op = next((m for m in inst.mods if m in ("xor", "and")), "")

    def fragment(op, type_: str) -> str:
        flavour = (
            type_
            if type_ in ("f32", "f64")
            else "s32"
            if type_ == "s32"
            else "f64"
            if type_ == "f64"
            else "u32"
        )
        return "(" + "".join(g.use(item, flavour) + ", " for item in vector_items(op)) + ")"

    out = g.tmp(
        f"B.mma('{shape}', '{dt}', '{at}', '{bt}', '{ct}', {fragment(inst.ops[1], at)}, "
        f"{fragment(inst.ops[2], bt)}, {fragment(inst.ops[3], ct)}, '{bit_op}', {'satfinite' in inst.mods}, "
        f"{('row' if 'row' in inst.mods[:6] else 'col')!r}, {sparse}, idx, n)"
    )
    flavour = dt if dt in ("f32", "f64", "s32") else "u32"
    for i, item in enumerate(vector_items(inst.ops[0])):
        g.set(item, flavour, f"{out}[{i}]")


def scaled_mma(g: BlockGen, inst: Inst, shape: str, types: list[str], ops: list, sparse: str) -> None:
    """mma.sync with block scales: after d, a, b and c, for A and for B a register of scales and {byte, thread}."""
    kind = next(m[6:] for m in inst.mods if m.startswith("kind::"))
    vector = next((m[11:] for m in inst.mods if m.startswith("scale_vec::")), "")
    blocks = int(vector[0]) if vector else {"mxf8f6f4": 1, "mxf4": 2}[kind]
    d, a, b, c, scale_a, select_a, scale_b, select_b = ops

    def registers(op, flavour: str) -> str:
        return "(" + "".join(g.use(item, flavour) + ", " for item in vector_items(op)) + ")"

    scales = "(" + "".join(g.use(vector_items(op)[0], "u32") + ", " for op in (scale_a, scale_b)) + ")"
    selectors = "".join(f"int({g.use(item, 'u16')}[0]), " for op in (select_a, select_b) for item in op[1])
    out = g.tmp(
        f"B.mma_scaled({shape!r}, {types[1]!r}, {types[2]!r}, {kind != 'mxf8f6f4'}, {registers(a, 'u32')}, "
        f"{registers(b, 'u32')}, {registers(c, 'f32')}, {scales}, ({selectors}), {blocks}, "
        f"{'ue8m0' if 'ue8m0' in inst.mods else 'ue4m3'!r}, {sparse}, idx, n)"
    )
    for i, item in enumerate(vector_items(d)):
        g.set(item, "f32", f"{out}[{i}]")
