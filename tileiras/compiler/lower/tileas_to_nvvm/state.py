"""What one function's lowering knows: the builder, the per-thread form of every value, shared memory.

A tensor becomes a `Tile`: its layout and one operand per register of the layout (a Reg, an int for a known
integer, a Float). Views become compile-time records over scalar operands. Tokens have no value.

Register classes: i1 -> predicate; f16, bf16 -> 16 bits; 64-bit types and pointers -> 64; all others -> 32 bits
with undefined upper bits (whoever looks at them extends first, see `arith.sext` and `arith.zext`).
"""

from __future__ import annotations

from tileiras.compiler.layout import convert
from tileiras.compiler.nvvm.build import Builder, _sym
from tileiras.compiler.nvvm.code import Function, Reg
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

from .coming import Coming, Renamed, parts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.ir.types import Type
    from tileiras.compiler.layout.linear import LinearLayout
    from tileiras.compiler.target.sm import Sm
    from tileiras.diag import Sink


def elem_bytes(elem: Type) -> int:
    """Bytes of one element in memory (i1: 1; 4-bit types: 1, see memory)."""
    return elem.bytes  # type: ignore[attr-defined, no-any-return]


class Tile:
    """A tensor in registers: regs[r] holds the elements layout(reg=r, lane, warp)."""

    __slots__ = ("elem", "layout", "regs", "shape")

    def __init__(self, elem: Type, shape: tuple[int, ...], layout: LinearLayout, regs: Sequence[Any]) -> None:
        self.elem = elem
        self.shape = shape
        self.layout = layout
        self.regs = regs


class View:
    """A tensor_view at run time: base address (64 bits), extents and strides as operands with their widths."""

    __slots__ = ("base", "shape", "strides", "type")

    def __init__(
        self, type: Any, base: Any, shape: list[tuple[Any, int]], strides: list[tuple[Any, int]]
    ) -> None:
        self.type = type  # TensorView, or the tile view made of it
        self.base = base
        self.shape = shape  # (operand, width in bits); an int operand is static
        self.strides = strides


