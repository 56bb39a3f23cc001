"""Where a kernel stands under the roofs of one SM, by the model: work for each byte, the share of the peak, the bottleneck."""

from __future__ import annotations

import dataclasses

from . import hot_loop, loops
from .model import GPUS, L2_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .machine import Machine

NAMES = {"T": loops.TENSOR, "I": loops.ISSUE, "S": loops.SHARED, "L": loops.GLOBAL, "latency": "latency"}


def point(
    name: str, kernel: dict[str, Any], own: list[Any], data: list[dict[str, Any]], found: Machine, number: int,
    where: dict[tuple[str, int], int], shown: dict[str, Any],
) -> dict[str, Any] | None:  # fmt: skip
    """The row of a kernel; None where it moves and multiplies nothing that is known. Its hot loop's data gets the terms
    that the machine code has, where there is machine code."""
    gpu_number = loops.modelled_gpu(number)
    gpu = GPUS[gpu_number]
    hot = max(
        (i for i in range(len(own)) if not data[i]["inner"] and data[i]["flops"]),
        key=lambda i: (data[i]["fed"], data[i]["flops"]),
        default=None,
    )
    if hot is None:
        moving = [d for d in data if d["bytes"] and not d["inner"]]
        if not moving:
            return None
        busiest = max(moving, key=lambda d: d["bytes"])
        row = _row(name, gpu, busiest, "f32", 0.0, busiest["bound"], gpu_number != number)
        row["share"] = round(
            min(1.0, busiest["elementwise"] / gpu.peak["f32"] / max(1.0, busiest["interval"])), 4
        )
        return row
    work = loops.loop_work(own[hot])
    chosen = data[hot]
    assert work is not None
    if chosen["feeder"] is not None:  # the copies stand in another agent's loop
        work = dataclasses.replace(work, bytes=chosen["bytes"])
    element = "f16" if work.element == "bf16" else work.element
    ideal = work.flops / gpu.peak[element]
    share = min(0.9, ideal / max(chosen["interval"], ideal))
    row = _row(name, gpu, chosen, element, share, chosen["bound"], gpu_number != number)
    code = found.codes.get(name)
    if code is not None:
        made = hot_loop.tensor_row(
            code, work, kernel.get("threads") or 128, kernel["blocks"]["fit"] if kernel.get("blocks") else 1,
            kernel.get("shared") or 0, gpu_number,
        )  # fmt: skip
        loop = hot_loop.hottest(code)
        if "share" in made and made["loop"] and 0 < made["steps"] <= 64:
            blocks = kernel["blocks"]["fit"] if kernel.get("blocks") else 1
            terms = {NAMES[k]: round(made["terms"][k] / made["steps"], 1) for k in "TISL"}
            row |= {"share": made["share"], "bound": NAMES[made["bound"]], "from": "machine code", "terms": terms,
                    "fed": made["fed"], "blocks": blocks}  # fmt: skip
            per_step = made["terms"]["P"] / made["steps"] / max(made["share"], 1e-6)
            chosen["machine"] = {
                "terms": terms, "blocks": blocks, "interval": round(per_step, 1), "bound": NAMES[made["bound"]],
                "instructions": made["hot"], "steps": made["steps"], "fed": made["fed"], "barriers": made["bar"],
                "sass": [where[name, i.address] for i in code.of_loop(loop) if (name, i.address) in where][:1]
                if loop is not None else [],
            }  # fmt: skip
    return row


def _row(
    name: str, gpu: Any, loop: dict[str, Any], element: str, share: float, bound: str, stands_in: bool
) -> dict[str, Any]:
    peak = gpu.peak[element]
    flops = loop["flops"] or loop["elementwise"]
    return {
        "kernel": name, "gpu": gpu.name, "stands_in": stands_in, "element": element, "peak": peak, "bandwidth": L2_BYTES,
        "intensity": round(flops / loop["bytes"], 2) if loop["bytes"] else None, "flops": flops,
        "bytes": loop["bytes"], "share": round(share, 4), "bound": bound, "line": loop["line"], "from": "nv_tileas",
        "terms": {k: v for k, v in loop["totals"].items() if v}, "fed": loop["fed"], "blocks": 1,
    }  # fmt: skip
