"""Loads, stores, atomics, asynchronous copies, matrix loads through shared memory, and mbarriers."""

from __future__ import annotations

import numpy as np

from .gen import FLAVOUR_BITS, HANDLERS, BlockGen, handles, vector_items
from .ops_int import type_of
from .syntax import WIDTH_BITS, Inst

SPACES = {"global", "shared", "local", "param", "const", "generic"}


def space_of(g: BlockGen, inst: Inst, mem) -> str:
    """The state space as the runtime sees it: global (real addresses), shared, cluster, local or generic."""
    space = next((m for m in inst.mods if m.partition("::")[0] in SPACES), "generic")
    base, _, sub = space.partition("::")
    if base == "param":
        return "local" if g.unit.param_is_local(mem[1]) else "global"
    if base == "shared":
        return "cluster" if sub == "cluster" else "shared"
    return "global" if base == "const" else base


def base_address(g: BlockGen, mem) -> str:
    """int64 addresses of a memory operand, without its offset."""
    base = mem[1]
    if base[0] == "reg" and base[1].width == 32:
        return g.tmp(f"{g.use(base, 'u32')}.astype(np.int64)")
    return g.use(base, "s64")


def address(g: BlockGen, mem, space: str) -> str:
    """int64 addresses of a memory operand (offset included)."""
    name, offset = base_address(g, mem), mem[2]
    return g.tmp(f"{name} + np.int64({offset})") if offset else name


def mem_flavour(type_: str) -> str:
    """Loads and stores move bits: unsigned, or signed where widening needs the sign."""
    bits = WIDTH_BITS[type_]
    if bits == 128:
        return "v16"
    return f"{'s' if type_[0] == 's' else 'u'}{bits}"


def mask_of(g: BlockGen) -> str:
    return g.guard if g.guard is not None else "None"


@handles("ld", "ldu")
def ld(g: BlockGen, inst: Inst) -> None:
    type_ = type_of(inst)
    dst, mem = inst.ops[0], inst.ops[1]
    space = space_of(g, inst, mem)
    where = base_address(g, mem)
    flavour = mem_flavour(type_)
    items = vector_items(dst)
    width = WIDTH_BITS[type_] // 8
    strong = ordering(inst)
    one = len(items) == 1
    out = g.tmp(
        f"B.load({where}, {mem[2]}, '{space}', {width}, {len(items)}, {mask_of(g)}, idx, n, {strong!r})"
        f"{'[0]' if one else ''}"
    )
    bits = FLAVOUR_BITS[flavour]
    for i, item in enumerate(items):
        if item[0] == "sink":
            continue
        raw = out if one else f"{out}[{i}]"
        if flavour[0] == "s":
            raw = f"{raw}.view(np.int{bits})"
        g.set(item, flavour, raw)


def ordering(inst: Inst) -> str:
    """'' for a weak access, else its order and scope, as in "acquire.gpu": what race detection treats as synchronisation."""
    for m in ("acquire", "release", "acq_rel", "relaxed", "volatile", "mmio"):
        if m in inst.mods:
            return f"{m}.{'sys' if m in ('volatile', 'mmio') else scope_of(inst)}"
    return f"relaxed.{scope_of(inst)}" if inst.op in ("atom", "red") else ""


def scope_of(inst: Inst) -> str:
    """The threads that an instruction synchronises with; .gpu where an atomic or a fence does not say."""
    return next((m for m in inst.mods if m in ("cta", "cluster", "gpu", "sys")), "gpu")


@handles("st")
def st(g: BlockGen, inst: Inst) -> None:
    if "async" in inst.mods and any(m.startswith("mbarrier") for m in inst.mods):
        HANDLERS["st.async"](g, inst)
        return
    if "bulk" in inst.mods:
        g.fail("this instruction is not supported by the emulator")
    type_ = type_of(inst)
    mem, src = inst.ops[0], inst.ops[1]
    space = space_of(g, inst, mem)
    where = base_address(g, mem)
    bits = WIDTH_BITS[type_]
    flavour = "v16" if bits == 128 else f"u{bits}"
    values = ", ".join(
        g.use(
            item,
            "f32"
            if item[0] == "imm" and type_ == "f32"
            else "f64"
            if item[0] == "imm" and type_ == "f64"
            else flavour,
        )
        + (f".view(np.uint{bits})" if item[0] == "imm" and type_ in ("f32", "f64") else "")
        for item in vector_items(src)
    )
    g.emit(
        f"B.store({where}, {mem[2]}, '{space}', {bits // 8}, ({values},), {mask_of(g)}, idx, n, {ordering(inst)!r})"
    )


