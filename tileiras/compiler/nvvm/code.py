"""Compact per-thread code: virtual registers, operands, instruction records, functions.

A record is a tuple `(opcode, dst, srcs, guard)`. `opcode` is the full PTX mnemonic with its modifiers: the
table in `rows.py` says once per distinct opcode what it takes, yields and needs. Registers are typed by class:
p (predicate), h (16 bits), r (32), d (64). Integers stand for immediates. Registers may be written more than
once (loop-carried values); the builder never reuses a value across such a write.
"""

from __future__ import annotations

from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Reg:
    """A virtual register. `cls` is p, h, r or d; `id` counts within the class."""

    __slots__ = ("cls", "id", "text")

    def __init__(self, cls: str, id: int) -> None:
        self.cls = cls
        self.id = id
        self.text = f"%{cls}{id}"  # as PTX spells it

    def __repr__(self) -> str:
        return self.text


class Float:
    """An f32 or f64 immediate, as its bit pattern."""

    __slots__ = ("bits", "cls", "text")

    def __init__(self, cls: str, bits: int) -> None:
        self.cls = cls
        self.bits = bits
        self.text = f"0f{bits:08X}" if cls == "r" else f"0d{bits:016X}"

    def __repr__(self) -> str:
        return self.text


class Sym:
    """A name in the operand position: a parameter, a variable, a special register."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Addr:
    """`[base + offset_bytes]`; base is a Reg or a Sym."""

    __slots__ = ("base", "offset_bytes")

    def __init__(self, base: Reg | Sym, offset_bytes: int = 0) -> None:
        self.base = base
        self.offset_bytes = offset_bytes

    def __repr__(self) -> str:
        return f"[{self.base}+{self.offset_bytes}]" if self.offset_bytes else f"[{self.base}]"


class TensorAddr:
    """`[map, {c0, c1}]`: a tensor map and coordinates, as bulk tensor copies take them. `base` is a Reg or a Sym."""

    __slots__ = ("base", "coords")

    def __init__(self, base: Reg | Sym, coords: tuple[Any, ...]) -> None:
        self.base = base
        self.coords = coords

    def __repr__(self) -> str:
        return f"[{self.base}, {{{', '.join(map(repr, self.coords))}}}]"


class Label:
    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def __repr__(self) -> str:
        return f"$L{self.id}"


class Var:
    """A module-scope or shared variable: `space` global/shared/const, `data` its bytes or None."""

    __slots__ = ("align", "data", "name", "size_bytes", "space", "visible", "relocs")

    def __init__(
        self,
        name: str,
        space: str,
        size_bytes: int,
        align: int,
        data: bytes | None = None,
        visible: bool = False,
    ) -> None:
        self.name = name
        self.space = space
        self.size_bytes = size_bytes
        self.align = align
        self.data = data
        self.visible = visible


class Function:
    """One kernel: parameters in order, directives, shared memory, code."""

    __slots__ = (
        "attrs", "block", "cluster", "code", "counts", "directives", "dynamic_shared_bytes", "is_entry", "loc", "name",
        "needs_vprintf", "param_types", "params", "shared_bytes", "variables", "local_bytes", "needs_assertfail", "features",
        "tensor_maps",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.params: list[tuple[str, int]] = []  # (PTX type, size in bytes), in order
        self.param_types: list[str] = []  # Tile IR element types, in order
        self.tensor_maps: list[
            Any
        ] = []  # target.tensor_maps.TensorMap of the hidden parameters behind them, in order
        self.attrs: dict[str, Any] = {}  # nvvm.* metadata: nvvm.kernel, nvvm.reqntid, nvvm.maxnreg, ...
        self.is_entry = True  # whether it stems from a cuda_tile.entry
        self.loc: Any = None
        self.block = (128, 1, 1)
        self.cluster = (1, 1, 1)
        self.directives: list[str] = []
        self.code: list[Any] = []
        self.counts = {"p": 0, "h": 0, "r": 0, "d": 0}
        self.shared_bytes = 0  # one static arena named `$smem`
        self.dynamic_shared_bytes = 0
        self.local_bytes = 0  # one local arena named `stack`
        self.variables: list[Var] = []
        self.needs_vprintf = False
        self.needs_assertfail = False
        self.features: set[str] = set()

    @property
    def shared_align(self) -> int:
        """Bytes that the arena's start is a multiple of: swizzles of matrix descriptors and tensor maps repeat after 1 KiB."""
        return 1024 if self.tensor_maps or self.features & {sm.WGMMA, sm.TCGEN05} else 128


class DebugFunction:
    """A kernel as debug information describes it: its symbol, its name in the source, and where it starts."""

    __slots__ = ("file", "line", "linkage_name", "name", "symbol")

    def __init__(self, symbol: str, name: str, linkage_name: str, file: int, line: int) -> None:
        self.symbol = symbol
        self.name = name
        self.linkage_name = linkage_name
        self.file = file
        self.line = line


class DebugTable:
    """What `.loc` lines refer to: files by path, inlined functions by linkage name. One table per module."""

    __slots__ = ("files", "full", "functions", "inlined", "rename")

    def __init__(self, full: bool = False, rename: Callable[[str], str] = str) -> None:
        self.rename = rename  # a path as the debug information is to say it
        self.full = full  # -g: describe the functions too
        self.files: dict[str, int] = {}  # path -> index, from 1
        self.inlined: dict[str, tuple[int, str, int, int]] = {}  # linkage name -> label, name, file, line
        self.functions: list[DebugFunction] = []

    def file(self, path: str) -> int:
        return self.files.setdefault(self.rename(path), len(self.files) + 1)

    def name(self, linkage_name: str, name: str, file: int, line: int) -> int:
        """The label number of an inlined function's name."""
        return self.inlined.setdefault(linkage_name, (len(self.inlined), name, file, line))[0]


class Module:
    """Kernels and module-scope variables for one target."""

    __slots__ = ("debug", "functions", "target", "variables")

    def __init__(self, target: Any) -> None:
        self.target = target
        self.functions: list[Function] = []
        self.variables: list[Var] = []
        self.debug: DebugTable | None = None  # with --lineinfo and -g
