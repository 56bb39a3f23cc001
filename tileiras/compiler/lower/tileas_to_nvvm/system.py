"""What talks to the world outside a tile: print, assert, globals, block-local memory, dependent launches."""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.code import Addr, Var
from tileiras.compiler.target import sm
from tileiras.compiler.target.registers import reg_class, shared_bytes

from .arith import extended
from .casts import float_to_f32
from .shared import load_shared, owner_guard, store_shared
from .state import Lowering, elem_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_CALL_ARGS = 32  # what one vprintf takes


def string_variable(lowering: Lowering, text: str) -> Any:
    """The generic address of a NUL-terminated string."""
    b = lowering.b
    data = text.split("\0", 1)[0].encode("utf-8", "surrogateescape") + b"\0"
    for var in lowering.fn.variables:
        if var.data == data and "$str" in var.name:
            name = var.name
            break
    else:
        name = f"{lowering.fn.name}$str{len(lowering.fn.variables)}"
        lowering.fn.variables.append(Var(name, "global", len(data), 1, data))
    return b.entry("cvta.global.u64", b.entry("mov.u64", _sym(name)))


def split_format(text: str) -> list[tuple[str, str]]:
    """[(literal text with %% kept, conversion)], the last with an empty conversion."""
    out = []
    literal = ""
    i = 0
    while i < len(text):
        if text[i] != "%":
            literal += text[i]
            i += 1
            continue
        j = i + 1
        while j < len(text) and text[j] in "-+ #0123456789.*hljztLq":
            j += 1
        if j >= len(text):
            literal += "%" + text[i:]
            break
        if text[j] == "%":
            literal += "%%"
        else:
            out.append((literal, text[i : j + 1]))
            literal = ""
        i = j + 1
    out.append((literal, ""))
    return out


def _conversion(spec: str, elem: Any) -> tuple[str, str]:
    """(the conversion with the length its argument has, kind of argument: f64, i32, i64)."""
    kind = spec[-1]
    head = spec[:-1].rstrip("hljztLq")
    if kind in "eEfFgGaA":
        return head + kind, "f64"
    if kind == "p" or kind == "s":
        return head + kind, "i64"
    bits = getattr(elem, "bits", 64)
    if bits == 64:
        return head + "ll" + kind, "i64"
    return head + kind, "i32"


def _argument(lowering: Lowering, value: Any, elem: Any, spec: str, kind: str) -> Any:
    """A printable operand: f64, or an integer of 32 or 64 bits by the conversion's sign."""
    b = lowering.b
    name = str(elem)
    is_float = getattr(elem, "is_float", False)
    if kind == "f64":
        if name == "f64":
            return b.materialize(value, "d")
        if is_float:
            return b.emit("cvt.f64.f32", b.materialize(float_to_f32(lowering, value, name), "r"))
        wide = _argument(lowering, value, elem, "%d", "i64" if getattr(elem, "bits", 64) == 64 else "i32")
        return b.emit("cvt.rn.f64.s64" if elem.bits == 64 else "cvt.rn.f64.s32", wide)
    if is_float:
        source = value if name in ("f32", "f64") else float_to_f32(lowering, value, name)
        source = b.materialize(source, "d" if name == "f64" else "r")  # cvt takes no immediate
        target = "s64" if kind == "i64" else "s32"
        return b.emit(f"cvt.rzi.{target}.{'f64' if name == 'f64' else 'f32'}", source)
    if name == "i1":
        return b.emit("selp.b32", 1, 0, value)
    bits = getattr(elem, "bits", 64)
    if bits == 64:
        return b.materialize(value, "d")
    return b.materialize(extended(lowering, value, bits, spec[-1] not in "uoxXc"), "r")


def call_vprintf(lowering: Lowering, text: str, args: list[tuple[Any, str]]) -> None:
    """One vprintf. Arguments lie in local memory as C lays out varargs: 4 or 8 bytes, naturally aligned."""
    b = lowering.b
    lowering.fn.needs_vprintf = True
    offset = 0
    places = []
    for value, kind in args:
        size = 4 if kind == "i32" else 8
        offset = (offset + size - 1) // size * size
        places.append((offset, value, size))
        offset += size
    lowering.fn.local_bytes = max(lowering.fn.local_bytes, (offset + 15) & ~15)
    buffer: Any = 0
    if places:
        base = b.entry("mov.u64", _sym("$stack"))
        for place, value, size in places:
            b.emit_to(None, f"st.local.b{size * 8}", Addr(base, place), value)
        buffer = b.entry("cvta.local.u64", base)
    _call(lowering, "vprintf", [("b64", string_variable(lowering, text)), ("b64", buffer)], returns=True)


