"""What the commands say behind a diagnostic: which targets there are, and what a file is that is no Tile IR.

The words of the diagnostics are a contract; these lines come after all of them, and only on a command's standard error.
"""

from __future__ import annotations

from tileiras.archs import FIRST_WITH_SUFFIX, NUMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tileiras.diag import Emitted

# Names that people use for an architecture. Source: NVIDIA's list of compute capabilities.
_PRODUCTS = {
    "turing": 75, "t4": 75, "ampere": 80, "a100": 80, "a30": 80, "a10": 86, "a40": 86, "orin": 87, "ada": 89, "lovelace": 89,
    "l4": 89, "l40": 89, "4090": 89, "3090": 86, "hopper": 90, "h100": 90, "h200": 90, "gh200": 90, "blackwell": 100,
    "b100": 100, "b200": 100, "gb200": 100, "b300": 103, "gb300": 103, "thor": 110, "5090": 120, "spark": 121, "gb10": 121,
}  # fmt: skip
_NO_TARGET = ("DRV-0201", "DRV-0501", "DRV-0502")
_GENERIC = ("DRV-0005", "TC-0199")
_BAD_TARGET = {"DRV-0202": "name", "TC-0301": "text"}  # code -> the fact that has the name


def lines(diagnostics: Sequence[Emitted], inputs: Mapping[str, bytes]) -> list[str]:
    """Notes for what was emitted; `inputs` are the files that were read."""
    found = []
    codes = {emitted.code for emitted in diagnostics}
    for emitted in diagnostics:
        if emitted.code in _BAD_TARGET:
            name = str(dict(emitted.facts).get(_BAD_TARGET[emitted.code], ""))
            near = nearest_target(name)
            option = "--gpu-name=" if emitted.code == "DRV-0202" else ""
            found.append(_targets(f"; did you mean {option}{near}?" if near else ""))
            break
    if codes.intersection(_NO_TARGET):
        found.append(_targets("; name one: --gpu-name=sm_90"))
    # The bytecode reader refused the first bytes, or the parser what may never have been meant as Tile IR.
    unread = {"BC-0001", "SRC-0002", "SRC-0003", "IR-0001", "IR-0002", "IR-0003", "IR-0004"}
    if codes & unread:
        for name, data in inputs.items():
            if b"cuda_tile" not in data[:65536] and (what := describe(name, data)):
                found.append(f"note: '{name}' {what}")
    found += [f"note: {what}" for what in dict.fromkeys(map(way_out, diagnostics)) if what]
    return found


def way_out(emitted: Emitted) -> str:
    """What would take the place of what was refused, where the message alone tells; or nothing."""
    text = emitted.text
    if emitted.code == "IR-0001":
        _, _, tail = text.partition("expects different type than prior uses: ")
        wanted, _, given = tail.partition(" vs ")
        if given:
            return conversion(given.strip("'"), wanted.strip("'"))
        return result_of(text)
    if emitted.code == "IR-0006":
        return op_for(emitted.op or "", text)
    if emitted.code == "CT-0053":
        return "give each tile block a part, by get_tile_block_id and a partition view, or go through the parts in a loop"
    return ""


# Ops of numbers that have a twin for integers, which ends in i for f.
_TWINS = ("add", "sub", "mul", "div", "max", "min", "rem", "neg", "abs", "cmp")


def op_for(name: str, text: str) -> str:
    """The op for the elements at hand, where the one that was refused takes others."""
    name = name.removeprefix("cuda_tile.")
    _, wanted, given = text.partition(" values, but got ")
    elem = split_tile(given.strip("'"))[1]
    if not wanted or not elem or " must be tile of " not in text:
        return ""
    is_float = elem.startswith(("f", "bf", "tf"))
    if is_float and elem.startswith(("f8", "f4")):
        made = conversion(given.strip("'"), given.strip("'").replace(elem, "f32"))
        return made.replace("the wanted type", f"a type that {name} takes") if name[-1] == "f" else ""
    twin = name[:-1] + "if"[is_float]
    return f"{twin} is {name} for {elem}" if name[:-1] in _TWINS and twin != name else ""


def conversion(given: str, wanted: str) -> str:
    """The op that makes a tile of another type."""
    (shape, elem), (other, into) = split_tile(given), split_tile(wanted)
    if not elem or not into:
        return ""
    if elem == into:
        kind = "broadcast" if shape.count("x") == other.count("x") else "reshape, then broadcast,"
        return (
            f"{kind} makes tile<{other}{into}> of tile<{shape}{elem}> where extents are 1"
            if shape != other
            else ""
        )
    if shape != other or "ptr" in elem + into:
        return ""
    floats = elem.startswith(("f", "bf", "tf")), into.startswith(("f", "bf", "tf"))
    if floats == (False, False):
        name = "exti" if int(elem[1:] or 0) < int(into[1:] or 0) else "trunci"
    else:
        name = {(False, True): "itof", (True, False): "ftoi", (True, True): "ftof"}[floats]
    sign = "" if name in ("ftof", "trunci") else " signed"
    return f"{name} makes the wanted type: %v = {name} %u{sign} : tile<{shape}{elem}> -> tile<{other}{into}>"


