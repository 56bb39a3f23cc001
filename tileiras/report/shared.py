"""Shared memory for a report: buffers with their lives, and every access of a warp with the banks that it asks.

Banks are counted for one warp and one access: 32 lanes in phases of 128 bytes; a bank that is asked for n words in a
phase takes n wavefronts.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import span_of
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.shared import matrix_load
from tileiras.compiler.lower.tileas_to_nvvm.state import elem_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .levels import Printed

BANKS = 32
COPIES = ("async.copy_view", "async.copy_pointers")
STAGE_ALIGNMENT = 1024


def wavefronts(addresses: Sequence[int], width: int) -> tuple[int, int, list[int]]:
    """(wavefronts, least, words asked of each bank in its worst phase) of lanes at byte addresses, `width` bytes each."""
    whole = {(a + k) // 4 for a in addresses for k in range(0, max(width, 1), 4)}
    together = len({word % BANKS for word in whole}) == len(whole)  # a word of each bank: at once
    lanes = len(addresses) if together else max(1, min(len(addresses), 128 // max(4, width)))
    total = least = 0
    worst = [0] * BANKS
    for start in range(0, len(addresses), lanes):
        words = {(a + k) // 4 for a in addresses[start : start + lanes] for k in range(0, max(width, 1), 4)}
        asked = [0] * BANKS
        for word in words:
            asked[word % BANKS] += 1
        total += max(asked)
        least += -(-len(words) // BANKS)
        worst = [max(a, b) for a, b in zip(worst, asked)]
    return total, least, worst


def _lanes(columns: Sequence[int], lane: Sequence[int], start: int = 0) -> list[int]:
    """Byte addresses of the 32 lanes of warp 0."""
    steps = [apply(columns, c) for c in lane]
    out = []
    for number in range(32):
        at = 0
        for bit, step in enumerate(steps):
            if number >> bit & 1:
                at ^= step
        out.append(start + at)
    return out


def copied_bytes(op: Op) -> int:
    """Bytes of the tile that an asynchronous copy brings."""
    if op.spec.name == "async.copy_view":
        view: Any = op.operand("view").type  # type: ignore[union-attr]
        return int(num_elements(view.tile) * elem_bytes(view.view.elem))
    pointers: Any = op.operand("source").type  # type: ignore[union-attr]
    return int(num_elements(pointers.shape) * elem_bytes(pointers.elem.pointee))


def access(op: Op, line: int, role: str, what: str, addresses: list[int], width: int) -> dict[str, Any]:
    waves, least, banks = wavefronts(addresses, width)
    return {
        "line": line, "op": op.spec.name, "role": role, "what": what, "width": width, "wavefronts": waves,
        "least": least, "banks": banks, "fixed": False,
    }  # fmt: skip


def accesses(printed: Printed) -> list[dict[str, Any]]:
    """Every kind of access to shared memory, in the order of the code."""
    out = []
    for op, line in sorted(printed.line_of.items(), key=lambda item: item[1]):
        name = op.spec.name
        if name in COPIES:
            layout, columns = op.attrs["layout"], op.attrs["arrangement"]
            lanes = _lanes(columns, layout.lane, op.attr("start"))
            what = "asynchronous copy"
            if _scales(op):
                what += " of block scales, in the order that the tensor cores take"
            out.append({**access(op, line, "write", what, lanes, op.attr("width")), "fixed": _scales(op)})
        elif name == "load_shared":
            out += _loads(op, line)
        elif name == "store_shared" and "arrangement" in op.attrs:
            type: Any = op.operands[2].type
            columns, size = op.attrs["arrangement"], elem_bytes(type.elem)
            lanes = _lanes(columns, type.layout.lane, op.attr("start"))
            out.append(access(op, line, "write", "store", lanes, _run(columns, type.layout.reg, size)))
        elif name == "convert_layout" and "columns" in op.attrs:
            types: Any = op.operands[0].type, op.result.type
            out += _conversion(op, line, types, op.attrs["columns"], op.attrs.get("vectors", (0, 0)))
        elif name == "convert_layouts":
            columns, vectors = op.attrs["columns"], op.attrs["vectors"]
            for n, value in enumerate(op.operands):
                types = value.type, op.results[n].type
                bits = types[0].layout.bits
                out += _conversion(op, line, types, columns[:bits], vectors[2 * n : 2 * n + 2])
                columns = columns[bits:]
    return out


def _scales(copy: Op) -> bool:
    """Whether a copy brings block scales of a product, whose order is the hardware's."""
    return any(
        user.spec.name == "tensor_memory.product_scaled" and copy.attr("start") in (user.attr("sa_start"), user.attr("sb_start"))
        for user, _ in copy.operands[0].uses
    )  # fmt: skip


def _loads(op: Op, line: int) -> list[dict[str, Any]]:
    type: Any = op.result.type
    columns = op.attrs.get("arrangement")
    layout = getattr(type, "layout", None)
    if columns is None or layout is None:
        return []
    size = elem_bytes(type.elem)
    matrix = matrix_load(columns, layout, size)
    start = op.attr("start")
    if matrix is not None:
        rows = [start + apply(columns, apply(matrix.rows, n)) for n in range(8)]
        return [access(op, line, "read", "ldmatrix, 8 rows of a matrix", rows, 16)]
    vec = _run(columns, layout.reg, size)
    return [access(op, line, "read", "load", _lanes(columns, layout.lane, start), vec)]


