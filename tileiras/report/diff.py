"""What changed from one report to another: resources, loops, accesses, findings, lengths of the code."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Change:
    """One figure that differs: what it is of, before and after (None: it is not there)."""

    def __init__(self, what: str, name: str, before: Any, after: Any) -> None:
        self.what = what
        self.name = name
        self.before = before
        self.after = after

    def data(self) -> dict[str, Any]:
        return {"what": self.what, "name": self.name, "before": self.before, "after": self.after}


_KERNEL = ("registers", "limit", "spill_stores", "spill_loads", "stack", "shared", "threads")
_LOOP = ("interval", "bound", "fed", "flops", "bytes", "warps")
_ACCESS = ("instruction", "count", "width", "possible", "sectors", "least")
_MODEL = ("share", "bound", "intensity", "from")


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """All changes, module by module in the order of the second report."""
    out: list[Change] = []
    old = _numbered(before["modules"], lambda m: m["name"])
    new = _numbered(after["modules"], lambda m: m["name"])
    for key in {**new, **old}:
        a, b = old.get(key), new.get(key)
        label = f"{key[0]}#{key[1] + 1}" if key[1] else key[0]
        if a is None or b is None:
            out.append(Change("module", label, "there" if a else None, "there" if b else None))
        else:
            out += _modules(label, a, b)
    return out


def _numbered(rows: list[dict[str, Any]], name: Callable[[dict[str, Any]], Any]) -> dict[Any, dict[str, Any]]:
    """(name, how many of that name came before) -> row."""
    count: dict[Any, int] = {}
    out = {}
    for row in rows:
        key = name(row)
        out[key, count.get(key, 0)] = row
        count[key] = count.get(key, 0) + 1
    return out


def _modules(label: str, a: dict[str, Any], b: dict[str, Any]) -> list[Change]:
    out: list[Change] = []

    def say(what: str, name: str, x: Any, y: Any) -> None:
        if x != y:
            out.append(Change(f"{label}: {what}" if what else label, name, x, y))

    for field in ("target", "exit_code", "ops"):
        say("", field, a[field], b[field])
    for field in a["options"]:
        say("options", field, a["options"][field], b["options"].get(field))
    for level in {**a["levels"], **b["levels"]}:
        say(
            "lines",
            level,
            *(len(m["levels"][level]["lines"]) if level in m["levels"] else None for m in (a, b)),
        )
    tables: tuple[tuple[str, str, tuple[str, ...], Callable[[dict[str, Any]], Any]], ...] = (
        ("kernel", "kernels", _KERNEL, lambda row: row["name"]),
        ("loop", "loops", _LOOP, lambda row: row["kernel"]),
        ("access", "accesses", _ACCESS, lambda row: f"{row['what']} ({row['op']})"),
        ("model", "roofline", _MODEL, lambda row: row["kernel"]),
    )
    for what, table, fields, name in tables:
        old, new = _numbered(a[table], name), _numbered(b[table], name)
        for key in {**old, **new}:
            x, y = old.get(key), new.get(key)
            place = f"{what} {key[0]}" + (f" #{key[1] + 1}" if key[1] else "")
            if x is None or y is None:
                say("", place, "there" if x else None, "there" if y else None)
                continue
            for field in fields:
                say(place, field, x.get(field), y.get(field))
            if what == "kernel" and x["blocks"] and y["blocks"]:
                say(place, "blocks an SM holds", x["blocks"]["fit"], y["blocks"]["fit"])
            if what == "loop":
                ring = [row["ring"]["stages"] if row["ring"] else 0 for row in (x, y)]
                say(place, "stages", *ring)
                if x.get("machine") and y.get("machine"):
                    say(
                        place,
                        "interval of the machine code",
                        x["machine"]["interval"],
                        y["machine"]["interval"],
                    )
    for field in ("ptx", "sass"):
        old, new = ({p["kernel"]: p[field]["peak"] for p in m["pressure"] if p[field]} for m in (a, b))
        for kernel in {**old, **new}:
            say(
                f"kernel {kernel}",
                f"registers alive at the peak of {field}",
                old.get(kernel),
                new.get(kernel),
            )
    was, now = _titles(a), _titles(b)
    for title in {**was, **now}:
        say("findings", title, was.get(title, 0), now.get(title, 0))
    return out


def _titles(module: dict[str, Any]) -> dict[str, int]:
    """How often each finding is made, wherever: lines move."""
    found: dict[str, int] = {}
    for finding in module["findings"]:
        title = re.sub(r" at (line \d+ of (the source|nv_tileas)|\S+:\d+)", "", finding["title"])
        found[title] = found.get(title, 0) + 1
    return found


def as_text(changes: list[Change]) -> str:
    """A table; one line where nothing differs."""
    if not changes:
        return "no difference\n"
    rows = []
    for change in changes:
        note = ""
        x, y = change.before, change.after
        if type(x) in (int, float) and type(y) in (int, float) and x:
            note = f"{100 * (y - x) / x:+.1f}%"
        shown = ["-" if v is None else str(v) for v in (x, y)]
        rows.append((plain(change.what), plain(change.name), *map(plain, shown), note))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = []
    for what, name, old, new, note in rows:
        lines.append(
            f"{what:<{widths[0]}}  {name:<{widths[1]}}  {old:>{widths[2]}} -> {new:<{widths[3]}}  {note}".rstrip()
        )
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Text that cannot steer a terminal: names come from the input."""
    return "".join(c if c.isprintable() else "?" for c in text)
