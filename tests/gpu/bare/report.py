"""The report of a run as Markdown: launch ABI, corpus, peaks, times against NVIDIA's images and the peaks."""

from __future__ import annotations

import math
from typing import Any


def write(results: Any, plan: dict[str, list[str]], target: str) -> str:
    """The text; `results.rows(step)` gives name -> what was found."""
    rows = {step: results.rows(step) for step in plan}
    machine = rows["peaks"].get("machine", {})
    out = ["# Measured on a GPU", ""]
    out.append(
        ", ".join(f"{k} {v}" for k, v in machine.items() if k not in ("name", "device")) or f"for {target}"
    )
    if machine.get("device"):
        out[0] = f"# Measured on {machine['device']}"
    out += ["", "## Launch ABI", "", "| image | block 1 | real block |", "|---|---|---|"]
    out += [f"| {n} | {r.get('block 1', '')} | {r.get('real block', '')} |" for n, r in rows["probe"].items()]
    out += ["", "## Corpus", ""]
    wrong = {n: r["problem"] for n, r in rows["corpus"].items() if "problem" in r}
    out.append(f"{len(rows['corpus']) - len(wrong)} of {len(plan['corpus'])} right, {len(wrong)} not, "
               f"{len(plan['corpus']) - len(rows['corpus'])} not run.")  # fmt: skip
    out += [f"* {name}: {problem}" for name, problem in sorted(wrong.items())]
    copy = float(rows["peaks"].get("copy", {}).get("bytes_per_second", 0))
    matmul = max(
        (float(rows["peaks"].get(n, {}).get("flops_per_second", 0)) for n in ("library", "instruction")),
        default=0,
    )
    out += ["", "## Peaks", ""]
    for name in ("copy", "instruction", "library"):
        row = rows["peaks"].get(name, {})
        value = row.get("bytes_per_second") or row.get("flops_per_second")
        unit = "GB/s" if "bytes_per_second" in row else "TFLOP/s"
        scale = 1e9 if unit == "GB/s" else 1e12
        out.append(
            f"* {name}: "
            + (f"{value / scale:.1f} {unit}, " if value else "")
            + str(row.get("how") or row.get("problem", "not run"))
        )
    out += ["", "## Times, cold L2, medians", ""]
    out += ["| kernel | ours, us | NVIDIA's, us | ours / NVIDIA's | TFLOP/s or GB/s | of the peak | results differ by |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    ratios = []
    for name, row in rows["timing"].items():
        ours, theirs = row.get("ours"), row.get("nvidia")
        rate = of = ""
        if ours:
            if row["flops"]:
                rate = f"{row['flops'] / ours / 1e12:.1f}"
                of = (
                    f"{row['flops'] / ours / matmul:.2f}"
                    if matmul and row["element"] in ("bf16", "f16")
                    else ""
                )
            else:
                rate, of = (
                    f"{row['bytes'] / ours / 1e9:.0f}",
                    f"{row['bytes'] / ours / copy:.2f}" if copy else "",
                )
        if ours and theirs:
            ratios.append(ours / theirs)
        said = [
            f"{v * 1e6:.1f}" if v else str(row.get(f"{w}_problem") or row.get("problem", "-"))
            for w, v in (("ours", ours), ("nvidia", theirs))
        ]
        quotient = f"{ours / theirs:.2f}" if ours and theirs else ""
        differ = f"{row['difference']:.2g}" if "difference" in row else ""
        out.append(f"| {name} | {said[0]} | {said[1]} | {quotient} | {rate} | {of} | {differ} |")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        out += ["", f"Geometric mean of ours over NVIDIA's time: {mean:.3f} over {len(ratios)} kernels."]
    return "\n".join(out) + "\n"
