"""PTX text: the one place that makes strings out of records.

`print_module` returns the whole file for one target. The target is spelled as portably as the features used
allow; `.version` is the largest of 8.1, what the target needs and what the features need.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr, Float, Function, Label, Module, Reg, Sym, Var
from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Features that need a newer PTX ISA than their target, and those only an `a` or `f` target has.
# Source: PTX ISA manual, release notes.
FEATURE_PTX = {
    "blocksareclusters": (9, 0),
    sm.MMA_FP8: (8, 4),
    sm.FP4_CVT: (8, 6),
    sm.UE8M0_CVT: (8, 6),
    sm.WGMMA: (8, 0),
    sm.TCGEN05: (8, 6),
}
FAMILY_FEATURES = frozenset({sm.FP4_CVT, sm.UE8M0_CVT, sm.TCGEN05})
ARCH_FEATURES = frozenset({sm.WGMMA})

# What NVIDIA's assembler (13.3 and later) marks tile kernels with. `.language` takes the number that shows as
# EIATTR_LANGUAGE ... TILEIR; it changes no machine code. The variable has the 64 zero bytes of 13.4 and 13.5.
LANGUAGE_PTX = (9, 2)
LANGUAGE_TILEIR = ".language 7"
LAUNCH_METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];"


def spell_target(module: Module) -> str:
    """ "sm_90", or with an `a` when a feature in use exists only there."""
    features: set[str] = set()
    for fn in module.functions:
        features |= fn.features
    name = module.target.name
    if features & (ARCH_FEATURES | FAMILY_FEATURES):
        return name + "a"
    return name


def ptx_version(module: Module, launch_metadata: bool = False) -> tuple[int, int]:
    version = max(LANGUAGE_PTX if launch_metadata else (8, 1), module.target.ptx)
    for fn in module.functions:
        for feature in fn.features:
            version = max(version, FEATURE_PTX.get(feature, (0, 0)))
    return version


def print_module(module: Module, launch_metadata: bool = False) -> str:
    """The whole file. `launch_metadata` marks the kernels as tile kernels, for a ptxas that takes PTX ISA 9.2."""
    major, minor = ptx_version(module, launch_metadata)
    debug = module.debug
    full = ", debug" if debug is not None and debug.full else ""
    out = [f".version {major}.{minor}", f".target {spell_target(module)}{full}", ".address_size 64", ""]
    if any(fn.needs_vprintf for fn in module.functions):
        out.append(".extern .func (.param .b32 retval0) vprintf (.param .b64 fmt, .param .b64 args);")
    if any(fn.needs_assertfail for fn in module.functions):
        out.append(
            ".extern .func __assertfail (.param .b64 message, .param .b64 file, .param .b32 line, "
            ".param .b64 function, .param .b64 charsize);"
        )
    if any(fn.dynamic_shared_bytes for fn in module.functions):
        out.append(".extern .shared .align 128 .b8 $smem_dynamic[];")
    if launch_metadata and module.functions:
        out.append(LAUNCH_METADATA)
    for var in module.variables:
        out.append(_variable(var))
    for i, fn in enumerate(module.functions):
        for var in fn.variables:
            out.append(_variable(var))
        out.append(print_function(fn, launch_metadata, i if full else None))
    if debug is not None:
        from .debug import file_lines, info_lines

        out += file_lines(debug)
        if full:
            out += info_lines(debug)
    return "\n".join(out) + "\n"


def _variable(var: Var) -> str:
    linkage = ".visible " if var.visible else ""
    head = f"{linkage}.{var.space} .align {var.align} .b8 {var.name}[{max(1, var.size_bytes)}]"
    if var.data is None or not any(var.data):
        return head + ";"
    return head + " = {" + ", ".join(map(str, var.data)) + "};"


def print_function(fn: Function, launch_metadata: bool = False, debug_index: int | None = None) -> str:
    """One kernel. `debug_index`: its number in the debug sections, which refer to its begin and end (-g)."""
    params = ",\n".join(
        f"\t.param .{ptx_type} {fn.name}_param_{i}" for i, (ptx_type, _) in enumerate(fn.params)
    )
    out = [f".visible .entry {fn.name}(", params, ")"] if fn.params else [f".visible .entry {fn.name}()"]
    x, y, z = fn.block
    out.append(f".reqntid {x}, {y}, {z}")
    out += fn.directives
    if launch_metadata:
        out.append(LANGUAGE_TILEIR)
    out.append("{")
    counts = fn.counts
    for cls, kind in (("p", "pred"), ("h", "b16"), ("r", "b32"), ("d", "b64")):
        if counts[cls]:
            out.append(f"\t.reg .{kind} %{cls}<{counts[cls] + 1}>;")
    if fn.shared_bytes and not fn.dynamic_shared_bytes:
        out.append(f"\t.shared .align 128 .b8 $smem[{fn.shared_bytes}];")
    if fn.local_bytes:
        out.append(f"\t.local .align 16 .b8 $stack[{fn.local_bytes}];")
    if fn.dynamic_shared_bytes:  # the arena comes from the launch
        out += [
            _line(record).replace(" $smem;", " $smem_dynamic;") if _names_arena(record) else _line(record)
            for record in fn.code
        ]
    else:
        out += [_line(record) for record in fn.code]
    if debug_index is not None:
        from .debug import begin_label, end_label

        first = next(i for i, line in enumerate(out) if line == "{") + 1
        while out[first].startswith(("\t.reg", "\t.shared", "\t.local", "\t.loc ")):
            first += 1
        out.insert(first, f"{begin_label(debug_index)}:")
        out.append(f"{end_label(debug_index)}:")
    out.append("}\n")
    return "\n".join(out)


def _names_arena(record: Any) -> bool:
    return record.__class__ is tuple and record[0] == "mov.u32" and record[2][0].__class__ is Sym


def _operand(x: Any) -> str:
    kind = x.__class__
    if kind is Reg:
        return f"%{x.cls}{x.id}"
    if kind is int:
        return str(x)
    if kind is Float:
        return x.text
    if kind is Sym:
        return x.name
    if kind is Addr:
        base = _operand(x.base)
        return f"[{base}+{x.offset_bytes}]" if x.offset_bytes else f"[{base}]"
    if kind is tuple:
        return "{" + ", ".join(map(_operand, x)) + "}"
    if kind is Label:
        return f"$L{x.id}"
    return str(x)


def _line(record: Any) -> str:
    if record.__class__ is Label:
        return f"$L{record.id}:"
    opcode, dst, srcs, guard = record
    if opcode == "raw":
        return "\t" + srcs[0].format(*map(_operand, srcs[1:]))
    operands = [_operand(s) for s in srcs]
    if dst is not None:
        operands.insert(0, _operand(dst))
    head = ""
    if guard is not None:
        if guard.__class__ is tuple:
            head = f"@!%p{guard[0].id} " if guard[1] else f"@%p{guard[0].id} "
        else:
            head = f"@%p{guard.id} "
    return f"\t{head}{opcode} {', '.join(operands)};" if operands else f"\t{head}{opcode};"
