"""LLVM IR as text under construction: one module, one function at a time.

A vector of `lanes` elements is `<lanes x T>`; one lane is the plain scalar, so the same emitters serve tiles and
scalars. Elements live in registers as integers of their width unless LLVM computes on them (f32, f64): f16, bf16
and the 8-bit and 4-bit floats are bit patterns, pointers are i64.
"""

from __future__ import annotations

import contextlib
import math
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

REGISTER = {
    "i1": "i1", "i4": "i8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ptr": "i64",
    "f16": "i16", "bf16": "i16", "f32": "float", "tf32": "float", "f64": "double",
    "f8E4M3FN": "i8", "f8E5M2": "i8", "f8E8M0FNU": "i8", "f4E2M1FN": "i8", "fnv8E5M3FNU": "i8",
}  # fmt: skip
MEMORY = {**REGISTER, "i1": "i8"}  # as an element lies in memory and in tile buffers
BITS = {"i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64, "half": 16}
MANGLED = {"float": "f32", "double": "f64", "half": "f16"}
TERMINATORS = ("  br ", "  ret ", "  unreachable")
INT_OF = {"float": "i32", "double": "i64"}


def name_of(elem: Any) -> str:
    """The name of an element type; pointers are "ptr"."""
    return getattr(elem, "name", "ptr")


def bytes_of(name: str) -> int:
    """Bytes of one element in memory; 4-bit elements take one in tile buffers."""
    return BITS[MEMORY[name]] // 8


def vec(type: str, lanes: int) -> str:
    return type if lanes == 1 else f"<{lanes} x {type}>"


def mangled(type: str, lanes: int) -> str:
    """The type as intrinsics spell it in their names."""
    short = MANGLED.get(type, "p0" if type == "ptr" else type)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal(type: str, value: Any) -> str:
    """A scalar constant; floats by their bits, which LLVM takes as a double that f32 holds."""
    if type == "i1":
        return "true" if value else "false"
    if type == "float" and math.isfinite(value):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if type in ("float", "double"):
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    return str(int(value))


def const(type: str, lanes: int, value: Any) -> str:
    """A constant with the same value in every lane."""
    text = literal(type, value)
    return text if lanes == 1 else f"splat ({type} {text})"


def float_of_bits(type: str, lanes: int, bits: int) -> str:
    """A float constant by its own bit pattern."""
    if type == "float":
        text = f"bitcast (i32 {bits} to float)"
    else:
        text = f"bitcast (i64 {bits} to double)"
    return text if lanes == 1 else f"splat ({type} {text})"


def const_vector(type: str, values: Sequence[Any]) -> str:
    """A constant vector of different lanes; a scalar for one value."""
    if len(values) == 1:
        return literal(type, values[0])
    if all(v == values[0] for v in values):
        return const(type, len(values), values[0])
    return "<" + ", ".join(f"{type} {literal(type, v)}" for v in values) + ">"


class Module:
    """Declarations and globals of one LLVM module; functions are added as finished text."""

    def __init__(self) -> None:
        self.declared: dict[str, str] = {}
        self.globals: list[str] = []
        self.functions: dict[str, str] = {}
        self.constants: dict[bytes, str] = {}

    def declare(self, name: str, text: str) -> str:
        self.declared.setdefault(name, text)
        return name

    def constant(self, data: bytes) -> str:
        """The name of a global that holds these bytes, 64-byte aligned."""
        name = self.constants.get(data)
        if name is None:
            name = self.constants[data] = f"@c{len(self.constants)}"
            body = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
            self.globals.append(
                f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{body}", align 64'
            )
        return name

    def text(self) -> str:
        parts = [*self.globals, *self.declared.values(), *self.functions.values()]
        return "\n".join(parts) + "\n"


class Code:
    """The body of one function, appended to instruction by instruction."""

    def __init__(self, module: Module, features: frozenset[str] = frozenset()) -> None:
        self.module, self.features = module, features
        self.lines: list[str] = []
        self.entry: list[str] = []  # allocas and addresses of buffers
        self.count = 0
        self.label = "entry"
        self.shared: dict[str, str] = {}  # what the entry block holds already

    # ---- instructions

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def op(self, text: str) -> str:
        """`%v = text`; the name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def at_entry(self, text: str) -> str:
        """A value of the entry block, made once for each text."""
        name = self.shared.get(text)
        if name is None:
            name = self.shared[text] = self.fresh()
            self.entry.append(f"  {name} = {text}")
        return name

    def alloca(self, type: str, align: int = 64) -> str:
        name = self.fresh()
        self.entry.append(f"  {name} = alloca {type}, align {align}")
        return name

    # ---- arithmetic on any lanes

    def bin(self, opcode: str, type: str, lanes: int, a: str, b: str) -> str:
        return self.op(f"{opcode} {vec(type, lanes)} {a}, {b}")

    def cast(self, opcode: str, source: str, target: str, lanes: int, a: str) -> str:
        if source == target:
            return a
        return self.op(f"{opcode} {vec(source, lanes)} {a} to {vec(target, lanes)}")

    def cmp(self, predicate: str, type: str, lanes: int, a: str, b: str) -> str:
        opcode = "fcmp" if type in ("float", "double") else "icmp"
        return self.op(f"{opcode} {predicate} {vec(type, lanes)} {a}, {b}")

    def select(self, type: str, lanes: int, c: str, a: str, b: str) -> str:
        t = vec(type, lanes)
        return self.op(f"select {vec('i1', lanes)} {c}, {t} {a}, {t} {b}")

    def call(self, name: str, result: str, args: Iterable[tuple[str, str]]) -> str:
        """A call of a declared function; args are (type, value)."""
        text = f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.op(text)

    def intrinsic(self, base: str, type: str, lanes: int, *args: str, suffix: str = "") -> str:
        """llvm.BASE on operands that all have the type of the result; suffix: more operands as text."""
        t = vec(type, lanes)
        name = f"llvm.{base}.{mangled(type, lanes)}"
        extra = f", {suffix}" if suffix else ""
        types = ", ".join([t] * len(args)) + (", " + suffix.split()[0] if suffix else "")
        self.module.declare(name, f"declare {t} @{name}({types})")
        return self.op(f"call {t} @{name}({', '.join(f'{t} {a}' for a in args)}{extra})")

    def splat(self, type: str, lanes: int, a: str) -> str:
        """A scalar in every lane."""
        if lanes == 1:
            return a
        if not a.startswith("%"):
            return f"splat ({type} {a})"
        t = vec(type, lanes)
        one = self.op(f"insertelement {t} poison, {type} {a}, i64 0")
        return self.op(f"shufflevector {t} {one}, {t} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, type: str, lanes: int, a: str, b: str | None, order: Sequence[int]) -> str:
        """Lanes of a (and b behind it) in the given order; one lane gives a scalar."""
        t = vec(type, lanes)
        if lanes == 1:
            if b is None:
                return self.splat(type, len(order), a)
            pair = self.op(f"insertelement <2 x {type}> poison, {type} {a}, i64 0")
            pair = self.op(f"insertelement <2 x {type}> {pair}, {type} {b}, i64 1")
            return self.shuffle(type, 2, pair, None, order)
        if len(order) == 1:
            source, at = (a, order[0]) if order[0] < lanes else (b, order[0] - lanes)
            return self.op(f"extractelement {t} {source}, i64 {at}")
        if b is None and list(order) == list(range(lanes)):
            return a
        index = const_vector("i32", list(order))
        return self.op(f"shufflevector {t} {a}, {t} {b or 'poison'}, <{len(order)} x i32> {index}")

    # ---- memory: addresses are `ptr`

    def pointer(self, address: str) -> str:
        return self.op(f"inttoptr i64 {address} to ptr")

    def gep(self, base: str, offset: str, type: str = "i8") -> str:
        if offset == "0":
            return base
        return self.op(f"getelementptr {type}, ptr {base}, i64 {offset}")

    def load(self, type: str, lanes: int, pointer: str, align: int, more: str = "") -> str:
        return self.op(f"load {more}{vec(type, lanes)}, ptr {pointer}, align {align}")

    def store(self, type: str, lanes: int, value: str, pointer: str, align: int, more: str = "") -> None:
        self.do(f"store {more}{vec(type, lanes)} {value}, ptr {pointer}, align {align}")

    # ---- i64 index arithmetic with constants folded

    def add(self, a: str, b: str) -> str:
        if a == "0":
            return b
        if b == "0":
            return a
        if is_number(a) and is_number(b):
            return str(int(a) + int(b))
        return self.op(f"add i64 {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        if is_number(a) and is_number(b):
            return str(int(a) * int(b))
        for x, y in ((a, b), (b, a)):
            if x == "0":
                return "0"
            if x == "1":
                return y
        return self.op(f"mul i64 {a}, {b}")

    def shl(self, a: str, by: int) -> str:
        if by == 0 or a == "0":
            return a
        return str(int(a) << by) if is_number(a) else self.op(f"shl i64 {a}, {by}")

    # ---- control flow

    def new_label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def begin(self, label: str) -> None:
        if self.label.startswith("dead") and not self.lines[-1].startswith(TERMINATORS):
            self.do("unreachable")  # nothing leads here: the block was ended by a jump out of its region
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, other: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{other}")

    @contextlib.contextmanager
    def loop(self, count: str, step: int = 1) -> Iterator[str]:
        """Counts an i64 from 0 below `count` (at least one round) by `step`; yields its name."""
        head, latch, done = self.new_label("head"), self.new_label("latch"), self.new_label("done")
        before, iv, following = self.label, self.fresh(), self.fresh()
        self.jump(head)
        self.begin(head)
        self.do(f"{iv} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
        yield iv
        self.jump(latch)
        self.begin(latch)
        self.do(f"{following} = add nuw nsw i64 {iv}, {step}")
        again = self.op(f"icmp ult i64 {following}, {count}")
        self.branch(again, head, done)
        self.begin(done)

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is emitted inside runs where the condition holds."""
        then, done = self.new_label("then"), self.new_label("done")
        self.branch(condition, then, done)
        self.begin(then)
        yield
        self.jump(done)
        self.begin(done)

    def text(self, header: str) -> str:
        return "\n".join([header + " {", "entry:", *self.entry, *self.lines, "}"])


def is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
