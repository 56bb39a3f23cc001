"""Handlers of bulk copies, tensor maps and st.async."""

from __future__ import annotations

from .gen import BlockGen, handles, is_type
from .ops_memory import address, mask_of
from .syntax import WIDTH_BITS, Inst

_MODES = {
    "im2col": "im2col", "im2col_no_offs": "im2col", "tile::gather4": "rows", "tile::scatter4": "rows",
}  # fmt: skip
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _where(g: BlockGen, mem) -> str:
    return address(g, mem, "")


@handles("cp.bulk")
def bulk(g: BlockGen, inst: Inst) -> None:
    """cp.async.bulk..., cp.reduce.async.bulk...: `cp` with the modifier bulk."""
    mods = inst.mods
    mask = mask_of(g)
    if "prefetch" in mods:
        return
    if "commit_group" in mods:
        g.emit(f"B.bulk_commit({mask}, idx, n)")
        return
    if "wait_group" in mods:
        g.emit(f"B.bulk_wait({int(inst.ops[0][1])}, {'read' in mods}, {mask}, idx, n)")
        return
    unknown = any(m.startswith("im2col::w") for m in mods) or "multimem" in mods or "cp_mask" in mods
    mode = next((_MODES[m] for m in mods if m in _MODES), "tile")
    if unknown or (mode != "tile" and "reduce" in mods):
        g.fail("this form of bulk copy is not supported by the emulator")
    op = next((m for m in mods if m in _REDUCTIONS), "") if "reduce" in mods else ""
    multicast = "multicast::cluster" in mods
    spaces = [m.partition("::")[0] for m in mods if m.partition("::")[0] in ("global", "shared")]
    rest = list(inst.ops)
    name = g.instruction(inst)
    if "tensor" in mods:
        if spaces[0] == "global":
            table, source = rest[0], rest[1]
            coords = _coordinates(g, table)
            g.emit(
                f"B.tensor_store({name}, {mode!r}, {op!r}, {_where(g, table)}, {coords}, {_where(g, source)}, {mask}, idx, n)"
            )
            return
        to, table, barrier = rest[:3]
        rest = rest[3:]
        offsets = "()"
        if mode == "im2col":
            offsets = "(" + "".join(g.use(item, "u16") + ", " for item in rest.pop(0)[1]) + ")"
        ranks = g.use(rest[0], "u16") if multicast else "None"
        g.emit(
            f"B.tensor_load({name}, {mode!r}, {multicast}, {'cta_group::2' in mods}, {_where(g, to)}, {_where(g, table)}, "
            f"{_coordinates(g, table)}, {offsets}, {_where(g, barrier)}, {ranks}, {mask}, idx, n)"
        )
        return
    type_ = next((m for m in mods if is_type(m)), "")
    to, source, size = rest[:3]
    count = g.use(size, "u32")
    barrier = ranks = "None"
    if any(m.startswith("mbarrier") for m in mods):
        barrier = _where(g, rest[3])
        ranks = g.use(rest[4], "u16") if multicast else "None"
    g.emit(
        f"B.bulk_copy({name}, {spaces[0]!r}, {spaces[1]!r}, {op!r}, {type_!r}, {multicast}, {_where(g, to)}, "
        f"{_where(g, source)}, {count}, {barrier}, {ranks}, {mask}, idx, n)"
    )


def _coordinates(g: BlockGen, table) -> str:
    items = table[3][0][1] if table[3][0][0] == "vec" else [table[3][0]]
    return "(" + "".join(g.use(item, "u32") + ", " for item in items) + ")"


@handles("st.async")
def st_async(g: BlockGen, inst: Inst) -> None:
    """st.async and red.async: values that arrive in a CTA of the cluster and complete on its mbarrier."""
    mods = inst.mods
    type_ = next(m for m in mods if is_type(m))
    bits = WIDTH_BITS[type_]
    op = next((m for m in mods if m in _REDUCTIONS), "") if inst.op == "red" else ""
    values = inst.ops[1][1] if inst.ops[1][0] == "vec" else [inst.ops[1]]
    data = "(" + "".join(g.use(v, f"u{bits}") + ", " for v in values) + ")"
    g.emit(
        f"B.store_async({g.instruction(inst)}, {_where(g, inst.ops[0])}, {data}, {op!r}, {type_!r}, "
        f"{_where(g, inst.ops[2])}, {mask_of(g)}, idx, n)"
    )


@handles("clusterlaunchcontrol")
def cluster_launch_control(g: BlockGen, inst: Inst) -> None:
    """try_cancel asks for the work of a cluster that has not begun; query_cancel reads the answer."""
    if inst.mods[0] == "try_cancel":
        everyone = "multicast::cluster::all" in inst.mods
        g.emit(
            f"B.try_cancel({g.instruction(inst)}, {_where(g, inst.ops[0])}, {_where(g, inst.ops[1])}, {everyone}, "
            f"{mask_of(g)}, idx, n)"
        )
        return
    answer = g.tmp(f"{g.use(inst.ops[1], 'v16')}.view(np.uint32).reshape(-1, 4)")
    if inst.mods[1] == "is_canceled":
        g.set(inst.ops[0], "pred", f"{answer}[:, 3] != 0")
        return
    if inst.ops[0][0] == "vec":
        for k, item in enumerate(inst.ops[0][1][:3]):
            if item[0] != "sink":
                g.set(item, "u32", f"{answer}[:, {k}].copy()")
        return
    k = "xyz".index(inst.mods[1][-1])
    g.set(inst.ops[0], "u32", f"{answer}[:, {k}].copy()")


@handles("tensormap")
def tensormap(g: BlockGen, inst: Inst) -> None:
    mods = inst.mods
    if mods[0] == "cp_fenceproxy":
        g.emit(f"B.tensormap_copy({_where(g, inst.ops[0])}, {_where(g, inst.ops[1])}, idx, n)")
        return
    if mods[0] != "replace":
        g.fail("this instruction is not supported by the emulator")
    field = mods[2]
    space = "shared" if any(m.startswith("shared") for m in mods) else "generic"
    ordinal = int(inst.ops[1][1]) if len(inst.ops) == 3 else 0
    wide = "u64" if "b64" in mods else "u32"
    g.emit(
        f"B.tensormap_replace({space!r}, {_where(g, inst.ops[0])}, {field!r}, {ordinal}, {g.use(inst.ops[-1], wide)}, "
        f"{mask_of(g)}, idx, n)"
    )
