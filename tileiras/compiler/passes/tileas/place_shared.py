"""TileASPlaceShared: where ops exchange values in shared memory, and where the threads of a block wait for each other.

Before: `%y = reduce %x` across warps. After: `barrier`, `%y = reduce %x {scratch = [0, 512]}`: the op's place begins at
byte 0 of the block's shared memory and has 512 bytes. The function says how much there is of it (`shared_bytes`).

Places of exchanges lie behind the buffers that live (`alloc_shared`), and follow each other in time: a barrier stands in
front of an exchange when slower warps may still read what the one before it left. It also stands where the token of a
memory op carries an access of another thread that conflicts and no barrier came since. What an op does between its own
stores and loads belongs to the op.

Loads from buffers and stores to them are told here how they go: `load_shared {plan = "ldmatrix"}`, or
`{plan = "shared", vector = 2}` for four elements an access. So are those of global memory: `load_view_tko {vector = 2}`. A text
may say less; more than is known to be aligned, or to lie inside of the tensor together, is an error. A constant that the passes
before have made several times in a block stands there once.
"""

from __future__ import annotations

import sys

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.constants import merge_constants
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.schedule.exchange import EXCHANGES, in_rounds
from tileiras.compiler.schedule.global_moves import ACCESSES, widths
from tileiras.compiler.schedule.shared_moves import MOVES
from tileiras.compiler.schedule.tensor_moves import PIECES
from tileiras.compiler.target.tcgen05 import STATE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value

READ, WRITE = 1, 2
LOADS = frozenset(("load_view_tko", "load_ptr_tko", "async.copy_view", "async.copy_pointers"))
STORES = frozenset(
    ("store_view_tko", "store_ptr_tko", "atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko")
)
FENCES = frozenset(("memory_fence_alias_tko", "gdc_wait_tko"))
ALLOCATES = frozenset(("alloc_shared", "tensor_memory.alloc"))
FREES = frozenset(("free_shared", "tensor_memory.free"))
WAITS = frozenset(("barrier", "tensor_memory.alloc", "tensor_memory.free"))  # all threads meet inside
SHARED_BYTES = "nv_tileas.shared_bytes"
ALIGN = 128


