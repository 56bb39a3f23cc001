"""Elements between registers and memory: one instruction for neighbours, 32-bit words packed and unpacked."""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr
from tileiras.compiler.target.registers import reg_class

from .state import Lowering, elem_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.types import Type


def load_elements(
    lowering: Lowering, elem: Type, address: Any, opcode: str, guard: Any = None, pad: Any = None
) -> Any:
    """One element in its register form."""
    return load_vector(lowering, elem, address, 1, opcode, guard, [pad])[0]


def load_vector(
    lowering: Lowering, elem: Type, address: Any, count: int, opcode: str, guard: Any, pads: Sequence[Any]
) -> list[Any]:
    """`count` neighbouring elements in one instruction. `pads` are the values where the guard is false
    (None: unspecified)."""
    b = lowering.b
    size = elem_bytes(elem)
    cls = reg_class(elem)
    total = size * count
    if total < 4 or (count == 1):
        unit = {1: "u8", 2: "u16" if cls == "r" else "b16", 4: "b32", 8: "b64"}[size]
        if count > 1:  # two or more narrow elements that make 2 bytes
            unit = "u16"
        word_cls = "h" if unit == "b16" else "d" if unit == "b64" else "r"
        dst = b.reg(word_cls)
        if guard is not None:
            initial: Any = 0
            if count == 1 and pads[0] is not None and cls != "p":
                initial = pads[0]
            elif count == 2:
                initial = 0
            b.copy(dst, initial)
        b.emit_to(dst, f"{opcode}.{unit}", address, guard=guard)
        if count == 1:
            return [b.emit("setp.ne.b32", dst, 0) if cls == "p" else dst]
        values = [dst, b.emit("shr.u32", dst, 8)]
        if cls == "p":
            values = [b.emit("setp.ne.b32", b.and_(32, v, 0xFF), 0) for v in values]
        return _padded(lowering, values, cls, guard, pads)
    if size == 8:
        regs = [b.reg("d") for _ in range(count)]
        _guarded_init(lowering, regs, guard, pads)
        b.emit_to(tuple(regs), f"{opcode}.v{count}.b64", address, guard=guard)
        return list(regs)
    words = total // 4
    regs = [b.reg("r") for _ in range(words)]
    if guard is not None:
        if size == 4:
            _guarded_init(lowering, regs, guard, pads)
        else:
            for reg, word in zip(regs, padding_words(lowering, pads, elem)):
                b.copy(reg, word)
    if words == 1:
        b.emit_to(regs[0], f"{opcode}.b32", address, guard=guard)
    else:
        b.emit_to(tuple(regs), f"{opcode}.v{words}.b32", address, guard=guard)
    if size == 4:
        return list(regs)
    return unpack_words(lowering, regs, elem)


def padding_words(lowering: Lowering, pads: Sequence[Any], elem: Type) -> list[Any]:
    """The words of a vector that is not loaded: its elements' padding, zero where that is unspecified."""
    constants = [0 if pad is None else lowering.b.halves.get(pad, pad) for pad in pads]
    size = elem_bytes(elem)
    if all(isinstance(pad, int) for pad in constants):
        bits = sum((pad & (1 << 8 * size) - 1) << 8 * size * i for i, pad in enumerate(constants))
        return [bits >> at & 0xFFFFFFFF for at in range(0, 8 * size * len(pads), 32)]
    if reg_class(elem) == "h":
        pads = [lowering.b.imm16(0) if pad is None else pad for pad in pads]
    else:
        pads = constants
    return pack_words(lowering, pads, elem)


def _guarded_init(lowering: Lowering, regs: Sequence[Any], guard: Any, pads: Sequence[Any]) -> None:
    if guard is not None:
        for reg, pad in zip(regs, pads):
            lowering.b.copy(reg, 0 if pad is None else pad)


def _padded(lowering: Lowering, values: list[Any], cls: str, guard: Any, pads: Sequence[Any]) -> list[Any]:
    """Replace narrow elements by their padding where the guard is false (zero bits are right already)."""
    from .arith import select

    if guard is None:
        return values
    zero = [pad is None or (isinstance(pad, int) and pad == 0) for pad in pads]
    if all(zero):
        return values
    return [v if z else select(lowering, cls, guard, v, p) for v, z, p in zip(values, zero, pads)]


def unpack_words(lowering: Lowering, words: Sequence[Any], elem: Type) -> list[Any]:
    """Elements of 1 or 2 bytes out of 32-bit words, low bytes first, in register form."""
    b = lowering.b
    cls = reg_class(elem)
    out: list[Any] = []
    for word in words:
        if elem_bytes(elem) == 2:
            if cls == "h":
                out += b.unpack(word)
            else:
                out += [word, b.emit("shr.u32", word, 16)]
        else:
            bytes_ = [
                word,
                b.shr(32, word, 8),
                b.shr(32, word, 16),
                b.shr(32, word, 24),
            ]
            if cls == "p":
                bytes_ = [b.emit("setp.ne.b32", b.and_(32, v, 0xFF), 0) for v in bytes_]
            else:
                b.words[tuple(bytes_)] = word
            out += bytes_
    return out


