"""The kernel table (``kernels.json``): what a launcher must know of each kernel of one image.

{"version": 1, "arch", "image_arch", "compiler", "launch_abi", "host_arch", "kernels": [{"name", "symbol",
"params": [{"type", "size", "offset"}], "hidden": [], "block", "cluster", "static_shared", "dynamic_shared", "registers",
"spill_bytes"}]}

"hidden": the parameters that the launcher adds behind `params`, for bulk tensor copies: [{"kind": "tensor_map",
"array": index in `params`, "element", "extents", "strides", "box", "swizzle", "fill", "size", "offset"}]. Extents and
strides, in elements, are {"param": index in `params`} or {"const": number}; all lists stand outermost dimension first.
Size and offset are those of the image: ptxas aligns a map within the constant bank, whose parameters begin elsewhere on
every architecture; without an image they are missing.

Sizes, offsets, registers and shapes come from the image, which is what will be launched; types and what the
image cannot say (dynamic shared memory, spills, source) from the compiler.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.toolchain.cubin import Kernel
    from tileiras.tools.build.job import Job

VERSION = 1


def empty(job: Job) -> dict[str, Any]:
    """The table before anything is known of the kernels."""
    return {
        "version": VERSION,
        "arch": str(job.arch),
        "compiler": job.compiler,
        "launch_abi": job.launch_abi,
        "host_arch": job.host_arch,
        "kernels": [],
    }


def complete(
    reported: dict[str, Any], job: Job, cubin: bytes | None, bytecode: bytes = b""
) -> dict[str, Any]:
    """The table of this image: the compiler's report, corrected and completed by the image."""
    table = empty(job)
    by_symbol = {kernel["symbol"]: kernel for kernel in reported.get("kernels", [])}
    if cubin is None:
        table["kernels"] = [_row(None, by_symbol[symbol], job.launch_abi) for symbol in by_symbol]
    else:
        from tileiras.toolchain.cubin import read_cubin

        types = {} if by_symbol else _types_by_symbol(bytecode)
        image = read_cubin(cubin, job.source)
        table["image_arch"] = image.arch  # sm_90a where an image for sm_90 uses what only that GPU has
        found = image.kernels
        table["kernels"] = [
            _row(found[symbol], by_symbol.get(symbol), job.launch_abi, types.get(symbol))
            for symbol in sorted(found)
        ]
    _name(table["kernels"])
    return table


def as_text(table: dict[str, Any]) -> bytes:
    """The table as it lies in a file and in the cache: indenting it again for every build would cost more than the rest."""
    import json

    return (json.dumps(table, indent=1) + "\n").encode()


def of_cubin(data: bytes, name: str) -> dict[str, Any]:
    """The table of a cubin that nobody told us anything about."""
    from tileiras.toolchain.cubin import read_cubin

    cubin = read_cubin(data, name)
    abis = {kernel.launch_abi for kernel in cubin.kernels.values()}
    is_tile = abis == {"tile"} or (cubin.host is not None)
    launch_abi = "tile" if is_tile else "simt"
    table: dict[str, Any] = {
        "version": VERSION,
        "arch": cubin.arch,
        "image_arch": cubin.arch,
        "compiler": "nvidia" if is_tile else "unknown",
        "launch_abi": launch_abi,
        "host_arch": cubin.host,
        "kernels": [_row(cubin.kernels[symbol], None, launch_abi) for symbol in sorted(cubin.kernels)],
    }
    _name(table["kernels"])
    return table


def _row(
    kernel: Kernel | None,
    reported: dict[str, Any] | None,
    launch_abi: str,
    types: list[str] | None = None,
) -> dict[str, Any]:
    known = reported or {}
    params: list[dict[str, Any]] = []
    hidden = [dict(each) for each in known.get("hidden", [])]
    if kernel is None:
        params = known.get("params", [])
    else:
        names = types or [param.get("type") for param in known.get("params", [])]
        count = len(kernel.params) - len(hidden)
        for each, param in zip(hidden, kernel.params[count:]):
            each.update(size=param.size, offset=param.offset)
        for index, param in enumerate(kernel.params[:count]):
            # A compiler that passes more or other parameters than its source names gives no types to trust.
            known_type = names[index] if len(names) == count else None
            params.append(
                {"type": known_type or type_of_bytes(param), "size": param.size, "offset": param.offset}
            )
    symbol = kernel.symbol if kernel is not None else known["symbol"]
    threads = (kernel.block if kernel is not None else None) or known.get("block") or (1, 1, 1)
    cluster = (kernel.cluster if kernel is not None else None) or known.get("cluster") or (1, 1, 1)
    row = {
        "name": known.get("name") or symbol,
        "symbol": symbol,
        "params": params,
        "hidden": hidden,
        # What a launch names: a tile kernel is launched with one "thread" a block, however many run it.
        "block": [1, 1, 1] if launch_abi == "tile" else list(threads),
        "threads": list(threads),
        "cluster": list(cluster),
        "static_shared": kernel.static_shared if kernel is not None else known.get("static_shared", 0),
        "dynamic_shared": known.get("dynamic_shared", 0),
        # null where no image was made: PTX uses as many registers as the driver will give it
        "registers": kernel.registers if kernel is not None else known.get("registers"),
        "spill_bytes": _spill_bytes(kernel, known),
    }
    return row


def _spill_bytes(kernel: Kernel | None, known: dict[str, Any]) -> int | None:
    """An image says how much local memory a thread has, not what for: without the compiler's word, all of it counts as
    spilled. None where no image was made."""
    if known.get("spill_bytes") is not None:
        return known["spill_bytes"]
    return kernel.stack_bytes if kernel is not None else None


def type_of_bytes(param: Any) -> str:
    """ "ptr" where the image says so, else "b32" by size: a type that claims no more than is known."""
    if param.is_pointer:
        return "ptr"
    return f"b{param.size * 8}"


def _types_by_symbol(data: bytes) -> dict[str, list[str]]:
    """The parameter types of each entry, read from the bytecode; {} where it cannot be read here."""
    from tileiras.diag import CompileError
    from tileiras.tools.build.bytecode_verb import entry_facts

    try:
        return {symbol: facts.types for symbol, facts in entry_facts(data).items()}
    except CompileError:
        # A newer bytecode than ours, which NVIDIA's compiler has just accepted: the image's own types must
        # do.
        return {}


def _name(kernels: list[dict[str, Any]]) -> None:
    """Gives each kernel a readable name; where two would share one, they keep their symbols."""
    names = [
        plain_name(kernel["symbol"]) if kernel["name"] == kernel["symbol"] else kernel["name"]
        for kernel in kernels
    ]
    for kernel, name in zip(kernels, names):
        kernel["name"] = name if names.count(name) == 1 else kernel["symbol"]


def plain_name(symbol: str) -> str:
    """ "vadd" for cuTile's "vadd_Kt1_A1f32..." and for C++'s "_Z4vaddPf" and "_ZN2ns4vaddEPf"; else the
    symbol."""
    head, mark, tail = symbol.partition("_Kt")
    if mark and head and tail[:1].isdigit():
        return head
    if symbol.startswith("_Z"):
        rest = symbol[2:].removeprefix("N")
        last = ""
        while rest[:1].isdigit():
            digits = len(rest) - len(rest.lstrip("0123456789"))
            size = int(rest[:digits]) if digits < 10 else len(rest)
            last, rest = rest[digits : digits + size], rest[digits + size :]
            if not symbol.startswith("_ZN"):
                break
        return last or symbol
    return symbol
