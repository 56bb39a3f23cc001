"""Barriers and waits of the generated code: who waits there, for what, and who reads it afterwards."""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Label

from .loops import agent_of
from .tensor_memory import PRODUCTS, accumulator_of, users_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = (
    ("cp.async.wait_group", "copies"), ("cp.async.wait_all", "copies"), ("bar.sync", "barrier"), ("barrier.", "barrier"),
    ("wgmma.wait_group", "products"), ("mbarrier.try_wait", "phase"), ("mbarrier.test_wait", "phase"),
    ("tcgen05.wait", "tensor memory"), ("cp.async.bulk.wait_group", "bulk copies"),
)  # fmt: skip
# What a barrier orders. Asynchronous copies and products are not among it: a wait of their own comes before the barrier.
COPIES = ("cp.async.ca.shared", "cp.async.cg.shared")
WRITES = (
    "st.shared", "stmatrix", "atom.shared", "red.shared", "st.async", "tcgen05.st", "tcgen05.alloc", "mbarrier.init",
)  # fmt: skip
READS = (
    "ld.shared", "ldmatrix", "wgmma.mma_async", "tcgen05.mma", "tcgen05.ld", "tcgen05.cp", "atom.shared", "mbarrier.try_wait",
    "mbarrier.arrive", "mbarrier.inval",
)  # fmt: skip
FILLS = (
    "bulk.load",
    "async.copy_view",
    "async.copy_pointers",
)  # ops that fill a stage whose mbarrier says so

POLLING = 8  # records of a loop that only asks for a phase again


def kind_of(opcode: str) -> str:
    return next((kind for start, kind in KINDS if opcode.startswith(start)), "")