def _call(lowering: Lowering, name: str, args: list[tuple[str, Any]], returns: bool = False) -> None:
    """A call of a function of the runtime; what it returns is dropped."""
    b = lowering.b
    registers = tuple(b.materialize(value, "d" if ptx_type == "b64" else "r") for ptx_type, value in args)
    b.emit_to(_sym("_") if returns else None, "call.uni", _sym(name), registers)


def lower_print(lowering: Lowering, op: Op) -> None:
    """Thread 0 of the tile block prints: scalars in one call, tiles as nested lists of their elements."""
    b = lowering.b
    # C++ frontends write the NUL of a literal into the attribute: printf stops there
    parts = split_format(op.attr("str").split("\0", 1)[0])
    values = op.group("args")
    staged = {}
    offset = 0
    for i, value in enumerate(values):
        if value.type.shape:  # type: ignore[attr-defined]
            size = shared_bytes(value.type.elem)  # type: ignore[attr-defined]
            offset = (offset + 7) & ~7
            staged[i] = (offset, size)
            offset += size * num_elements(value.type.shape)  # type: ignore[attr-defined]
    base: Any = None
    if staged:
        base = lowering.scratch(op, offset)
        for i, (start, size) in staged.items():
            _stage(lowering, lowering.tile(values[i]), base, start, size)
        lowering.barrier()
    skip = b.label()
    b.bra(skip, b.entry("setp.ne.u32", b.tid, 0))
    b.push()
    text, args = "", []
    for i, (literal, spec) in enumerate(parts):
        text += literal
        if not spec or i >= len(values):
            continue
        elem = values[i].type.elem  # type: ignore[attr-defined]
        fixed, kind = _conversion(spec, elem)
        if i not in staged:
            text += fixed
            args.append((_argument(lowering, lowering.scalar(values[i]), elem, spec, kind), kind))
        else:
            if text:
                call_vprintf(lowering, text, args)
            text, args = "", []
            written = op.attrs.get("unrolled")
            if written is None:
                raise lowering.undecided(op, "unrolled", "TileASPlaceShared")
            _print_tile(lowering, values[i].type, base, *staged[i], spec, fixed, kind, bool(written[i]))
        if len(args) == _CALL_ARGS:
            call_vprintf(lowering, text, args)
            text, args = "", []
    if text or args:
        call_vprintf(lowering, text, args)
    b.pop()
    b.place(skip)
    for result in op.results:
        lowering.env[result] = None


def _stage(lowering: Lowering, tile: Any, base: Any, start: int, size: int) -> None:
    """All elements in row-major order in shared memory."""
    b = lowering.b
    layout = tile.layout
    cls = reg_class(tile.elem)
    guard = owner_guard(lowering, layout)
    thread = b.thread_linear([c * size for c in layout.lane], [c * size for c in layout.warp])
    copies = [0]
    for k in range(layout.bits):
        if layout.inv >> k & 1:
            copies += [c | 1 << k for c in copies]
    for offset, value in zip(layout.reg_table, tile.regs):
        for copy in copies:
            where = b.xor(32, thread, (offset | copy) * size)
            store_shared(lowering, b.address(b.add(32, base, where), start), [value], cls, guard)


