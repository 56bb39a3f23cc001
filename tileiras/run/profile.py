"""What a launch on the emulator did, by line of the kernel: `Profile`, filled by `launch(..., profile=...)`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.diag import Loc

    from .emulator.meter import Counts

COLUMNS = (
    "line", "warps", "tensor", "shared", "global", "copy", "barrier", "float", "integer", "other", "wavefronts",
    "sectors", "in flight",
)  # fmt: skip


class Profile:
    """Counts of one launch.

    ptx: PTX line -> (instruction, Counts). kernel: position in the kernel's source (None: none known) -> Counts. total:
    all of them. positions: PTX line -> position. What Counts holds is told at `tileiras.run.emulator.Counts`.
    """

    def __init__(self) -> None:
        self.ptx: dict[int, tuple[str, Counts]] = {}
        self.kernel: dict[tuple[str, int] | None, Counts] = {}
        self.positions: dict[int, tuple[str, int] | None] = {}
        self.total: Counts | None = None

    def fill(self, lines: dict[int, tuple[str, Counts]], places: list[Loc | None]) -> None:
        """Takes the counts of a launch; places: the position of each PTX line."""
        from .emulator.meter import Counts

        self.ptx, self.kernel, self.total = lines, {}, Counts()
        for number, (_, counts) in lines.items():
            loc = places[number] if number < len(places) else None
            key = None if loc is None else (loc.file, loc.line)
            self.positions[number] = key
            self.kernel.setdefault(key, Counts()).add(counts)
            self.total.add(counts)

    def table(self) -> str:
        """A table with a row per line of the kernel and a last one for all: instructions by class (issued by warps),
        wavefronts and sectors over the least possible, and bytes in flight at products."""
        rows = [list(COLUMNS)]
        files = {key[0] for key in self.kernel if key is not None}
        for key in sorted(self.kernel, key=lambda k: ("", 0) if k is None else k):
            if key is None:
                name = "(no line)"
            else:
                name = str(key[1]) if len(files) == 1 else f"{key[0].rpartition('/')[2]}:{key[1]}"
            rows.append([name, *cells(self.kernel[key])])
        if self.total is not None:
            rows.append(["total", *cells(self.total)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        head = f"{files.pop()}\n" if len(files) == 1 else ""
        return head + "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
        )


def cells(c: Counts) -> list[str]:
    """The columns of one row, behind its name."""
    by = c.by_class
    named = ("tensor", "shared", "global", "copy", "barrier", "float", "integer")
    other = sum(count for name, count in by.items() if name not in named)
    flight = c.in_flight
    return [
        str(c.warps),
        *(str(by.get(name, 0)) for name in named),
        str(other),
        f"{c.wavefronts}/{c.least_wavefronts}",
        f"{c.sectors}/{c.least_sectors}",
        "" if flight is None else f"{flight[0]}..{flight[2]}",
    ]
