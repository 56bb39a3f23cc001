"""Kernels compiled ahead of time: assembly for one kind of processor, in a version for each level of its vectors.

The text goes into a C source (tools/build/cputext.py), so that it needs no LLVM and no Python where it is linked or run.
Every symbol begins with @P@, which the C source's prefix replaces.
"""

from __future__ import annotations

import re

from tileiras.compiler.lower.cuda_tile_to_tileaa import lower_module
from tileiras.diag import ERROR, EXIT_COMPILE, EXIT_CONFIGURATION, Diag, Emitted
from tileiras.run.errors import LaunchError
from tileiras.run.printing import items_of

from .code import Module
from .kernel import UNSUPPORTED
from .launch import global_bytes
from .lower import Lower
from .native import LOCK, library, optimise
from .registry import Unsupported
from .runtime import runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.run.printing import Item

NO_HOST = Diag("RUN-0520", ERROR, "no code for processor '{arch}': x86_64 or aarch64", "cpu")
"""
cause: The CPU target lacks what it needs: llvmlite, a processor it knows, memory, or a setting with a valid value.
remedy: `pip install 'tileiras[cpu]'`, use smaller tiles or fewer blocks, or correct the setting that the message
names.

  $ python k.py
  import tileiras
  from tileiras.run.cpu.ahead import compile_ahead

  module = tileiras.load("cuda_tile.module @m { entry @k() { return } }")
- compile_ahead(module.op, "mips", [])
+ compile_ahead(module.op, "x86_64", [])
"""


class Level:
    """One version of the code: its name, what LLVM is told, what our lowering may use, bytes of a vector."""

    __slots__ = ("cpu", "features", "flags", "name", "vector_bytes")

    def __init__(self, name: str, cpu: str, features: str, flags: tuple[str, ...], vector_bytes: int) -> None:
        self.name, self.cpu, self.features, self.flags = name, cpu, features, frozenset(flags)
        self.vector_bytes = vector_bytes


AVX2 = ("stream", "f16c", "fma", "gather", "mask32")
LEVELS = {
    "x86_64": (
        Level("v2", "x86-64-v2", "", ("stream",), 16),
        Level("v3", "x86-64-v3", "", AVX2, 32),
        Level("v4", "x86-64-v4", "-prefer-256-bit", (*AVX2, "scatter", "scalef", "mask8"), 64),
    ),
    "aarch64": (Level("v8", "generic", "+neon", ("f16c", "fma"), 16),),
}
TRIPLES = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


def check_processor(arch: str) -> None:
    """Errors: LaunchError for a processor that there is no code for."""
    if arch not in LEVELS:
        raise LaunchError([Emitted(NO_HOST, None, None, [("arch", arch)])], EXIT_CONFIGURATION)


def compile_ahead(
    module: Op, arch: str, entries: list[str], rename: Callable[[str], str] = str
) -> tuple[str, list[dict[str, Any]]]:
    """(assembly, per entry {"symbol", "waits", "bytes" of a tile block per level, "sites": what can fault, "prints":
    what each site prints, "largest": which op makes the largest tile}).

    module: a verified cuda_tile module. entries: those to compile, all when empty. rename: of source files' names.
    Errors: LaunchError.
    """
    check_processor(arch)
    llvm = library()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    names = [op.attr("sym_name") for op in module.regions[0].block.ops if op.spec.name == "entry"]
    chosen = [name for name in names if not entries or name in entries]
    rows: dict[str, dict[str, Any]] = {
        n: {"symbol": n, "bytes": [], "waits": False, "sites": [], "prints": [], "largest": ""}
        for n in chosen
    }
    first = LEVELS[arch][0]
    with LOCK:
        target = llvm.Target.from_triple(TRIPLES[arch])
        options = {
            "cpu": first.cpu,
            "features": first.features,
            "opt": 2,
            "reloc": "pic",
            "codemodel": "small",
        }
        machine = target.create_target_machine(**options)
        whole = llvm.parse_assembly("")
        whole.triple, whole.data_layout = TRIPLES[arch], str(machine.target_data)
        for level in LEVELS[arch]:
            for number, name in enumerate(chosen):
                text = level_text(module, name, number, level, TRIPLES[arch], rows[name], rename)
                part = llvm.parse_assembly(text)
                part.triple, part.data_layout = whole.triple, whole.data_layout
                part.verify()
                whole.link_in(part)
        optimise(llvm, machine, whole)
        assembly = machine.emit_assembly(whole)
    return tidy(assembly), list(rows.values())


