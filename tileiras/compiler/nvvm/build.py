"""Builder of per-thread code: folds constants, reuses equal values, folds byte offsets into addresses.

Reuse is by scope: a value made inside a branch or a loop is forgotten when its scope closes, so every reused
value dominates its use. What depends on nothing but the thread index and the parameters goes to the prologue,
once per kernel.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .code import Addr, Float, Function, Label, Reg, Sym
from .inst import RESOLVED, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.target.sm import Sm

    from .code import TensorAddr

    Operand = Reg | int | Float | Sym | Addr | TensorAddr | str | tuple[Any, ...]

MASK32 = (1 << 32) - 1
MASK64 = (1 << 64) - 1


class MissingFeature(Exception):
    """An instruction was emitted that the target does not have."""

    def __init__(self, opcode: str, feature: str, target: str) -> None:
        super().__init__(f"{target} has no {opcode} (needs {feature})")


Part = tuple[Reg, int, int]  # a register, shifted right by so much, and a mask


class Builder:
    """Appends records to a function. Integer results of folds are Python ints, wrapped to 32 or 64 bits
    (unsigned form)."""

    __slots__ = (
        "_floats", "_labels", "_pairs", "_undo", "addc", "code", "counts", "fn", "halves", "parts", "prologue",
        "prologue_values", "signed_bytes", "sums", "target", "truths", "values", "widened", "with_signs", "words",
    )  # fmt: skip

    def __init__(self, fn: Function, target: Sm) -> None:
        self.fn = fn
        self.target = target
        self.code: list[Any] = []
        self.prologue: list[Any] = []
        self.prologue_values: dict[Any, Reg] = {}
        self.values: dict[Any, Reg] = {}
        self.addc: dict[Reg, tuple[Reg, int]] = {}  # register -> (register, constant) of an integer add
        self.parts: dict[Reg, Part] = {}  # registers that are bits of others
        self.with_signs: dict[
            Reg, tuple[Reg, int]
        ] = {}  # register -> the one that it is shifted from with its sign
        # register -> the one, and by how much it is shifted right, whose lowest byte it is as a number with a sign
        self.signed_bytes: dict[Reg, tuple[Reg, int]] = {}
        self.sums: dict[Reg, tuple[Reg, Reg]] = {}  # register -> the two that it is the sum of
        self.widened: dict[
            Reg, tuple[Reg, bool]
        ] = {}  # 64 bits -> the 32 that they are, and whether sign-extended
        self.truths: dict[Reg, bool] = {}  # constant predicates
        self._undo: list[list[Any]] = []
        self._labels = 0
        self.counts = fn.counts
        self._floats: dict[tuple[str, int], Float] = {}
        self.halves: dict[Reg, int] = {}  # registers that hold a 16-bit constant
        self._pairs: dict[Any, Reg] = {}  # halves of a word -> the word
        self.words: dict[tuple[Any, ...], Reg] = {}  # the four bytes of a word -> the word

    # ---- raw emission
    def reg(self, cls: str) -> Reg:
        counts = self.counts
        counts[cls] += 1
        return Reg(cls, counts[cls])

    def emit(self, opcode: str, *srcs: Operand) -> Reg:
        """An instruction with one result. Pure ones are reused in scope."""
        info = RESOLVED.get(opcode) or resolve(opcode)  # a third of all calls of the lowering come here
        if info.pure:
            key = (opcode, srcs)
            found = self.values.get(key)
            if found is None:
                found = self.prologue_values.get(key)
            if found is not None:
                return found
            dst = self.reg(info.cls)  # type: ignore[arg-type]
            self.values[key] = dst
            if self._undo:
                self._undo[-1].append(key)
        else:
            dst = self.reg(info.cls)  # type: ignore[arg-type]
        if info.need is not None:
            self.require(opcode, info.need)
        self.code.append((opcode, dst, srcs, None))
        return dst

    def emit_fresh(self, opcode: str, *srcs: Operand) -> Reg:
        """An instruction whose result is never shared: its operands will be written again."""
        info = resolve(opcode)
        dst = self.reg(info.cls)  # type: ignore[arg-type]
        if info.need is not None:
            self.require(opcode, info.need)
        self.code.append((opcode, dst, srcs, None))
        return dst

    def emit_to(
        self, dst: Reg | Sym | tuple[Reg, ...] | None, opcode: str, *srcs: Operand, guard: Any = None
    ) -> None:
        """An instruction that writes given registers (or none). `guard` is a predicate or (predicate, True) negated."""
        info = resolve(opcode)
        if info.need is not None:
            self.require(opcode, info.need)
        self.code.append((opcode, dst, srcs, guard))

    def require(self, opcode: str, feature: str) -> None:
        """Note a feature in use (it may raise `.version` or the target's suffix). Lowering asks the target first:
        an instruction that it does not have is a bug here."""
        if feature not in self.fn.features:
            if not self.target.knows(feature):
                raise MissingFeature(opcode, feature, self.target.name)
            self.fn.features.add(feature)

    def entry(self, opcode: str, *srcs: Operand) -> Reg:
        """A pure instruction over entry values, placed in the prologue once."""
        key = (opcode, srcs)
        found = self.prologue_values.get(key)
        if found is None:
            info = resolve(opcode)
            if info.need is not None:
                self.require(opcode, info.need)
            found = self.reg(info.cls)  # type: ignore[arg-type]
            self.prologue_values[key] = found
            self.prologue.append((opcode, found, srcs, None))
        return found

    def forget(self, regs: Sequence[Reg]) -> None:
        """These registers will be written again: no later instruction may take one for what made it."""
        gone = set(regs)
        for key in [key for key, value in self.values.items() if value in gone]:
            del self.values[key]
        for reg in [reg for reg, part in self.parts.items() if reg in gone or part[0] in gone]:
            del self.parts[reg]
        for known in (self.with_signs, self.signed_bytes):
            for reg in [reg for reg, found in known.items() if reg in gone or found[0] in gone]:
                del known[reg]

    # ---- scopes and labels
    def push(self) -> None:
        self._undo.append([])

    def pop(self) -> None:
        for key in self._undo.pop():
            self.values.pop(key, None)

    def label(self) -> Label:
        self._labels += 1
        return Label(self._labels)

    def place(self, label: Label) -> None:
        self.code.append(label)

    def bra(self, label: Label, guard: Any = None) -> None:
        self.code.append(("bra.uni" if guard is None else "bra", None, (label,), guard))

    # ---- constants and moves
    def float(self, cls: str, bits: int) -> Float:
        found = self._floats.get((cls, bits))
        if found is None:
            found = self._floats[cls, bits] = Float(cls, bits)
        return found

    def imm16(self, bits: int) -> Reg:
        """A 16-bit constant in a register (f16 and bf16 have no immediates)."""
        register = self.entry("mov.b16", bits & 0xFFFF)
        self.halves[register] = bits & 0xFFFF
        return register

    def copy(self, dst: Reg, src: Operand) -> None:
        suffix = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}[dst.cls]
        if dst.cls == "p" and isinstance(src, int):
            self.code.append(("setp.ne.b32", dst, (int(bool(src)), 0), None))
        else:
            self.code.append(("mov." + suffix, dst, (src,), None))

    def fresh(self, src: Operand, cls: str) -> Reg:
        """A new register holding `src`, never shared (for values that will be rewritten)."""
        dst = self.reg(cls)
        self.copy(dst, src)
        return dst

    def materialize(self, src: Operand, cls: str) -> Reg:
        """`src` in a register of `cls` (vector operands and calls take no immediates)."""
        if isinstance(src, Reg):
            return src
        return self.entry({"h": "mov.b16", "r": "mov.b32", "d": "mov.b64"}[cls], src)

    def true(self, value: bool = True) -> Reg:
        """A constant predicate."""
        made = self.entry("setp.eq.b32" if value else "setp.ne.b32", 0, 0)
        self.truths[made] = value
        return made

    def known(self, p: Operand) -> bool | None:
        """The value of a constant predicate; None of others."""
        return self.truths.get(p) if isinstance(p, Reg) else None

    # ---- pairs of 16-bit registers
    def unpack(self, word: Reg) -> tuple[Reg, Reg]:
        """The low and high halves of a 32-bit register; packing them again gives `word` back."""
        low, high = self.reg("h"), self.reg("h")
        self.code.append(("mov.b32", (low, high), (word,), None))
        self._pairs[low, high] = word
        return low, high

    def pack(self, low: Operand, high: Operand) -> Reg:
        """A 32-bit register from two halves."""
        found = self._pairs.get((low, high))
        return found if found is not None else self.emit("mov.b32", (low, high))

    # ---- pairs of 32-bit registers
    def halves_of(self, pair: Reg) -> tuple[Reg, Reg]:
        """The low and high words of a 64-bit register; pairing them again gives `pair` back."""
        low, high = self.reg("r"), self.reg("r")
        self.code.append(("mov.b64", (low, high), (pair,), None))
        self._pairs[low, high] = pair
        return low, high

    def pair(self, low: Operand, high: Operand) -> Reg:
        """A 64-bit register from two words."""
        found = self._pairs.get((low, high))
        if found is not None:
            return found
        return self.emit("mov.b64", (self.materialize(low, "r"), self.materialize(high, "r")))

    # ---- folding integer arithmetic (w: 32 or 64 bits)
    def add(self, w: int, x: Operand, y: Operand) -> Any:
        mask = MASK32 if w == 32 else MASK64
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            y &= mask
            if isinstance(x, int):
                return (x + y) & mask
            if y == 0:
                return x
            root = self.addc.get(x)  # type: ignore[arg-type]
            if root is not None:
                x, y = root[0], (root[1] + y) & mask
                if y == 0:
                    return x
            dst = self.emit(f"add.s{w}", x, _signed(y, w))
            self.addc[dst] = (x, y)  # type: ignore[assignment]
            return dst
        made = self.emit(f"add.s{w}", x, y)
        self.sums[made] = (x, y)  # type: ignore[assignment]
        return made

    def sub(self, w: int, x: Operand, y: Operand) -> Any:
        if isinstance(y, int):
            return self.add(w, x, -y)
        return self.emit(f"sub.s{w}", x, y)

    def mul(self, w: int, x: Operand, y: Operand) -> Any:
        mask = MASK32 if w == 32 else MASK64
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            y &= mask
            if isinstance(x, int):
                return x * y & mask
            if y == 0:
                return 0
            if y == 1:
                return x
            if y & (y - 1) == 0:
                return self.emit(f"shl.b{w}", x, y.bit_length() - 1)
        if w == 64:
            short = self.narrow(x, y)
            if short is not None:
                return self.emit("mul.wide.s32" if short[2] else "mul.wide.u32", *short[:2])
        elif (whole := self.values.get(("mul.wide.u32", (x, y)))) is not None:
            return self.emit(
                "cvt.u32.u64", whole
            )  # the low half of what a generator of random numbers has whole
        return self.emit(f"mul.lo.s{w}", x, _signed(y, w) if isinstance(y, int) else y)

    def and_(self, w: int, x: Operand, y: Operand) -> Any:
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            y &= MASK32 if w == 32 else MASK64
            if isinstance(x, int):
                return x & y
            if y == 0:
                return 0
            if y == (MASK32 if w == 32 else MASK64):
                return x
            if w == 32:
                return self.bits_of(x, 0, y)
        return self.emit(f"and.b{w}", x, y)

    def or_(self, w: int, x: Operand, y: Operand) -> Any:
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            if isinstance(x, int):
                return x | y
            if y == 0:
                return x
        return self.emit(f"or.b{w}", x, y)

    def xor(self, w: int, x: Operand, y: Operand) -> Any:
        if isinstance(x, int):
            x, y = y, x
        if isinstance(y, int):
            if isinstance(x, int):
                return x ^ y
            if y == 0:
                return x
        return self.emit(f"xor.b{w}", x, y)

    def shl(self, w: int, x: Operand, n: int) -> Any:
        if n == 0:
            return x
        if isinstance(x, int):
            return (x << n) & (MASK32 if w == 32 else MASK64)
        return self.emit(f"shl.b{w}", x, n)

    def shr(self, w: int, x: Operand, n: int) -> Any:
        if n == 0:
            return x
        if isinstance(x, int):
            return x >> n
        return self.bits_of(x, n, MASK32) if w == 32 else self.emit("shr.u64", x, n)

    def bits_of(self, x: Any, shift: int, mask: int) -> Any:
        """x >> shift & mask, noted as bits of the register that x is itself bits of."""
        whole, by = self.with_signs.get(x, (x, 0))
        if by and mask << shift <= MASK32 >> by:  # none of them is a copy of the sign
            return self.bits_of(self.bits_of(whole, by, MASK32), shift, mask)
        source, first, known = self.parts.get(x, (x, 0, MASK32))
        mask &= known >> shift
        if not mask:
            return 0
        if not shift and mask == known:
            return x
        made = self.emit("shr.u32", x, shift) if shift else self.emit("and.b32", x, mask)
        self.parts[made] = source, first + shift, mask
        return made

    def byte_signed(self, x: Reg) -> Reg:
        """The lowest byte of a register as a number that has a sign."""
        made = self.emit("cvt.s32.s8", x)
        source, first, _ = self.parts.get(x, (x, 0, MASK32))
        self.signed_bytes[made] = source, first
        return made

    def byte_of(self, x: Operand) -> tuple[Reg, int, bool] | None:
        """(register, number of a byte in it, whether that has a sign) where a number is known to be one."""
        if not isinstance(x, Reg):
            return None
        if x in self.signed_bytes:
            source, first = self.signed_bytes[x]
            return None if first & 7 else (source, first >> 3, True)
        source, first, mask = self.parts.get(x, (x, 0, MASK32))
        return None if first & 7 or mask != 0xFF else (source, first >> 3, False)

    def lowest_byte(self, x: Operand) -> tuple[Operand, int]:
        """(register, number of a byte in it) that the lowest byte of a number is."""
        source, first, mask = self.parts.get(x, (x, 0, MASK32)) if isinstance(x, Reg) else (x, 0, MASK32)
        return (x, 0) if first & 7 or mask & 0xFF != 0xFF else (source, first >> 3)

    def shr_signed(self, x: Operand, n: int) -> Any:
        """x >> n of a 32-bit number that has a sign."""
        if self.has_no_sign(x) or n == 0:
            return self.shr(32, x, n)
        made = self.emit("shr.s32", x, n)
        if isinstance(x, Reg):
            self.with_signs[made] = x, min(n, 31)
        return made

    def has_no_sign(self, x: Operand) -> bool:
        """Whether a register is known to hold bits of another below the sign."""
        found = self.parts.get(x) if isinstance(x, Reg) else None
        return found is not None and found[2] <= MASK32 >> 1

    def wide(self, x: Operand, signed: bool = True) -> Any:
        """32 -> 64 bits."""
        if isinstance(x, int):
            return _signed(x, 32) & MASK64 if signed else x & MASK32
        made = self.emit("cvt.s64.s32" if signed else "cvt.u64.u32", x)
        self.widened[made] = (x, signed)  # type: ignore[assignment]
        return made

    def narrow(self, x: Operand, y: Operand) -> tuple[Any, Any, bool] | None:
        """What two operands of 64 bits were before they were extended the same way, and whether with their sign."""
        known = self.widened.get(x) if isinstance(x, Reg) else None
        other = self.widened.get(y) if isinstance(y, Reg) else None
        if known is None or (other is None and isinstance(y, Reg)):
            return None
        source, signed = known
        if other is not None:
            return (source, other[0], signed) if other[1] == signed else None
        low = y & MASK32  # type: ignore[operator]
        again = _signed(low, 32) & MASK64 if signed else low
        return (source, low, signed) if again == y & MASK64 else None  # type: ignore[operator]

    def setp(self, cmp: str, type: str, x: Operand, y: Operand) -> Reg:
        return self.emit(f"setp.{cmp}.{type}", x, y)

    # ---- predicates; None stands for true
    def pand(self, p: Reg | None, q: Reg | None) -> Reg | None:
        if p is None or p is q:
            return q
        if q is None:
            return p
        return self.emit("and.pred", p, q)

    # ---- thread coordinates
    @property
    def tid(self) -> Reg:
        return self.entry("mov.u32", _sym("%tid.x"))

    @property
    def lane(self) -> Reg:
        return self.entry("and.b32", self.tid, 31)

    @property
    def warp(self) -> Reg:
        return self.entry("shr.u32", self.tid, 5)

    def thread_linear(self, lane: Sequence[int], warp: Sequence[int]) -> Any:
        """Xor over the set bits of the thread index of the columns (lane bits, then warp bits), in the prologue."""
        x, y, z = self.fn.attrs.get("nvvm.reqntid") or (0, 0, 0)
        bits = (1 << (x - 1).bit_length()) - 1 if x > 0 and y == z == 1 else MASK32
        return self.linear(self.tid, (*lane, *warp), bits)

    def linear(self, number: Reg, columns: Sequence[int], bits: int = MASK32) -> Any:
        """Xor over the set bits of a number that is known on entry of the columns, in the prologue. `bits`: the bits that the
        number can have; what masks no other is left out."""
        result: Operand | None = None
        reached = 0
        for mask, shifts, places in fields(tuple(columns)):
            low = min(0, *shifts)
            part: Operand = self.entry("and.b32", number, mask) if (bits & ~mask) >> -low else number
            if low < 0:
                part = self.entry("shr.u32", part, -low)
            factor = sum(1 << s - low for s in shifts)
            apart = not reached & places  # an addition is part of a multiplication
            reached |= places
            if len(shifts) > 1 and apart and result is not None:
                result = self.entry("mad.lo.s32", part, factor, result)
                continue
            if len(shifts) > 1:
                part = self.entry("mul.lo.s32", part, factor)
            elif factor > 1:
                part = self.entry("shl.b32", part, factor.bit_length() - 1)
            result = part if result is None else self.entry("xor.b32", result, part)
        return 0 if result is None else result

    def address(self, base: Reg | Sym, offset_bytes: int = 0) -> Addr:
        """An address operand; a constant add that made `base` goes into the immediate."""
        root = self.addc.get(base) if isinstance(base, Reg) else None
        if root is not None:
            total = _signed((root[1] + offset_bytes) & MASK64, 64 if base.cls == "d" else 32)  # type: ignore[union-attr]
            if -(1 << 23) <= total < 1 << 23:
                return Addr(root[0], total)
        return Addr(base, offset_bytes)


@remembered(1024)
def fields(columns: tuple[int, ...]) -> tuple[tuple[int, tuple[int, ...], int], ...]:
    """A linear map of a number's bits as few masked parts of it, each xored in at one or more shifts: (mask, shifts, bits
    reached).

    Copies of a part lie beside each other, so that one multiplication makes them all. The part that covers most comes first;
    a shift to the right beside others costs one instruction more."""
    left = [
        {p - i for p in range(column.bit_length()) if column >> p & 1} for i, column in enumerate(columns)
    ]
    out = []
    while any(left):
        choices: set[tuple[int, ...]] = {(s,) for shifts in left for s in shifts}
        choices |= {tuple(sorted(shifts)) for shifts in left if len(shifts) > 1}
        found: list[tuple[tuple[int, int], tuple[int, tuple[int, ...], int]]] = []
        for shifts in choices:
            mask = sum(1 << i for i, own in enumerate(left) if own.issuperset(shifts))
            copies = [mask << s if s >= 0 else mask >> -s for s in shifts]
            places = sum(copies)
            if any(m & n for k, m in enumerate(copies) for n in copies[:k]):
                continue
            covered = mask.bit_count() * len(shifts)
            found.append(((2 * covered - (len(shifts) > 1 and shifts[0] < 0), -mask), (mask, shifts, places)))
        best = max(found)[1]
        out.append(best)
        for i in range(len(columns)):
            if best[0] >> i & 1:
                left[i] = left[i].difference(best[1])
    return tuple(out)


_SYMS: dict[str, Sym] = {}


def _sym(name: str) -> Sym:
    return _SYMS.setdefault(name, Sym(name))


def _signed(x: int, w: int) -> int:
    x &= (1 << w) - 1
    return x - (1 << w) if x >> (w - 1) else x
