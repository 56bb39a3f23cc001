"""Barriers and waits of the generated code: who waits there, for what, and who reads it afterwards."""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = (
    ("cp.async.wait_group", "copies"), ("cp.async.wait_all", "copies"), ("bar.sync", "barrier"), ("barrier.", "barrier"),
    ("wgmma.wait_group", "products"), ("mbarrier.try_wait", "phase"), ("mbarrier.test_wait", "phase"),
    ("tcgen05.wait", "tensor memory"), ("cp.async.bulk.wait_group", "bulk copies"),
)  # fmt: skip
WRITES = (
    "st.shared",
    "stmatrix",
    "cp.async.ca.shared",
    "cp.async.cg.shared",
    "cp.async.bulk",
    "atom.shared",
    "red.shared",
)
READS = ("ld.shared", "ldmatrix", "wgmma.mma_async", "tcgen05.mma", "atom.shared")

POLLING = 8  # records of a loop that only asks for a phase again


def kind_of(opcode: str) -> str:
    return next((kind for start, kind in KINDS if opcode.startswith(start)), "")


def rows(
    records: list[tuple[Any, int, Any]], line_of: Any, loops: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    """One row a barrier or wait of one kernel. `records`: (function, PTX line, record); `line_of(record)`: its line of
    nv_tileas; `loops`: (first, last) record of each loop."""
    code = [record for _, _, record in records]
    opcodes = ["" if record.__class__ is Label else record[0] for record in code]
    syncs = [at for at, opcode in enumerate(opcodes) if kind_of(opcode)]
    out: list[dict[str, Any]] = []
    for at in syncs:
        opcode = opcodes[at]
        kind = kind_of(opcode)
        inside = [loop for loop in loops if loop[0] <= at <= loop[1] and loop[1] - loop[0] > POLLING]
        around = min(inside, key=lambda loop: loop[1] - loop[0]) if inside else (0, len(code) - 1)
        writers = _lines(code, opcodes, line_of, _back(at, around, bool(inside)), WRITES)
        readers = _lines(code, opcodes, line_of, _on(at, around, bool(inside)), READS)
        # a barrier also keeps writers from what others still read
        read = (
            _lines(code, opcodes, line_of, _back(at, around, bool(inside)), READS)
            if kind == "barrier"
            else []
        )
        write = (
            _lines(code, opcodes, line_of, _on(at, around, bool(inside)), WRITES) if kind == "barrier" else []
        )
        srcs = code[at][2]
        pending = next((s for s in srcs if isinstance(s, int)), None)
        if kind == "products":
            writers = _lines(
                code, opcodes, line_of, _back(at, around, bool(inside)), ("wgmma.mma_async",), True
            )
        elif kind == "copies":
            writers = _lines(
                code, opcodes, line_of, _back(at, around, bool(inside)), ("cp.async.ca", "cp.async.cg"), True
            )
        elif kind == "tensor memory":
            made: tuple[str, ...] = ("tcgen05.ld",) if "::ld" in opcode else ("tcgen05.st",)
            writers = _lines(code, opcodes, line_of, _back(at, around, bool(inside)), made, True)
        elif kind == "phase":
            made = ("tcgen05.mma", "cp.async.bulk", "cp.async.mbarrier", "tcgen05.cp")
            writers = _lines(code, opcodes, line_of, _back(at, around, bool(inside)), made, True)
        out.append({
            "ptx": records[at][1], "line": line_of(code[at]), "kind": kind, "instruction": opcode, "loop": bool(inside),
            "pending": pending if kind in ("copies", "products") else None, "for": writers, "then": readers,
            "read": read, "write": write,
        })  # fmt: skip
    return out


def _back(at: int, around: tuple[int, int], wraps: bool) -> list[int]:
    """Records before `at`, nearest first, and then those that the end of the loop brings back."""
    before = list(range(at - 1, around[0] - 1, -1))
    return before + list(range(around[1], at, -1)) if wraps else before


def _on(at: int, around: tuple[int, int], wraps: bool) -> list[int]:
    behind = list(range(at + 1, around[1] + 1))
    return behind + list(range(around[0], at)) if wraps else behind


def _lines(
    code: list[Any],
    opcodes: list[str],
    line_of: Any,
    order: list[int],
    which: tuple[str, ...],
    through: bool = False,
) -> list[int]:
    """Lines of the ops nearest to a wait whose instructions begin so, up to the next barrier on the way."""
    found: list[int] = []
    for at in order:
        if opcodes[at].startswith(which):
            line = line_of(code[at])
            if line >= 0 and line not in found:
                found.append(line)
        elif not through and kind_of(opcodes[at]) == "barrier":
            break
        if len(found) >= 4:
            break
    return found
