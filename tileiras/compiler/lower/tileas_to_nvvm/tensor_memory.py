"""Tensor memory: allocation, products that one thread issues, and the way of accumulators in and out.

A block allocates once, because who has given up the right to allocate may not do so again, and who keeps it holds up the
other blocks of the SM. It keeps some bytes in front of all other shared memory: the address of the allocated columns, and for
each accumulator of the current loop two mbarriers, on which its products arrive in turn.
"""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import matrix_operand
from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.directives import cluster_dim
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel

from .staging import slot_address, units_of
from .state import Lowering
from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_BARRIERS = 2
_GROUPS = ("cta_group::1", "cta_group::2")  # of one CTA, of a pair
_LANES_AT = 16  # bit of a tensor memory address where the lane begins


class Memory:
    """Tensor memory: address of the first column, of the state in shared memory, and how many columns. `phase`: of the one
    mbarrier that a buffer's sum arrives on, where loop after loop adds up in it."""

    __slots__ = ("address", "columns", "phase", "readers", "state")

    def __init__(self, address: Any, state: Any, columns: int, readers: int = 0, phase: Any = None) -> None:
        self.address = address
        self.state = state
        self.columns = columns
        self.readers = readers
        self.phase = phase


def by_warp(lowering: Lowering, warp_only: bool, emit: Any) -> None:
    """Code that warp 0 runs, or its first thread alone; of warps of which only one comes here, that one. What follows
    without anything between is in the same branch."""
    b = lowering.b
    alone = lowering.agent is not None and lowering.num_warps == 1
    if alone and warp_only:
        return emit()  # type: ignore[no-any-return]
    skip, of_thread = lowering.passed_over or (None, False)
    if skip is None or b.code[-1] is not skip or of_thread and warp_only:
        skip, of_thread = b.label(), False
        if warp_only:
            b.bra(skip, (b.entry("setp.lt.u32", b.tid, 32), True))
    else:
        b.code.pop()
    if not warp_only and not of_thread:
        if alone:
            mine = b.reg("p")
            b.emit_to((b.reg("r"), mine), "elect.sync", _WHOLE_WARP)
        else:
            mine = b.entry("setp.eq.u32", b.tid, 0)
        b.bra(skip, (mine, True))
    b.push()
    emit()
    b.pop()
    b.place(skip)
    lowering.passed_over = skip, not warp_only


