"""PTX text as data: modules, functions, variables, instructions, operands.

Nothing here knows what an instruction does; the parser fills these records and `blocks.py` and the
handlers read them. Operands are small tuples whose first item is the kind:

    ("reg", Reg)  ("imm", int|float, kind)  ("sym", name, offset_bytes)  ("mem", base operand, offset, extra)
    ("vec", [operands])  ("list", [operands])  ("sreg", "%tid.x")  ("pair", a, b)  ("not", operand)  ("sink",)
"""

from __future__ import annotations


class EmulatorError(Exception):
    """A program that cannot be executed further; the text names the instruction, the PTX line and the thread."""

    line = 0  # PTX line, where one is to blame


WIDTH_BITS = {
    "pred": 1,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "bf16": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "tf32": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "u16x2": 32,
    "s16x2": 32,
    "u8x4": 32,
    "s8x4": 32,
    "f32x2": 64,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
    "b128": 128,
    "e4m3": 8,
    "e5m2": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "e2m1": 4,
    "e2m3": 8,
    "e3m2": 8,
    "ue8m0": 8,
    "ue4m3": 8,
    "e4m3x2": 16,
    "e5m2x2": 16,
    "e2m1x2": 8,
    "e2m3x2": 16,
    "e3m2x2": 16,
    "ue8m0x2": 16,
    "tensormap": 1024,
    "texref": 64,
    "samplerref": 64,
    "surfref": 64,
}


class Reg:
    """A virtual register: its number in the function, its declared type, and the width in bits."""

    __slots__ = ("id", "name", "type", "width")

    def __init__(self, id_: int, name: str, type_: str) -> None:
        self.id, self.name, self.type, self.width = id_, name, type_, WIDTH_BITS[type_]


class Var:
    """A variable in some state space. size is in bytes; init is bytes, or a list with symbol addresses to fill in."""

    __slots__ = ("align", "elem_bytes", "extern", "init", "name", "offset", "relocs", "size", "space", "type")

    def __init__(self, space: str, type_: str, name: str, align: int, size: int) -> None:
        self.space, self.type, self.name, self.align, self.size = space, type_, name, align, size
        self.elem_bytes = max(1, WIDTH_BITS[type_] // 8)
        self.init: bytes | None = None
        self.relocs: list[
            tuple[int, int, str, int, int | None]
        ] = []  # (offset, bytes, symbol, addend, byte shift)
        self.extern = False
        self.offset = 0


class Inst:
    """One instruction: name, modifiers in order, operands, guard (Reg, negated) or None, PTX line, source text.

    path is the chain of nested `{}` blocks around it, for labels, which are local to their block."""

    __slots__ = ("guard", "line", "mods", "op", "ops", "path", "text")

    def __init__(
        self,
        op: str,
        mods: tuple[str, ...],
        ops: list,
        guard,
        line: int,
        text: str,
        path: tuple[int, ...] = (),
    ) -> None:
        self.op, self.mods, self.ops, self.guard, self.line, self.text = op, mods, ops, guard, line, text
        self.path = path


class Func:
    """An entry or device function. body holds Inst and ("label", name, path) items in order."""

    __slots__ = (
        "body",
        "directives",
        "is_declaration",
        "is_entry",
        "line",
        "name",
        "params",
        "protos",
        "regs",
        "returns",
        "tables",
        "vars",
    )

    def __init__(self, name: str, is_entry: bool, line: int) -> None:
        self.name, self.is_entry, self.line = name, is_entry, line
        self.params: list[Var] = []
        self.returns: list[Var] = []
        self.regs: list[Reg] = []
        self.vars: list[Var] = []
        self.body: list = []
        self.directives: dict[str, list] = {}
        self.tables: dict[str, list[str]] = {}  # .branchtargets / .calltargets
        self.protos: dict[str, tuple[list[Var], list[Var]]] = {}
        self.is_declaration = False


class Module:
    """A parsed PTX module."""

    __slots__ = ("address_size", "funcs", "source", "target", "vars", "version")

    def __init__(self, source: str) -> None:
        self.version, self.target, self.address_size = (0, 0), "", 64
        self.funcs: dict[str, Func] = {}
        self.vars: dict[str, Var] = {}
        self.source = source


def misunderstood(inst: Inst) -> EmulatorError:
    """What is said of an instruction whose operands or modifiers make no sense."""
    return EmulatorError(
        f"PTX line {inst.line}: operands or modifiers that the emulator does not understand: `{inst.text}`"
    )
