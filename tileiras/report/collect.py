"""What a compile left, as plain data: the document that `--report=FILE.json` writes and that the page is drawn from.

docs/report.md has the schema. A change of meaning or of a name is a new SCHEMA.
"""

from __future__ import annotations

import os

from . import findings, lanes, levels, loops, machine, memory, pressure, roofline, shared, sync, tensor_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.diag import Emitted

    from .watch import Watch

SCHEMA = 1
MOST_OPS = 20_000
MOST_BYTES = 10_000_000
LEVELS = ("source", "cuda_tile", "nv_tileas", "ptx", "sass")


def document(modules: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole report."""
    from tileiras.version import __version__

    return {"format": "tileiras-report", "schema": SCHEMA, "tileiras": __version__, "modules": list(modules)}


def module(
    watch: Watch, diagnostics: Sequence[Emitted], exit_code: int = 0, profile: Any = None
) -> dict[str, Any]:
    """One compiled module. `exit_code`: how the compile ended; `profile`: of a launch on the emulator."""
    program = watch.program
    options = program.options if program is not None else None
    out: dict[str, Any] = {
        "name": os.path.basename(levels.shown(watch.file, watch)) or _entries(watch) or "module",
        "target": program.target.name if program is not None else "",
        "options": {
            "opt_level": options.opt_level if options else None,
            "launch_abi": options.launch_abi if options else None,
            "tensor_maps": options.tensor_maps if options else None,
            "disable": list(options.disable) if options else [],
        },
        "stage": watch.stage, "finished": watch.finished, "exit_code": exit_code, "ops": len(watch.origin), "cut": [],
        "levels": {}, "kernels": [], "layouts": [], "values": [], "shared": [], "loops": [], "barriers": [],
        "pressure": [], "accesses": [], "roofline": [], "remarks": [], "findings": [], "emulator": None, "notes": [],
    }  # fmt: skip
    out["cut_ops"] = len(watch.origin) > MOST_OPS
    if out["cut_ops"]:
        out["cut"].append(
            f"the module has {len(watch.origin)} ops, more than {MOST_OPS}: texts end after {levels.MOST_LINES} lines, "
            "and layouts, loops and machine code are left out"
        )
    reading = machine.Reading(watch) if watch.finished and not out["cut_ops"] else None
    source, place = levels.source_level(watch)
    shown = [source]
    above = tree = None
    if watch.module is not None:
        level, above = levels.cuda_tile_level(watch, place)
        shown.append(level)
    if watch.tree is not None and above is not None:
        try:
            level, tree = levels.nv_tileas_level(watch, above)
            shown.append(level)
        except Exception:
            if watch.finished:
                raise
            out["notes"].append(f"the IR that the pass {watch.stage} left cannot be printed")
    records = levels.ptx_lines(watch) if watch.ptx else []
    if watch.ptx:
        shown.append(levels.ptx_level(watch, tree, records))
    for level in shown:
        out["levels"][level.name] = level.data()
        if level.cut and not out["cut_ops"]:
            out["cut"].append(f"the text of {level.name} ends after {levels.MOST_LINES} lines")
    _kernels(out, watch)
    if tree is not None and watch.tree.spec.dialect == "nv_tileas" and not out["cut_ops"]:
        _details(out, watch, tree, records, reading or machine.Reading(watch))
    _remarks(out, watch, diagnostics, above, tree)
    out["emulator"] = emulated(profile)
    out["findings"] = findings.rank(out)
    return out


def _entries(watch: Watch) -> str:
    """The kernels of a module without a file."""
    if watch.module is None:
        return ""
    return ", ".join(
        str(op.attrs["sym_name"]) for op in watch.module.regions[0].block.ops if op.spec.name == "entry"
    )


def _kernels(out: dict[str, Any], watch: Watch) -> None:
    from .model import GPUS, residency

    program = watch.program
    if program is None:
        return
    number = loops.modelled_gpu(program.target.number)
    functions = watch.tree.regions[0].block.ops if watch.tree is not None else ()
    specs = {
        op.attrs["sym_name"]: op.attrs.get("nv_tileaa.kernel_spec")
        for op in functions
        if op.spec.name == "func"
    }
    for kernel in program.kernels.values():
        x, y, z = kernel.block
        used = watch.resources.get(kernel.name)
        fits = residency(
            GPUS[number], kernel.registers or 32, kernel.static_shared + kernel.dynamic_shared, x * y * z
        )
        fn = next((f for f in watch.code.functions if f.name == kernel.name), None) if watch.code else None
        asked = fn.attrs.get("nvvm.maxnreg") if fn is not None else None
        spec = specs.get(kernel.name)
        agents = [
            {"id": op.attr("id"), "warps": op.attr("num_warps"), "registers": op.attrs.get("registers")}
            for f in functions if f.attrs.get("sym_name") == kernel.name
            for op in f.walk() if op.spec.name == "agent"
        ]  # fmt: skip
        out["kernels"].append({
            "name": kernel.name, "threads": x * y * z, "registers": kernel.registers,
            # where agents take and give registers, the most that one has; not what the block starts with
            "limit": max((a["registers"] for a in agents if a["registers"]), default=0)
            or min(255, asked or 255, 65536 // max(1, x * y * z) // 8 * 8),
            "spill_stores": used.spill_store_bytes if used else None, "spill_loads": used.spill_load_bytes if used else None,
            "occupancy": getattr(spec, "occupancy", None), "agents": agents,
            "stack": used.stack_bytes if used else None, "shared": kernel.static_shared + kernel.dynamic_shared,
            "shared_limit": program.target.smem_bytes_max, "cluster": list(kernel.cluster),
            "blocks": {"fit": fits.blocks, "registers": fits.by_registers, "shared": fits.by_shared, "threads": fits.by_threads,
                       "limit": fits.limit} if kernel.registers is not None else None,
        })  # fmt: skip


def _details(
    out: dict[str, Any],
    watch: Watch,
    tree: Any,
    records: list[tuple[Any, int, Any]],
    reading: machine.Reading,
) -> None:
    """Layouts, shared memory, loops, barriers, registers, accesses, machine code and the model."""
    found = reading.machine()
    if found.why:
        out["notes"].append(f"no machine code: {found.why}")
    where: dict[tuple[str, int], int] = {}
    if found.codes:
        lines, up, where = machine.listing(found, watch)
        level = levels.Level(
            "sass",
            lines[: levels.MOST_LINES],
            up[: levels.MOST_LINES],
            max(0, len(lines) - levels.MOST_LINES),
        )
        out["levels"]["sass"] = level.data()
        if not found.live:
            out["notes"].append(
                "the image is too large for the table of the registers that are alive in machine code"
            )
        if not any(line >= 0 for line in level.up):
            out["notes"].append(
                "machine code is not linked to PTX: no line tables that describe the same instructions"
            )
    _layouts(out, tree)
    out["accesses"] = memory.accesses(watch, tree)
    kernels = {kernel["name"]: kernel for kernel in out["kernels"]}
    asked = shared.accesses(tree)

    def owner_of(record: Any) -> tuple[Any, int]:
        owner = watch.owners.get(id(record))
        return (owner[1], tree.line_of.get(owner[1], -1)) if owner is not None else (None, -1)

    issued: dict[Any, int] = {}
    for _, _, record in records:
        owner = watch.owners.get(id(record))
        if owner is not None and record.__class__ is tuple and record[0] != "loc":
            issued[owner[1]] = issued.get(owner[1], 0) + 1
    for function in watch.tree.regions[0].block.ops:
        if function.spec.name != "func" or function not in tree.line_of:
            continue
        name = function.attrs["sym_name"]
        span = [tree.line_of[op] for op in function.walk() if op in tree.line_of]
        first, last = min(span), max(span)
        kernel = kernels.get(name, {})
        out["shared"].append({
            "kernel": name, "first": first, "last": last, "bytes": kernel.get("shared", 0),
            "buffers": shared.buffers(tree, function), "accesses": [a for a in asked if first <= a["line"] <= last],
            "tensor_memory": tensor_memory.allocation(tree, function),
        })  # fmt: skip
        warps = max(1, kernel.get("threads", 128) // 32)
        number = watch.program.target.number
        own = [op for op in function.walk() if op.spec.name in loops.LOOPS and op in tree.line_of]
        mine = [row for row in records if row[0].name == name]
        code = [record for _, _, record in mine]
        demand = pressure.Demand(code)
        waits = sync.rows(mine, owner_of, demand.loops)
        found_loops = [
            loops.loop_data(
                op, tree, issued, warps, number, name, [w["line"] for w in waits if w["kind"] == "barrier"]
            )
            for op in own
        ]
        out["shared"][-1]["accesses"] += lanes.exchanges(code, owner_of)
        out["shared"][-1]["accesses"].sort(key=lambda row: row["line"])
        out["barriers"] += [{"kernel": name, **row} for row in waits]
        if mine:
            out["pressure"].append(_pressure(name, mine, demand, watch, tree, found, where, kernel))
        loops.pair(found_loops)
        row = roofline.point(name, kernel, own, found_loops, found, number, where, out["levels"])
        if row is not None:
            out["roofline"].append(row)
        out["loops"] += found_loops
    _fallbacks(out)


def _fallbacks(out: dict[str, Any]) -> None:
    """Marks loops that run where a test at run time finds no alignment: a version of the same loop is fed."""
    up = out["levels"]["nv_tileas"]["up"]
    fed = {up[loop["line"]] for loop in out["loops"] if loop["fed"] and loop["line"] < len(up)}
    for loop in out["loops"]:
        loop["fallback"] = not loop["fed"] and loop["line"] < len(up) and up[loop["line"]] in fed - {-1}


def _pressure(
    name: str, mine: list[tuple[Any, int, Any]], demand: pressure.Demand, watch: Watch, tree: Any, found: machine.Machine,
    where: dict[tuple[str, int], int], kernel: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    def value_of(op: Any) -> tuple[str, int]:
        if op is None:
            return "indices and addresses", -1
        value = op.results[0] if op.results else None
        return tree.names.get(value, op.spec.name) if value is not None else op.spec.name, tree.line_of.get(
            op, -1
        )

    code = [record for _, _, record in mine]
    out: dict[str, Any] = {
        "kernel": name, "limit": kernel.get("limit", 255), "registers": kernel.get("registers"),
        "ptx": {"first": mine[0][1], "live": list(demand.live), "peak_line": mine[demand.peak][1],
                "peak": demand.live[demand.peak], "holders": pressure.holders(demand, code, watch.owners, value_of)[:24]},
        "sass": None,
    }  # fmt: skip
    lines = [at for _, at, _ in mine]
    if lines != list(range(lines[0], lines[0] + len(lines))):  # a call takes several lines
        out["ptx"]["lines"] = lines
    live = found.live.get(name)
    if live is not None and live.count:
        order = sorted(live.count)
        peak = max(order, key=lambda address: live.count[address])
        up = found.ptx.get(name, {})
        by_ptx = {at: record for _, at, record in mine}
        held: dict[tuple[str, int], int] = {}
        for address in pressure.written_at(live, order, peak).values():
            record = by_ptx.get(up.get(address, -1))
            owner = watch.owners.get(id(record)) if record is not None else None
            key = value_of(owner[1] if owner is not None else None)
            held[key] = held.get(key, 0) + 1
        spills = [
            where[name, i.address] for i in found.codes[name].instructions
            if i.base in ("STL", "LDL") and (name, i.address) in where
        ] if name in found.codes else []  # fmt: skip
        ranked = sorted(held.items(), key=lambda item: (-item[1], item[0][1]))
        out["sass"] = {
            "lines": [where.get((name, address), -1) for address in order], "live": [live.count[a] for a in order],
            "peak": live.count[peak], "peak_line": where.get((name, peak), -1), "spills": spills[:400],
            "holders": [{"name": n, "line": line, "registers": count} for (n, line), count in ranked[:24]],
        }  # fmt: skip
    return out


def _layouts(out: dict[str, Any], tree: Any) -> None:
    """Every value that has elements, with its layout."""
    numbers: dict[Any, int] = {}
    for op, line in sorted(tree.line_of.items(), key=lambda item: item[1]):
        values = [*op.results]
        for region in op.regions:
            for block in region.blocks:
                values += block.args
        for value in values:
            layout = getattr(value.type, "layout", None)
            shape = getattr(value.type, "shape", ())
            if layout is None or not shape:
                continue
            if layout not in numbers:
                numbers[layout] = len(numbers)
                out["layouts"].append({
                    "bits": layout.bits, "reg": layout.reg, "lane": layout.lane, "warp": layout.warp, "inv": layout.inv,
                })  # fmt: skip
            out["values"].append({
                "name": tree.names.get(value, ""), "line": line, "op": op.spec.name, "shape": list(shape),
                "elem": str(value.type.elem), "layout": numbers[layout],
            })  # fmt: skip


SEVERITIES = {1: "note", 2: "warning", 3: "error", 4: "remark"}


def _remarks(
    out: dict[str, Any], watch: Watch, diagnostics: Sequence[Emitted], above: Any, tree: Any
) -> None:
    """Everything that was said, and what lowering would have said had it been asked."""
    from tileiras.compiler.dialects.cuda_tile.hints import check_hints
    from tileiras.diag import PREFIX, Emitted, Sink
    from tileiras.explain import table

    known = table()
    seen: set[tuple[Any, ...]] = set()

    def add(emitted: Emitted, line: int) -> None:
        loc = emitted.loc
        file = levels.shown(loc.file, watch) if loc is not None else ""
        origin = watch.op_of(loc)
        key = (emitted.code, emitted.message, file, loc.line if loc else 0, loc.col if loc else 0, line)
        if key in seen:
            return
        seen.add(key)
        cause, _, remedy = known.get(emitted.code, "").partition("remedy:")
        out["remarks"].append({
            "severity": PREFIX.get(emitted.severity, "note: ").rstrip(": "), "code": emitted.code, "kind": emitted.diag.kind,
            "category": emitted.diag.category, "text": emitted.message, "file": file, "line": loc.line if loc else 0,
            "col": loc.col if loc else 0, "notes": [note.render() for note in emitted.notes],
            "cause": cause.removeprefix("cause:").strip(), "remedy": remedy.strip(), "nv_tileas": line,
            "cuda_tile": above.line_of.get(origin, -1) if above is not None and origin is not None else -1,
        })  # fmt: skip

    lowered = {remark.diag.code for remark in watch.remarks}
    for emitted in (*diagnostics, *watch.unasked):
        if not (emitted.severity == 4 and emitted.code in lowered):
            add(emitted, -1)
    for remark in watch.remarks:
        add(
            Emitted(remark.diag, remark.op.loc, facts=remark.facts.items()),
            tree.line_of.get(remark.op, -1) if tree is not None else -1,
        )
    if (
        watch.module is not None
    ):  # a compile passes over hints that it does not know, as it must; a reader wants to know
        unread = Sink()
        check_hints(watch.module, unread)
        for emitted in unread.emitted:
            add(emitted, -1)


def emulated(profile: Any) -> dict[str, Any] | None:
    """What a launch on the emulator counted, by PTX line."""
    if profile is None or profile.total is None:
        return None

    def numbers(c: Any) -> dict[str, Any]:
        return {
            "warps": c.warps, "threads": c.threads, "wavefronts": c.wavefronts, "least_wavefronts": c.least_wavefronts,
            "sectors": c.sectors, "least_sectors": c.least_sectors, "barriers": c.barriers, "copied": c.copied,
            "by_class": dict(sorted(c.by_class.items())), "in_flight": list(c.in_flight) if c.in_flight else None,
        }  # fmt: skip

    lines = [
        {"ptx": number - 1, "instruction": text, **numbers(counts)}
        for number, (text, counts) in sorted(profile.ptx.items())
    ]
    return {"total": numbers(profile.total), "lines": lines}