def split_tile(type: str) -> tuple[str, str]:
    """("128x64x", "f32") of "!cuda_tile.tile<128x64xf32>"; ("", "") of what is no tile of numbers."""
    inner = type.removeprefix("!cuda_tile.").removeprefix("tile<")
    if inner == type.removeprefix("!cuda_tile.") or not inner.endswith(">"):
        return "", ""
    parts = inner[:-1].split("x")
    shape = [part for part in parts[:-1] if part.isdigit()]
    return ("".join(f"{n}x" for n in shape), parts[-1]) if len(shape) == len(parts) - 1 else ("", "")


_PAIRS = ("load_ptr_tko", "load_view_tko", "atomic_rmw_tko", "atomic_cas_tko")


def result_of(text: str) -> str:
    """Memory ops whose second result, the token, was forgotten."""
    for name in _PAIRS:
        if f"'cuda_tile.{name}' expected ','" in text:
            return f"{name} has two results, the value and a token: %x, %t = {name} ... -> tile<...>, token"
    return ""


def code_lines(diagnostics: Sequence[Emitted]) -> list[str]:
    """The note that names the codes of the errors; the generic last line has none worth looking up."""
    codes = [e.code for e in diagnostics if e.severity == 3 and e.code and e.code not in _GENERIC]
    if not codes:
        return []
    named = ", ".join(dict.fromkeys(codes))
    return [f"note: code {named}; tileiras --explain {codes[0]} tells cause and remedy"]


def _targets(rest: str) -> str:
    return f"note: the targets are {', '.join(f'sm_{number}' for number in NUMBERS)}{rest}"


def nearest_target(name: str) -> str:
    """The target that was probably meant: `sm_90` for `SM90`, `9.0`, `compute_90`, `hopper` and `sm_91`; or nothing."""
    low = name.lower()
    for product, number in _PRODUCTS.items():
        if product in low:
            return f"sm_{number}"
    digits = "".join(c for c in low if c in "0123456789")
    if not digits or len(digits) > 4:
        return ""
    wanted = int(digits)
    if wanted < 20:  # `sm_9`, `sm_12`: a generation
        wanted *= 10
    older = [number for number in NUMBERS if number <= wanted]
    suffix = low[-1:] if wanted in NUMBERS and wanted >= FIRST_WITH_SUFFIX.get(low[-1:], wanted + 1) else ""
    return f"sm_{older[-1] if older else NUMBERS[0]}{suffix}"


_MAGICS = (
    (b"\x7fELF", "is an ELF file: a cubin or an object, so it is compiled already"),
    (
        b"\x50\xed\x55\xba",
        "is a fatbin, so it is compiled already; tileiras-build json lists what is in a cubin",
    ),
    (b"BC\xc0\xde", "is LLVM bitcode, not Tile IR"),
    (
        b"ML\xefR",
        "is MLIR's own bytecode; Tile IR has its own: write it with cuda-tile-translate or tileiras-translate",
    ),
    (b"PK\x03\x04", "is a zip archive or a wheel: unpack it first"),
    (b"\x1f\x8b", "is compressed by gzip: unpack it first"),
)


def describe(name: str, data: bytes) -> str:
    """What a file is that is no Tile IR, and what to do with it; nothing where that cannot be told."""
    if not data.strip(b" \t\r\n\0"):
        return "is empty: whatever should have written it did not"
    for magic, what in _MAGICS:
        if data.startswith(magic):
            return what
    code = [line.strip() for line in data[:65536].split(b"\n")]
    code = [line for line in code if line and not line.startswith((b"//", b"#!"))]
    first = code[0] if code else b""
    if first.startswith(b".version"):
        return (
            "is PTX, the form behind Tile IR: ptxas assembles it, as in `ptxas -arch=sm_90 k.ptx -o k.cubin`"
        )
    python = (b"import ", b"from ", b"def ", b"class ", b"@ct.", b"@cuda.tile")
    if name.endswith(".py") or any(line.startswith(python) for line in code[:40]):
        return (
            "is Python source: export its kernel first, as in `tileiras-build export k.py --entry NAME "
            "--signature ... -o k.tilebc`"
        )
    if first.startswith((b"; ModuleID", b"target triple", b"define ", b"source_filename")):
        return "is LLVM IR, not Tile IR"
    if name.endswith((".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp")) or any(
        line.startswith(b"#include") or b"__global__" in line or b"__tile_global__" in line
        for line in code[:200]
    ):
        return "is C++ source: tileiras-nvcc (or nvcc --enable-tile) compiles it"
    return ""
