"""What a reader should look at first, most costly first: what, why, where, and what to change."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.diags import NO_ROOM, RING

from .loops import GLOBAL, ISSUE, SHARED, TENSOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rank(module: dict[str, Any]) -> list[dict[str, Any]]:
    """Findings: {"weight", "kind", "title", "why", "remedy", "refs"}; refs are [level, line]."""
    out: list[dict[str, Any]] = []
    out += _failure(module)
    out += _spills(module)
    out += _accesses(module)
    out += _loops(module)
    out += _barriers(module)
    out += _banks(module)
    out += _products(module)
    out += _residency(module)
    out += _hints(module)
    out.sort(key=lambda f: -f["weight"])
    return out


def _place(module: dict[str, Any], line: int) -> str:
    """A line of nv_tileas as its reader knows it: by the source where that is known."""
    at = line
    for level in ("nv_tileas", "cuda_tile"):
        up = module["levels"].get(level, {}).get("up", [])
        at = up[at] if 0 <= at < len(up) else -1
    if at < 0:
        return f"line {line + 1} of nv_tileas"
    runs = [run for run in module["levels"]["source"].get("places", []) if run[0] <= at]
    if not runs or runs[-1][0] == 0:  # the text that was compiled
        return f"line {at + 1} of the source"
    row, file, first = runs[-1]
    return f"{file}:{first + at - row}"


def _finding(
    weight: int, kind: str, title: str, why: str, remedy: str, refs: list[list[Any]]
) -> dict[str, Any]:
    return {
        "weight": weight, "kind": kind, "title": title, "why": why, "remedy": remedy,
        "refs": [ref for ref in refs if ref[1] >= 0],
    }  # fmt: skip


def _failure(module: dict[str, Any]) -> list[dict[str, Any]]:
    if not module["exit_code"]:
        return []
    errors = [r for r in module["remarks"] if r["severity"] == "error"]
    told = [r for r in errors if r["remedy"] and r["code"] != "DRV-0005"] or errors
    first = told[0] if told else None
    return [_finding(
        100, "failure", f"the compile failed (exit code {module['exit_code']}), last at {module['stage']}",
        first["text"] + (f" ({first['file']}:{first['line']}:{first['col']})" if first["file"] else "") if first else "",
        first["remedy"] if first else "", [["cuda_tile", first["cuda_tile"]]] if first else [],
    )]  # fmt: skip


def _spills(module: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    for kernel in module["kernels"]:
        if not kernel["spill_stores"] and not kernel["spill_loads"]:
            continue
        row = next((p for p in module["pressure"] if p["kernel"] == kernel["name"]), None)
        why = (
            f"a thread may have {kernel['limit']} registers; {kernel['spill_stores']} bytes are written to and "
            f"{kernel['spill_loads']} bytes read from local memory by each thread"
        )
        refs: list[list[Any]] = []
        if row is not None:
            top = row["ptx"]["holders"][:3]
            values = {
                (v["name"], v["line"]): f"{'x'.join(map(str, v['shape']))} {v['elem']}, "
                for v in module["values"]
            }
            held = ", ".join(
                f"{h['name']} ({values.get((h['name'], h['line']), '')}{h['registers']} registers)"
                for h in top
            )
            why += f". The PTX asks for {row['ptx']['peak']} where most is alive, held by {held}"
            refs = [["nv_tileas", h["line"]] for h in top] + [["ptx", row["ptx"]["peak_line"]]]
            if row["sass"] and row["sass"]["spills"]:
                refs.append(["sass", row["sass"]["spills"][0]])
        remedy = (
            "make the tile of the value that holds most smaller, or split its loop; more warps share a tile out "
            "where the kernel has few (num_worker_warps_per_cta)"
        )
        if kernel["occupancy"] and kernel["limit"] < 255:
            why = f"occupancy = {kernel['occupancy']} asks for blocks that leave " + why.replace(
                "a thread may have", "a thread"
            ).replace(" registers;", " registers:", 1)
            remedy = f"lower the hint occupancy = {kernel['occupancy']}, or {remedy}"
        out.append(_finding(
            90, "spill", f"{kernel['name']} spills {kernel['spill_stores']} bytes a thread", why, remedy, refs
        ))  # fmt: skip
    return out


def _accesses(module: dict[str, Any]) -> list[dict[str, Any]]:
    """One finding for all accesses that have the same trouble for the same reason."""
    bodies = {step["line"] for loop in module["loops"] for step in loop["steps"]}
    rare = {step["line"] for loop in module["loops"] if loop["fallback"] for step in loop["steps"]}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    up = module["levels"].get("nv_tileas", {}).get("up", [])
    said: set[tuple[Any, ...]] = set()
    for row in module["accesses"]:
        waste = bool(row["sectors"] and row["least"] and row["sectors"] > row["least"])
        if not (row["scattered"] or waste or row["narrow"]):
            continue
        line = row["line"]
        key = (up[line] if line < len(up) else -1, row["narrow"], row["scattered"], row["width"])
        if key in said and key[0] >= 0:  # the copies in front of a loop are those in it
            continue
        said.add(key)
        hot = -25 if line in rare else 8 if line in bodies else 0
        kind = (row["what"], waste, row["scattered"], row["narrow"], row["width"], row["possible"], hot)
        groups.setdefault(kind, []).append(row)
    out = []
    for (what, waste, scattered, narrow, width, possible, hot), rows in groups.items():
        row = rows[0]
        many = len(rows) > 1
        who = (
            f"{len(rows)} {what.removesuffix('y') + 'ies' if what.endswith('y') else what + 's'}"
            if many
            else what
        )
        where = "" if many else f" at {_place(module, row['line'])}"
        refs = [["nv_tileas", each["line"]] for each in rows[:8]]
        if scattered or waste:
            sectors = f"{row['sectors']} sectors a request where {row['least']} would do" if waste else ""
            out.append(_finding(
                (70 if scattered else 50) + hot, "coalescing", f"{who}{where} {'are' if many else 'is'} not coalesced",
                "; ".join(t for t in dict.fromkeys((scattered, sectors, narrow, row["partial"])) if t),
                row["gather"] or row["widen"] or "give a thread wider pieces of a row, or the tile longer rows", refs,
            ))  # fmt: skip
        else:
            out.append(_finding(
                40 + hot, "width", f"{who}{where} move{'' if many else 's'} {width} of {possible} bytes an instruction",
                narrow, row["widen"], refs,
            ))  # fmt: skip
    return out


_HINTS = {
    TENSOR: "nothing in the loop is slower than the tensor cores: only another element type (f16, bf16, fp8) raises the roof",
    ISSUE: "instructions beside the products fill the issue slots: larger tiles in K, wider accesses, less index arithmetic and "
    "fewer conversions in the loop",
    SHARED: "operands pass through shared memory too often for their products: larger tiles in M and N use each byte more often",
    GLOBAL: "the tiles are too small for the bytes that they need: larger tiles in M and N, or a narrower element type",
}


def _loops(module: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    fed = any(loop["feeder"] is not None for loop in module["loops"])
    for loop in module["loops"]:
        if (
            loop["inner"] or loop["reader"] is not None
        ):  # copies beside the loop that waits for them are one of its terms
            continue
        if (
            loop["agent"] and not loop["flops"] and fed
        ):  # once a tile, beside the loop that multiplies the next one
            continue
        made = loop.get("machine")
        bound = made["bound"] if made else loop["bound"]
        if not loop["flops"] and not loop["bytes"]:
            continue
        ref = [["nv_tileas", loop["line"]]]
        if bound == "latency":
            said = [
                r for r in module["remarks"]
                if r["code"] == "AS-0304" and any(n for n in r["notes"])
            ]  # fmt: skip
            ring = loop["ring"] if loop["fed"] else None
            why = "each iteration waits for its own loads: nothing runs ahead of their use"
            if ring:
                why = (
                    "copies begin in the iteration before their use, and all of them are awaited where it begins: they overlap "
                    f"only what stands behind them. The ring has {ring['stages']} stages of {ring['stage_bytes']} bytes"
                )
            narrow = next(
                (
                    a
                    for a in module["accesses"]
                    if a["narrow"] and a["line"] in {s["line"] for s in loop["steps"]}
                ),
                None,
            )
            remedy = "let loads feed a product through shared memory: "
            if ring:
                remedy = (
                    "room for one more stage: a tile of half the size along the dimension of the loop; then copies run a whole "
                    "iteration ahead"
                )
            elif not loop["flops"]:
                remedy = (
                    "the wait is hidden by other blocks: ask for more of them on an SM (the occupancy hint, smaller tiles), "
                    "or load more at once with a larger tile"
                )
                if not loop["carried"]:
                    remedy = (
                        "no tile is carried from one iteration to the next: launch a tile block for each iteration instead "
                        "of a loop; " + remedy
                    )
            elif narrow is not None:
                where = _place(module, narrow["line"])
                why += f"; the load at {where} cannot be copied asynchronously, because {narrow['narrow']}"
                remedy += narrow["widen"]
            elif said:
                why += f"; {said[0]['notes'][0]}"
                remedy = said[0]["remedy"]
            else:
                remedy += (
                    "the latency hint of the load asks for more to run ahead; more blocks an SM hide the rest"
                )
            weight = 65 if loop["flops"] else 35
            if loop["fallback"]:
                weight = 28
                why = (
                    "this version of the loop runs only where a test in front of it finds alignment missing. "
                    + why
                )
            out.append(_finding(
                weight, "loop", f"the loop at {_place(module, loop['line'])} waits for memory", why, remedy, ref
            ))  # fmt: skip
            continue
        terms = made["terms"] if made else loop["totals"]
        figures = ", ".join(
            f"{name} {terms[name]:g}" for name in sorted(terms, key=lambda n: -terms[n]) if terms[name]
        )
        interval = made["interval"] if made else loop["interval"]
        out.append(_finding(
            45 if loop["flops"] and bound != TENSOR else 15, "loop", f"{bound} limit the loop at {_place(module, loop['line'])}"
            if bound != GLOBAL and bound != SHARED else f"{bound} limits the loop at {_place(module, loop['line'])}",
            f"modelled clocks of an SM an iteration: {figures}; one iteration starts every {interval:g}",
            _HINTS.get(bound, ""), ref,
        ))  # fmt: skip
    for r in module["remarks"]:
        if r["code"] == RING.code and r["text"].endswith(NO_ROOM):
            out.append(_finding(
                30, "stages", "shared memory holds fewer stages than the loop wants", r["text"],
                "smaller tiles in K leave room for more stages; the num_stages hint says how many are wanted",
                [["cuda_tile", r["cuda_tile"]]],
            ))  # fmt: skip
    return out


MANY_BARRIERS = 4


def _barriers(module: dict[str, Any]) -> list[dict[str, Any]]:
    """Loops whose warps meet often; the ops that make them meet."""
    out = []
    for loop in module["loops"]:
        if (
            loop["inner"]
            or loop["fed"]
            or loop["agent"]
            or loop["barriers"] < MANY_BARRIERS
            or loop["warps"] < 2
        ):
            continue
        own = {step["line"] for step in loop["steps"]}
        lines: dict[int, None] = {}
        for row in module["barriers"]:
            if row["line"] in own:
                lines.update(dict.fromkeys(row["for"] or row["write"] or row["read"]))
        ops = {step["line"]: step["op"] for step in loop["steps"]}
        named = ", ".join(f"{ops.get(n, 'an op')} at {_place(module, n)}" for n in list(lines)[:4])
        title = (
            f"the {loop['warps']} warps of the loop at {_place(module, loop['line'])} meet at {loop['barriers']} barriers an "
            "iteration"
        )
        why = f"values go from warp to warp through shared memory, and every warp waits for the slowest: {named}"
        remedy = (
            "one warp needs no barrier: num_worker_warps_per_cta = 1 with a smaller tile; or let the dimension that is reduced "
            "or scanned lie within a warp, by more rows in a tile"
        )
        refs = [["nv_tileas", n] for n in list(lines)[:8]]
        out.append(_finding(33, "barriers", title, why, remedy, refs))
    return out


def _banks(module: dict[str, Any]) -> list[dict[str, Any]]:
    """One finding for all accesses of an op of the input that conflict alike: the copies in front of a loop are those in it."""
    up = module["levels"].get("nv_tileas", {}).get("up", [])
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for block in module["shared"]:
        for row in block["accesses"]:
            if row["wavefronts"] > row["least"] and not row["fixed"]:
                line = row["line"]
                origin = up[line] if line < len(up) and up[line] >= 0 else -1 - line
                groups.setdefault(
                    (origin, row["role"], row["what"], row["wavefronts"], row["least"]), []
                ).append(row)
    out = []
    for (_, role, what, waves, least), rows in groups.items():
        out.append(_finding(
            30 + min(15, 2 * (waves // max(1, least))), "banks",
            f"bank conflicts: {role} at {_place(module, rows[0]['line'])} takes {waves} wavefronts for {least}",
            f"{what}: lanes of one phase ask one bank for several words",
            "the compiler chose the arrangement: another order of the dimensions, or a permute after the product, "
            "changes which lanes meet", [["nv_tileas", row["line"]] for row in rows[:4]],
        ))  # fmt: skip
    return out


def _hints(module: dict[str, Any]) -> list[dict[str, Any]]:
    """Hints that nothing reads: most often a slip of the pen."""
    return [
        _finding(58, "hint", f"a hint is not read: {r['text']}", r["cause"], r["remedy"], [["cuda_tile", r["cuda_tile"]]])
        for r in module["remarks"] if r["code"] in HINTS
    ]  # fmt: skip


HINTS = {f"CT-010{n}" for n in range(6)}


def _products(module: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _finding(60, "product", "a matrix product runs without tensor cores", r["text"], r["remedy"],
                 [["nv_tileas", r["nv_tileas"]]])
        for r in module["remarks"] if r["code"] == "NoTensorCore"
    ]  # fmt: skip


def _residency(module: dict[str, Any]) -> list[dict[str, Any]]:
    out = []
    for kernel in module["kernels"]:
        blocks = kernel["blocks"]
        if not blocks:
            continue
        warps = blocks["fit"] * kernel["threads"] // 32
        if warps >= 8:
            continue
        which = min(("registers", "shared", "threads"), key=lambda n: blocks[n])
        word = {"registers": "registers", "shared": "shared memory", "threads": "threads"}[which]
        out.append(_finding(
            20, "occupancy", f"{blocks['fit']} block{'s' * (blocks['fit'] > 1)} of {kernel['name']} fit an SM: {warps} warps",
            f"{word} run out first", "the occupancy hint of the entry asks for more blocks; smaller tiles need fewer "
            "registers and less shared memory", [],
        ))  # fmt: skip
    return out
