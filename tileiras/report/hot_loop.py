"""The loop of a kernel's machine code in which it spends its time, and the terms of the model for one pass of it.

For matrix work the hot loop is the innermost loop with the most tensor work (multiply-adds where the kernel has none);
without either, the one with the most global traffic. Of two versions of a loop the one that copies asynchronously counts, and of
loops for masked steps and for the others, which do as much tensor work, the shorter one: most steps of long sequences are its.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

from . import sass
from .model import GPUS, Pass, terms
from .sass import Code, Instruction, Loop, flops, is_tensor, loads_in_flight

Row = dict[str, Any]
COPIES = ("async_copy", "bulk_copy")
LEAST_ROWS = 64  # of products of warpgroups, and in tensor memory


@dataclasses.dataclass(frozen=True)
class Product:
    """The tensor work of one step of one block: flops, bytes of operands read, and the type that decides the peak."""

    element: str
    flops: int
    bytes: int
    m: int
    n: int
    k: int


def widths(instructions: list[Instruction]) -> str:
    """How many global accesses of which width, as "LDG 8x128 STG 32x32"."""
    count: dict[str, Counter[int]] = {}
    for i in instructions:
        if i.kind in ("global_load", "global_store", "async_copy"):
            count.setdefault(i.base, Counter())[i.bits] += 1
        elif i.kind == "bulk_copy" or i.base in ("UTMASTG", "UTMAREDG", "UBLKRED"):
            count.setdefault(i.base, Counter())[0] += 1
    return " ".join(
        f"{base} " + "+".join(f"{n}x{bits}" if bits else str(n) for bits, n in sorted(found.items()))
        for base, found in sorted(count.items())
    )


def hottest(code: Code) -> Loop | None:
    """The innermost loop with the most tensor work, else multiply-adds, else global traffic; None without loops."""

    def rank(loop: Loop) -> tuple[bool, int]:
        body = code.of_loop(loop)
        return _has_copies(body), -len(body)

    for weight in (_tensor_work, _scalar_work, _traffic):
        best, most = None, 0
        for loop in code.loops:
            if any(weight(code.of_loop(other)) for other in code.loops if other.blocks < loop.blocks):
                continue
            found = weight(code.of_loop(loop))
            if found > most or best and found == most and rank(best) < rank(loop):
                best, most = loop, found
        if best is not None:
            return best
    return None


def _tensor_work(instructions: list[Instruction]) -> int:
    return sum(flops(i) for i in instructions if is_tensor(i.base))


def _scalar_work(instructions: list[Instruction]) -> int:
    return sum(flops(i) for i in instructions if i.base in sass.SCALAR)


def _traffic(instructions: list[Instruction]) -> int:
    return sum(i.bits for i in instructions if i.kind in ("global_load", "global_store", "async_copy"))


def element_of(i: Instruction, default: str) -> str:
    """The type whose peak an instruction has."""
    if "TF32" in i.modifiers:
        return "tf32"
    if i.base in ("UTCHMMA", "HMMA", "HGMMA"):
        return default if i.base == "UTCHMMA" and default == "tf32" else "f16"
    return {"Q": "e4m3", "I": "i8", "D": "f64", "F": "f32"}.get(i.base.removeprefix("UTC")[0], default)


def _tcgen05_steps(work: Product, count: int) -> float:
    """Steps that so many tcgen05.mma make, each of at most 128 x 256 and 32 bytes of K."""
    deep = {"f64": 4, "f32": 8, "tf32": 8, "f16": 16, "bf16": 16}.get(work.element, 32)

    def one(m: int, n: int, k: int) -> int:
        return -(-m // 128) * -(-n // 256) * -(-k // deep)

    if work.flops > 2 * work.m * work.n * work.k:  # attention: n keys, then k columns of values
        return count / (one(work.m, work.n, work.k) + one(work.m, work.k, work.n))
    return count / one(work.m, work.n, work.k)


def _copied_flops(work: Product) -> tuple[int, int] | None:
    """Flops of a step of attention of few rows whose scores multiply as 64 rows, and tcgen05.mma of it, sums transposed; None of
    any other work."""
    m, n, k = work.m, work.n, work.k
    if m >= LEAST_ROWS or work.flops <= 2 * m * n * k:
        return None
    deep = work.flops // (2 * m * n) - k  # columns of queries, those of positions as well
    return 2 * n * (LEAST_ROWS * deep + m * k), -(-deep // 16) + -(-k // 128) * -(-n // 16)


def tensor_row(code: Code, work: Product | None, threads: int, blocks: int, shared: int, gpu: int) -> Row:
    loop = hottest(code)
    inside = code.of_loop(loop) if loop else code.straight()
    if loop and work:
        inside = _whole_step(code, loop, work, threads)
    beside = [code.of_loop(other) for other in code.loops if loop and not other.blocks & loop.blocks]
    roles = not _has_copies(inside) and any(_has_copies(other) for other in beside)
    tensor = [i for i in inside if is_tensor(i.base)]
    scalar = [] if tensor else [i for i in inside if i.base in sass.SCALAR]
    single = any(i.base in sass.TENSOR_MEMORY for i in tensor)
    warps = 1 if single else max(4, threads // 32 - 4) if roles else threads // 32
    if loop and work and roles and not single:
        partners = _agents_of_a_step(code, loop, inside, work, warps)
        if partners:
            inside = [i for part in (inside, *partners) for i in part]
            tensor = [i for i in inside if is_tensor(i.base)]
            warps //= 1 + len(partners)
    row: Row = {
        "hot": len(inside), "loop": loop is not None, "warps": warps, "roles": roles,
        "bar": sum(i.kind == "barrier" for i in inside),
        "sts": sum(i.kind == "shared_store" for i in inside),
        "lds": sum(i.kind == "shared_load" for i in inside),
        "hot_global": widths(inside), "mma": len(tensor), "mma_kind": "+".join(sorted({i.base for i in tensor or scalar})),
        "issued": len(inside) * warps,
    }  # fmt: skip
    if work is None:
        unit = sum(flops(i) * warps for i in inside if is_tensor(i.base)) // 4096
        unit = unit or sum(i.bits // 8 * threads for i in inside if i.kind in ("global_load", "global_store"))
        return {**row, "unit": unit or 1}
    element = "f16" if work.element == "bf16" else work.element
    done: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    for i in tensor or scalar:
        which = "group" if "GMMA" in i.base else "mma" if tensor else "fma" if "FMA" in i.base else "unfused"
        if i.base == "DMMA":
            which = "only"  # f64 has no faster instruction on any target: its peak is that of mma.sync
        done[which] += flops(i) * (warps // 4 if which == "group" else warps)
        kinds[which] = element_of(i, element)
    steps = sum(done.values()) / work.flops
    if single:
        steps = _tcgen05_steps(work, len(tensor))
        done, kinds = Counter(group=int(steps * work.flops)), {"group": element_of(tensor[0], element)}
    copied = _copied_flops(work)
    if copied is not None and done["group"]:
        whole = len(tensor) / copied[1] if single else sum(done.values()) / copied[0]
        if whole > 0.99 and abs(whole - round(whole)) < 0.01:
            steps = round(whole)
            done["group"] = steps * copied[0]
    issued = len(inside) * warps
    if single:
        readers = [
            other for other in code.loops if any(i.base in ("LDTM", "STTM") for i in code.of_loop(other))
        ]
        readers = [r for r in readers if not any(o.blocks < r.blocks for o in readers)]
        if loop:  # a loop around the hot one reads once a tile, not once a pass
            readers = [r for r in readers if not loop.blocks < r.blocks]
        read = sum(len(code.of_loop(r)) for r in readers) / max(1, len(readers))
        if loop in readers:  # all warps do everything
            issued = int(read * threads // 32)
        else:  # the warps that read tensor memory work beside the one that issues
            issued += int(read * max(4, threads // 32 - 4))
    waves = float(sum(sass.wavefronts(i) for i in inside) * warps)
    if roles and not single:
        more, written = _copied_beside(beside, threads // 32 - warps, steps * work.bytes)
        issued, waves = issued + round(more), waves + written
    fed, flying = _feeding(code, inside, roles, work, threads, shared, steps)
    found = terms(GPUS[gpu], Pass(
        work.element, {k: float(v) for k, v in done.items()}, kinds, issued, len(tensor or scalar) * warps,
        waves, steps * work.bytes, int(row["bar"]), fed, steps * work.flops if copied is not None else 0.0,
    ), blocks) if done else None  # fmt: skip
    row |= {"issued": issued, "unit": steps or 1, "steps": round(steps, 3), "fed": fed, "in_flight": flying}
    row["own_flops"] = round(_own_flops(done, gpu), 3)
    copying = [
        (inside, warps),
        *((other, threads // 32 - warps) for other in beside if roles and _has_copies(other)),
    ]
    row["own_bytes"] = round(_own_bytes(copying, steps * work.bytes), 3)
    if found:
        mmas = sum(done.values()) / 4096
        row["other_per_mma"] = round((issued - len(tensor or scalar) * warps) / mmas, 2)
        row["share"] = round(found.share, 4)
        row["terms"] = {name: round(getattr(found, name)) for name in ("P", "T", "I", "other_I", "S", "L")}
        row["bound"] = found.bound if fed else "latency"
    return row


def _own_flops(done: Counter[str], gpu: int) -> float:
    """The share of a loop's flops in the target's own tensor instructions: a warpgroup's on sm_90, those of tensor memory on
    sm_100, elsewhere a warp's; of f64, which has one instruction on all of them, that."""
    own = done["only"] + done["group" if 90 <= gpu < 120 else "mma"]
    return own / max(1, sum(done.values()))


