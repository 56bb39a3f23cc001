"""A batch of co-resident CTAs and its scheduler.

Lanes that stand at the same piece form a group and run together. The lowest piece number goes first, which brings
diverged lanes together again; a group that has waited while others spun (atomics, volatile loads, sleeps) is preferred,
so locks and flags between lanes make progress. Groups at a waiting instruction run when their partners are there.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from .access import AccessOps, Fault
from .async_ops import AsyncOps
from .barriers import BarrierOps
from .blocks import CTA, NEVER, WARP, collective
from .bulk import BulkOps
from .memory import SHARED_WINDOW, WINDOW_SHIFT
from .mma import MmaOps
from .printf import PrintOps
from .race_records import SCOPES
from .race_tensor import GRANULES, PLACE
from .register_pool import Registers
from .syntax import EmulatorError
from .tcgen05 import TensorOps
from .warp import Form, WarpOps
from .wgmma import WgmmaOps
from .wmma import WmmaOps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

SPIN_PATIENCE = 2  # fruitless spins (failed swaps, polled flags, sleeps) before a waiting group is preferred
STEP_PATIENCE = 4000  # any steps before that
YIELD_SPINS = 60  # spinning steps before another batch gets a turn


class Stuck(Exception):
    """No group can go on."""


class Batch(
    AccessOps, BarrierOps, WarpOps, MmaOps, WgmmaOps, AsyncOps, BulkOps, TensorOps, WmmaOps, PrintOps
):
    def __init__(self, launch, ctas: np.ndarray, first_cta: int) -> None:
        """ctas: [n, 3] CTA coordinates, those of a cluster adjacent and in rank order; first_cta numbers them."""
        unit = launch.unit
        self.launch, self.unit, self.memory, self.checker = launch, unit, launch.memory, launch.checker
        self.order, self.progress, self.meter = launch.order, launch.progress, launch.meter
        self.ctas, self.first_cta = ctas, first_cta
        self.cta_count = len(ctas)
        bx, by, bz = unit.block
        self.threads = bx * by * bz
        self.warps_per_cta = -(-self.threads // 32)
        self.span = self.warps_per_cta * 32
        self.L = self.cta_count * self.span
        lane = np.arange(self.L)
        thread = lane % self.span
        self.cta_of = lane // self.span
        self.thread_of = thread
        self.live = thread < self.threads
        self.warp_live = self.live.reshape(-1, 32).sum(1)
        self.cta_live = self.live.reshape(self.cta_count, -1).sum(1)
        self.ended = np.zeros(self.cta_count, np.bool_)
        self.R = list(unit.zeros)
        self.owned: set[int] = set()
        self.specials: dict[str, np.ndarray] = {}
        self.cluster_size = launch.cluster_size
        self.shared_bytes = unit.shared_bytes
        self.shared_stride = -(-max(unit.shared_bytes, 1) // 1024) * 1024
        self.shared_memory = np.zeros(self.shared_stride * self.cta_count + 1024, np.uint8)
        self.shared_start = -(-self.shared_memory.ctypes.data // 1024) * 1024
        base = self.shared_start + np.arange(self.cta_count) * self.shared_stride
        self.shared_base = base[self.cta_of] if self.cta_count > 1 else base
        self.local_bytes = unit.local_bytes
        self._local: np.ndarray | None = None
        self.copies: list = []
        self.arrivals: list = []  # on mbarriers, when copies have landed
        self.issued = 0  # copies and such arrivals so far
        self.barrier_states: np.ndarray | None = None  # of each 8 bytes of shared memory, as mbarriers
        self.phases: dict[int, int] = {}  # mbarrier -> phases completed
        self.committed = np.zeros(self.L, np.int64)
        self.transfers: list = []  # bulk copies under way
        self.transfers_done: list = []  # stores that nobody waited for yet
        self.tasks: list = []  # tcgen05 under way, in order
        self.flights: list = []  # bulk copies whose end nobody has seen, for the meter
        self.tensor_touch: list = []
        self.pair_tickets, self.pair_asked, self.pair_log = {}, {}, {}
        self.far: dict[tuple[str, int], list] = {}  # what the lanes of a bulk copy touch in global memory
        self.bulk_committed = np.zeros(self.L, np.int64)
        self.products: list = []  # wgmma in flight
        self.wgmma_committed = np.zeros(self.L // 32, np.int64)
        self.form_key: object = self
        self.form_value: Form | None = None
        self.mma_cache: dict = {}
        self.mma_form: Form | None = None
        self.groups: dict[int, np.ndarray | None] = {}
        self.since: dict[int, tuple[int, int]] = {}
        self.stalled: set[int] = set()
        self.steps = self.spins = 0
        self.counts: dict = {}
        self.warp_counts: dict = {}  # as counts, in warps, for the meter
        self.lines: dict[int, list[str]] = {}  # printed by a CTA and not written yet
        self.stack: list[np.ndarray] = []
        self.depth = np.zeros(self.L, np.int64)
        self.bar_at = np.full(self.L, -1, np.int64)
        self.bar_pc = np.zeros(self.L, np.int64)
        self.bar_value = np.zeros(self.L, bool)
        self.bar_count = np.zeros((self.cta_count, 16), np.int64)
        self.bar_want = np.zeros((self.cta_count, 16), np.int64)
        self.registers: Registers | None = None  # once a setmaxnreg has run
        clusters = self.cta_count // self.cluster_size
        self.cluster_arrived = np.zeros(clusters, np.int64)
        self.cluster_phase = np.zeros(clusters, np.int64)
        self.lane_phase = np.full(self.L, -1, np.int64)
        start = None if self.live.all() else np.flatnonzero(self.live)
        self.push(unit.first[unit.entry.name], start)

    @property
    def local_base(self) -> np.ndarray:
        if self._local is None:
            self._local_memory = np.zeros(self.L * self.local_bytes + 256, np.uint8)
            start = -(-self._local_memory.ctypes.data // 256) * 256
            self._local = start + np.arange(self.L) * self.local_bytes
        return self._local

    def _local_range(self) -> tuple[int, int]:
        start = int(self.local_base[0])
        return start, start + self.L * self.local_bytes

    # registers
    def put(self, k: int, value: np.ndarray, idx: np.ndarray) -> None:
        """Writes the running lanes of a register, never into an array that something else may share."""
        a = self.R[k]
        if k not in self.owned:
            a = np.broadcast_to(a, (self.L,)).copy() if a.size == 1 else a.copy()
            self.R[k] = a
            self.owned.add(k)
        a[idx] = value

    def special(self, name: str) -> np.ndarray:
        got = self.specials.get(name)
        if got is None:
            got = self.specials[name] = self.make_special(name)
        return got

    def make_special(self, name: str) -> np.ndarray:
        bx, by, bz = self.unit.block
        u32 = np.uint32
        what, _, axis = name[1:].partition(".")
        k = "xyzw".index(axis) if axis else 0
        t = self.thread_of

        def per_cta(values) -> np.ndarray:
            values = np.asarray(values).astype(u32)
            return values[:1] if (values == values[0]).all() else values[self.cta_of]

        if k == 3:
            return np.zeros(1, u32)
        launch = self.launch
        if what == "tid":
            values = (t % bx, t // bx % by, t // (bx * by))[k]
            return values.astype(u32) if (bx, by, bz)[k] > 1 else np.zeros(1, u32)
        if what == "ntid":
            return np.array([(bx, by, bz)[k]], u32)
        if what == "ctaid":
            return per_cta(self.ctas[:, k])
        if what == "nctaid":
            return np.array([launch.grid[k]], u32)
        if what == "laneid":
            return (t & 31).astype(u32)
        if what == "warpid":
            return (t >> 5).astype(u32)
        if what == "nwarpid":
            return np.array([64], u32)
        if what.startswith("lanemask_"):
            bit = u32(1) << (t & 31).astype(u32)
            return {
                "eq": lambda: bit,
                "lt": lambda: bit - u32(1),
                "le": lambda: bit | (bit - u32(1)),
                "gt": lambda: ~(bit | (bit - u32(1))),
                "ge": lambda: ~(bit - u32(1)),
            }[what[-2:]]()
        cx, cy, cz = launch.cluster
        if what == "clusterid":
            return per_cta(self.ctas[:, k] // (cx, cy, cz)[k])
        if what == "nclusterid":
            return np.array([launch.grid[k] // (cx, cy, cz)[k]], u32)
        if what == "cluster_ctaid":
            return per_cta(self.ctas[:, k] % (cx, cy, cz)[k])
        if what == "cluster_nctaid":
            return np.array([(cx, cy, cz)[k]], u32)
        if what == "cluster_ctarank":
            return per_cta(np.arange(self.cta_count) % self.cluster_size)
        if what == "cluster_nctarank":
            return np.array([self.cluster_size], u32)
        if what == "is_explicit_cluster":
            return np.array([launch.explicit_cluster])
        if what == "smid":
            number = self.ctas[:, 0] + launch.grid[0] * (self.ctas[:, 1] + launch.grid[1] * self.ctas[:, 2])
            return per_cta(number % 132)
        if what == "nsmid":
            return np.array([132], u32)
        if what in ("total_smem_size", "aggr_smem_size"):
            return np.array([self.shared_bytes], u32)
        if what == "dynamic_smem_size":
            return np.array([self.unit.dynamic_shared_bytes], u32)
        if what == "gridid":
            return np.ones(1, np.uint64)
        if name == "WARP_SZ":
            return np.array([32], u32)
        if what.startswith(("pm", "envreg", "reserved_smem")) or what == "current_graph_exec":
            return np.zeros(1, u32)
        raise EmulatorError(f"special register {name} is not supported by the emulator")

    def clock(self, name: str) -> np.ndarray:
        """Executed pieces as cycles; wall time in nanoseconds."""
        self.progress.changed(self.launch.steps)  # a loop may end by time
        now = time.time_ns() if "globaltimer" in name else self.steps * 16 + 1
        if name in ("%clock64", "%globaltimer"):
            return np.array([now], np.uint64)
        return np.array([(now >> 32 if name.endswith("hi") else now) & 0xFFFFFFFF], np.uint32)

    def in_space(self, value: np.ndarray, space: str) -> np.ndarray:
        window = value >> np.uint64(WINDOW_SHIFT)
        if space == "shared":
            return window == SHARED_WINDOW >> np.uint64(WINDOW_SHIFT)
        if space == "local":
            return window == 2
        return (window == 0) if space == "global" else np.zeros(value.size, bool)

    # groups
    def push(self, pc: int, idx: np.ndarray | None) -> None:
        """Lanes arrive at a piece."""
        if pc < 0:
            self.leave(idx)
            return
        self.stalled.discard(pc)
        if pc in self.groups:
            mask = np.zeros(self.L, bool)
            mask[self.groups[pc]] = True
            mask[idx] = True
            idx = np.flatnonzero(mask)
            self.groups[pc] = None if idx.size == self.L else idx
            return
        self.groups[pc] = idx
        self.since[pc] = (self.steps, self.spins)

    def leave(self, idx: np.ndarray | None) -> None:
        """Lanes exit: nobody waits for them any longer."""
        self.progress.learned(self.launch.steps)
        if idx is None:
            self.live[:] = False
            self.end_ctas()
            self.flush_prints()
            return
        self.live[idx] = False
        self.end_ctas()
        if self.lines:
            self.flush_prints(
                [c for c in self.lines if not self.live[c * self.span : (c + 1) * self.span].any()]
            )
        if self.live.any():
            self.warp_live = self.live.reshape(-1, 32).sum(1)
            self.cta_live = self.warp_live.reshape(self.cta_count, -1).sum(1)
            self.stalled.clear()
            self.cluster_check()
            self.release_barriers()

    def end_ctas(self) -> None:
        """Shared memory of CTAs without threads is gone."""
        if self.cluster_size == 1:
            return
        over = ~self.live.reshape(self.cta_count, -1).any(1) & ~self.ended
        if over.any():
            self.ended |= over
            if self.checker is not None:
                self.checker.ended(self, np.flatnonzero(over))

    def completeness(self, idx: np.ndarray | None) -> int:
        """CTA when the lanes are all live lanes of their CTAs, WARP when of their warps, else 0."""
        if idx is None:
            return CTA
        count = np.bincount(idx >> 5, minlength=self.warp_live.size)
        if not ((count == self.warp_live) | (count == 0)).all():
            return 0
        per_cta = count.reshape(self.cta_count, -1).sum(1)
        return CTA if ((per_cta == self.cta_live) | (per_cta == 0)).all() else WARP

    # control transfers, called from generated code
    def branch(self, p: np.ndarray, yes: int, no: int, idx, n: int):
        if p.size == 1 and n != 1:
            return yes if p[0] else no
        taken = np.count_nonzero(p)
        if taken == n:
            return yes
        if taken == 0:
            return no
        if idx is None:
            return ((yes, np.flatnonzero(p)), (no, np.flatnonzero(~p)))
        return ((yes, idx[p]), (no, idx[~p]))

    def jump_table(self, index: np.ndarray, pcs: tuple, mask, after: int, idx, n: int):
        lanes = self.lanes(idx, n, None)
        index = np.broadcast_to(index, (n,))
        out = []
        if mask is not None:
            mask = np.broadcast_to(mask, (n,))
            if not mask.all():
                out.append((after, lanes[~mask]))
            lanes, index = lanes[mask], index[mask]
        if index.size and int(index.max()) >= len(pcs):
            at = int(np.argmax(index))
            raise Fault("trap", f"brx.idx index {int(index[at])} of {len(pcs)} targets", int(lanes[at]))
        return tuple(out) + tuple((pcs[v], lanes[index == v]) for v in np.unique(index).tolist())

    def call(self, target: int, after: int, mask, idx, n: int):
        lanes = self.lanes(idx, n, self.select(mask, n))
        depth = self.depth[lanes]
        deepest = int(depth.max()) if depth.size else 0
        while len(self.stack) <= deepest:
            self.stack.append(np.zeros(self.L, np.int64))
        for d in np.unique(depth).tolist():
            self.stack[d][lanes[depth == d]] = after
        self.depth[lanes] += 1
        if lanes.size == n:
            return target
        rest = np.setdiff1d(self.lanes(idx, n, None), lanes)
        return ((target, lanes), (after, rest)) if lanes.size else after

    def call_indirect(self, where: np.ndarray, after: int, mask, idx, n: int):
        where = np.broadcast_to(where, (n,))
        out, left = [], np.ones(n, bool) if mask is None else np.broadcast_to(mask, (n,)).copy()
        lanes = self.lanes(idx, n, None)
        for value in np.unique(where[left]).tolist():
            if value >> 62 != 1:
                raise Fault("trap", f"call of {value:#x}, which is no function", int(lanes[0]))
            part = left & (where == value)
            sub = lanes[part]
            self.call(value & 0xFFFFFFFF, after, None, sub, sub.size)
            out.append((value & 0xFFFFFFFF, sub))
        if not left.all():
            out.append((after, lanes[~left]))
        return tuple(out)

    def ret(self, mask, after: int, idx, n: int):
        lanes = self.lanes(idx, n, self.select(mask, n))
        out = []
        if lanes.size != n:
            out.append((after, np.setdiff1d(self.lanes(idx, n, None), lanes)))
        self.depth[lanes] -= 1
        depth = self.depth[lanes]
        for d in np.unique(depth).tolist():
            part = lanes[depth == d]
            back = self.stack[d][part]
            for pc in np.unique(back).tolist():
                out.append((pc, part[back == pc]))
        return tuple(out)

    def trap(self, mask, idx, n: int) -> None:
        sel = self.select(mask, n)
        if sel is None or sel.size:
            raise Fault("trap", "trap executed", int(self.lanes(idx, n, sel)[0]))

    def fence(self, scope: str, mask, idx, n: int) -> None:
        if self.checker is not None:
            self.checker.fence(self, idx, n, mask, SCOPES[scope])

    def fence_inits(self, mask, idx, n: int) -> None:
        if self.checker is not None:
            self.checker.fence_inits(self, idx, n, mask)

    def proxy_fence(self, mask, idx, n: int) -> None:
        if self.checker is not None:
            self.checker.proxy_fence(self, idx, n, mask)

    # scheduling
    def run(self, alone: bool) -> str:
        """Runs until every lane left ('done'), spinning asks for another batch ('yield') or no lane can get on by itself
        ('stuck')."""
        limit = self.spins + YIELD_SPINS
        launch = self.launch
        progress = launch.progress
        while self.groups:
            pc = self.choose()
            if pc is None:
                if self.land_all():
                    self.stalled.clear()
                    continue
                raise Stuck
            idx = self.groups.pop(pc)
            self.since.pop(pc, None)
            if self.order is not None:  # by subsets of warps, so one variant of the code is enough
                idx = self.order.subset(self, pc, np.arange(self.L) if idx is None else idx)
                self.background()
            self.steps += 1
            launch.steps += 1
            if launch.steps > launch.max_steps:
                raise EmulatorError(
                    f"gave up after {launch.max_steps} steps (max_steps): the kernel may never end"
                )
            if launch.steps >= progress.at:
                progress.look(launch.steps)
            if progress.open:
                progress.visit(self, self.unit.pieces[pc], idx)
            self.step(pc, idx)
            if progress.hopeless(self):
                return "stuck"
            if self.spins > limit and not alone:
                return "yield"
        if (self.bar_at >= 0).any() or self.live.any():
            raise Stuck
        self.bulk_kept()
        try:
            self.drain()
        except Fault as fault:
            self.explain(fault)
        self.bytes_kept()
        self.tensor_kept()
        return "done"

    def background(self) -> None:
        """What goes on beside the threads: copies and products in flight."""
        try:
            if self.transfers or self.tasks:
                self.engine_step()
            if self.copies or self.arrivals:
                self.land_some()
        except Fault as fault:
            self.explain(fault)

    def choose(self) -> int | None:
        ready = self.groups if not self.stalled else [pc for pc in self.groups if pc not in self.stalled]
        if not ready:
            return None
        if self.order is not None:
            return self.order.choose(list(ready))
        if len(ready) > 1:
            oldest = min(ready, key=lambda p: self.since[p])
            step, spin = self.since[oldest]
            if self.progress.open or self.spins - spin > SPIN_PATIENCE or self.steps - step > STEP_PATIENCE:
                return oldest
            return min(ready)
        return next(iter(ready))

    def step(self, pc: int, idx: np.ndarray | None) -> None:
        unit = self.unit
        piece = unit.pieces[pc]
        level = CTA
        if piece.masked:
            level = self.completeness(idx)
            if piece.wait > level:
                head = piece.insts[0]
                if head.op in ("bar", "barrier") and (piece.wait == NEVER or piece.wait == CTA):
                    if head.mods[0] != "warp":
                        self.arrive(pc, idx)
                        return
                if head.op == "setmaxnreg":
                    self.set_registers(pc, idx)
                    return
                idx = self.ready(pc, idx)
                if idx is not None and piece.wait == NEVER and collective(head):
                    idx = self.meet_peer(pc, idx)
                if idx is None:
                    return
                level = 0
        n = self.L if idx is None else idx.size
        fn = unit.function(pc, level, idx is not None)
        key = (pc, level)
        self.counts[key] = self.counts.get(key, 0) + n
        if self.meter is not None:
            self.count_warps(key, idx)
        if idx is None:
            self.owned.clear()
        try:
            result = fn(self, self.R, idx, n)
        except Fault as fault:
            self.explain(fault)
            return
        if type(result) is int:
            self.push(result, idx)
        else:
            for target, lanes in result:
                self.push(target, lanes)

    def count_warps(self, key: tuple, idx: np.ndarray | None) -> None:
        warps = self.L // 32 if idx is None else np.unique(idx >> 5).size
        self.warp_counts[key] = self.warp_counts.get(key, 0) + warps

    def ready(self, pc: int, idx: np.ndarray | None) -> np.ndarray | None:
        """Lanes at a warp-wide instruction whose partners are all there; the others go back and wait."""
        unit = self.unit
        lanes = np.arange(self.L) if idx is None else idx
        masks = np.broadcast_to(
            unit.expression(pc, "member", True)(self, self.R, lanes, lanes.size), (lanes.size,)
        )
        if unit.pieces[pc].insts[0].guard is not None:
            # lanes that the guard switches off take no part but pass through with the others
            masks = masks & self.presence(lanes)
        here = self.presence(lanes)
        alive = (self.live.reshape(-1, 32) * (np.uint32(1) << np.arange(32, dtype=np.uint32))).sum(
            1, dtype=np.uint32
        )
        missing = masks & ~here & alive[lanes >> 5]
        good = missing == 0
        if good.all():
            return lanes
        others = (
            pc in self.groups
        )  # warps that a perturbed order left here for later: they may be able to go on
        self.push(pc, lanes[~good])
        if not others:
            self.stalled.add(pc)
        return lanes[good] if good.any() else None

    def presence(self, lanes: np.ndarray) -> np.ndarray:
        """For each lane, the bit mask of the given lanes in its warp."""
        words = np.zeros(self.L // 32, np.uint32)
        np.bitwise_or.at(words, lanes >> 5, np.uint32(1) << (lanes & 31).astype(np.uint32))
        return words[lanes >> 5]

    def set_registers(self, pc: int, idx: np.ndarray | None) -> None:
        """setmaxnreg: a warpgroup goes on when all of it is here and the registers are."""
        if self.registers is None:
            self.registers = Registers(self)
        lanes = np.arange(self.L) if idx is None else idx
        key = (pc, -1)
        self.counts[key] = self.counts.get(key, 0) + lanes.size
        if self.meter is not None:
            self.count_warps(key, lanes)
        try:
            self.registers.ask(pc, lanes)
        except Fault as fault:
            self.explain(fault, self.unit.pieces[pc].insts[0])

    # reports
    def spell_place(self, address: int) -> str:
        """A real address, by the shared memory or the array that it lies in."""
        if address >= PLACE:
            granule = (address - PLACE) // 4 % GRANULES
            return f"tensor memory, lanes {granule // 512 * 16} to {granule // 512 * 16 + 15}, column {granule % 512}"
        offset = address - self.shared_start
        if 0 <= offset < self.shared_stride * self.cta_count:
            return f"shared offset {offset % self.shared_stride}"
        region = self.memory.region_of(address)
        return f"{address:#x} in '{region.name}'" if region is not None else f"{address:#x}"

    def thread_name(self, lane: int) -> str:
        bx, by, _ = self.unit.block
        t = int(self.thread_of[lane])
        cta = tuple(int(x) for x in self.ctas[int(self.cta_of[lane])])
        return f"CTA {cta} thread ({t % bx}, {t // bx % by}, {t // (bx * by)})"

    def current_inst(self):
        """The instruction whose generated line is on the call stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            entry = self.unit.sources.get(frame.f_code.co_filename)
            if entry is not None:
                return entry[1][frame.f_lineno - 2]
            frame = frame.f_back
        return None

    def explain(self, fault: Fault, inst=None) -> None:
        """Turns a fault into the error that names instruction, line and thread."""
        tb = fault.__traceback__
        while tb is not None:
            entry = self.unit.sources.get(tb.tb_frame.f_code.co_filename)
            if entry is not None:
                inst = entry[1][tb.tb_lineno - 2]
            tb = tb.tb_next
        who = self.thread_name(fault.lane) if fault.lane is not None else "a thread"
        where = f"PTX line {inst.line}, `{inst.text}`" if inst is not None else "PTX"
        self.launch.fatal(fault.kind, f"{fault.kind}: {fault.text}; {who}; {where}", inst)

    def first_waiting(self):
        """An instruction at which threads wait for partners that do not come."""
        waiting = self.bar_pc[self.bar_at >= 0].tolist() or list(self.groups)
        if not waiting and self.registers is not None:
            waiting = self.registers.at[self.registers.at >= 0].tolist()
        return self.unit.pieces[waiting[0]].insts[0] if waiting else None

    def stuck_report(self) -> str:
        """Who waits where, when nothing can go on."""
        lines = []
        for pc, idx in self.groups.items():
            inst = self.unit.pieces[pc].insts[0]
            lanes = np.arange(self.L) if idx is None else idx
            lines.append(
                f"{lanes.size} threads (first: {self.thread_name(int(lanes[0]))}) wait at PTX line "
                f"{inst.line}, `{inst.text}`" + (", for a warp of the peer CTA" if collective(inst) else "")
            )
        waiting = np.flatnonzero(self.bar_at >= 0)
        for pc in np.unique(self.bar_pc[waiting]).tolist():
            part = waiting[self.bar_pc[waiting] == pc]
            inst = self.unit.pieces[pc].insts[0]
            lines.append(
                f"{part.size} threads (first: {self.thread_name(int(part[0]))}) wait at PTX line "
                f"{inst.line}, `{inst.text}`"
            )
        if self.registers is not None:
            lines += self.registers.stuck_report()
        return "; ".join(lines)
