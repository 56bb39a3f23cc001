"""Markdown tables for docs/performance.md from a file that `code_quality.py --json` wrote.

    python benchmarks/quality_page.py RESULTS.json

In the page's order: the geometric means of ours over NVIDIA's; what lies below NVIDIA's, with the causes that the page already
gives, `?` where it gives none; what spills, and what other instructions than the target's own carry; one product in detail; a row
a kernel and a column a target: modelled share of the tensor peak, and instructions an element of memory-bound kernels.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path[:0] = [p for p in (str(Path(__file__).resolve().parent),) if p not in sys.path]

from code_quality import pairs, ratio, summary  # noqa: E402
from hot_loop import Row  # noqa: E402

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
DETAIL = "mm_bf16_128x128x64_nn"
COLUMNS = (
    ("threads", "threads", 1, "{:.0f}"), ("blocks an SM", "blocks", 1, "{:.0f}"), ("shared KB", "shared", 1024, "{:.0f}"),
    ("instructions", "hot", 1, "{:.0f}"), ("BAR", "bar", 1, "{:.0f}"), ("STS", "sts", 1, "{:.0f}"), ("LDS", "lds", 1, "{:.0f}"),
    ("other instr. per MMA", "other_per_mma", 1, "{:.1f}"), ("KB in flight", "in_flight", 1024, "{:.0f}"),
    ("share of peak", "share", 0.01, "{:.0f} %"),
)  # fmt: skip
SHARE = ("share", 0.01, "{:.0f}")
PER_ELEMENT = ("per_element", 1, "{:.1f}")


def cell(ours: Row | None, theirs: Row | None, key: str, scale: float, form: str) -> str:
    """Returns "ours / NVIDIA's" of one value."""
    return " / ".join(
        form.format(row[key] / scale) if row and row.get(key) is not None else "-" for row in (ours, theirs)
    )


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return [lines[0], "|---" * len(heads) + "|", *lines[1:]]


def means(rows: list[Row], targets: list[int]) -> list[str]:
    """A row a target and kind of kernel: how many, their geometric mean, how many far below NVIDIA's."""
    found = []
    for name, of in summary(rows, targets).items():
        gpu, kind = name.split()
        title = f"{gpu}, {'products and attention' if kind == 'tensor' else 'memory-bound'}"
        numbers = [str(of["kernels"]), f"{of['geomean']:.2f}", str(of["below_0.75"]), str(of["worst"])]
        found.append([title, *numbers])
    return table(["", "kernels", "geometric mean", "below 0.75", "lowest"], found)


def causes(page: str) -> dict[tuple[str, str], str]:
    """By kernel and target, the causes that the table of what lies below NVIDIA's gives in a page."""
    row = re.compile(r"^\| (\w+) \| (sm_\d+) \| [^|]* \([\d.]+\) \| (.*) \|$", re.M)
    return {(kernel, target): cause for kernel, target, cause in row.findall(page)}


def below(rows: list[Row], targets: list[int], known: dict[tuple[str, str], str]) -> list[str]:
    """Products and attention with a lower share than NVIDIA's, the lowest quotient first, with the causes that are known."""
    found = []
    for target in targets:
        for name, ours, theirs in pairs(rows, target, "tensor"):
            quotient = ratio(ours, theirs)
            if quotient is not None and round(quotient, 2) < 1:
                shares = f"{cell(ours, theirs, *SHARE)} ({quotient:.2f})"
                found.append([name, f"sm_{target}", shares, known.get((name, f"sm_{target}"), "?")])
    found.sort(key=lambda row: row[2].split("(")[1])
    return table(["kernel", "target", "share of the peak, ours / NVIDIA's", "cause"], found)


def detail(rows: list[Row], targets: list[int]) -> list[str]:
    """One product, a row a target."""
    found = [
        [f"sm_{target}", *(cell(ours, theirs, *column[1:]) for column in COLUMNS)]
        for target in targets for name, ours, theirs in pairs(rows, target, "tensor") if name == DETAIL
    ]  # fmt: skip
    return table(["", *(column[0] for column in COLUMNS)], found)


def kernels(rows: list[Row], targets: list[int], kind: str, value: tuple[str, float, str]) -> list[str]:
    """A row a kernel of a kind, a column a target."""
    by_target = {t: {name: (a, b) for name, a, b in pairs(rows, t, kind)} for t in targets}
    found = []
    for name in dict.fromkeys(name for of in by_target.values() for name in of):
        line = [name]
        for target in targets:
            ours, theirs = by_target[target].get(name, (None, None))
            quotient = ratio(ours, theirs)
            text = cell(ours, theirs, *value)
            if kind == "tensor" and quotient is not None:
                text += f" ({quotient:.2f})" + ("*" if ours and ours.get("fed") else "")
            line.append(text)
        found.append(line)
    return table(["kernel", *(f"sm_{t}" for t in targets)], found)


def spilled(rows: list[Row], targets: list[int]) -> str:
    """The sentence on kernels that spill more than a little, and more than NVIDIA's."""
    found = [
        f"{name} on sm_{t} {a['spill']} (NVIDIA {b['spill']})"
        for t in targets for name, a, b in pairs(rows, t, "tensor")
        if a and b and a.get("spill", 0) > max(64, b.get("spill", 0))
    ]  # fmt: skip
    return "More than 64 bytes spilled, and more than NVIDIA's: " + (", ".join(found) or "none") + "."


def carried(rows: list[Row], targets: list[int]) -> list[str]:
    """Two sentences: kernels of which the target's own tensor instructions make less than 95 per cent of the flops, those of
    f32 aside, for which no target has one, and those of which asynchronous copies bring less than that of the bytes."""
    out = []
    for key, said in (("own_flops", "Flops by other instructions"), ("own_bytes", "Bytes by loads")):
        found: dict[str, list[str]] = {}
        for t in targets:
            for name, a, _ in pairs(rows, t, "tensor"):
                if a and a.get(key, 1) < 0.95 and "FFMA" not in a.get("mma_kind", ""):
                    found.setdefault(name, []).append(f"sm_{t} {100 * (1 - a[key]):.0f}")
        names = [f"{name} ({', '.join(where)})" for name, where in found.items()]
        out.append(f"{said}, more than 5 per cent of ours: {'; '.join(names) or 'none'}.")
    return out


def page(rows: list[Row], known: dict[tuple[str, str], str] | None = None) -> str:
    """All tables, what lies below NVIDIA's with the causes that are known."""
    targets = sorted({int(row["target"]) for row in rows})
    out = [
        *means(rows, targets),
        "",
        *below(rows, targets, known or {}),
        "",
        spilled(rows, targets),
        "",
        *carried(rows, targets),
        "",
    ]
    out += [f"`{DETAIL}`, one pass of the hot loop, ours / NVIDIA's:", "", *detail(rows, targets), ""]
    out += ["Modelled share of peak, per cent, ours / NVIDIA's (quotient), `*` where ours is fed:", ""]
    out += [*kernels(rows, targets, "tensor", SHARE), "", "Instructions an element, ours / NVIDIA's:", ""]
    return "\n".join(out + kernels(rows, targets, "stream", PER_ELEMENT)) + "\n"


def main(argv: list[str]) -> int:
    if argv in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        rows = json.loads(Path(argv[0]).read_text())["rows"]
    except (OSError, ValueError, KeyError) as error:
        print(f"quality_page: cannot read {argv[0]}: {error}", file=sys.stderr)
        return 1
    print(page(rows, causes(PAGE.read_text(encoding="utf-8"))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
