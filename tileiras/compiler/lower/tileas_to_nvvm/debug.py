"""Source positions for the debugger and the profiler: `.loc` lines and the tables behind them.

A position that was inlined is written from the outside in: first each call site, then the position with the name
of its function and where it was inlined (ptxas joins them into the inline chain that nvdisasm shows). The name is
the linkage name of the position's subprogram, as for C++. Positions without a subprogram, as text input has them,
are plain lines. Nothing here runs without `--lineinfo` or `-g`.
"""

from __future__ import annotations

from tileiras.compiler.ir.debug import subprogram_of
from tileiras.compiler.nvvm.code import DebugFunction, DebugTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.nvvm.build import Builder
    from tileiras.compiler.nvvm.code import Function
    from tileiras.diag import Loc


def source_path(loc: Loc) -> str:
    """The file of a position as the debug information says it: a bare name is completed by its directory."""
    if not loc.file.startswith("/"):
        unit = subprogram_of(loc.scope)
        file = getattr(unit, "file", None)
        if file is not None and file.directory and file.name == loc.file:
            return f"{file.directory.rstrip('/')}/{file.name}"
    return loc.file


class Positions:
    """The `.loc` lines of one function."""

    __slots__ = ("_last", "_places", "_record", "_said", "table")

    def __init__(self, table: DebugTable) -> None:
        self.table = table
        self._places: dict[Loc, tuple[tuple[int, ...], ...]] = {}
        self._said: set[tuple[int, ...]] = set()  # call sites this function has mentioned
        self._last: tuple[int, ...] = ()
        self._record: Any = None

    def begin(self, fn: Function, op: Op, b: Builder) -> None:
        """Describe the function and give its prologue the position of its head."""
        loc = op.loc
        unit = subprogram_of(loc.scope)
        path = source_path(loc) or getattr(unit, "linkage_name", "") or fn.name
        line = getattr(unit, "line", 0) or loc.line
        file = self.table.file(path)
        name, linkage_name = getattr(unit, "name", fn.name), getattr(unit, "linkage_name", fn.name)
        self.table.functions.append(DebugFunction(fn.name, name, linkage_name, file, line))
        if line:
            b.prologue.append(("loc", None, ((file, line, 0),), None))

    def mark(self, loc: Loc, code: list[Any]) -> None:
        """Append the lines of a position, unless it is the one in force."""
        lines = self._places.get(loc)
        if lines is None:
            lines = self._places[loc] = self._spell(loc)
        if not lines or lines[-1] == self._last:
            return
        self._last = lines[-1]
        if code and code[-1] is self._record:  # no instruction was emitted there
            code.pop()
        for line in lines[:-1]:
            if line not in self._said:
                self._said.add(line)
                code.append(("loc", None, (line,), None))
        self._record = ("loc", None, (lines[-1],), None)
        code.append(self._record)

    def _spell(self, loc: Loc) -> tuple[tuple[int, ...], ...]:
        if not loc.file or not loc.line:
            return ()
        lines: list[tuple[int, ...]] = []
        outer: tuple[int, ...] = ()
        for frame in reversed((loc, *loc.callers)):
            unit = subprogram_of(frame.scope)
            if loc.callers and unit is None or not frame.file:
                return (self._place(loc),)
            line = place = self._place(frame)
            if outer:
                label = self.table.name(
                    unit.linkage_name, unit.name, self.table.file(source_path(frame)), unit.line
                )  # type: ignore[union-attr]
                line = (*place, label, *outer)
            lines.append(line)
            outer = place
        return tuple(lines)

    def _place(self, loc: Loc) -> tuple[int, ...]:
        return (self.table.file(source_path(loc)), loc.line, loc.col)
