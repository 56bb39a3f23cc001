"""The schedule of each loop: what its ops do, on which resource, for how long, how far copies run ahead, and which
resource sets the initiation interval.

Clocks are modelled (model.py has the rates of a GPU), never measured: for one block on one SM.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements

from .hot_loop import Product
from .model import BARRIER, FED, GPUS, L2_BYTES, LATENCY, SCHEDULERS
from .shared import copied_bytes, stage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .levels import Printed

LOOPS = ("for", "loop")
PRODUCTS = ("mmaf", "mmai", "mmaf_scaled", "wgmma", "wgmma.registers", "tensor_memory.product")
WAITS = (
    "async.wait_group",
    "wgmma.wait_group",
    "tensor_memory.wait",
    "tensor_memory.acquire",
    "async.wait",
    "bulk.wait",
    "bulk.acquire",
    "barrier",
)
COPIES = ("async.copy_view", "async.copy_pointers", "async.copy", "async.tiled_tma_load", "bulk.load")
LOADS = ("load_view_tko", "load_ptr_tko", "tiled_tma_load")
STORES = ("store_view_tko", "store_ptr_tko")
MOVES = (
    "convert_layout", "convert_layouts", "load_shared", "store_shared", "tensor_memory.load", "tensor_memory.store", "reduce",
    "scan",
)  # fmt: skip
QUIET = (
    "continue", "yield", "async.commit_group", "async.arrive", "wgmma.commit_group", "break", "assume", "make_token",
    "join_tokens",
)  # fmt: skip
ISSUE, TENSOR, SHARED, GLOBAL, WAIT = "CUDA cores", "tensor cores", "shared memory", "global memory", "waits"
RESOURCES = (GLOBAL, SHARED, TENSOR, ISSUE, WAIT)


def modelled_gpu(number: int) -> int:
    """The GPU whose numbers stand for an architecture."""
    return max((modelled for modelled in GPUS if modelled <= number), default=min(GPUS))


def role_of(op: Op) -> str:
    name = op.spec.name
    for role, names in (
        ("copy", COPIES), ("load", LOADS), ("store", STORES), ("product", PRODUCTS), ("wait", WAITS), ("move", MOVES),
    ):  # fmt: skip
        if name in names:
            return role
    if name.startswith("atomic"):
        return "store"
    if name in LOOPS or name == "if":
        return "control"
    if name in QUIET:
        return "quiet"
    type: Any = op.results[0].type if op.results else None
    return "math" if getattr(type, "shape", None) else "index"


FLOATS = ("f16", "bf16", "f32", "f64")
ELEMENTS = {"i8": "i8", "tf32": "tf32", "f64": "f64", "f16": "f16", "bf16": "f16", "f32": "f32"}


def product_of(op: Op) -> Product | None:
    """The work of one product."""
    name = op.spec.name
    if name == "tensor_memory.product":
        m, n, k = op.attr("m"), op.attr("n"), op.attr("depth")
        elem = op.attr("elem")
    elif name in ("wgmma", "wgmma.registers"):
        m, n = op.result.type.shape[-2:]  # type: ignore[attr-defined]
        k, elem = op.attr("depth"), op.attr("elem")
    else:
        left: Any = op.operands[0].type
        shape = op.result.type.shape  # type: ignore[attr-defined]
        m, n, k, elem = num_elements(shape[:-1]), shape[-1], left.shape[-1], left.elem.name
    element = ELEMENTS.get(elem, "e4m3" if elem.startswith("f8") else "f16")
    bits = {"f64": 64, "f32": 32, "tf32": 32, "e4m3": 8, "i8": 8}.get(element, 16)
    return Product(element, 2 * m * n * k, (m + n) * k * bits // 8, m, n, k)


def moved_bytes(op: Op) -> int:
    """Bytes of global memory that an op moves for one block."""
    name = op.spec.name
    if name in ("async.copy_view", "async.copy_pointers"):
        return copied_bytes(op)
    if name == "bulk.load":
        return sum(op.attr("bytes"))
    type: Any = None
    if name in LOADS:
        type = op.results[0].type
    elif name in STORES:
        type = op.operand("tile" if "view" in name else "value").type  # type: ignore[union-attr]
    if type is None or not hasattr(type, "shape"):
        return 0
    return int(num_elements(type.shape) * max(1, type.elem.bits) // 8)


def _is_arithmetic(op: Op) -> bool:
    """Whether an op computes floats of floats, element by element; conversions and choices among values do not count."""
    return bool(op.spec.elementwise) and op.spec.results[0].constraint == "tile:base_float"


def elementwise_flops(op: Op) -> int:
    """Floating-point operations of an elementwise op, a reduction or a scan on a tile; what is inside counts once an element."""
    if op.spec.name in ("reduce", "scan"):
        type: Any = op.operands[0].type
        inner = [each for each in op.regions[0].blocks[0].ops if _is_arithmetic(each)]
        return int(num_elements(type.shape)) * len(inner) if type.elem.name in FLOATS else 0
    type = op.results[0].type if op.results else None
    if not _is_arithmetic(op) or getattr(getattr(type, "elem", None), "name", "") not in FLOATS:
        return 0
    return int(num_elements(type.shape)) * (2 if op.spec.name == "fma" else 1)


def step(op: Op, line: int, issued: int, warps: int, gpu: Any, barriers: int = 0) -> dict[str, Any]:
    """One op of a loop's body with its modelled clocks by resource; `barriers` are those within it."""
    role = role_of(op)
    clocks: dict[str, float] = {ISSUE: issued * warps / SCHEDULERS}
    if role == "product":
        work = product_of(op)
        if work is not None:
            clocks[TENSOR] = work.flops / gpu.peak[work.element]
    elif role in ("copy", "load", "store"):
        clocks[GLOBAL] = moved_bytes(op) / L2_BYTES
        if role == "copy":
            clocks[SHARED] = moved_bytes(op) / 128
    elif role == "move" and op.operands:
        type: Any = op.results[0].type if op.results else op.operands[-1].type
        if op.attrs.get("plan", "shared") in ("shared", "ldmatrix") and hasattr(type, "elem"):
            both = 2 if op.spec.name in ("convert_layout", "convert_layouts") else 1
            clocks[SHARED] = both * num_elements(type.shape) * max(8, type.elem.bits) / 8 / 128
    if role == "wait" or barriers:
        clocks[WAIT] = float(BARRIER * max(1, barriers))
    main = {"product": TENSOR, "copy": GLOBAL, "load": GLOBAL, "store": GLOBAL, "wait": WAIT}.get(role, ISSUE)
    if role == "move" and clocks.get(SHARED):
        main = SHARED
    return {
        "line": line, "op": op.spec.name, "role": role, "resource": main, "issued": issued,
        "clocks": {name: round(value, 1) for name, value in clocks.items() if value},
    }  # fmt: skip


