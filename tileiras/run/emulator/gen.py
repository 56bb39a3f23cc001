"""PTX pieces to Python functions over NumPy arrays.

Each piece becomes one Python function `f(B, R, idx, n)` of straight-line NumPy code: registers are arrays over the
lanes that run it, or arrays of length one where all lanes agree (kernel parameters, loop counters). A value that never
leaves the piece stays a local variable; only registers live at the end are written back. There are two variants: *full*
(idx is None: every lane of the batch) and *partial* (idx: the running lanes, ascending).

Values have a *flavour*: how the bits are seen. Registers are kept in their own flavour (unsigned by width, `f32`/`f64`
where declared so, `pred` as bool) and viewed differently at no cost. Handlers of instructions live in `ops_*.py`,
registered by name with `@handles`, and write lines through `BlockGen`.
"""

from __future__ import annotations

import struct

import numpy as np

from . import approximate, integers, numerics
from .blocks import Piece
from .syntax import WIDTH_BITS, EmulatorError, Func, Inst, Reg, misunderstood

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

HANDLERS: dict[str, Callable] = {}
BEFORE: list[Callable] = []  # what looks at each instruction first where the order is perturbed

DTYPE = {
    "u8": "uint8",
    "s8": "int8",
    "u16": "uint16",
    "s16": "int16",
    "u32": "uint32",
    "s32": "int32",
    "u64": "uint64",
    "s64": "int64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "pred": "bool_",
}
FLAVOUR_BITS = {
    "u8": 8,
    "s8": 8,
    "u16": 16,
    "s16": 16,
    "u32": 32,
    "s32": 32,
    "u64": 64,
    "s64": 64,
    "f16": 16,
    "bf": 16,
    "f32": 32,
    "f64": 64,
    "h2": 32,
    "bf2": 32,
    "u16x2": 32,
    "s16x2": 32,
    "f32x2": 64,
    "v16": 128,
    "pred": 1,
}
_FLAVOUR_OF_TYPE = {
    "b8": "u8",
    "b16": "u16",
    "b32": "u32",
    "b64": "u64",
    "bf16": "bf",
    "f16x2": "h2",
    "bf16x2": "bf2",
    "tf32": "f32",
    "b128": "v16",
}


def handles(*names: str):
    """Registers a handler for instructions of these names."""

    def add(fn):
        for name in names:
            HANDLERS[name] = fn
        return fn

    return add


def flavour_of(type_: str) -> str:
    return _FLAVOUR_OF_TYPE.get(type_, type_)


def raw_flavour(reg: Reg) -> str:
    """How a register is kept between pieces."""
    if reg.type in ("f32", "f64", "pred"):
        return reg.type
    return "v16" if reg.width == 128 else f"u{max(8, reg.width)}"


def zero_of(reg: Reg) -> np.ndarray:
    flavour = raw_flavour(reg)
    return np.zeros(1, "V16" if flavour == "v16" else DTYPE[flavour])


_NOWHERE = Inst("", (), [], None, 0, "")


# what handlers meet in operands and modifiers that are not those of their instruction
MISREAD = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)