def lower_alloc(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    offset, columns, group = op.attr("offset"), op.attr("columns"), group_of(op)
    state = b.entry("add.s32", lowering.smem_base, offset) if offset else lowering.smem_base

    def allocate() -> None:
        count = b.materialize(columns, "r")
        b.emit_to(None, f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32", b.address(state), count)
        b.emit_to(None, f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned")

    by_warp(lowering, True, allocate)
    b.emit_to(None, "tcgen05.fence::before_thread_sync")
    lowering.barrier()
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    address = b.reg("r")
    b.emit_to(address, "ld.shared.b32", b.address(state))
    lowering.env[op.results[0]] = Memory(address, state, columns)


def lower_free(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    b.emit_to(None, "tcgen05.fence::before_thread_sync")
    lowering.barrier()

    def release() -> None:
        b.emit_to(None, "tcgen05.fence::after_thread_sync")
        count = b.materialize(memory.columns, "r")
        b.emit_to(None, f"tcgen05.dealloc.{group_of(op)}.sync.aligned.b32", memory.address, count)

    by_warp(lowering, True, release)


def lower_begin(lowering: Lowering, op: Op) -> None:
    """The mbarriers of an accumulator begin with their first phase."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    readers = op.attr("readers") or 0
    writers = op.attr("writers") or 0
    if op.attr("pair"):
        readers *= 2
    # it is there; it was read; what it is made of was stored
    counts = [1] * _BARRIERS + [n for n in (readers, writers) if n for _ in range(_BARRIERS)]
    state = b.add(32, memory.state, 16 + 8 * len(counts) * op.attr("number"))

    def init() -> None:
        for i, count in enumerate(counts):
            b.emit_to(
                None, "mbarrier.init.shared::cta.b64", b.address(state, 8 * i), b.materialize(count, "r")
            )
        b.emit_to(None, "fence.mbarrier_init.release.cluster")

    by_warp(lowering, False, init)
    place = op.attr("column") + ((op.attr("lane") or 0) << _LANES_AT)
    lowering.env[op.results[0]] = Memory(b.add(32, memory.address, place), state, 0, readers)


def lower_end(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]

    def inval() -> None:
        for i in range(2 * _BARRIERS if op.attr("writers") else _BARRIERS):
            b.emit_to(None, "mbarrier.inval.shared::cta.b64", b.address(memory.state, 8 * i))

    by_warp(lowering, False, inval)


# ---- operands that warps store
def _stored(lowering: Lowering, op: Op) -> tuple[Any, Any]:
    """The mbarrier on which warps arrive for a product of a number, and its phase: two take turns, as those of products do."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    place = b.add(32, memory.state, b.shl(32, b.and_(32, count, 1), 3))
    return b.add(32, place, 8 * _BARRIERS), b.and_(32, b.shr(32, count, 1), 1)


def lower_stored(lowering: Lowering, op: Op) -> None:
    """Each thread fences what it has written, one arrives for its warp."""
    b = lowering.b
    b.emit_to(None, "fence.proxy.async.shared::cta")
    b.emit_to(None, "bar.warp.sync", _WHOLE_WARP)
    lane = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, 31), 0)
    place, _ = _stored(lowering, op)
    b.emit_to(_sym("_"), "mbarrier.arrive.shared::cta.b64", b.address(place), guard=lane)


def lower_wait_stored(lowering: Lowering, op: Op) -> None:
    by_warp(lowering, True, lambda: wait_for_phase(lowering, *_stored(lowering, op)))


# ---- sums that some warps add up and others read


def lower_turn(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    number = lowering.scalar(op.operands[1])
    double = op.attr("buffers") == 2
    address, state = memory.address, memory.state
    if double:
        which = b.and_(32, number, 1)
        address = b.add(32, address, b.mul(32, which, op.attr("stride")))
        state = b.add(32, state, b.shl(32, which, 3))
    phase = b.and_(32, b.shr(32, number, 1) if double else number, 1)
    lowering.env[op.results[0]] = Memory(address, state, 0, memory.readers, phase)


def lower_acquire(lowering: Lowering, op: Op) -> None:
    """The phase before the first counts as complete: buffers are free at first."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    ctas = 2 if op.attr("pair") else 1
    wait_for_phase(lowering, b.add(32, memory.state, 8 * _BARRIERS), b.xor(32, memory.phase, 1), ctas)
    b.emit_to(None, "tcgen05.fence::after_thread_sync")


def lower_commit(lowering: Lowering, op: Op) -> None:
    memory: Memory = lowering.env[op.operands[0]]
    by_warp(lowering, False, lambda: commit(lowering, memory.state, bool(op.attr("pair"))))


def commit(lowering: Lowering, barrier: Any, pair: bool = False, ctas: int = 0) -> None:
    """What this thread has issued arrives on an mbarrier when it is done; for a pair on that of both CTAs, or of so many."""
    b = lowering.b
    form = f"tcgen05.commit.{_GROUPS[pair]}.mbarrier::arrive::one.shared::cluster"
    if not pair:
        return b.emit_to(None, f"{form}.b64", b.address(barrier))
    b.emit_to(
        None,
        f"{form}.multicast::cluster.b64",
        b.address(barrier),
        b.materialize((1 << ctas) - 1, "h") if ctas else both_of_pair(lowering),
    )
    return None


# ---- pairs of CTAs


def group_of(op: Op) -> str:
    return _GROUPS[bool(op.attr("pair"))]


def leader_of_pair(lowering: Lowering) -> Any:
    """The rank of the CTA that issues the products of this one's pair."""
    if max(cluster_dim(lowering.fn)) == 2:
        return 0
    return lowering.b.entry("and.b32", rank(lowering), ~1 & 0xFFFFFFFF)


def rank(lowering: Lowering) -> Any:
    return lowering.b.entry("mov.u32", _sym("%cluster_ctarank"))


def both_of_pair(lowering: Lowering) -> Any:
    """The mask of the CTAs of a pair, as its leader has it."""
    b = lowering.b
    if max(cluster_dim(lowering.fn)) == 2:
        return b.materialize(3, "h")
    return b.entry("cvt.u16.u32", b.entry("shl.b32", b.materialize(3, "r"), leader_of_pair(lowering)))


def at_leader(lowering: Lowering, address: Any) -> Any:
    """What lies at an address of this CTA's shared memory, in that of the pair's leader."""
    b = lowering.b
    return b.emit("mapa.shared::cluster.u32", b.materialize(address, "r"), leader_of_pair(lowering))


def lower_release(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    lane = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, 31), 0)
    if op.attr("pair"):
        there = at_leader(lowering, b.add(32, memory.state, 8 * _BARRIERS))
        form = "mbarrier.arrive.release.cluster.shared::cluster.b64"
        b.emit_to(_sym("_"), form, b.address(there), guard=lane)
        return
    b.emit_to(
        _sym("_"), "mbarrier.arrive.shared::cta.b64", b.address(memory.state, 8 * _BARRIERS), guard=lane
    )


# ---- accumulators between registers and tensor memory


def _pieces(layout: Any, shape: Any, most: int = 128) -> list[tuple[int, str, list[int]]]:
    """(column, form, registers) of what one instruction moves: at most `most` registers, columns of one block of rows."""
    (m_low, _), (n_low, n_bits) = dim_bits(shape)
    mask = (1 << n_bits) - 1
    half = shape[0] == tcgen05.HALF
    found: dict[int, dict[int, int]] = {}
    for r, offset in enumerate(layout.reg_table):
        row, column = offset >> m_low, offset >> n_low & mask
        if half:  # four registers for eight columns of sixteen rows
            found.setdefault(0, {})[(column >> 3) * 4 + (row >> 3) * 2 + (column & 1)] = r
        else:
            found.setdefault(row, {})[column] = r
    out = []
    for row, columns in found.items():
        order = sorted(columns)
        for i in range(0, len(order), most):
            part = order[i : i + most]
            places = [columns[c] for c in part]
            if half:
                out.append((2 * part[0], f"16x256b.x{len(part) // 4}", places))
            else:
                out.append((shape[1] * (row >> 7) + part[0], f"32x32b.x{len(part)}", places))
    return out


def _thread_address(lowering: Lowering, memory: Memory, layout: Any, shape: Any) -> Any:
    """Where a warp's part begins: its lanes, and the columns or rows beyond 128 that its warpgroup takes."""
    b = lowering.b
    (m_low, _), (n_low, n_bits) = dim_bits(shape)
    columns = []
    for c in layout.warp[2:]:
        columns.append(shape[1] * (c >> m_low >> 7) if c >> m_low else c >> n_low & ((1 << n_bits) - 1))
    part = b.thread_linear([0] * 5, [32 << _LANES_AT, 64 << _LANES_AT, *columns])
    return b.add(32, memory.address, part)


def _read(lowering: Lowering, base: Any, column: int, form: str, count: int) -> tuple[Any, ...]:
    b = lowering.b
    words = tuple(b.reg("r") for _ in range(count))
    b.emit_to(words, f"tcgen05.ld.sync.aligned.{form}.b32", b.address(b.add(32, base, column)))
    return words


def lower_store(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    tile = lowering.tile(op.operands[1])
    shape = tile.shape
    layout = tcgen05.layout_of(shape, lowering.log2_warps)
    regs = lowering.regs_as(op.operands[1], layout)
    base = _thread_address(lowering, memory, layout, shape)
    for column, form, places in _pieces(layout, shape):
        words = tuple(b.materialize(regs[p], "r") for p in places)
        b.emit_to(None, f"tcgen05.st.sync.aligned.{form}.b32", b.address(b.add(32, base, column)), words)
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


def lower_load(lowering: Lowering, op: Op) -> None:
    """Waits for a product, then brings the accumulator."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    _wait(lowering, memory, b.add(32, lowering.scalar(op.operands[1]), -op.attr("before")))
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    type: Any = op.results[0].type
    base = _thread_address(lowering, memory, type.layout, type.shape)
    out: list[Any] = [None] * type.layout.num_regs
    most = op.attrs.get("most")  # registers that come at once
    for column, form, places in _pieces(type.layout, type.shape, *(() if most is None else (most,))):
        for p, word in zip(places, _read(lowering, base, column, form, len(places))):
            out[p] = word
        if most is not None:
            b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
    if most is None:
        b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
    b.emit_to(None, "tcgen05.fence::before_thread_sync")
    lowering.define(op.results[0], out)


def lower_scale(lowering: Lowering, op: Op) -> None:
    """The sum of the product before this iteration's, times a factor. A warp all of whose factors are 1 leaves its part as
    it is: multiplying by 1 changes no number."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    shape = lowering.tile(op.operands[2]).shape
    layout = tcgen05.layout_of(shape, lowering.log2_warps)
    factors = lowering.regs_as(op.operands[2], layout)
    base = _thread_address(lowering, memory, layout, shape)
    _wait(lowering, memory, b.add(32, lowering.scalar(op.operands[1]), -1))
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    skip = b.label()
    distinct = list(dict.fromkeys(factors))
    if len(distinct) <= CostModel.tested_factors:
        tests = [b.setp("neu", "f32", factor, b.float("r", 0x3F800000)) for factor in distinct]
        differs = tests[0]
        for test in tests[1:]:
            differs = b.emit("or.pred", differs, test)
        any_lane = b.reg("p")
        b.emit_to(any_lane, "vote.sync.any.pred", differs, 0xFFFFFFFF)
        b.bra(skip, (any_lane, True))
    b.push()
    for column, form, places in _pieces(layout, shape, CostModel.chunk_registers):
        words = _read(lowering, base, column, form, len(places))
        b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
        scaled = _multiply(lowering, words, [factors[p] for p in places])
        b.emit_to(None, f"tcgen05.st.sync.aligned.{form}.b32", b.address(b.add(32, base, column)), scaled)
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.pop()
    b.place(skip)
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


def _multiply(lowering: Lowering, words: Any, factors: Any) -> tuple[Any, ...]:
    """Products of f32 values, two an instruction where the target has that."""
    b = lowering.b
    if not lowering.target.has(sm.F32X2):
        return tuple(b.emit("mul.rn.f32", word, factor) for word, factor in zip(words, factors))
    out: list[Any] = []
    for i in range(0, len(words), 2):
        both = b.emit("mul.rn.f32x2", b.pair(words[i], words[i + 1]), b.pair(factors[i], factors[i + 1]))
        out += b.halves_of(both)
    return tuple(out)


# ---- products


def lower_wait(lowering: Lowering, op: Op) -> None:
    """For a product; those that never were are not waited for."""
    memory: Memory = lowering.env[op.operands[0]]
    _wait(lowering, memory, lowering.b.add(32, lowering.scalar(op.operands[1]), -op.attr("before")))


def _wait(lowering: Lowering, memory: Memory, number: Any) -> None:
    """Until product `number` is complete. A barrier that nothing arrived on lets whoever waits for odd phases pass, so
    that negative numbers wait for nothing."""
    b = lowering.b
    if memory.phase is not None:
        return wait_for_phase(lowering, memory.state, memory.phase)
    bar = b.add(32, memory.state, b.shl(32, b.and_(32, number, 1), 3))
    wait_for_phase(lowering, bar, b.and_(32, b.shr(32, number, 1), 1))


def wait_for_phase(lowering: Lowering, bar: Any, parity: Any, ctas: int = 1) -> None:
    """Until the phase of an mbarrier that has this parity is complete. `ctas`: of how many threads arrive on it."""
    b = lowering.b
    again, done = b.label(), b.reg("p")
    b.place(again)
    order = ".acquire.cluster" if ctas > 1 else ""
    form = f"mbarrier.try_wait.parity{order}.shared::cta.b64"
    b.emit_to(done, form, b.address(bar), b.materialize(parity, "r"))
    b.bra(again, (done, True))


def lower_product(lowering: Lowering, op: Op) -> None:
    """Both operands in shared memory."""

    def issue() -> None:
        left = Operand(lowering, op, 0, op.operands[2:4], (op.attr("m"), op.attr("depth")))
        at = lambda k, m: lowering.b.materialize(left.at(k, m), "d")  # noqa: E731
        _issue(lowering, op, at, left.matrix.k_major, op.operands[4:])

    by_warp(lowering, False, issue)


def lower_product_rows(lowering: Lowering, op: Op) -> None:
    """The left operand in tensor memory."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[2]]
    packed = _packed(op.attr("elem"))

    def left(k: int, m: int) -> Any:
        column = op.attr("column") + m // tcgen05.LANES * op.attr("stride") + k // packed
        return b.address(b.add(32, memory.address, column))

    by_warp(lowering, False, lambda: _issue(lowering, op, left, True, op.operands[3:]))


def lower_store_rows(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    tile = lowering.tile(op.operands[1])
    shape = tile.shape
    layout = tcgen05.layout_of(shape, lowering.log2_warps)
    regs = lowering.regs_as(op.operands[1], layout)
    lanes = [32 << _LANES_AT, 64 << _LANES_AT]
    part = b.thread_linear(
        [0] * 5, [*lanes, *(op.attr("stride") << k for k in range(lowering.log2_warps - 2))]
    )
    base = b.add(32, memory.address, b.add(32, part, op.attr("column")))
    (_, _, places) = _pieces(layout, shape, 2 * tcgen05.LANES)[0]
    words = tuple(pack_words(lowering, [regs[p] for p in places], tile.elem))
    b.emit_to(None, f"tcgen05.st.sync.aligned.32x32b.x{len(words)}.b32", b.address(base), words)
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


def _packed(elem: str) -> int:
    """Elements of a left operand in one column."""
    return int(1 << tcgen05.TYPES[elem][2] - 3)


class Operand:
    """An operand in shared memory: descriptors of its parts."""

    def __init__(self, lowering: Lowering, op: Op, which: int, place: Any, shape: tuple[int, int]) -> None:
        b = lowering.b
        name = "ab"[which]
        dims = dim_bits(shape)
        self.k, self.other = (dims[1], dims[0]) if which == 0 else (dims[0], dims[1])
        self.arrangement = op.attrs[f"{name}_arrangement"]
        size = 1 if "block" in op.attrs else 1 << (5 - tcgen05.TYPES[op.attr("elem")][2])
        found = matrix_operand(self.arrangement, self.k, self.other, size)
        assert found is not None
        self.matrix = found
        fixed = tcgen05.operand_descriptor(found.swizzle_bytes, found.leading_bytes, found.stride_bytes)
        # the place of the buffer is known in the prologue, a loop adds the slot: both stay below the 2^14 units of 16 bytes
        start = lowering.env[place[0]] + op.attr(f"{name}_start")
        buffer = b.entry("add.s32", lowering.smem_base, start) if start else lowering.smem_base
        units = units_of(lowering, buffer)
        base = b.entry("add.s64", units, fixed - (fixed >> 63 << 64))
        self.base = b.add(64, base, b.wide(b.shr(32, lowering.scalar(place[1]), 4), signed=False))
        self.place = place
        self.start = op.attr(f"{name}_start")
        self.b = b

    def address(self, lowering: Lowering) -> Any:
        return self.b.add(32, slot_address(lowering, *self.place), self.start)

    def at(self, k: int, other: int) -> Any:
        """The descriptor of the part that begins at depth k and row (column) `other`."""
        offset = apply(self.arrangement, k << self.k[0] | other << self.other[0])
        return self.b.add(64, self.base, offset >> 4)


def _issue(lowering: Lowering, op: Op, left: Any, a_k_major: bool, right_place: Any) -> None:
    """One instruction for 128 rows (or 64), 256 columns and one slice of K; for a pair of CTAs, for 128 rows of each. `left(k,
    m)`: what stands for A."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    rows, columns, depth, elem = op.attr("m"), op.attr("n"), op.attr("depth"), op.attr("elem")
    kind, _, log2_k = tcgen05.TYPES[elem]
    wide = min(columns, tcgen05.MAX_N)
    pair = bool(op.attr("pair"))
    right = Operand(lowering, op, 1, right_place, (depth, columns >> pair))
    signs = [op.attrs.get(f"signedness_{side}", "signed") == "signed" for side in ("lhs", "rhs")]
    form = tcgen05.instruction_descriptor(
        elem, wide, a_k_major, right.matrix.k_major, (signs[0], signs[1]), min(rows, tcgen05.LANES) << pair
    )
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    yes, first = b.true(), _adds(lowering, op)
    for m in range(0, rows, tcgen05.LANES):
        for n in range(0, columns, wide):
            target = b.address(b.add(32, memory.address, m // tcgen05.LANES * columns + n))
            for k in range(0, depth, 1 << log2_k):
                b.emit_to(
                    None, f"tcgen05.mma.{_GROUPS[pair]}.kind::{kind}", target, left(k, m),
                    b.materialize(right.at(k, n), "d"), b.materialize(form, "r"), first if k == 0 else yes,
                )  # fmt: skip
    if op.attrs.get("commit", 1):  # what goes on with the sum commits for both
        commit(lowering, b.add(32, memory.state, b.shl(32, b.and_(32, count, 1), 3)))


def _adds(lowering: Lowering, op: Op) -> Any:
    """Whether the first instruction of a product adds to what there is."""
    b = lowering.b
    if op.attr("fresh") == 2:
        return b.emit("setp.ne.b32", lowering.scalar(op.operands[1]), 0)
    return b.true(not op.attr("fresh"))


def lower_product_scaled(lowering: Lowering, op: Op) -> None:
    """Copies the scales, then one instruction for 128 rows, 256 columns and 32 bytes of K: all by one thread, in order."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    room: Memory = lowering.env[op.operands[2]]
    rows, columns, depth = op.attr("m"), op.attr("n"), op.attr("depth")
    form = op.attr("elem"), op.attr("scale"), op.attr("block")
    kind, _, along = tcgen05.SCALED[form]
    left = Operand(lowering, op, 0, op.operands[3:5], (rows, depth))
    right = Operand(lowering, op, 1, op.operands[5:7], (depth, columns))
    blocks = depth // tcgen05.SCALED_BYTES * along
    sides = [((rows, blocks), 0, "sa", op.operands[7:9]), ((blocks, columns), 1, "sb", op.operands[9:11])]
    places = [
        b.add(32, slot_address(lowering, *place), op.attr(f"{name}_start")) for _, _, name, place in sides
    ]
    taken = [tcgen05.scale_columns(shape, which) for shape, which, _, _ in sides]
    parity = b.and_(32, count, 1)
    scales = b.add(32, b.add(32, room.address, op.attr("column")), b.mul(32, parity, sum(taken)))
    bar = b.add(32, memory.state, b.shl(32, parity, 3))
    wide = min(columns, tcgen05.MAX_N)

    def copy(which: int, base: Any) -> None:
        start = b.wide(b.and_(32, b.shr(32, places[which], 4), 0x3FFF), signed=False)
        first = b.add(64, start, tcgen05.SCALE_DESCRIPTOR)
        for tile in range(taken[which] // tcgen05.SCALE_COLUMNS):
            target = b.address(b.add(32, base, tcgen05.SCALE_COLUMNS * tile))
            source = b.materialize(b.add(64, first, tcgen05.SCALE_BYTES * tile >> 4), "d")
            b.emit_to(None, f"tcgen05.cp.{_GROUPS[0]}.32x128b.warpx4", target, source)

    def scale_of(which: int, base: Any, other: int, number: int) -> Any:
        tiles, _ = tcgen05.scale_tiles(*sides[which][:2])
        column = number // tcgen05.SCALE_DEPTH * tiles * tcgen05.SCALE_COLUMNS + other // 32
        return b.address(b.add(32, base, column))

    def issue() -> None:
        b.emit_to(None, "tcgen05.fence::after_thread_sync")
        bases = [scales, b.add(32, scales, taken[0])]
        for which, base in enumerate(bases):
            copy(which, base)
        yes, first = b.true(), _adds(lowering, op)
        for m in range(0, rows, tcgen05.LANES):
            for n in range(0, columns, wide):
                target = b.address(b.add(32, memory.address, m // tcgen05.LANES * columns + n))
                for k in range(0, depth, tcgen05.SCALED_BYTES):
                    number = k // tcgen05.SCALED_BYTES * along
                    word = tcgen05.scaled_descriptor(
                        form, wide, left.matrix.k_major, right.matrix.k_major, number % tcgen05.SCALE_DEPTH
                    )
                    b.emit_to(
                        None, f"tcgen05.mma.{_GROUPS[0]}.kind::{kind}", target, b.materialize(left.at(k, m), "d"),
                        b.materialize(right.at(k, n), "d"), b.materialize(word, "r"), scale_of(0, bases[0], m, number),
                        scale_of(1, bases[1], n, number), first if k == 0 else yes,
                    )  # fmt: skip
        if op.attrs.get("commit", 1):
            commit(lowering, bar)

    if form[1] != "f8E4M3FN":
        return by_warp(lowering, False, issue)

    def turn_and_issue() -> None:
        _turn_signs(lowering, [(left, places[0], rows), (right, places[1], columns)], blocks)
        by_warp(lowering, False, issue)

    by_warp(lowering, True, turn_and_issue)


_SCALE_SIGNS = 0x80808080
_ELEMENT_SIGNS = 0x88888888
_WHOLE_WARP = 0xFFFFFFFF


def _turn_signs(lowering: Lowering, sides: list[tuple[Operand, Any, int]], blocks: int) -> None:
    """Scales have no sign for tcgen05: where one is negative, the sixteen elements of four bits that it scales change
    theirs in shared memory. One warp looks at all scales of a step, 16 bytes a lane and tile; most have nothing to do.

    `sides`: operand, address of its scales, and how many rows (columns) it has.
    """
    b = lowering.b
    found: Any = 0
    lane = b.entry("shl.b32", b.entry("and.b32", b.tid, 31), 4)
    own = [b.add(32, scales, lane) for _, scales, _ in sides]
    groups = blocks // tcgen05.SCALE_DEPTH
    for (_, _, count), place in zip(sides, own):
        words = min(count, tcgen05.SCALE_ROWS) // 32
        for tile in range(max(1, count // tcgen05.SCALE_ROWS) * groups):
            for word in _load_words(lowering, b.address(place, tcgen05.SCALE_BYTES * tile), words):
                found = b.or_(32, found, word)
    negative = b.emit("setp.ne.b32", b.and_(32, found, _SCALE_SIGNS), 0)
    any_lane, done = b.reg("p"), b.label()
    b.emit_to(any_lane, "vote.sync.any.pred", negative, _WHOLE_WARP)
    b.bra(done, (any_lane, True))
    b.push()
    for (operand, _, count), place in zip(sides, own):
        for tile in range(max(1, count // tcgen05.SCALE_ROWS)):
            for group in range(groups):
                number = group * max(1, count // tcgen05.SCALE_ROWS) + tile
                scales = b.add(32, place, tcgen05.SCALE_BYTES * number)
                _turn_rows(lowering, operand, scales, tile, group, min(count, tcgen05.SCALE_ROWS) // 32)
    b.emit_to(None, "fence.proxy.async.shared::cta")
    b.emit_to(None, "bar.warp.sync", _WHOLE_WARP)
    b.pop()
    b.place(done)


def _turn_rows(lowering: Lowering, operand: Operand, scales: Any, tile: int, group: int, words: int) -> None:
    """A row a lane, 32 bytes of it, for each of a lane's words of scales in turn."""
    b = lowering.b
    low = operand.other[0]
    columns = operand.arrangement
    lanes = [columns[low + k] for k in range(5)]
    own = b.thread_linear(lanes, [0] * lowering.log2_warps)
    used = 0
    for column in lanes:
        used |= column
    starts = []
    for half in (0, 16):
        offset = apply(
            columns, group * tcgen05.SCALED_BYTES + half << operand.k[0] | tile * tcgen05.SCALE_ROWS << low
        )
        where = b.xor(32, own, offset & used) if offset & used else own
        starts.append(b.add(32, b.add(32, operand.address(lowering), where), offset & ~used))
    at = [b.reg("r") for _ in range(3)]
    for register, value in zip(at, (scales, *starts)):
        b.copy(register, value)
    end = b.add(32, scales, 4 * words)
    again, more = b.label(), b.reg("p")
    b.place(again)
    b.emit_to(None, "pragma", "nounroll")
    (word,) = _load_words(lowering, b.address(at[0]), 1)
    for half in (0, 1):
        row = _load_words(lowering, b.address(at[1 + half]), 4)
        turned = []
        for k, value in enumerate(row):
            mask, number = b.reg("r"), 2 * half + k // 2
            b.emit_to(mask, "prmt.b32", word, 0, 0x8888 + 0x1111 * number)  # the sign of a byte, everywhere
            b.emit_to(mask, "and.b32", mask, _ELEMENT_SIGNS)
            b.emit_to(mask, "xor.b32", mask, value)
            turned.append(mask)
        b.emit_to(None, "st.shared.v4.b32", b.address(at[1 + half]), tuple(turned))
    b.emit_to(word, "and.b32", word, 0x7F7F7F7F)
    b.emit_to(None, "st.shared.b32", b.address(at[0]), word)
    for register, step in zip(at, (4, *[columns[low + 5] if words > 1 else 0] * 2)):
        b.emit_to(register, "add.s32", register, step)
    b.emit_to(more, "setp.ne.u32", at[0], end)
    b.bra(again, (more, False))


def _load_words(lowering: Lowering, address: Any, count: int) -> tuple[Any, ...]:
    """Words of shared memory that others write, too: never reused."""
    b = lowering.b
    words = tuple(b.reg("r") for _ in range(count))
    vector = f".v{count}" if count > 1 else ""
    b.emit_to(words if count > 1 else words[0], f"ld.shared{vector}.b32", address)
    return words


LOWER = {
    "tensor_memory.alloc": lower_alloc, "tensor_memory.free": lower_free, "tensor_memory.begin": lower_begin,
    "tensor_memory.end": lower_end, "tensor_memory.store": lower_store, "tensor_memory.load": lower_load,
    "tensor_memory.scale": lower_scale, "tensor_memory.wait": lower_wait, "tensor_memory.product": lower_product,
    "tensor_memory.store_rows": lower_store_rows, "tensor_memory.product_rows": lower_product_rows,
    "tensor_memory.product_scaled": lower_product_scaled, "tensor_memory.turn": lower_turn,
    "tensor_memory.acquire": lower_acquire, "tensor_memory.commit": lower_commit, "tensor_memory.release": lower_release,
    "tensor_memory.stored": lower_stored, "tensor_memory.wait_stored": lower_wait_stored,
}  # fmt: skip