def _print_tile(
    lowering: Lowering,
    type: Any,
    base: Any,
    start: int,
    size: int,
    spec: str,
    fixed: str,
    kind: str,
    unrolled: bool,
) -> None:
    b = lowering.b
    shape = type.shape
    count = num_elements(shape)
    cls = reg_class(type.elem)
    strides = []
    step = 1
    for extent in reversed(shape):
        step *= extent
        strides.append(step)  # elements of the block that closes at each nesting level, innermost first
    if unrolled:
        text, args = "", []
        for i in range(count):
            text += "[" * sum(1 for s in strides if i % s == 0)
            text += fixed
            value = load_shared(lowering, b.address(base, start + i * size), 1, cls)[0]
            args.append((_argument(lowering, value, type.elem, spec, kind), kind))
            closed = sum(1 for s in strides if (i + 1) % s == 0)
            text += "]" * closed + (", " if i + 1 < count else "")
        call_vprintf(lowering, text, args)
        return
    # a loop: brackets are strings chosen by the element's index
    head = b.label()
    index = b.fresh(0, "r")
    pointer = b.fresh(b.add(32, base, start), "r")
    b.place(head)
    b.push()
    opening: Any = string_variable(lowering, "")
    closing: Any = string_variable(lowering, ", ")
    for level, s in enumerate(strides):
        first = b.emit("setp.eq.b32", b.emit("and.b32", index, s - 1), 0)
        last = b.emit("setp.eq.b32", b.emit("and.b32", index, s - 1), s - 1)
        opening = b.emit("selp.b64", string_variable(lowering, "[" * (level + 1)), opening, first)
        tail = "]" * (level + 1) + ("" if s == count else ", ")
        closing = b.emit("selp.b64", string_variable(lowering, tail), closing, last)
    value = load_shared(lowering, Addr(pointer), 1, cls)[0]
    call_vprintf(
        lowering, f"%s{fixed}%s",
        [(opening, "i64"), (_argument(lowering, value, type.elem, spec, kind), kind), (closing, "i64")],
    )  # fmt: skip
    b.pop()
    b.emit_to(index, "add.s32", index, 1)
    b.emit_to(pointer, "add.s32", pointer, size)
    b.bra(head, b.emit_fresh("setp.lt.u32", index, count))


def lower_assert(lowering: Lowering, op: Op) -> None:
    """A thread that holds a false element reports through the CUDA assert handler."""
    b = lowering.b
    tile = lowering.tile(op.operands[0])
    good: Any = None
    for value in tile.regs:
        good = b.pand(good, value)
    owner = owner_guard(lowering, tile.layout)
    fine = b.label()
    b.bra(fine, good)
    if owner is not None:
        b.bra(fine, (owner, True))
    lowering.fn.needs_assertfail = True
    _call(
        lowering, "__assertfail",
        [
            ("b64", string_variable(lowering, op.attr("message"))),
            ("b64", string_variable(lowering, op.loc.file or "<tile ir>")),
            ("b32", op.loc.line),
            ("b64", string_variable(lowering, lowering.fn.name)),
            ("b64", 1),
        ],
    )  # fmt: skip
    b.place(fine)


def lower_get_global(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    lowering.define(op.results[0], [b.entry("mov.u64", _sym(op.attr("name")))])


def lower_alloca(lowering: Lowering, op: Op) -> None:
    """Block-private memory: shared memory reached through generic addresses (the function's other accesses
    are generic too, see `Lowering.space`)."""

    b = lowering.b
    size = op.attr("num_elem") * elem_bytes(op.results[0].type.elem.pointee)  # type: ignore[attr-defined]
    align = max(op.attr("alignment"), 16)
    name = f"{lowering.fn.name}$alloca{len(lowering.fn.variables)}"
    lowering.fn.variables.append(Var(name, "shared", max(1, size), align))
    lowering.define(op.results[0], [b.entry("cvta.shared.u64", b.entry("mov.u64", _sym(name)))])


def lower_gdc_launch(lowering: Lowering, op: Op) -> None:
    if lowering.target.has(sm.GDC):
        lowering.b.emit_to(None, "griddepcontrol.launch_dependents")
    lowering.env[op.results[0]] = None


def lower_gdc_wait(lowering: Lowering, op: Op) -> None:
    if lowering.target.has(sm.GDC):
        lowering.b.emit_to(None, "griddepcontrol.wait")
    lowering.env[op.results[0]] = None


LOWER = {
    "print_tko": lower_print, "assert": lower_assert, "get_global": lower_get_global, "alloca": lower_alloca,
    "gdc_launch_dependents_tko": lower_gdc_launch, "gdc_wait_tko": lower_gdc_wait,
}  # fmt: skip