def pack_words(lowering: Lowering, values: Sequence[Any], elem: Type) -> list[Any]:
    """32-bit words out of elements of 1 or 2 bytes in register form."""
    b = lowering.b
    cls = reg_class(elem)
    if cls == "p":
        values = [b.emit("selp.b32", 1, 0, v) for v in values]
    out = []
    if elem_bytes(elem) == 2:
        for i in range(0, len(values), 2):
            low, high = values[i], values[i + 1]
            out.append(b.pack(low, high) if cls == "h" else b.emit("prmt.b32", low, high, 0x5410))
        return out
    for i in range(0, len(values), 4):
        v = list(values[i : i + 4])
        whole = b.words.get(tuple(v))
        if whole is not None:
            out.append(whole)
            continue
        if all(isinstance(value, int) for value in v):
            out.append(sum((value & 0xFF) << 8 * place for place, value in enumerate(v)))
            continue
        out.append(_word_of_bytes(lowering, v))
    return out


def _word_of_bytes(lowering: Lowering, values: Sequence[Any]) -> Any:
    """A 32-bit word out of four elements of 1 byte. Bytes that were unpacked from words are taken from these; four words that are
    transposed share what two of them are joined to."""
    b = lowering.b
    (a, i), (c, j), (d, k), (e, n) = (b.lowest_byte(v) for v in values)
    if i == j == k == n:
        low, high = (b.emit("prmt.b32", x, y, 0x5140 + (i & 2) * 0x1111) for x, y in ((a, c), (d, e)))
        return b.emit("prmt.b32", low, high, 0x7632 if i & 1 else 0x5410)
    low = b.emit("prmt.b32", a, c, i | j + 4 << 4)
    high = b.emit("prmt.b32", d, e, k | n + 4 << 4)
    return b.emit("prmt.b32", low, high, 0x5410)


def store_vector(
    lowering: Lowering, elem: Type, address: Any, values: Sequence[Any], opcode: str, guard: Any
) -> None:
    """Neighbouring elements in one instruction."""
    b = lowering.b
    size = elem_bytes(elem)
    cls = reg_class(elem)
    count = len(values)
    if count == 1:
        value = values[0]
        if cls == "p":
            value = b.emit("selp.b32", 1, 0, value)
        unit = {1: "u8", 2: "b16" if cls == "h" else "u16", 4: "b32", 8: "b64"}[size]
        word_cls = {"p": "r"}.get(cls, cls)
        b.emit_to(None, f"{opcode}.{unit}", address, b.materialize(value, word_cls), guard=guard)
        return
    if size * count == 2:
        word = b.emit("prmt.b32", *(_byte_values(lowering, values, cls)), 0x0040)
        b.emit_to(None, f"{opcode}.u16", address, word, guard=guard)
        return
    if size == 8:
        words = [b.materialize(v, "d") for v in values]
        b.emit_to(None, f"{opcode}.v{count}.b64", address, tuple(words), guard=guard)
        return
    words = [b.materialize(v, "r") for v in values] if size == 4 else pack_words(lowering, values, elem)
    if len(words) == 1:
        b.emit_to(None, f"{opcode}.b32", address, words[0], guard=guard)
    else:
        b.emit_to(None, f"{opcode}.v{len(words)}.b32", address, tuple(words), guard=guard)


def _byte_values(lowering: Lowering, values: Sequence[Any], cls: str) -> list[Any]:
    if cls == "p":
        return [lowering.b.emit("selp.b32", 1, 0, v) for v in values]
    return list(values)


# ---- register images in local memory


def store_units(
    lowering: Lowering, opcode: str, base: Any, start: int, regs: Sequence[Any], cls: str
) -> None:
    """Registers one after another at [base + start], in 16-byte vectors where the class allows."""
    b = lowering.b
    if cls == "p":
        for i, reg in enumerate(regs):
            b.emit_to(None, f"{opcode}.u8", Addr(base, start + i), b.emit("selp.b32", 1, 0, reg))
        return
    size = {"h": 2, "r": 4, "d": 8}[cls]
    width = {"h": 4, "r": 4, "d": 2}[cls]
    for i in range(0, len(regs), width):
        group = [b.materialize(r, cls) for r in regs[i : i + width]]
        address = Addr(base, start + i * size)
        if len(group) == 1:
            b.emit_to(None, f"{opcode}.b{size * 8}", address, group[0])
        else:
            b.emit_to(None, f"{opcode}.v{len(group)}.b{size * 8}", address, tuple(group))


def load_units(lowering: Lowering, opcode: str, base: Any, start: int, count: int, cls: str) -> list[Any]:
    """`count` registers from [base + start]: the counterpart of `store_units`."""
    b = lowering.b
    out: list[Any] = []
    if cls == "p":
        for i in range(count):
            word = b.reg("r")
            b.emit_to(word, f"{opcode}.u8", Addr(base, start + i))
            out.append(b.emit("setp.ne.b32", word, 0))
        return out
    size = {"h": 2, "r": 4, "d": 8}[cls]
    width = {"h": 4, "r": 4, "d": 2}[cls]
    for i in range(0, count, width):
        group = tuple(b.reg(cls) for _ in range(min(width, count - i)))
        address = Addr(base, start + i * size)
        if len(group) == 1:
            b.emit_to(group[0], f"{opcode}.b{size * 8}", address)
        else:
            b.emit_to(group, f"{opcode}.v{len(group)}.b{size * 8}", address)
        out += group
    return out
