"""NVVM IR verifier (layer 4): what only the target and the per-thread form show.

Parameter lists that fit the parameter space of the target, launches of kernels with arguments that they can read,
instructions that the target has. Runs once over all functions.
"""

from __future__ import annotations

from tileiras.compiler.target.sm import LARGE_PARAMETERS
from tileiras.compiler.target.tensor_maps import BYTES

from .code import Label, Reg, Sym
from .directives import KERNEL
from .inst import fits, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.diag import Sink

    from .code import Function, Module

# (first rejected is above, printed) bytes of kernel parameters. From sm_80 on the documents say 32760; ptxas takes four
# more, so those pass. Below sm_80 the documents' limit holds.
LIMIT_OLD = (1024, 1024)
LIMIT_NEW = (32764, 32760)

LOCAL = {"$stack": "local", "$smem": "shared", "$smem_dynamic": "shared"}  # "$": no name of a user's


def param_limit(target: Any) -> tuple[int, int]:
    """(largest accepted size, size that the message names) in bytes."""
    return LIMIT_NEW if target.knows(LARGE_PARAMETERS) else LIMIT_OLD


def verify_module(module: Module, sink: Sink, operands: bool = True) -> bool:
    """Whether per-thread code is legal on its target. Says what is not.

    `operands`: look at every record's, which takes a tenth of a compile; the lowering's own code is trusted without.
    """
    errors = sink.errors
    for fn in module.functions:
        check_params(fn, module.target, sink)
        check_instructions(fn, module, sink)
        if operands:
            check_operands(fn, sink)
    return sink.errors == errors


def check_params(fn: Function, target: Any, sink: Sink) -> None:
    limit, named = param_limit(target)
    maps = BYTES * (len(fn.tensor_maps) + 1 if fn.tensor_maps else 0)  # with what aligns them
    if 16 * len(fn.params) + maps <= limit and not any(t[:1] in "{[<v" for t in fn.param_types):
        return  # scalars and pointers have 16 bytes at most
    from .sizer import total_bytes

    need = total_bytes(fn.param_types) + maps
    if need > limit:
        from . import diags as D

        sink.emit(D.OVERFLOW, loc=fn.loc, need=need, limit=named, function=fn.name)


def check_instructions(fn: Function, module: Module, sink: Sink) -> None:
    """Every distinct opcode once; launches one by one."""
    opcodes = {record[0] for record in fn.code if record.__class__ is tuple}
    for opcode in sorted(opcodes):
        try:
            feature = resolve(opcode).need
        except ValueError:
            from . import diags as D

            sink.emit(D.UNKNOWN_OPCODE, loc=fn.loc, opcode=opcode, function=fn.name)
            continue
        if feature is None:
            continue
        if module.target.knows(feature):
            fn.features.add(feature)  # of parsed text; the builder has noted its own
        else:
            from . import diags as D

            sink.emit(
                D.TOO_NEW,
                loc=fn.loc,
                opcode=opcode,
                function=fn.name,
                feature=feature,
                target=module.target.name,
            )
    if "launch" in opcodes:
        check_launches(fn, module, sink)


def check_operands(fn: Function, sink: Sink) -> None:
    for index, record in enumerate(fn.code):
        if record.__class__ is tuple:
            try:
                info = resolve(record[0])
            except ValueError:
                continue  # was said
            if not fits(info, record):
                from . import diags as D

                sink.emit(
                    D.OPERANDS,
                    loc=fn.loc,
                    index=index,
                    function=fn.name,
                    opcode=record[0],
                    form=info.form or "none",
                )


def printable(module: Module, sink: Sink) -> bool:
    """Whether everything has a PTX form. A launch is checked like any record, but only the host's runtime can do one."""
    from . import diags as D

    errors = sink.errors
    for fn in module.functions:
        for record in fn.code:
            if record.__class__ is tuple and record[0] == "launch":
                sink.emit(D.NO_PTX, loc=fn.loc, function=fn.name, callee=record[2][0].name)
    return sink.errors == errors


def check_launches(fn: Function, module: Module, sink: Sink) -> None:
    from tileiras.diag import Emitted

    from . import diags as D

    functions = {f.name: f for f in module.functions}
    spaces = address_spaces(fn)
    for index, record in enumerate(fn.code):
        if record.__class__ is not tuple or record[0] != "launch":
            continue
        callee, *args = record[2]
        target = functions.get(callee.name)
        place = [
            Emitted(
                D.WHERE,
                fn.loc,
                facts=(("text", f"launch of {callee.name}, record {index} of function {fn.name}"),),
            )
        ]
        if target is None:
            sink.emit(D.NO_SUCH_FUNCTION, loc=fn.loc, function=fn.name, callee=callee.name)
        elif KERNEL not in target.attrs:
            sink.emit(D.NOT_A_KERNEL, loc=fn.loc, notes=place)
        for i, arg in enumerate(args):
            space = (
                spaces.get((arg.cls, arg.id)) if isinstance(arg, Reg) else LOCAL.get(getattr(arg, "name", ""))
            )
            if space is not None:
                sink.emit(
                    D.LAUNCH_SPACE,
                    loc=fn.loc,
                    index=i,
                    callee=callee.name,
                    function=fn.name,
                    space=space,
                    notes=place,
                )


def address_spaces(fn: Function) -> dict[tuple[str, int], str]:
    """Registers that hold addresses of memory no other grid can read: from where they come, through moves and adds."""
    found: dict[tuple[str, int], str] = {}
    changed = True
    while changed:
        changed = False
        for record in fn.code:
            if record.__class__ is Label or record[1].__class__ is not Reg:
                continue
            opcode, dst, srcs, _ = record
            if not opcode.startswith(("mov.", "add.", "sub.", "cvta.", "cvt.", "selp.")):
                continue
            for src in srcs:
                space = LOCAL.get(src.name) if src.__class__ is Sym else None
                if src.__class__ is Reg:
                    space = found.get((src.cls, src.id))
                if opcode.startswith("cvta.") and ".local" in opcode:
                    space = space or "local"
                if space is not None and (dst.cls, dst.id) not in found:
                    found[dst.cls, dst.id] = space
                    changed = True
    return found
