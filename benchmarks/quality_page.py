"""Markdown tables for docs/performance.md from a file that `code_quality.py --json` wrote.

    python benchmarks/quality_page.py RESULTS.json

A row a kernel, a column a target: modelled share of the tensor peak (instructions an element for memory-bound kernels), ours
and NVIDIA's; one product in detail; the geometric means of ours over NVIDIA's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path[:0] = [p for p in (str(Path(__file__).resolve().parent),) if p not in sys.path]

from code_quality import pairs, ratio, summary  # noqa: E402
from hot_loop import Row  # noqa: E402

DETAIL = "mm_bf16_128x128x64_nn"
COLUMNS = (
    ("threads", "threads", 1, "{:.0f}"), ("blocks an SM", "blocks", 1, "{:.0f}"), ("shared KB", "shared", 1024, "{:.0f}"),
    ("instructions", "hot", 1, "{:.0f}"), ("BAR", "bar", 1, "{:.0f}"), ("STS", "sts", 1, "{:.0f}"), ("LDS", "lds", 1, "{:.0f}"),
    ("other instr. per MMA", "other_per_mma", 1, "{:.1f}"), ("KB in flight", "in_flight", 1024, "{:.0f}"),
    ("share of peak", "share", 0.01, "{:.0f} %"),
)  # fmt: skip


def cell(ours: Row | None, theirs: Row | None, key: str, scale: float, form: str) -> str:
    """ "ours / NVIDIA's" of one value."""
    return " / ".join(
        form.format(row[key] / scale) if row and row.get(key) is not None else "-" for row in (ours, theirs)
    )


def page(rows: list[Row]) -> str:
    """All tables."""
    targets = sorted({int(row["target"]) for row in rows})
    out = ["| | kernels | geometric mean | below 0.75 | lowest |", "|---|---|---|---|---|"]
    for name, found in summary(rows, targets).items():
        gpu, kind = name.split()
        title = f"{gpu}, {'products and attention' if kind == 'tensor' else 'memory-bound'}"
        out.append(
            f"| {title} | {found['kernels']} | {found['geomean']:.2f} | {found['below_0.75']} | {found['worst']} |"
        )
    out += ["", f"`{DETAIL}`, one pass of the hot loop, ours / NVIDIA's:", ""]
    out += ["| | " + " | ".join(c[0] for c in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for target in targets:
        for name, ours, theirs in pairs(rows, target, "tensor"):
            if name == DETAIL:
                out.append(
                    f"| sm_{target} | " + " | ".join(cell(ours, theirs, *c[1:]) for c in COLUMNS) + " |"
                )
    share = "Modelled share of peak, per cent, ours / NVIDIA's (quotient), `*` where ours is fed:"
    for kind, title, key, scale, form in (
        ("tensor", share, "share", 0.01, "{:.0f}"),
        ("stream", "Instructions an element, ours / NVIDIA's:", "per_element", 1, "{:.1f}"),
    ):
        table = {t: {name: (a, b) for name, a, b in pairs(rows, t, kind)} for t in targets}
        names = list(dict.fromkeys(name for found in table.values() for name in found))
        out += [
            "",
            title,
            "",
            "| kernel | " + " | ".join(f"sm_{t}" for t in targets) + " |",
            "|---" * (len(targets) + 1) + "|",
        ]
        for name in names:
            line = []
            for target in targets:
                ours, theirs = table[target].get(name, (None, None))
                quotient = ratio(ours, theirs)
                text = cell(ours, theirs, key, scale, form)
                if kind == "tensor" and quotient is not None:
                    text += f" ({quotient:.2f})" + ("*" if ours and ours.get("fed") else "")
                line.append(text)
            out.append(f"| {name} | " + " | ".join(line) + " |")
    spilled = [
        f"{name} on sm_{t} {a['spill']} (NVIDIA {b['spill']})"
        for t in targets for name, a, b in pairs(rows, t, "tensor")
        if a and b and a.get("spill", 0) > max(64, b.get("spill", 0))
    ]  # fmt: skip
    out += ["", "More than 64 bytes spilled, and more than NVIDIA's: " + (", ".join(spilled) or "none") + "."]
    return "\n".join(out) + "\n"


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
    print(page(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