def rows(
    records: list[tuple[Any, int, Any]], owner_of: Any, loops: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    """One row a barrier or wait of one kernel. `records`: (function, PTX line, record); `owner_of(record)`: its op and the
    op's line of nv_tileas; `loops`: (first, last) record of each loop."""
    code = [record for _, _, record in records]
    opcodes = ["" if record.__class__ is Label else record[0] for record in code]
    owners = [owner_of(record) for record in code]
    lines = [line for _, line in owners]
    line_of = {op: line for op, line in owners if op is not None and line >= 0}
    agents = _agents(owners)
    syncs = [at for at, opcode in enumerate(opcodes) if kind_of(opcode)]
    out: list[dict[str, Any]] = []
    for at in syncs:
        opcode, op = opcodes[at], owners[at][0]
        kind = kind_of(opcode)
        inside = [loop for loop in loops if loop[0] <= at <= loop[1] and loop[1] - loop[0] > POLLING]
        around = min(inside, key=lambda loop: loop[1] - loop[0]) if inside else (0, len(code) - 1)
        behind, before = _on(at, around, bool(inside)), _back(at, around, bool(inside))
        if agents[at] is not None:  # its warps run nothing of another agent
            behind, before = ([n for n in order if agents[n] is agents[at]] for order in (behind, before))
        # a barrier also keeps writers from what others still read
        read = _lines(lines, opcodes, before, READS) if kind == "barrier" else []
        write = (
            _lines(lines, opcodes, behind, (*WRITES, *COPIES, "cp.async.bulk")) if kind == "barrier" else []
        )
        srcs = [s for s in code[at][2] if isinstance(s, int)]
        then = _lines(lines, opcodes, behind, READS)
        channel = ""
        if kind == "phase":
            channel, arriving = _arrivals(op)
            writers = sorted(line_of[each] for each in arriving if each in line_of)
            if (
                channel in ("released", "product", "taken")
                and op in line_of
                and op.spec.name != "tensor_memory.wait"
            ):
                then = _held_up(op, line_of)
        elif kind == "barrier":
            writers = _lines(lines, opcodes, before, (*WRITES, *COPIES), landed=False)
        else:
            made = {
                "products": ("wgmma.mma_async",),
                "copies": COPIES,
                "bulk copies": ("cp.async.bulk",),
            }.get(kind, ("tcgen05.ld",) if "::ld" in opcode else ("tcgen05.st",))
            writers = _lines(lines, opcodes, before, made, True)
            if kind == "tensor memory" and op in line_of:
                writers = [line_of[op]]
        out.append({
            "ptx": records[at][1], "line": lines[at], "kind": kind, "instruction": opcode, "loop": bool(inside),
            "pending": srcs[0] if srcs and kind in ("copies", "products") else None, "for": writers, "then": then,
            "read": read, "write": write, "channel": channel,
            "warps": srcs[1] // 32 if kind == "barrier" and len(srcs) > 1 else None,
            "next": next((records[n][1] for n in behind if kind_of(opcodes[n]) == "barrier"), -1),
        })  # fmt: skip
    return out


def _agents(owners: list[tuple[Any, int]]) -> list[Any]:
    """The agent that runs each record; None where all warps do."""
    known: dict[Any, Any] = {None: None}
    for op, _ in owners:
        if op not in known:
            known[op] = agent_of(op)
    return [known[op] for op, _ in owners]


def _arrivals(op: Any) -> tuple[str, list[Any]]:
    """(what completes the phase that an op waits for, the ops that do): copies of a stage, its readers, what warps store, a
    product, or the warps that took its sum."""
    if op is None or not op.operands:
        return "", []
    name = op.spec.name
    users = [user for user, _ in op.operands[0].uses]
    if name == "bulk.wait":
        return "landed", [user for user in users if user.spec.name in FILLS]
    if name in ("bulk.load", "bulk.acquire"):
        return "released", [user for user in users if user.spec.name in ("bulk.release", "bulk.commit")]
    others = users_of(accumulator_of(op))
    if name == "tensor_memory.acquire":
        return "taken", [other for other in others if other.spec.name == "tensor_memory.release"]
    if name == "tensor_memory.wait_stored":
        return "stored", [other for other in others if other.spec.name == "tensor_memory.stored"]
    return "product", [other for other in others if other.spec.name.startswith(PRODUCTS)]


def _held_up(op: Any, line_of: dict[Any, int]) -> list[int]:
    """Lines that go on when a phase is complete, of an op that is in front of others' work or waits before its own: the copies
    into the stage that was released, else the op's own."""
    if op.spec.name == "bulk.acquire":
        behind = op.block.ops[op.block.ops.index(op) + 1 :]
        return [
            line_of[each]
            for each in behind
            if each.spec.name in FILLS and each in line_of and each.operands[0] is op.operands[0]
        ]
    return [line_of[op]]


def _back(at: int, around: tuple[int, int], wraps: bool) -> list[int]:
    """Records before `at`, nearest first, and then those that the end of the loop brings back."""
    before = list(range(at - 1, around[0] - 1, -1))
    return before + list(range(around[1], at, -1)) if wraps else before


def _on(at: int, around: tuple[int, int], wraps: bool) -> list[int]:
    behind = list(range(at + 1, around[1] + 1))
    return behind + list(range(around[0], at)) if wraps else behind


def _lines(
    lines: list[int], opcodes: list[str], order: list[int], which: tuple[str, ...], through: bool = False,
    landed: bool = True,
) -> list[int]:  # fmt: skip
    """Lines of the ops nearest to a wait whose instructions begin so, up to the next barrier on the way. Where `landed` is
    false, copies count only from the wait for them on: a barrier alone says nothing of them."""
    found: list[int] = []
    for at in order:
        opcode = opcodes[at]
        landed = landed or kind_of(opcode) == "copies"
        if opcode.startswith(which) and (landed or not opcode.startswith(COPIES)):
            if lines[at] >= 0 and lines[at] not in found:
                found.append(lines[at])
        elif not through and kind_of(opcode) == "barrier":
            break
        if len(found) >= 4:
            break
    return found
