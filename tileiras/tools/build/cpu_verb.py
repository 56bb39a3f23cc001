"""``tileiras-build compile --arch cpu``: a source compiled for processors instead of a GPU.

What it makes is the kernel table with the code in it: assembly for the host's architecture in a version for each level of
its vectors. ``header`` puts that into the generated source, whose launcher takes the GPU when there is one, else the CPU.
"""

from __future__ import annotations

import json

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import Arguments, UsageError
from tileiras.tools.build.command import Failed
from tileiras.tools.build.depfile import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.tools.build.outputs import Outputs

diags = Catalogue("tileiras.tools.build.diags")

CPU = "cpu"
_NO_MEANING = {
    "o": "-o",
    "ptx": "--ptx",
    "remarks": "--remarks",
    "remarks_output": "--remarks-output",
    "sanitize": "--sanitize",
    "ptxas_option": "--ptxas-option",
    "option": "--option",
}
_BUDGETS = {"max_registers": "--max-registers", "no_spills": "--no-spills", "max_shared": "--max-shared"}


def refuse(arguments: Arguments, compiler: str, alone: bool = True) -> None:
    """What makes no sense for a processor; `alone`: beside GPUs neither. Errors: Failed(2), UsageError."""
    if compiler == "nvidia":
        raise Failed(diags.NVIDIA_CPU)
    for key, flag in _BUDGETS.items():
        if getattr(arguments, key, None):
            raise Failed(diags.CPU_BUDGET, flag=flag)
    for key, flag in _NO_MEANING.items() if alone else ():
        if getattr(arguments, key, None):
            raise UsageError(diags.CPU_OPTION, flag=flag)


def check_processor(arguments: Arguments) -> None:
    """Errors: LaunchError(2) for a processor that there is no code for."""
    from tileiras.run.cpu import ahead
    from tileiras.toolchain.locate import host, normalize_host_arch

    ahead.check_processor(normalize_host_arch(arguments.host_arch or host()[0]))


def run(arguments: Arguments, outputs: Outputs, source: str, data: bytes, compiler: str) -> None:
    """The verb, for the architecture cpu."""
    from tileiras.tools.build.compile_verb import declare
    from tileiras.tools.build.record import open_record

    refuse(arguments, compiler)
    if not arguments.kernels_json:
        raise UsageError(diags.CPU_TABLE)
    check_processor(arguments)
    depfile = text_of(arguments, arguments.kernels_json, [source, *arguments.depends])
    history = open_record(arguments)
    declare(arguments, outputs)
    outputs.put(arguments.kernels_json, table_of(arguments, source, data))
    if arguments.depfile:
        outputs.put(arguments.depfile, depfile)
    outputs.commit()
    history.wrote([source, *arguments.depends], [arguments.kernels_json], ["--arch=cpu"], {})


def table_of(arguments: Arguments, source: str, data: bytes) -> bytes:
    """The kernel table with the code, from the cache where it is there. Errors: CompileError, Failed."""
    from tileiras.compiler.ir.verify import verify
    from tileiras.compiler.source import load
    from tileiras.diag import EXIT_COMPILE, Sink
    from tileiras.options import renamed
    from tileiras.run.cpu import ahead
    from tileiras.toolchain import cache
    from tileiras.toolchain.locate import host, normalize_host_arch

    arch = normalize_host_arch(arguments.host_arch or host()[0])
    abi = arguments.launch_abi or "simt"
    store = None if arguments.no_cache else cache.open_cache()
    key = ""
    if store is not None:
        words = ["cpu-ahead-4", arch, abi, source, cache.source_digest(), *arguments.entry]
        words += ["maps", *arguments.file_prefix_map]
        key = cache.key_of(data, *words)
        found = store.get(key)
        if found is not None and "table" in found:
            return found["table"]
    sink = Sink()
    module = load(data, sink, file=source)
    if not verify(module, sink):
        raise sink.fail(EXIT_COMPILE)
    entries = {op.attr("sym_name"): op for op in module.regions[0].block.ops if op.spec.name == "entry"}
    for name in arguments.entry:
        if name not in entries:
            there = ", ".join(sorted(entries)) or "none"
            raise Failed(diags.NO_KERNEL, of_line=True, name=name, source=source, there=there)
    pairs = [word.rpartition("=") for word in arguments.file_prefix_map]
    maps = [(old, new) for old, _, new in pairs]
    assembly, rows = ahead.compile_ahead(
        module, arch, list(arguments.entry), lambda path: renamed(path, maps)
    )
    table: dict[str, Any] = {
        "version": 1,
        "arch": CPU,
        "compiler": "builtin",
        "launch_abi": abi,
        "host_arch": arch,
        "kernels": [kernel_row(entries[row["symbol"]], row["symbol"]) for row in rows],
        "levels": [level.name for level in ahead.LEVELS[arch]],
        "globals": ahead.globals_of(module),
        "cpu": rows,
        "assembly": assembly,
    }
    out = (json.dumps(table, indent=1) + "\n").encode()
    if store is not None:
        store.put(key, {"table": out})
    return out


def kernel_row(entry: Any, symbol: str) -> dict[str, Any]:
    """What a launcher must know of one kernel."""
    from tileiras.tools.build.table import plain_name

    params, offset = [], 0
    for value in entry.regions[0].block.args:
        elem = value.type.elem
        size = getattr(elem, "bytes", 8)
        offset += -offset % size
        params.append({"type": str(elem), "size": size, "offset": offset})
        offset += size
    return {
        "name": plain_name(symbol), "symbol": symbol, "params": params, "block": [1, 1, 1], "threads": [1, 1, 1],
        "cluster": [1, 1, 1], "static_shared": 0, "dynamic_shared": 0, "registers": None, "spill_bytes": 0,
    }  # fmt: skip
