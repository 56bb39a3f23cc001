"""The texts that a report shows side by side, line by line: source, cuda_tile, nv_tileas, PTX, SASS.

Every level says for each of its lines which line of the level before it stems from (-1: none), so that any line leads
to its lines on all levels.
"""

from __future__ import annotations

import os

from tileiras.compiler.ir.printer import Printer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .watch import Watch

MOST_LINES = 20_000  # of a level
MOST_COLUMNS = 2_000  # of a line: a constant may be a megabyte
SOURCES = (".py", ".cu", ".cuh", ".cpp", ".cc", ".hpp", ".h", ".jl", ".rs", ".tileir", ".mlir")
MOST_SOURCE_BYTES = 1 << 20
LIBRARY = ("site-packages", "dist-packages", "include")  # folders whose code a kernel's author did not write


class Level:
    """A text: `lines`, and for each line its line on the level before. `cut`: lines that were left out. `places`: runs of
    lines of a file, [line here, file, line there]; the file is "" where lines are none of a file."""

    def __init__(
        self,
        name: str,
        lines: list[str],
        up: list[int],
        cut: int = 0,
        places: list[tuple[int, str, int]] | None = None,
    ) -> None:
        self.name = name
        self.lines = [
            line if len(line) <= MOST_COLUMNS else line[:MOST_COLUMNS] + f" ... ({len(line)} characters)"
            for line in lines
        ]
        self.up = up
        self.cut = cut
        self.places = places

    def data(self) -> dict[str, Any]:
        out = {"lines": self.lines, "up": self.up, "cut": self.cut}
        return out if self.places is None else {**out, "places": self.places}


class _Full(Exception):
    """As many lines were printed as a report shows."""


class LinePrinter(Printer):
    """Prints, and remembers on which line each op begins."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.line_of: dict[Op, int] = {}

    def op(self, op: Op) -> None:
        self.line_of[op] = len(self.lines)
        super().op(op)

    def newline(self) -> None:
        super().newline()
        if len(self.lines) > MOST_LINES:
            raise _Full


class Printed:
    """A module as lines: `line_of` an op, `names` of values."""

    def __init__(self, module: Any, *, aliases: bool = False) -> None:
        version = module.attrs.get("bytecode_version")
        printer = LinePrinter(aliases=aliases, minor=version[1] if isinstance(version, tuple) else 0)
        printer.number(module)
        printer.start()
        self.full = False
        try:
            printer.op(module)
            printer.newline()
        except _Full:
            self.full = True
        head = printer.definitions().splitlines()
        lines = "\n".join(printer.lines).split("\n")
        self.lines = head + lines
        shift = len(head)
        self.line_of = {op: at + shift for op, at in printer.line_of.items() if at < len(lines)}
        self.names = printer.names
        self.op_at = {at: op for op, at in self.line_of.items()}


def source_level(watch: Watch) -> tuple[Level, dict[tuple[str, int], int]]:
    """The source's text, and where (file, line) stands in it. Text input is its own source; bytecode names its files, of
    which only such are shown as are source files by their ending, and only as far as they can be read."""
    lines: list[str] = []
    place: dict[tuple[str, int], int] = {}
    if watch.module is None or not _is_bytecode(watch.data):
        data = watch.data
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        if isinstance(data, bytes) and _is_bytecode(data) or "\0" in text:
            text = ""
        found = text.split("\n")
        while found and not found[-1]:
            found.pop()
        for number, line in enumerate(found[:MOST_LINES], 1):
            place[watch.file, number] = len(lines)
            lines.append(line)
        whole = [(0, os.path.basename(shown(watch.file, watch)), 1)]
        return Level("source", lines, [-1] * len(lines), max(0, len(found) - MOST_LINES), whole), place
    wanted: dict[str, set[int]] = {}
    for op in watch.module.walk():
        path, at = position(op.loc)
        if path and at:
            wanted.setdefault(path, set()).add(at)
    runs: list[tuple[int, str, int]] = []
    for path, used in wanted.items():
        name = os.path.basename(shown(path, watch))
        runs.append((len(lines), "", 0))
        content = read_source(path)
        if content is None:
            lines.append(f"# {shown(path, watch)}: not readable here")
            for number in sorted(used):
                place[path, number] = len(lines)
                runs.append((len(lines), name, number))
                lines.append(f"# line {number}")
            continue
        lines.append(f"# {shown(path, watch)}")
        found = content.split("\n")
        first, last = max(1, min(used) - 30), min(len(found), max(used) + 10)
        if first > 1:
            lines.append(f"# ... from line {first}")
        runs.append((len(lines), name, first))
        for number in range(first, last + 1):
            place[path, number] = len(lines)
            lines.append(found[number - 1])
    cut = max(0, len(lines) - MOST_LINES)
    lines = lines[:MOST_LINES]
    return Level("source", lines, [-1] * len(lines), cut, runs), place


def _is_bytecode(data: bytes | str) -> bool:
    from tileiras.compiler import source

    return isinstance(data, bytes) and not source.looks_like_text(data)


def position(loc: Any) -> tuple[str, int]:
    """(path, line) of a location: where a library was inlined, the line of the kernel's author that called it."""
    from tileiras.compiler.lower.tileas_to_nvvm.debug import source_path

    found = ("", 0)
    for frame in (loc, *loc.callers):
        found = (source_path(frame), frame.line)
        if not any(part in LIBRARY for part in found[0].split("/")):
            break
    return found