@handles("atom", "red")
def atom(g: BlockGen, inst: Inst) -> None:
    ops = inst.ops
    if "async" in inst.mods:
        HANDLERS["st.async"](g, inst)
        return
    if inst.op == "atom":
        dst, mem, args = ops[0], ops[1], ops[2:]
    else:
        dst, mem, args = ("sink",), ops[0], ops[1:]
    space = space_of(g, inst, mem)
    where = address(g, mem, space)
    type_ = type_of(inst)
    op = next(
        m for m in inst.mods if m in ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
    )
    bits = WIDTH_BITS[type_]
    items = vector_items(args[0]) if args[0][0] == "vec" else [args[0]]
    flavour = "v16" if bits == 128 else type_ if type_[0] in "su" or type_ in ("f32", "f64") else f"u{bits}"
    order = ordering(inst)
    flush = (type_ == "f32" and op == "add" and space != "shared") or "ftz" in inst.mods
    single = len(items) == 1 or bits == 128
    if bits == 128:
        packs = [args[0]]
    else:
        packs = items
    for i, item in enumerate(packs):
        value = g.use(item, flavour)
        extra = g.use(args[1], flavour) if op == "cas" else "None"
        place = where if i == 0 else g.tmp(f"{where} + np.int64({i * bits // 8})")
        want = dst[0] != "sink"
        out = g.tmp(
            f"B.atomic({place}, '{space}', '{op}', '{type_}', {value}, {extra}, {mask_of(g)}, idx, n, "
            f"'{order}', {want}, {flush}, {(len(items) * bits // 8) if i == 0 and not single else 0})"
        )
        if want:
            target = vector_items(dst)[i] if not single else dst
            g.set(target, flavour, out)


@handles("prefetch", "prefetchu", "discard", "applypriority", "pmevent")
def prefetch(g: BlockGen, inst: Inst) -> None:
    """Hints: no architectural effect (discard leaves the old bytes, which is one permitted outcome)."""


@handles("createpolicy")
def createpolicy(g: BlockGen, inst: Inst) -> None:
    g.set(inst.ops[0], "u64", "np.zeros(1, np.uint64)")


@handles("mapa")
def mapa(g: BlockGen, inst: Inst) -> None:
    """Address of a shared variable in the CTA of a rank of the cluster."""
    flavour = f"u{WIDTH_BITS[type_of(inst)]}"
    generic = not any(m.startswith("shared") for m in inst.mods)
    a, rank = g.use(inst.ops[1], flavour), g.use(inst.ops[2], "u32")
    kind = f"np.uint{flavour[1:]}"
    expr = f"(({a} & {kind}(0xFFFFFF)) | ({rank}.astype({kind}) << {kind}(24)))"
    if generic:
        expr = f"({expr} + SHARED_WINDOW)"
    g.set(inst.ops[0], flavour, expr)


@handles("getctarank")
def getctarank(g: BlockGen, inst: Inst) -> None:
    flavour = f"u{WIDTH_BITS[type_of(inst)]}"
    a = g.use(inst.ops[1], flavour)
    kind = f"np.uint{flavour[1:]}"
    g.set(inst.ops[0], "u32", f"(({a} >> {kind}(24)) & {kind}(0xFF)).astype(np.uint32)")


@handles("membar", "fence")
def fence(g: BlockGen, inst: Inst) -> None:
    """Lanes run in lockstep on one coherent memory; race detection takes fences as promises about earlier stores."""
    if inst.mods[0] == "proxy" and inst.mods[1].partition("::")[0] == "async":
        g.emit(f"B.proxy_fence({mask_of(g)}, idx, n)")
        return
    if inst.mods[0] == "mbarrier_init":
        g.emit(f"B.fence_inits({mask_of(g)}, idx, n)")
        return
    g.emit(f"B.fence('{scope_of(inst)}', {mask_of(g)}, idx, n)")


# cp.async
@handles("cp")
def cp(g: BlockGen, inst: Inst) -> None:
    mods = inst.mods
    if "bulk" in mods:
        HANDLERS["cp.bulk"](g, inst)
        return
    if mods[0] != "async" or "reduce" in mods:
        g.fail("this instruction is not supported by the emulator")
    if "commit_group" in mods:
        g.emit(f"B.cp_commit(idx, n, {mask_of(g)})")
    elif "wait_group" in mods:
        g.emit(f"B.cp_wait(idx, n, {int(inst.ops[0][1])}, {mask_of(g)})")
    elif "wait_all" in mods:
        g.emit(f"B.cp_wait(idx, n, -1, {mask_of(g)})")
    elif "mbarrier" in mods:
        where = address(g, inst.ops[0], "shared")
        space = "shared" if any(m.startswith("shared") for m in mods) else "generic"
        g.emit(f"B.cp_mbarrier({where}, '{space}', {'noinc' in mods}, {mask_of(g)}, idx, n)")
    else:
        dst, src = inst.ops[0], inst.ops[1]
        size = int(inst.ops[2][1])
        to, source = address(g, dst, "shared"), address(g, src, "global")
        count = "None"
        if len(inst.ops) > 3 and inst.ops[3][0] != "imm" and inst.ops[3][0] != "sink":
            op = inst.ops[3]
            if op[0] == "reg" and op[1].type == "pred":
                count = g.tmp(f"where({g.use(op, 'pred')}, np.int64(0), np.int64({size}))")
            elif not (op[0] == "reg" and op[1].width == 64):  # a 64-bit register is a cache policy
                count = g.tmp(f"{g.use(op, 'u32')}.astype(np.int64)")
        elif len(inst.ops) > 3 and inst.ops[3][0] == "imm":
            count = g.const(np.array([int(inst.ops[3][1])], np.int64))
        g.emit(f"B.cp_async({to}, {source}, {size}, {count}, {mask_of(g)}, idx, n)")