class LoweringError(Exception):
    """An op that cannot be lowered for this target; `reason` says what it needs."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Lowering:
    """State of one function."""

    def __init__(
        self,
        fn: Function,
        target: Sm,
        sink: Sink,
        num_warps: int,
        globals_: dict[str, Any],
        lower_op: Callable[[Lowering, Op], None],
    ) -> None:
        self.lower_op = lower_op  # for ops in regions
        self.fn = fn
        self.target = target
        self.sink = sink
        self.num_warps = num_warps
        self.log2_warps = num_warps.bit_length() - 1
        self.b = Builder(fn, target)
        self.env: dict[Value, Any] = {}
        self.passed_over: tuple[Any, bool] | None = (
            None  # label behind what one warp, or thread, has just run
        )
        self.globals = globals_
        self.agent: int | None = None  # whose code this is; see roles.py
        self.loops: list[Any] = []  # innermost last; see control.py
        self.exchanging: Any = None  # the op that used its place in shared memory last
        self.failed = False
        self.lost: set[Value] = set()  # results of ops that have no code
        self.observer: Any = None  # remarks.Observer when remarks were asked for
        self.positions: Any = None  # debug.Positions with --lineinfo and -g
        self.space = ".global"  # state space of memory ops; "" (generic) in functions with block-local memory
        self.coming: list[Any] = []  # registers that come when they are asked for; see coming.py

    def tile(self, value: Value) -> Tile:
        return self.env[value]

    def scalar(self, value: Value) -> Any:
        """The operand of a rank-0 tile."""
        return self.env[value].regs[0]

    def define(self, value: Value, regs: Sequence[Any]) -> None:
        type = value.type
        self.env[value] = Tile(type.elem, type.shape, type.layout, regs)  # type: ignore[attr-defined]

    def regs_as(self, value: Value, layout: LinearLayout) -> Sequence[Any]:
        """The registers of a tile renamed to `layout` (the layouts differ in names only, by construction)."""
        tile = self.env[value]
        if tile.layout is layout:
            return tile.regs
        plan = convert.plan(tile.layout, layout)
        if plan.kind != convert.RENAME:
            raise LoweringError(
                f"an operand lies in {tile.layout} where {layout} is wanted: a convert_layout is missing"
            )
        regs = tile.regs
        if regs.__class__ is Coming:
            renamed: Any = Renamed(regs, plan.regs)
            return renamed  # type: ignore[no-any-return]
        return [regs[i] for i in plan.regs]

    def comes(self, value: Value, parts: list[Any], last: Any = None) -> None:
        """Defines a tile whose registers come in parts, each in front of its first use; see coming.py."""
        regs: Any = Coming(value.type.layout.num_regs, parts, last)  # type: ignore[attr-defined]
        self.coming.append(regs)
        self.define(value, regs)

    def bring(self) -> None:
        """All registers that are still to come are there."""
        coming, self.coming = self.coming, []
        for regs in reversed(coming):  # what is made of others brings these, part by part
            regs.all()

    # ---- barriers and shared memory
    def barrier(self) -> None:
        if self.num_warps == 1:
            self.b.emit_to(None, "bar.warp.sync", 0xFFFFFFFF)
        elif self.agent is not None:
            self.b.emit_to(None, "bar.sync", self.agent + 1, 32 * self.num_warps)
        else:
            self.b.emit_to(None, "bar.sync", 0)

    def scratch(self, op: Op, size_bytes: int) -> Reg:
        """The base address of the op's place in shared memory, free for writing: TileASPlaceShared chose it and put a
        barrier in front of the op where one is needed. Another round of the same op waits for slower warps here."""
        place = op.attrs.get("scratch")
        if place is None:
            raise self.undecided(op, "scratch", "TileASPlaceShared")
        start, size = place
        if size_bytes > size:
            raise AssertionError(f"'{op.spec.full_name}' was given {size} bytes and takes {size_bytes}")
        if self.exchanging is op:
            self.barrier()
        self.exchanging = op
        return self.b.entry("add.s32", self.smem_base, start) if start else self.smem_base

    def undecided(self, op: Op, attr: str, name: str) -> Exception:
        return LoweringError(f"attribute '{attr}' is missing; {name} writes it")

    @property
    def smem_base(self) -> Reg:

        return self.b.entry("mov.u32", _sym("$smem"))


def elementwise(lowering: Lowering, op: Op, one: Any) -> None:
    """Lower a one-result op register by register: `one(*operands) -> operand`."""
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    columns = [lowering.regs_as(v, layout) for v in op.operands]
    parts = parts_of(columns) if lowering.coming else None
    if parts is None:
        return lowering.define(result, [one(*regs) for regs in zip(*columns)])

    def make(places: list[int]) -> list[Any]:
        return [one(*(regs[i] for regs in columns)) for i in places]

    lowering.comes(result, [(places, lambda places=places: make(places)) for places in parts])


def paired(lowering: Lowering, op: Op, opcode: str) -> bool:
    """Lowers an elementwise op on f32 with two values an instruction (`opcode` without type), where the target has that
    and the tile holds enough; whether it did."""

    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    if layout.inv or layout.num_regs < CostModel.paired_registers or not lowering.target.has(sm.F32X2):
        return False
    b = lowering.b
    columns = [lowering.regs_as(v, layout) for v in op.operands]

    def make(places: list[int]) -> list[Any]:
        out: list[Any] = []
        for i in places[::2]:
            words = [b.pair(regs[i], regs[i + 1]) for regs in columns]
            out += b.halves_of(b.emit(f"{opcode}.f32x2", *words))
        return out

    parts = parts_of(columns) if lowering.coming else None
    if parts is None or not all(_in_pairs(places) for places in parts):
        lowering.define(result, make(list(range(layout.num_regs))))
    else:
        lowering.comes(result, [(places, lambda places=places: make(places)) for places in parts])
    return True


def _in_pairs(places: list[int]) -> bool:
    return len(places) % 2 == 0 and all(j == i + 1 for i, j in zip(places[::2], places[1::2]))