def symbol_of(number: int, level: str) -> str:
    """The name of an entry's code; @P@ stands for the prefix (spelled so that LLVM takes it)."""
    return f"TILEPREFIX_cpu_{number}_{level}"


def level_text(
    module: Op,
    name: str,
    number: int,
    level: Level,
    triple: str,
    row: dict[str, Any],
    rename: Callable[[str], str],
) -> str:
    """LLVM IR of one entry at one level."""
    lowered = lower_module(module)
    functions = {op.attr("sym_name"): op for op in lowered.regions[0].block.ops if op.spec.name == "func"}
    globals = [op for op in module.regions[0].block.ops if op.spec.name == "global"]
    out = Module()
    numbers = {op.attr("sym_name"): i for i, op in enumerate(globals)}
    lower = Lower(out, functions[name], level.flags, level.vector_bytes, numbers)
    try:
        out.functions["kernel"] = lower.run("kernel")
        row["prints"] = [prints_of(op) for op in lower.sites]
        size, op = lower.arena.largest
        row["largest"] = f"{rename(str(op.loc))}: {op.spec.source_name} makes {size} of them" if op else ""
    except Unsupported as problem:
        op, why = problem.args
        raise LaunchError(
            [Emitted(UNSUPPORTED, op.loc, op.spec.source_name, [("why", why)])], EXIT_COMPILE
        ) from None
    row["bytes"].append(lower.arena.size)
    row["waits"] = lower.waits or lower.will_wait
    row["sites"] = [f"{rename(str(op.loc))}: {site_text(op)}" for op in lower.sites]
    text = out.text() + runtime(triple)
    text = text.replace("@tile_run(", f"@{symbol_of(number, level.name)}(")
    text = text.replace("define void @kernel(", "define internal void @kernel(")
    text = re.sub(r"^(define [^{]*)\{", r"\1#0 {", text, flags=re.M)
    features = f' "target-features"="{level.features}"' if level.features else ""
    return f'{text}\nattributes #0 = {{ "target-cpu"="{level.cpu}"{features} }}\n'


def prints_of(op: Op) -> list[Item]:
    """What a site prints; nothing for other ops than print."""
    if op.spec.name != "print_tko":
        return []
    items, why = items_of(op)
    if why:
        raise Unsupported(op, why)
    return items


def globals_of(module: Op) -> list[dict[str, Any]]:
    """Size, alignment and first bytes (base64, without the zeros at the end) of each global, in order."""
    import base64

    rows = []
    for op in module.regions[0].block.ops:
        if op.spec.name == "global":
            data, alignment = global_bytes(op)
            rows.append(
                {
                    "size": max(1, len(data)),
                    "alignment": alignment,
                    "constant": bool(op.attr("constant")),
                    "data": base64.b64encode(data.rstrip(b"\0")).decode(),
                }
            )
    return rows


def site_text(op: Op) -> str:
    """What a fault of an op says: the assertion's message or the op."""
    return f"assertion failed: {op.attr('message')}" if op.spec.name == "assert" else op.spec.source_name


def tidy(assembly: str) -> str:
    """The text fit to stand beside a compiler's: private labels of its own, no file names, hidden symbols."""
    dropped = (".file", ".ident", ".addrsig", ".intel_syntax")
    lines = []
    for line in assembly.splitlines():
        words = line.split(None, 1)
        if not words or words[0] in dropped or ".note.GNU-stack" in line or words[0].startswith("#"):
            continue
        lines.append(line)
        if words[0] == ".globl":
            lines.append(f"\t.hidden\t{words[1]}")
    text = "\n".join(lines) + "\n"
    own = {
        name
        for name in re.findall(r"^\s*\.type\s+([\w.$]+),", text, flags=re.M)
        if not name.startswith("TILEPREFIX")
    }
    if own:  # functions that are local here are still names in the file they are put into
        names = "|".join(re.escape(name) for name in sorted(own, key=len, reverse=True))
        text = re.sub(rf"(?<![\w.$])({names})(?![\w.$])", r"TILEPREFIX_\1", text)
    return re.sub(r"(?<![\w.])\.L(?=[A-Za-z_])", ".LTILEPREFIX_", text).replace("TILEPREFIX", "@P@")