# mbarrier
@handles("mbarrier")
def mbarrier(g: BlockGen, inst: Inst) -> None:
    what = inst.mods[0]
    if what == "pending_count":
        state = g.use(inst.ops[1], "u64")
        g.set(inst.ops[0], "u32", f"(({state} >> np.uint64(1)) & np.uint64(0xFFFFF)).astype(np.uint32)")
        return
    at = next(op for op in inst.ops if op[0] == "mem")
    space = next((m for m in inst.mods if m.startswith("shared")), "generic")
    space = {"shared::cluster": "cluster", "generic": "generic"}.get(space, "shared")
    where = address(g, at, space)
    rest = inst.ops[inst.ops.index(at) + 1 :]
    mask, relaxed = mask_of(g), "relaxed" in inst.mods
    if what == "init":
        g.emit(f"B.mbar_init({where}, '{space}', {g.use(rest[0], 'u32')}, {mask}, idx, n)")
    elif what == "inval":
        g.emit(f"B.mbar_inval({where}, '{space}', {mask}, idx, n)")
    elif what in ("arrive", "arrive_drop"):
        expect = "expect_tx" in inst.mods
        count = tx = "None"
        if expect:
            tx = g.use(rest[0], "u32")
            if len(rest) > 1:
                count = g.use(rest[1], "u32")
        elif rest:
            count = g.use(rest[0], "u32")
        expr = f"B.mbar_arrive({where}, '{space}', {count}, {tx}, {what == 'arrive_drop'}, {relaxed}, {mask}, idx, n)"
        if inst.ops[0][0] in ("reg",):
            g.set(inst.ops[0], "u64", expr)
        else:
            g.emit(expr)
    elif what in ("expect_tx", "complete_tx"):
        g.emit(
            f"B.mbar_tx({where}, '{space}', {g.use(rest[0], 'u32')}, {what == 'complete_tx'}, {mask}, idx, n)"
        )
    elif what in ("test_wait", "try_wait"):
        if "parity" in inst.mods:
            expr = f"B.mbar_test({where}, '{space}', {g.use(rest[0], 'u32')}, {relaxed}, {mask}, idx, n)"
        else:
            expr = f"B.mbar_test({where}, '{space}', {g.use(rest[0], 'u64')}, {relaxed}, {mask}, idx, n)"
        dst = inst.ops[0] if inst.ops[0][0] != "pair" else inst.ops[0][1]
        g.set(dst, "pred", expr)
    else:
        g.fail("this instruction is not supported by the emulator")


# matrix loads and stores
@handles("ldmatrix", "stmatrix")
def ldmatrix(g: BlockGen, inst: Inst) -> None:
    count = next(int(m[1:]) for m in inst.mods if m in ("x1", "x2", "x4"))
    trans = "trans" in inst.mods
    shape = next(m for m in inst.mods if m.startswith("m"))
    load = inst.op == "ldmatrix"
    bits = next(
        (int(m[1]) for m in inst.mods if m in ("b4x16_p64", "b6x16_p32")), 8 if "b8" in inst.mods else 16
    )
    known = {"m8n8": (16,), "m8n16": (4, 6), "m16n16": (4, 6, 8)} if load else {"m8n8": (16,)}
    if bits not in known.get(shape, ()) or shape == "m16n16" and not trans:
        g.fail("this matrix shape is not supported by the emulator")
    mem = inst.ops[1] if load else inst.ops[0]
    space = "shared" if any(m.startswith("shared") for m in inst.mods) else "generic"
    where = address(g, mem, space)
    if load:
        if shape == "m8n8":
            out = g.tmp(f"B.ldmatrix({where}, '{space}', {count}, {trans}, idx, n)")
        else:
            out = g.tmp(f"B.ldmatrix_bytes({where}, '{space}', {count}, {bits}, {trans}, idx, n)")
        for i, item in enumerate(vector_items(inst.ops[0])):
            g.set(item, "u32", f"{out}[{i}]")
    else:
        values = ", ".join(g.use(item, "u32") for item in vector_items(inst.ops[1]))
        g.emit(f"B.stmatrix({where}, '{space}', ({values},), {trans}, idx, n)")
