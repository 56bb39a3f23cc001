"""Tensor memory for a report: which columns of its 128 lanes hold what, from which line to which."""

from __future__ import annotations

from tileiras.compiler.target import tcgen05

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .levels import Printed

PRODUCTS = "tensor_memory.product"


def allocation(printed: Printed, function: Op) -> list[dict[str, Any]]:
    """One row an allocation of a kernel: its columns and lines, and the regions in it."""
    last = max((printed.line_of.get(op, 0) for op in function.walk()), default=0)
    out = []
    for op in function.walk():
        if op.spec.name == "tensor_memory.alloc":
            first, end = _span(printed, op.result, "tensor_memory.free", last)
            regions = _regions(printed, op.result, last)
            end = max([end, *(region["end"] for region in regions)])
            out.append({
                "first": first, "last": end, "columns": op.attr("columns"), "of": tcgen05.COLUMNS, "lanes": tcgen05.LANES,
                "regions": regions,
            })  # fmt: skip
    return out


def users_of(value: Value) -> list[Op]:
    """What works on an accumulator, also through the buffer whose turn it is."""
    out = []
    for user, _ in value.uses:
        out.append(user)
        if user.spec.name == "tensor_memory.turn":
            out += users_of(user.result)
    return out


def accumulator_of(op: Op) -> Value:
    """The accumulator that an op works on, whichever of its buffers has its turn."""
    value = op.operands[0]
    while value.op is not None and value.op.spec.name == "tensor_memory.turn":
        value = value.op.operands[0]
    return value


def _span(printed: Printed, value: Value, ending: str, last: int) -> tuple[int, int]:
    assert value.op is not None
    ends = [
        printed.line_of.get(user, last) for user in users_of(value)
    ]  # agents stand behind each other, and run at once
    ended = any(user.spec.name == ending for user in users_of(value))
    return printed.line_of.get(value.op, -1), max(ends) if ended and ends else last


def _region(
    name: str, line: int, end: int, at: int, columns: int, lanes: int, what: str, by: list[int]
) -> dict[str, Any]:
    return {
        "name": name, "line": line, "end": end, "column": at, "columns": columns, "lanes": lanes, "what": what, "by": by,
    }  # fmt: skip


def _regions(printed: Printed, memory: Value, last: int) -> list[dict[str, Any]]:
    out = []
    for user, _ in memory.uses:
        line, name = printed.line_of.get(user, -1), user.spec.name
        if name == "tensor_memory.begin":
            working = users_of(user.result)
            products = [op for op in working if op.spec.name.startswith(PRODUCTS)]
            turns = [op for op in working if op.spec.name == "tensor_memory.turn"]
            if not products:
                continue
            first, end = _span(printed, user.result, "tensor_memory.end", last)
            m, n = products[0].attr("m"), products[0].attr("n")
            if turns:
                end = max(printed.line_of.get(op, end) for op in working)
            buffers, stride = (turns[0].attr("buffers"), turns[0].attr("stride")) if turns else (1, 0)
            for turn in range(buffers):
                of = f", of every {('even', 'odd')[turn]} tile" if buffers == 2 else ""
                out.append(_region(
                    printed.names.get(user.result, ""), first, end, user.attr("column") + turn * stride,
                    tcgen05.columns_of((m, n)), min(m, tcgen05.LANES), f"sum of {m} x {n}{of}",
                    sorted(printed.line_of.get(op, -1) for op in products),
                ))  # fmt: skip
        elif name == "tensor_memory.store_rows":
            type: Any = user.operands[1].type
            rows, depth = type.shape
            readers = sorted(
                printed.line_of.get(op, -1) for op, _ in memory.uses
                if op.spec.name == "tensor_memory.product_rows" and op.attr("column") == user.attr("column")
            )  # fmt: skip
            columns = (max(1, rows // tcgen05.LANES) - 1) * user.attr("stride") + depth * type.elem.bits // 32
            out.append(_region(
                "", line, max(readers, default=line), user.attr("column"), columns, min(rows, tcgen05.LANES),
                f"left operand, {rows} x {depth} {type.elem}", readers,
            ))  # fmt: skip
        elif name == "tensor_memory.product_scaled":
            blocks = user.attr("depth") // tcgen05.SCALED_BYTES
            blocks *= tcgen05.SCALED[user.attr("elem"), user.attr("scale"), user.attr("block")][2]
            sides = ((user.attr("m"), blocks), (blocks, user.attr("n")))
            taken = sum(tcgen05.scale_columns(shape, which) for which, shape in enumerate(sides))
            for turn in range(2):  # products take turns, so that the copy of one does not wait for the other
                out.append(_region(
                    "", line, line, user.attr("column") + turn * taken, taken, tcgen05.LANES,
                    f"block scales of every {('even', 'odd')[turn]} product", [line],
                ))  # fmt: skip
    return sorted(_merged(out), key=lambda row: (row["column"], row["line"]))


def _merged(regions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The regions, where several ops write the same to the same columns, as the loops of masked and other steps do, in one."""
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in regions:
        kept = out.setdefault((row["name"], row["column"], row["columns"], row["what"]), row)
        if kept is not row:
            kept["line"], kept["end"] = min(kept["line"], row["line"]), max(kept["end"], row["end"])
            kept["by"] = sorted({*kept["by"], *row["by"]})
    return list(out.values())