class PlaceShared(Pass):
    NAME = "TileASPlaceShared"
    SUMMARY = "Give exchanges their places in shared memory and put barriers where threads must wait"
    """
    does: places of exchanges in shared memory, how buffers and global memory are accessed, barriers in front of what must wait
    needed: nv_tileas.module
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        merge_constants(func)
        placer = _Placer(context)
        for op in func.walk():
            rule = EXCHANGES.get(op.spec.name)
            if rule is not None:
                size, attrs = rule(op)
                if size:
                    placer.bytes[op] = size
                if attrs:
                    op.attrs = {**op.attrs, **attrs}
            move = MOVES.get(op.spec.name)
            if move is not None:
                op.attrs = {**op.attrs, **move(op, context.target)}
            pieces = PIECES.get(op.spec.name)
            if pieces is not None:
                op.attrs = {**pieces(op), **op.attrs}
            if op.spec.name in ACCESSES:
                placer.access(op, widths(op, func, context.analyses))
        placer.block(func.regions[0].block)
        if placer.most:
            func.attrs[SHARED_BYTES] = (placer.most + ALIGN - 1) & -ALIGN
        return not placer.failed


class _Placer:
    """What is known where the walk stands: global accesses since the last barrier, whether slower warps may still read
    exchanged values, and the end of every buffer that lives."""

    __slots__ = ("busy", "bytes", "context", "ends", "failed", "most", "pending", "room")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.bytes: dict[Op, int] = {}
        self.room: int = context.target.smem_bytes_max if context.target is not None else sys.maxsize
        self.pending = 0
        self.busy = False
        self.ends: dict[Value, int] = {}
        self.most = 0
        self.failed = False

    def access(self, op: Op, found: dict[str, int]) -> None:
        """Says how an op goes to global memory: as widely as it can, or as the text says."""
        for name, most in found.items():
            given = op.attrs.get(name, most)
            if given > most:
                from tileiras.compiler.dialects.nv_tileas import diags as D

                why = f"only {1 << most} of a thread's elements are known to be aligned, and inside of the tensor together"
                self.context.sink.emit(D.WIDE, op, name=name, given=given, why=why)
                self.failed = True
        op.attrs = {**op.attrs, **{name: most for name, most in found.items() if name not in op.attrs}}

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self.op(op)

    def op(self, op: Op) -> None:
        name = op.spec.name
        if name in ("for", "loop"):
            return self.loop(op)
        if name == "if":
            return self.branches(op)
        wait = self.conflicts(op, name)
        size = self.bytes.get(op, 0)
        if size or name in ALLOCATES:
            wait = wait or self.busy
        if wait:
            self.barrier(op)
        self.pending |= accesses(op)
        if size:
            start = max(self.ends.values(), default=0)
            if op.spec is tileas.CONVERT_LAYOUT and start + size > self.room:
                size = in_rounds(op, self.room - start)  # beside a ring that left less than one round takes
            op.attrs = {**op.attrs, "scratch": (start, size)}
            self.most = max(self.most, start + size)
            self.pending, self.busy = 0, True
        if name in WAITS:
            self.pending, self.busy = 0, False
        if name in ALLOCATES:
            size = STATE_BYTES if name == "tensor_memory.alloc" else op.attr("bytes")
            self.ends[op.results[0]] = op.attr("offset") + size
            self.most = max(self.most, op.attr("offset") + size)
        elif name in FREES:
            self.ends.pop(op.operands[0], None)  # tensor memory is freed on every way out
            self.busy = True

    def conflicts(self, op: Op, name: str) -> bool:
        """Whether the token puts `op` behind an access of other threads that it must not pass."""
        if name not in LOADS and name not in STORES:
            return False
        # What comes amid a store of the same tile waits for what that waits for.
        if name in LOADS and op.attrs.get("apart"):
            return bool(self.pending)
        token = op.operand("token")
        if token is None or token.op is not None and token.op.spec.name == "make_token":
            return False
        return bool(self.pending & (READ | WRITE if name in STORES else WRITE))

    def barrier(self, op: Op) -> None:
        made = Rewriter(self.context, op).create(tileas.BARRIER)
        self.failed = self.failed or made is None
        self.pending, self.busy = 0, False

    def loop(self, op: Op) -> None:
        """What one iteration leaves meets the next one, and what follows may come from before the loop."""
        inner = list(op.walk())
        found = 0
        for each in inner:
            found |= accesses(each)
        busy = self.busy or any(each in self.bytes or each.spec.name in FREES for each in inner)
        self.pending |= found
        self.busy = busy
        self.block(op.regions[0].block)
        self.pending |= found
        self.busy = busy

    def branches(self, op: Op) -> None:
        before = self.pending, self.busy
        pending, busy = before
        ends = dict(self.ends)
        for region in op.regions:
            self.pending, self.busy = before
            if region.blocks:
                self.block(region.block)
            pending |= self.pending
            busy = busy or self.busy
            self.ends = dict(ends)  # what a branch frees on its way out of the kernel lives on beside it
        self.pending, self.busy = pending, busy


def accesses(op: Op) -> int:
    """READ and WRITE bits of one op. Behind an acquire everything must wait, whatever it does."""
    name = op.spec.name
    if name in STORES:
        return WRITE
    if name in FENCES:
        return READ | WRITE
    if name == "bulk.load":
        return READ
    if name in LOADS and op.attrs.get("apart"):
        return 0  # the store of what is made of it follows
    if name in LOADS:
        return READ if op.attr("memory_ordering_semantics") in (None, "weak") else WRITE
    return 0