def _own_bytes(loops: list[tuple[list[Instruction], int]], needed: float) -> float:
    """The share of what loops with so many warps read from memory that asynchronous copies bring, by threads or in bulk (whose
    sizes no code shows: of the bytes that a pass needs, those that no load brings)."""
    loads = copies = 0
    for body, warps in loops:
        loads += sum(i.bits // 8 * 32 * warps for i in body if i.kind == "global_load")
        copies += sum(i.bits // 8 * 32 * warps for i in body if i.kind == "async_copy")
    if any(i.kind == "bulk_copy" for body, _ in loops for i in body):
        return max(0.0, 1 - loads / max(1.0, needed))
    return copies / max(1, loads + copies)


def _whole_step(code: Code, loop: Loop, work: Product, threads: int) -> list[Instruction]:
    """A pass of the hot loop; where that only multiplies what the loop around it has loaded, a pass of that one.

    Its inner passes are as many as make one step, each of them written out.
    """
    inside = code.of_loop(loop)
    around = [o for o in code.loops if loop.blocks < o.blocks]
    if not around or _polls(inside) or any(i.kind in (*COPIES, "global_load") for i in inside):
        return inside
    outer = around[0]
    own = [n for n in sorted(outer.work) if n not in loop.blocks]
    if not any(i.kind in (*COPIES, "global_load") for n in own for i in code.of_block(n)):
        return inside
    mine = [i for n in own for i in code.of_block(n)]
    weight = _tensor_work if _tensor_work(inside) else _scalar_work
    rest = work.flops / (threads // 32) - weight(mine)
    passes = max(1, round(rest / weight(inside)))
    before = [i for n in own if n < loop.header for i in code.of_block(n)]
    after = [i for n in own if n > loop.header for i in code.of_block(n)]
    return before + inside * passes + after


def _agents_of_a_step(
    code: Code, loop: Loop, inside: list[Instruction], work: Product, warps: int
) -> list[list[Instruction]]:
    """The loops of other warps that make a step together with the hot loop, as where some compute scores and others add up: the
    hot loop alone would make no whole steps, and all of them do, each run by its share of the warps."""

    def whole(instructions: list[Instruction], warps: int) -> bool:
        groups = [
            flops(i) * (warps // 4 if "GMMA" in i.base else warps) for i in instructions if is_tensor(i.base)
        ]
        steps = sum(groups) / work.flops
        return steps > 0.99 and abs(steps - round(steps)) < 0.01

    if whole(inside, warps):
        return []
    parts: list[list[Instruction]] = []
    for other in sorted(code.loops, key=lambda o: -_tensor_work(code.of_loop(o))):
        mine = code.of_loop(other)
        inner = [o for o in code.loops if o.blocks < other.blocks]
        if (
            other.blocks & loop.blocks
            or not _tensor_work(mine)
            or any(_tensor_work(code.of_loop(o)) for o in inner)
        ):
            continue
        parts.append(mine)
        each = warps // (1 + len(parts))
        if each >= 4 and whole([i for part in (inside, *parts) for i in part], each):
            return parts
    return []


def _polls(instructions: list[Instruction]) -> bool:
    """Whether stages are waited for: somebody fills them."""
    return any(i.base == "SYNCS" and "PHASECHK" in i.modifiers for i in instructions)


def _has_copies(instructions: list[Instruction]) -> bool:
    return any(i.kind in COPIES for i in instructions)


def _copied_beside(loops: list[list[Instruction]], warps: int, bytes: float) -> tuple[float, float]:
    """(instructions x warps, wavefronts) of warps that copy so many bytes by threads, in a loop of their own. One thread that
    asks for bulk copies is not counted, nor what threads copy beside it: how many bytes those are cannot be read."""
    if any(i.kind == "bulk_copy" for loop in loops for i in loop):
        return 0.0, 0.0
    best = max(loops, key=lambda loop: sum(i.kind == "async_copy" for i in loop))
    once = sum(i.bits // 8 * 32 * warps for i in best if i.kind == "async_copy")
    if not once:
        return 0.0, 0.0
    passes = bytes / once
    return passes * len(best) * warps, passes * sum(sass.wavefronts(i) for i in best) * warps


def _copies_wait(code: Code, inside: list[Instruction]) -> bool:
    """Whether copies of the next step begin only when what this one acquires is there: no product stands between an acquire
    (which ends by invalidating the first-level cache) and the copies behind it, or who copies waits for an mbarrier on which
    another loop with an acquire arrives behind it."""
    if _has_copies(inside):
        acquired = False
        for i in inside:
            if is_tensor(i.base):
                acquired = False
            acquired = acquired or _acquires(i)
            if i.kind in COPIES and not acquired:
                return False
        return acquired
    handed: list[tuple[Loop, set[str]]] = []
    for loop in code.loops:
        mine = code.of_loop(loop)
        last = max((n for n, i in enumerate(mine) if _acquires(i)), default=len(mine))
        handed.append(
            (loop, {_place(i) for i in mine[last:] if i.base == "SYNCS" and "ARRIVE" in i.modifiers})
        )
    for loop in code.loops:
        mine = code.of_loop(loop)
        first = next((n for n, i in enumerate(mine) if i.kind in COPIES), 0)
        asked = {_place(i) for i in mine[:first] if i.base == "SYNCS" and "PHASECHK" in i.modifiers}
        if any(asked & places for other, places in handed if not other.blocks & loop.blocks):
            return True
    return False


def _acquires(i: Instruction) -> bool:
    return i.base == "CCTL" and "IVALL" in i.modifiers


def _place(i: Instruction) -> str:
    """The offset of an mbarrier: code of different agents has its base in different registers."""
    found = re.search(r"\[[^]]*?(0x[0-9a-f]+)\]", i.operands)
    return found[1] if found else ""


def _feeding(
    code: Code,
    inside: list[Instruction],
    roles: bool,
    work: Product,
    threads: int,
    shared: int,
    steps: float,
) -> tuple[bool, int]:
    """(whether copies of later steps are under way in each pass, their bytes for one block), as the code shows it."""
    copies = [i for i in inside if i.kind == "async_copy"]
    polled = _polls(inside)
    arrives = polled and (roles or _has_copies(inside))
    if arrives and _copies_wait(code, inside):
        return False, 0
    if arrives:
        step = int(work.bytes * min(1.0, steps)) or 1  # a pass may take a part of the source's step
        stages = shared // step
        if stages >= 2:
            return True, (stages - 1) * step
    waits = [
        int(i.operands.split(",")[1], 0)  # behind it may stand a set of other scoreboards: SB0, 0x1, {2}
        for i in inside
        if i.base == "DEPBAR" and i.operands.startswith("SB0")
    ]
    if copies and waits:
        groups = max(1, sum(i.base == "LDGDEPBAR" for i in inside))
        return min(waits) >= 1, min(waits) * sum(i.bits // 8 for i in copies) * threads // groups
    return False, 0 if arrives else loads_in_flight(inside) * threads