def agent_of(op: Op) -> Op | None:
    """The agent whose warps run an op; None where all warps do."""
    parent = op.parent
    while parent is not None and parent.spec.name != "agent":
        parent = parent.parent
    return parent


def ahead_of(copy: Op, block: Any) -> int:
    """Iterations whose copies are on their way beside the one that is read. `copy`: one, or the wait for it."""
    if agent_of(copy) is not None:  # as many as stages are free
        begin = next((user for user, _ in copy.operands[0].uses if user.spec.name == "bulk.begin"), None)
        spare = block.region.op.attrs.get("spare_stages", 0)
        return begin.attr("stages") - 1 - spare if begin is not None else 0  # type: ignore[no-any-return]
    if copy.spec.name == "bulk.load":  # those that were issued before the loop
        return sum(
            user.spec.name == "bulk.load" and user.block is not block for user, _ in copy.operands[0].uses
        )
    arrivals = [user for user, _ in copy.operands[0].uses if user.spec.name == "async.arrive"]
    if arrivals:  # of threads, one for the copies of a stage: those in front of the loop
        return sum(user.block is not block for user in arrivals)
    pending = [o.attr("pending") for o in block.ops if o.spec.name == "async.wait_group"]
    return min(pending) + 1 if pending else 0


def loop_data(
    loop: Op,
    printed: Printed,
    issued: dict[Any, int],
    warps: int,
    number: int,
    kernel: str,
    barriers: list[int],
) -> dict[str, Any]:
    """The schedule of a loop. `issued`: op -> instructions of a thread that it became; `barriers`: the line of each."""
    gpu = GPUS[modelled_gpu(number)]
    block = loop.regions[0].blocks[0]
    agent = agent_of(loop)
    if agent is not None:
        warps = agent.attr("issuing_warps") or agent.attr("num_warps")
    steps = []
    for op in block.ops:
        count = sum(issued.get(inner, 0) for inner in op.walk())
        if role_of(op) != "quiet" or count:
            line = printed.line_of.get(op, -1)
            steps.append(step(op, line, count, warps, gpu, barriers.count(line)))
    ring: dict[str, Any] | None = None
    for op in block.ops:
        if (
            op.spec.name in ("async.copy_view", "async.copy_pointers", "bulk.load")
            or agent is not None
            and op.spec.name == "bulk.wait"
        ):
            alloc = op.operands[0].op
            if alloc is not None and ring is None:
                stage, members = stage_of(alloc, printed)
                ahead = ahead_of(op, block)
                slots = alloc.attr("bytes") // stage if stage else 1
                ring = {
                    "stages": slots, "ahead": ahead, "spare": loop.attrs.get("spare_stages", 0), "stage_bytes": stage,
                    "members": members,
                    "line": printed.line_of.get(alloc, -1),
                }  # fmt: skip
    totals = dict.fromkeys(RESOURCES, 0.0)
    for each in steps:
        if each["op"] in LOOPS:  # has a card of its own
            continue
        for name, clocks in each["clocks"].items():
            totals[name] += clocks
    loads = any(each["role"] in ("load", "copy") for each in steps)
    fed = ring is not None and ring["ahead"] >= 1
    busy = {name: totals[name] for name in RESOURCES if name != WAIT}
    if fed:
        interval = max(busy.values()) / FED
        bound = max(busy, key=busy.__getitem__)
    else:
        interval = (LATENCY if loads else 0) + totals[WAIT] + sum(busy.values())
        bound = (
            "latency"
            if loads and max(busy.values(), default=0) < LATENCY
            else max(busy, key=busy.__getitem__)
        )
    return {
        "agent": None if agent is None else {"id": agent.attr("id"), "warps": agent.attr("num_warps"), "issuing": warps},
        "kernel": kernel, "line": printed.line_of.get(loop, -1), "kind": loop.spec.name, "warps": warps, "steps": steps,
        "ring": ring, "fed": fed, "totals": {name: round(value, 1) for name, value in totals.items()},
        "interval": round(interval, 1), "bound": bound, "latency": LATENCY if loads else 0, "gpu": gpu.name,
        "flops": sum(w.flops for op in block.ops if op.spec.name in PRODUCTS and (w := product_of(op)) is not None),
        "elementwise": sum(elementwise_flops(op) for op in block.ops),
        "barriers": sum(barriers.count(each["line"]) for each in steps),
        "carried": sum(hasattr(value.type, "shape") for value in loop.results),
        "bytes": sum(moved_bytes(op) for op in block.ops),
        "inner": any(op.spec.name in LOOPS for op in loop.walk() if op is not loop),
    }  # fmt: skip