def shown(path: str, watch: Watch) -> str:
    """A path as `--file-prefix-map` has it."""
    from tileiras.options import renamed

    pairs = watch.program.options.file_prefix_map if watch.program is not None else ()
    return renamed(path, pairs)


def read_source(path: str) -> str | None:
    """A file that bytecode calls its source: only what has a source's ending, is a file and of a source's size."""
    if not path.endswith(SOURCES):
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MOST_SOURCE_BYTES:
            return None
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except (OSError, ValueError):
        return None


def cuda_tile_level(watch: Watch, place: dict[tuple[str, int], int]) -> tuple[Level, Printed]:
    printed = Printed(watch.module)
    up = [-1] * len(printed.lines)
    for op, at in printed.line_of.items():
        up[at] = place.get(position(op.loc), -1)
    return Level("cuda_tile", printed.lines, up, int(printed.full)), printed


def nv_tileas_level(watch: Watch, above: Printed) -> tuple[Level, Printed]:
    printed = Printed(watch.tree, aliases=True)
    up = [-1] * len(printed.lines)
    for op, at in printed.line_of.items():
        origin = watch.op_of(op.loc)
        if origin is not None:
            up[at] = above.line_of.get(origin, -1)
    return Level(watch.tree.spec.dialect, printed.lines, up, int(printed.full)), printed


def ptx_lines(watch: Watch) -> list[tuple[Any, int, Any]]:
    """(function, line of the text from 0, record) of every record of per-thread code."""
    from tileiras.compiler.ptx.text import lines_of

    text = watch.ptx.split("\n")
    start = {line: at for at, line in enumerate(text) if line.startswith(".visible .entry ")}
    out: list[tuple[Any, int, Any]] = []
    for fn in watch.code.functions if watch.code is not None else ():
        at = start.get(f".visible .entry {fn.name}(", start.get(f".visible .entry {fn.name}()"))
        if at is None:
            continue
        while text[at] != "{":
            at += 1
        at += 1
        while text[at].startswith(("\t.reg ", "\t.shared ", "\t.local ")):
            at += 1
        for record in fn.code:
            if text[at].startswith("$L__func_begin"):
                at += 1
            out.append((fn, at, record))
            at += lines_of(record)
    return out


def ptx_level(watch: Watch, above: Printed | None, records: list[tuple[Any, int, Any]]) -> Level:
    lines = watch.ptx.rstrip("\n").split("\n")
    up = [-1] * len(lines)
    if above is not None:
        for _, at, record in records:
            owner = watch.owners.get(id(record))
            if owner is not None:
                up[at] = above.line_of.get(owner[1], -1)
    return Level("ptx", lines[:MOST_LINES], up[:MOST_LINES], max(0, len(lines) - MOST_LINES))
