"""PTX text: the one place that makes strings out of records.

`print_module` returns the whole file for one target. The target is spelled as portably as the features used
allow; `.version` is the largest of 8.1, what the target needs and what the features need.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr, Float, Function, Label, Module, Reg, Sym, TensorAddr, Var
from tileiras.compiler.nvvm.inst import BITS, PSEUDO, resolve
from tileiras.compiler.target import sm
from tileiras.compiler.target.tensor_maps import ALIGN, BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What NVIDIA's assembler (13.3 and later) marks tile kernels with. `.language` takes the number that shows as
# EIATTR_LANGUAGE ... TILEIR; it changes no machine code. The variable has the 64 zero bytes of 13.4 and 13.5.
LANGUAGE_PTX = (9, 2)
LANGUAGE_TILEIR = ".language 7"
ARENA = "$smem"
DYNAMIC_ARENA = Sym("$smem_dynamic")
LAUNCH_METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];"


def spell_target(module: Module) -> str:
    """ "sm_90", or with an `f` or `a` when a feature in use exists only there."""
    return str(module.target.spelling(features(module)))


def features(module: Module) -> set[str]:
    return set().union(*(fn.features for fn in module.functions))


def ptx_version(module: Module, launch_metadata: bool = False) -> tuple[int, int]:
    used = features(module)
    needs = [sm.FEATURES[feature][0] for feature in used]
    target = sm.first_ptx(module.target.spelling(used))
    return max(LANGUAGE_PTX if launch_metadata else (8, 1), target, *needs)


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
        align = max(fn.shared_align for fn in module.functions)
        out.append(f".extern .shared .align {align} .b8 $smem_dynamic[];")
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
    kinds = [f".{ptx_type} {fn.name}_param_{i}" for i, (ptx_type, _) in enumerate(fn.params)]
    for i in range(len(fn.tensor_maps)):
        kinds.append(f".align {ALIGN} .b8 {fn.name}_param_{len(fn.params) + i}[{BYTES}]")
    params = ",\n".join(f"\t.param {kind}" for kind in kinds)
    out = [f".visible .entry {fn.name}(", params, ")"] if kinds else [f".visible .entry {fn.name}()"]
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
        out.append(f"\t.shared .align {fn.shared_align} .b8 $smem[{fn.shared_bytes}];")
    if fn.local_bytes:
        out.append(f"\t.local .align 16 .b8 $stack[{fn.local_bytes}];")
    code = fn.code if not fn.dynamic_shared_bytes else [_from_launch(record) for record in fn.code]
    if debug_index is not None:
        from .debug import begin_label, end_label

        head = next((i for i, r in enumerate(code) if r.__class__ is Label or r[0] != "loc"), len(code))
        out += [_line(record) for record in code[:head]]
        out.append(f"{begin_label(debug_index)}:")
        code = code[head:]
    out += [_line(record) for record in code]
    if debug_index is not None:
        out.append(f"{end_label(debug_index)}:")
    out.append("}\n")
    return "\n".join(out)


def lines_of(record: Any) -> int:
    """How many lines of text a record takes: a call is a block of several."""
    return _line(record).count("\n") + 1 if record.__class__ is tuple and record[0] == "call.uni" else 1


def _from_launch(record: Any) -> Any:
    """A record in a kernel whose shared memory comes from the launch: the arena has another name."""
    if record.__class__ is tuple and record[0] == "mov.u32":
        source = record[2][0]
        if source.__class__ is Sym and source.name == ARENA:
            return (*record[:2], (DYNAMIC_ARENA,), record[3])
    return record


def _operand(x: Any) -> str:
    kind = x.__class__
    if kind is Reg or kind is Float:
        return x.text
    if kind is int:
        return str(x)
    if kind is Sym:
        return x.name
    if kind is Addr:
        base = _operand(x.base)
        return f"[{base}+{x.offset_bytes}]" if x.offset_bytes else f"[{base}]"
    if kind is tuple:
        return "{" + ", ".join(map(_operand, x)) + "}"
    if kind is Label:
        return f"$L{x.id}"
    if kind is TensorAddr:
        return f"[{_operand(x.base)}, {_operand(x.coords)}]"
    return str(x)


def _line(record: Any) -> str:
    if record.__class__ is Label:
        return f"$L{record.id}:"
    opcode, dst, srcs, guard = record
    if opcode in PSEUDO:
        return _PRINTERS[opcode](dst, srcs)
    operands = [s.text if s.__class__ is Reg else _operand(s) for s in srcs]
    if dst is not None:
        operands.insert(0, _results(opcode, dst) if dst.__class__ is tuple else _operand(dst))
    head = ""
    if guard is not None:
        if guard.__class__ is tuple:
            head = f"@!%p{guard[0].id} " if guard[1] else f"@%p{guard[0].id} "
        else:
            head = f"@%p{guard.id} "
    return f"\t{head}{opcode} {', '.join(operands)};" if operands else f"\t{head}{opcode};"


def _results(opcode: str, dst: tuple[Any, ...]) -> str:
    """Several results: a vector in braces, or a value beside a predicate."""
    return "|".join(map(_operand, dst)) if "r|p" in resolve(opcode).form else _operand(dst)


def _call(dst: Any, srcs: tuple[Any, ...]) -> str:
    """A call in a block of its own, which holds the parameters."""
    name, args = srcs
    out = ["\t{"]
    for i, arg in enumerate(args):
        out += [
            f"\t.param .b{BITS[arg.cls]} param{i};",
            f"\tst.param.b{BITS[arg.cls]} [param{i}], {_operand(arg)};",
        ]
    passed = ", ".join(f"param{i}" for i in range(len(args)))
    if dst is None:
        out.append(f"\tcall.uni {name.name}, ({passed});")
    else:
        out += ["\t.param .b32 retval;", f"\tcall.uni (retval), {name.name}, ({passed});"]
        if dst.__class__ is Reg:
            out.append(f"\tld.param.b32 {_operand(dst)}, [retval];")
    return "\n".join([*out, "\t}"])


def _loc(dst: Any, srcs: tuple[Any, ...]) -> str:
    """A source position; with three numbers and a label more, where it was inlined and the name of its function."""
    file, line, col, *inlined = srcs[0]
    text = f"\t.loc {file} {line} {col}"
    if inlined:
        label, *outer = inlined
        text += f", function_name $L__info_string{label}, inlined_at {' '.join(map(str, outer))}"
    return text


def _pragma(dst: Any, srcs: tuple[Any, ...]) -> str:
    return f'\t.pragma "{srcs[0]}";'


_PRINTERS = {"call.uni": _call, "loc": _loc, "pragma": _pragma}