def _run(columns: Sequence[int], regs: Sequence[int], size: int) -> int:
    """Bytes that a thread's registers hold side by side, at most 16."""
    steps = {apply(columns, c) for c in regs}
    width = size
    while width < 16 and width in steps:
        width *= 2
    return width


def _conversion(
    op: Op, line: int, types: tuple[Any, Any], columns: tuple[int, ...], vectors: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Both sides of a tile's way from one layout to another through shared memory, as the plan says."""
    source, target = types
    size = elem_bytes(source.elem)
    masked = source.layout.inv | sum(op.attrs.get("rounds", ()))
    keep = (1 << len(columns)) - 1 & ~masked
    store = _lanes(columns, [c & keep for c in source.layout.lane])
    what = "layout conversion"
    out = [access(op, line, "write", what, store, size << vectors[0])]
    if op.attrs.get("plan") == "ldmatrix":
        rows = [apply(columns, apply(op.attrs["rows"], n)) for n in range(8)]
        out.append(access(op, line, "read", f"{what}: ldmatrix, 8 rows of a matrix", rows, 16))
    else:
        load = _lanes(columns, [c & keep for c in target.layout.lane])
        out.append(access(op, line, "read", what, load, size << vectors[1]))
    return out


def buffers(printed: Printed, function: Op) -> list[dict[str, Any]]:
    """Pieces of shared memory of a kernel: offset and bytes, from which line to which they are held, stages of a ring."""
    out = []
    last = max((printed.line_of.get(op, 0) for op in function.walk()), default=0)
    for op in function.walk():
        line = printed.line_of.get(op, -1)
        if op.spec.name == "alloc_shared":
            free = next((user for user, _ in op.result.uses if user.spec.name == "free_shared"), None)
            stage, members = stage_of(op, printed)
            size = op.attr("bytes")
            begin = next((user for user, _ in op.result.uses if user.spec.name == "bulk.begin"), None)
            stages = stages_of(begin, size, stage)
            held = {
                "name": printed.names.get(op.result, ""), "line": line,
                # agents stand behind each other, and run at once
                "end": max(printed.line_of.get(user, 0) for user, _ in op.result.uses) if free is not None else last,
            }  # fmt: skip
            ring = size if begin is None else stages * int(begin.attr("stage_bytes"))
            out.append({
                **held, "offset": op.attr("offset"), "bytes": ring, "stages": stages, "stage_bytes": ring // stages,
                "members": members, "what": "ring of stages" if stages > 1 else "buffer",
            })  # fmt: skip
            if begin is not None:
                start, end = mbarriers(begin)
                out.append({
                    **held, "offset": op.attr("offset") + start, "bytes": end - start, "stages": 1,
                    "stage_bytes": end - start, "members": [], "what": "mbarriers of the ring",
                })  # fmt: skip
        elif "scratch" in op.attrs:
            offset, size = op.attrs["scratch"]
            out.append({
                "name": printed.names.get(op.results[0], op.spec.name) if op.results else op.spec.name, "line": line,
                "end": line, "offset": offset, "bytes": size, "stages": 1, "stage_bytes": size, "members": [],
                "what": "scratch",
            })  # fmt: skip
    return out


def mbarriers(begin: Op) -> tuple[int, int]:
    """Where the mbarriers of a ring begin and end, from its first byte: behind it, or in front where tensor memory's are."""
    starts = [int(first) for first in (begin.attr("barriers"), begin.attr("released")) if first is not None]
    return min(starts), max(starts) + span_of(begin.attr("stage_bytes"), begin.attr("stages"))


def stages_of(begin: Op | None, size: int, stage: int) -> int:
    """Stages of a ring, behind which the mbarriers lie that `begin` makes."""
    if begin is not None:
        return int(begin.attr("stages"))
    return size // stage if stage and size % stage == 0 else 1


def stage_of(alloc: Op, printed: Printed) -> tuple[int, list[dict[str, Any]]]:
    """(bytes of a stage of a ring, tiles that lie in it) by the copies that fill a buffer; 0 where none does."""
    members: dict[int, dict[str, Any]] = {}
    for user, _ in alloc.result.uses:
        if user.spec.name == "bulk.load":
            for start, size in zip(user.attr("starts"), user.attr("bytes")):
                line = printed.line_of.get(user, -1)
                members.setdefault(start, {"start": start, "bytes": size, "line": line})
            continue
        if user.spec.name not in COPIES:
            continue
        size = copied_bytes(user)
        size >>= bin(user.attrs.get("part_mask", 0)).count("1")  # of a queue, whose slots hold parts
        members.setdefault(
            user.attr("start"),
            {"start": user.attr("start"), "bytes": size, "line": printed.line_of.get(user, -1)},
        )
    end = max((m["start"] + m["bytes"] for m in members.values()), default=0)
    return -(-end // STAGE_ALIGNMENT) * STAGE_ALIGNMENT, [members[k] for k in sorted(members)]