class BlockGen:
    """Writes the function of one run of pieces. `unit` is the loaded program: constants, symbols, launch shape."""

    def __init__(self, unit, partial: bool) -> None:
        self.unit = unit
        self.partial = partial
        self.lines: list[str] = []
        self.where: list[Inst | None] = []  # instruction of each line, for error reports
        self.views: dict[int, dict[str, str]] = {}  # register id -> flavour -> variable
        self.regs: dict[int, Reg] = {}
        self.written: set[int] = set()
        self.special: dict[str, str] = {}
        self.guard: str | None = None
        self.inst: Inst = _NOWHERE
        self.base = 0
        self.temps = 0
        self.done = False  # a terminator wrote the return

    # writing
    def emit(self, line: str) -> None:
        self.lines.append("    " + line)
        self.where.append(self.inst)

    def tmp(self, expr: str | None = None) -> str:
        self.temps += 1
        name = f"t{self.temps}"
        if expr is not None:
            self.emit(f"{name} = {expr}")
        return name

    def fail(self, why: str) -> NoReturn:
        raise EmulatorError(f"PTX line {self.inst.line}: {why}: `{self.inst.text}`")

    func: Func  # set by Unit.generator, with piece and result
    piece: Piece
    result: str | None

    def const(self, array: np.ndarray) -> str:
        return self.unit.constant(array)

    # reading
    def use(self, op, flavour: str) -> str:
        """The variable that holds an operand in a flavour."""
        kind = op[0]
        if kind == "reg":
            return self.use_reg(op[1], flavour)
        if kind == "imm":
            return self.immediate(op[1], op[2], flavour)
        if kind == "sreg":
            return self.convert(*self.special_register(op[1]), flavour)
        if kind == "sym":
            value = self.unit.symbol_address(self, op)
            if self.unit.cluster_size > 1 and self.unit.is_shared(op):  # addresses hold the CTA's rank
                rank = self.use(("sreg", "%cluster_ctarank"), flavour)
                return self.tmp(f"{rank} * np.{DTYPE[flavour]}(1 << 24) + np.{DTYPE[flavour]}({value})")
            return self.immediate(value, "int", flavour)
        if kind == "not":
            return self.tmp(f"~{self.use(op[1], flavour)}")
        if kind == "neg":
            return self.tmp(f"-{self.use(op[1], flavour)}")
        if kind == "vec":
            return self.packed(op[1], flavour)
        self.fail(f"operand of kind {kind} where a value is needed")

    def use_reg(self, reg: Reg, flavour: str) -> str:
        self.regs[reg.id] = reg
        views = self.views.get(reg.id)
        if views is None:
            name = f"r{reg.id}"
            raw = raw_flavour(reg)
            at = reg.id + self.base
            self.emit(f"{name} = R[{at}]" if not self.partial else f"{name} = pick(R[{at}], idx)")
            views = self.views[reg.id] = {raw: name}
        got = views.get(flavour)
        if got is not None:
            return got
        bits = FLAVOUR_BITS[flavour]
        have, name = next(iter(views.items()))
        have_bits = FLAVOUR_BITS[have]
        if bits < have_bits:  # truncating read of a wider register
            if have not in ("u16", "u32", "u64"):
                name = self.convert(name, have, f"u{have_bits}")
                have = f"u{have_bits}"
            name = self.tmp(f"{name}.astype(np.uint{max(bits, 8)})")
            have = f"u{bits}"
        elif bits > have_bits:  # the instruction is wider than its register
            name = self.tmp(f"{self.convert(name, have, f'u{have_bits}')}.astype(np.uint{bits})")
            have = f"u{bits}"
        out = self.convert(name, have, flavour)
        views[flavour] = out
        return out

    def convert(self, name: str, have: str, want: str) -> str:
        """The same bits in another flavour of equal width (narrower where integers are cut)."""
        if have == want:
            return name
        hb, wb = FLAVOUR_BITS[have], FLAVOUR_BITS[want]
        if hb != wb:
            if have == "pred" or want == "pred":
                self.fail("a predicate where a number is needed, or the reverse")
            name = self.convert(name, have, f"u{hb}")
            return self.convert(self.tmp(f"{name}.astype(np.uint{wb})"), f"u{wb}", want)
        expr = name
        if have in ("bf", "bf2"):
            expr = f"f32_to_bf16({name})"
            expr = f"{expr}.reshape(-1).view(np.uint32)" if have == "bf2" else expr
            have = "u32" if have == "bf2" else "u16"
        elif have in ("h2", "u16x2", "s16x2"):
            expr, have = f"packed2({name})", "u32"
        elif have == "f32x2":
            expr, have = f"packed2f({name})", "u64"
        if have == want:
            return self.tmp(expr)
        if want == "bf":
            return self.tmp(f"bf16_to_f32({expr}.view(np.uint16))")
        if want == "bf2":
            return self.tmp(f"bf16_to_f32({expr}.view(np.uint16)).reshape(-1, 2)")
        if want == "h2":
            return self.tmp(f"{expr}.view(np.float16).reshape(-1, 2)")
        if want == "f32x2":
            return self.tmp(f"{expr}.view(np.float32).reshape(-1, 2)")
        if want in ("u16x2", "s16x2"):
            return self.tmp(f"{expr}.view(np.{'u' if want[0] == 'u' else ''}int16).reshape(-1, 2)")
        return self.tmp(f"{expr}.view(np.{DTYPE[want]})")

    def immediate(self, value, kind: str, flavour: str) -> str:
        if flavour in ("f32", "f64", "f16", "bf", "h2", "bf2", "f32x2"):
            if kind == "int":
                bits = FLAVOUR_BITS[flavour]
                raw = np.array([value & (1 << bits) - 1], f"uint{bits}")
                name = self.const(raw)
                if flavour in ("f32", "f64"):  # an integer literal at a float type is its value
                    return self.const(np.array([value], DTYPE[flavour]))
                return self.convert(name, f"u{bits}", flavour)
            if kind == "float":
                number = np.array([value], np.float64)
            else:
                width = 4 if kind == "f32" else 8
                number = np.frombuffer(
                    value.to_bytes(width, "little"), np.float32 if width == 4 else np.float64
                )
                if flavour == kind:
                    return self.const(number.copy())
            if flavour in ("f32", "f64", "f16"):
                return self.const(number.astype(DTYPE[flavour]))
            return self.const(number.astype(np.float32))
        if flavour == "pred":
            return self.const(np.array([bool(value)]))
        if flavour == "v16":
            wide = (int(value) & (1 << 128) - 1).to_bytes(16, "little")
            return self.const(np.frombuffer(wide, "V16").copy())
        if kind == "float":
            value = struct.unpack("<Q", struct.pack("<d", value))[0]
        bits = FLAVOUR_BITS[flavour]
        if flavour in ("u16x2", "s16x2"):
            name = self.const(np.array([value & 0xFFFFFFFF], np.uint32))
            return self.convert(name, "u32", flavour)
        unsigned = np.array([int(value) & (1 << bits) - 1], f"uint{bits}")
        return self.const(unsigned.view(DTYPE[flavour]))

    def packed(self, items: list, flavour: str) -> str:
        """{a, b, ...} read as one wider value, first element in the low bits."""
        bits = FLAVOUR_BITS[flavour] // len(items)
        parts = ", ".join(
            self.use(item, f"u{bits}") if item[0] != "sink" else self.const(np.zeros(1, f"uint{bits}"))
            for item in items
        )
        wide = "V16" if flavour == "v16" else f"uint{FLAVOUR_BITS[flavour]}"
        name = self.tmp(f"pack(({parts},), '{wide}')")
        return name if flavour == "v16" else self.convert(name, f"u{FLAVOUR_BITS[flavour]}", flavour)

    def special_register(self, name: str) -> tuple[str, str]:
        """(variable, flavour) of a special register."""
        flavour = (
            "u64"
            if name in ("%clock64", "%globaltimer", "%gridid")
            else "pred"
            if name == "%is_explicit_cluster"
            else "u32"
        )
        if name.startswith(("%clock", "%globaltimer")):
            return self.tmp(f"B.clock('{name}')"), flavour
        got = self.special.get(name)
        if got is None:
            got = self.tmp(f"B.special('{name}')" if not self.partial else f"pick(B.special('{name}'), idx)")
            self.special[name] = got
        return got, flavour

    # writing registers
    def set(self, op, flavour: str, expr: str, signed: bool | None = None) -> None:
        """Assigns a result. Narrow results widen to the register: by sign where the flavour is signed."""
        kind = op[0]
        if kind == "sink":
            self.emit(expr)
            return
        if kind == "vec":
            self.unpack(op[1], flavour, expr)
            return
        if kind != "reg":
            self.fail(f"cannot write to an operand of kind {kind}")
        reg = op[1]
        self.regs[reg.id] = reg
        width = max(8, reg.width) if reg.type != "pred" else 1
        bits = FLAVOUR_BITS[flavour]
        name = (
            expr if expr.isidentifier() else self.tmp(expr)
        )  # variables are assigned once: a copy is an alias
        if flavour in ("bf", "h2", "bf2", "u16x2", "s16x2", "f32x2"):
            unsigned = f"u{bits}"
            name = self.convert(name, flavour, unsigned)
            flavour = unsigned
        if bits != width:
            if bits > width:
                self.fail(f"a {bits}-bit result in a {width}-bit register")
            if flavour[0] == "f":
                name, flavour = self.convert(name, flavour, f"u{bits}"), f"u{bits}"
            grow = flavour[0] == "s" if signed is None else signed
            name = self.tmp(f"{name}.astype(np.{'' if grow else 'u'}int{width})")
            flavour = f"{'s' if grow else 'u'}{width}"
        if self.guard is not None:
            old = self.use_reg(reg, flavour)
            name = self.tmp(f"where({self.guard}, {name}, {old})")
        self.views[reg.id] = {flavour: name}
        self.written.add(reg.id)

    def unpack(self, items: list, flavour: str, expr: str) -> None:
        bits = FLAVOUR_BITS[flavour] // len(items)
        name = self.tmp(expr)
        if flavour != "v16":
            name = self.convert(name, flavour, f"u{FLAVOUR_BITS[flavour]}")
        parts = self.tmp(f"unpack({name}, np.uint{bits})")
        for i, item in enumerate(items):
            if item[0] != "sink":
                self.set(item, f"u{bits}", f"{parts}[{i}]")

    # pieces
    def after(self) -> int:
        """The piece where control goes on."""
        if self.piece.next is None:
            self.fail("control runs off the end")
        return self.piece.next.pc

    def add_piece(self, piece: Piece) -> None:
        for inst in piece.insts:
            self.add(inst)

    def add(self, inst: Inst) -> None:
        self.inst = inst
        handler = HANDLERS.get(inst.op)
        if handler is None:
            self.fail("this instruction is not supported by the emulator")
        self.guard = None
        try:
            if inst.guard is not None:
                reg, negated = inst.guard
                name = self.use_reg(reg, "pred")
                self.guard = self.tmp(f"~{name}") if negated else name
            if self.unit.ordered:
                for look in BEFORE:
                    look(self, inst)
            handler(self, inst)
        except MISREAD as error:
            raise misunderstood(inst) from error

    def write_back(self, live: int) -> None:
        """Stores the written registers that live on."""
        for rid in sorted(self.written):
            if not live >> rid & 1:
                continue
            self.store_register(rid)

    def store_register(self, rid: int) -> None:
        reg = self.regs[rid]
        name = self.use_reg(reg, raw_flavour(reg))
        at = rid + self.base
        self.emit(f"R[{at}] = {name}" if not self.partial else f"B.put({at}, {name}, idx)")

    def instruction(self, inst: Inst) -> str:
        """The name of an instruction's record in generated code."""
        return self.unit.object(inst)

    def compile(self, name: str):
        body = self.lines or ["    pass"]
        source = f"def {name}(B, R, idx, n):\n" + "\n".join(body) + "\n"
        space = self.unit.namespace
        exec(compile(source, f"<{name}>", "exec"), space)
        fn = space.pop(name)
        self.unit.sources[f"<{name}>"] = (source, self.where)
        return fn


def vector_items(op) -> list:
    return op[1] if op[0] == "vec" else [op]


def is_type(mod: str) -> bool:
    return mod in WIDTH_BITS


RUNTIME = {"np": np, "where": np.where}
for _module in (integers, numerics, approximate):
    RUNTIME.update({k: getattr(_module, k) for k in _module.__all__})
