"""Where the nv_tileas dump says that elements lie in shared memory, the PTX puts and finds them: arrangement, start and layout of
copies, of loads from buffers and of stores to them, thread by thread.

The addresses are computed from the instructions, for the first and the last warp of a block.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.lower.tileas_to_nvvm.remarks import Observer
from tileiras.compiler.nvvm.code import Reg
from tileiras.compiler.target import sm
from tileiras.diag import Sink

KERNELS = sorted(BYTECODE.glob("staged_*.tilebc"))
MASK = 0xFFFFFFFF
COMPUTE: dict[str, Any] = {
    "and.b32": lambda x, y: x & y, "or.b32": lambda x, y: x | y, "xor.b32": lambda x, y: x ^ y,
    "add.s32": lambda x, y: x + y, "sub.s32": lambda x, y: x - y, "shl.b32": lambda x, y: x << y,
    "shr.u32": lambda x, y: x >> y, "mul.lo.s32": lambda x, y: x * y, "mad.lo.s32": lambda x, y, z: x * y + z,
    "bfe.u32": lambda x, y, z: x >> y & (1 << z) - 1, "mov.u32": lambda x: x, "mov.b32": lambda x: x,
}  # fmt: skip
MATRICES = ("ldmatrix", "stmatrix")


class Unknown(Exception):
    """A register that more than the thread decides."""


class Addresses(Observer):
    """(op, what the dump says, what the instructions do) of every access whose addresses the thread decides."""

    __slots__ = ("found", "made")

    def __init__(self, lowering: Any, found: list[Any]) -> None:
        super().__init__(lowering, {})
        self.found = found
        self.made: dict[Any, Any] = {}

    def watch(self, op: Any, rule: Any) -> None:
        code, start = self.lowering.b.code, len(self.lowering.b.code)
        super().watch(op, rule)
        name = op.spec.name
        if name not in ("load_shared", "store_shared", "async.copy_view", "async.copy_pointers"):
            return
        self.made = {
            r[1]: r
            for r in [*self.lowering.b.prologue, *code]
            if r.__class__ is tuple and r[1].__class__ is Reg
        }
        accesses = [r[2][0] for r in code[start:] if r.__class__ is tuple and moves(r[0])]
        matrices = any(r.__class__ is tuple and r[0].startswith(MATRICES) for r in code[start:])
        last = self.lowering.num_warps - 1
        try:
            done = [{self.address(op, a, 32 * warp + lane) for a in accesses} for warp, lane in threads(last)]
        except Unknown:
            return self.found.append((op, None, None))
        said = [expected(self.lowering, op, matrices, warp, lane) for warp, lane in threads(last)]
        if matrices:  # the row that a lane addresses goes to others
            said, done = ([set().union(*each[:32]), set().union(*each[32:])] for each in (said, done))
        self.found.append((op, said, done))

    def address(self, op: Any, address: Any, thread: int) -> int:
        """Of one access, relative to the slot."""
        slot = self.lowering.scalar(op.operands[1])
        known = {slot: 0} if slot.__class__ is Reg else {}
        return int(self.value(address.base, thread, known) + address.offset_bytes) & MASK

    def value(self, x: Any, thread: int, known: dict[Any, int]) -> int:
        if x.__class__ is not Reg:
            word = getattr(x, "name", x)
            if isinstance(word, int):
                return word
            if word not in ("%tid.x", "$smem"):
                raise Unknown
            return thread if word == "%tid.x" else 0
        if x not in known:
            record = self.made.get(x)
            if record is None or record[0] not in COMPUTE or record[3] is not None:
                raise Unknown
            known[x] = COMPUTE[record[0]](*(self.value(s, thread, known) for s in record[2])) & MASK
        return known[x]


def threads(last: int) -> list[tuple[int, int]]:
    return list(product((0, last), range(32)))


def moves(opcode: str) -> bool:
    return opcode.startswith((*MATRICES, "ld.shared", "st.shared", "cp.async.c")) and "commit" not in opcode


def expected(lowering: Any, op: Any, matrices: bool, warp: int, lane: int) -> set[int]:
    """The bytes at which a thread's accesses begin."""
    columns, base = op.attrs["arrangement"], lowering.env[op.operands[0]]
    if op.spec.name.startswith("async"):
        layout, size = op.attrs["layout"], op.attr("width")
    else:
        type = (op.results or op.operands[2:])[0].type
        layout = type.layout
        size = 16 if matrices else type.elem.bytes << op.attr("vector")
    slot = lowering.scalar(op.operands[1])
    base += op.attr("start") + (slot if isinstance(slot, int) else 0)
    thread = apply(layout.lane, lane) ^ apply(layout.warp, warp)
    within = op.attrs.get("within", 0)
    return {
        base + ((within ^ apply(columns, thread ^ offset)) & -size)
        for offset in (apply(layout.reg, r) for r in range(layout.num_regs))
    }


class Watch:
    """What the pipeline asks for an observer."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def observer(self, lowering: Any, _remarks: Any) -> Addresses:
        return Addresses(lowering, self.found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("target", "kinds"), [("sm_80", {"load_shared"}), ("sm_100", {"store_shared"})])
def test_elements_lie_where_the_dump_says(target: str, kinds: set[str]) -> None:
    compare(KERNELS[::12], target, kinds)


@pytest.mark.full
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_elements_of_all_kernels_lie_where_the_dump_says(target: str) -> None:
    compare(KERNELS, target, set())


def compare(kernels: list[Any], target: str, kinds: set[str]) -> None:
    gpu = sm.find(target)
    assert gpu is not None
    seen: list[str] = []
    unknown = 0
    for kernel in kernels:
        watch = Watch()
        try:
            pipeline.compile_module(tileiras.load(kernel).op, gpu, Sink(), watch=watch)
        except tileiras.CompileError:
            continue  # needs a newer target
        for op, said, done in watch.found:
            if said is None:
                unknown += 1
                continue
            seen.append(op.spec.name)
            assert said == done, f"{kernel.stem}: {op.spec.full_name}"
    assert set(seen) >= {"async.copy_view", *kinds} and unknown <= len(seen) // 20