def pair(loops: list[dict[str, Any]]) -> None:
    """Names, for a kernel's loops of agents that share a ring, the loop that copies (`feeder`) and the one that reads (`reader`).

    An iteration of both is one step of the block: they share the SM's resources, so the reader's bytes and clocks are those of
    both, but for waits: each agent has its own.
    """
    for loop in loops:
        loop["feeder"] = loop["reader"] = None
    ringed = [loop for loop in loops if loop["agent"] and loop["ring"] and not loop["inner"]]
    for copies in (loop for loop in ringed if not loop["flops"]):
        for reads in (loop for loop in ringed if loop["flops"]):
            if (
                reads["ring"]["line"] == copies["ring"]["line"]
                and reads["agent"]["id"] != copies["agent"]["id"]
            ):
                reads["feeder"], copies["reader"] = copies["line"], reads["line"]
                reads["bytes"] += copies["bytes"]
                busy = [name for name in RESOURCES if name != WAIT]
                for name in busy:
                    reads["totals"][name] = round(reads["totals"][name] + copies["totals"][name], 1)
                if reads["fed"]:
                    reads["bound"] = max(busy, key=reads["totals"].__getitem__)
                    reads["interval"] = round(reads["totals"][reads["bound"]] / FED, 1)


def loop_work(loop: Op) -> Product | None:
    """All products of a loop's body as one, for the model; None without."""
    found = [w for op in loop.regions[0].blocks[0].ops if op.spec.name in PRODUCTS and (w := product_of(op))]
    if not found:
        return None
    first = found[0]
    moved = sum(moved_bytes(op) for op in loop.regions[0].blocks[0].ops if role_of(op) in ("copy", "load"))
    return Product(
        first.element,
        sum(w.flops for w in found),
        moved or sum(w.bytes for w in found),
        first.m,
        first.n,
        first.k,
    )
