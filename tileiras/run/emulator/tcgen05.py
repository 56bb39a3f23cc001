"""tcgen05: products in tensor memory, copies into it, and the queue in which they run.

Products and copies into tensor memory run one after another, per issuing CTA, at some moment after their issue: without
a seed when a thread next looks at an mbarrier or nothing else can run, with one at any moment. A commit stands in the
same queue and arrives on its mbarriers when all before it is done.

With cta_group::2 the CTAs of a pair (ranks 2i and 2i + 1) share an instruction: each holds half the rows of A and of B in
its own shared memory at the same offsets, and half the rows of D in its own tensor memory.

Where elements lie in tensor memory: row r of D in lane r, column c of D in column c, one element to a 32-bit column
whatever its type; with 64 rows, row r in lane r % 16 + r / 16 * 32; with 64 rows in each of two CTAs, lane r + 64 holds
the second half of the columns. A in tensor memory is packed, row r in lane r. The scales of row r (of A or B) are the
bytes of lane r % 32, column r / 32, and must lie in all four partitions of 32 lanes alike.
"""

from __future__ import annotations

import numpy as np

from . import matrix_desc as md
from . import numerics as num
from .access import Fault
from .mma import decode
from .ops_cvt import decode_small
from .tensor_memory import TensorMemoryOps, granules

FORMATS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_CONTAINER = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
}  # bits of an element in shared memory; else 8, and 4 in kinds mxf4
_TABLES = {
    t: decode_small(np.arange(256), t).astype(np.float64) for t in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
}


class Task:
    """One instruction in a CTA's queue: who issued it, and what it does."""

    __slots__ = ("lane", "run")

    def __init__(self, lane: int, run) -> None:
        self.lane, self.run = lane, run


class Descriptor:
    """The fields of an instruction descriptor that dense products use."""

    __slots__ = ("a_id", "a_trans", "a_type", "b_id", "b_trans", "b_type", "d_type", "k", "m", "n", "negative", "saturate",
                 "scale_type")  # fmt: skip

    def __init__(self, word: int, kind: str, lane: int) -> None:
        names = FORMATS[kind]
        a, b = word >> 7 & 7, word >> 10 & (3 if kind.startswith("mxf4") else 7)
        scaled = kind.startswith("mx")
        if word >> 2 & 1:
            raise Fault("tensor memory", "sparse tcgen05.mma is not supported by the emulator", lane)
        if a not in names or b not in names:
            raise Fault(
                "tensor memory",
                f"instruction descriptor {word:#x} has formats {a} and {b}, which kind::{kind} lacks",
                lane,
            )
        self.a_type, self.b_type = names[a], names[b]
        d = 1 if scaled else word >> 4 & 3
        self.d_type = {0: "f16", 1: "f32", 2: "s32"}.get(d, "")
        if (self.d_type == "s32") != (kind == "i8") or not self.d_type:
            raise Fault(
                "tensor memory",
                f"instruction descriptor {word:#x} has accumulator format {d} for kind::{kind}",
                lane,
            )
        self.negative = bool((word >> 13 ^ word >> 14) & 1)
        self.a_trans, self.b_trans = bool(word >> 15 & 1), bool(word >> 16 & 1)
        self.n, self.m = (word >> 17 & 63) << 3, (word >> 24 & 31) << 4
        self.k = 64 if kind.startswith("mxf4") else 256 // _CONTAINER.get(self.a_type, 8)
        if kind.startswith("mxf4") and word >> 31:
            raise Fault("tensor memory", "tcgen05.mma with K = 96 is not supported by the emulator", lane)
        self.saturate = not scaled and bool(word >> 3 & 1)
        self.scale_type = "ue8m0" if word >> 23 & 1 else "ue4m3"
        self.b_id, self.a_id = word >> 4 & 3, word >> 29 & 3


def small_elements(raw: np.ndarray, type_: str, packed: bool) -> np.ndarray:
    """Bytes [..., 16 n] of shared memory as elements; six and four bits lie packed in the head of each 16 bytes."""
    if type_ in ("e4m3", "e5m2"):
        return _TABLES[type_][raw]
    if packed:  # two to a byte
        out = np.stack([raw & 15, raw >> 4], -1).reshape(*raw.shape[:-1], -1)
        return _TABLES["e2m1"][out]
    groups = raw.reshape(*raw.shape[:-1], -1, 16)
    bits = 4 if type_ == "e2m1" else 6
    stream = np.unpackbits(groups[..., : 2 * bits], axis=-1, bitorder="little").reshape(
        *groups.shape[:-1], 16, bits
    )
    codes = (stream * (1 << np.arange(bits))).sum(-1)
    return _TABLES[type_][codes].reshape(*raw.shape[:-1], -1)


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a times b transposed, in parts that a threaded BLAS leaves to this thread: waking its others takes longer."""
    rows, k = a.shape
    part = rows
    while part > 16 and part * k * len(b) > 1 << 18:
        part //= 2
    return (a.reshape(-1, part, k) @ b.T).reshape(rows, -1)


class TensorOps(TensorMemoryOps):
    """Mixed into Batch."""

    # the queue
    def enqueue(self, lane: int, run) -> None:
        self.tasks.append(Task(lane, run))
        if self.order is not None and self.order.rng.random() < 0.2:
            self.tensor_step(int(self.cta_of[lane]))

    def tensor_step(self, cta: int | None = None) -> None:
        """The oldest task of a CTA (of any, without one) is done."""
        for i, task in enumerate(self.tasks):
            if cta is None or int(self.cta_of[task.lane]) == cta:
                del self.tasks[i]
                task.run()
                self.progress.changed(self.launch.steps)
                return

    def tensor_commit(self, inst, where, ranks, idx, n: int, mask) -> None:
        arrays = [where, *((ranks,) if ranks is not None else ())]
        for lane, values in self.each(mask, idx, n, *arrays):
            cta, offset = self.shared_place(lane, values[0])
            places = [cta]
            if ranks is not None:
                self.ranks_exist(lane, values[1])
                first = cta // self.cluster_size * self.cluster_size
                places = [first + r for r in range(self.cluster_size) if values[1] >> r & 1]
            signals = [self.shared_span(lane, c, offset, 8, 8) for c in places]

            known = None
            if self.checker is not None:
                self.checker.barrier_used(self, np.array(signals), np.full(len(signals), lane), False)
                known = self.checker.tensor_commit(self, lane)

            def run(lane=lane, signals=signals, known=known):
                for address in signals:
                    self.check_there(lane, (address - self.shared_start) // self.shared_stride, inst)
                    if known is not None:
                        self.checker.tensor_arrives(self, address, *known, lane, inst)
                    self.mbar_change(address, 1, 0, False)

            self.enqueue(lane, run)

    # products
    def pair_of(self, cta: int, group: int) -> list[int]:
        return [cta] if group == 1 else [cta & ~1, cta | 1]

    def operand_elements(
        self, cta: int, word: int, rows: int, d: Descriptor, first: bool, kind: str, lane: int
    ):
        """(matrix [rows, k] in f64, chunk addresses) of an operand in shared memory."""
        type_ = d.a_type if first else d.b_type
        k_major = not (d.a_trans if first else d.b_trans)
        bits = _CONTAINER.get(type_, 4 if kind.startswith("mxf4") else 8)
        words, ctas = np.array([word], np.uint64), np.array([cta])
        try:
            at, _ = self.matrix_chunks(words, ctas, rows, d.k, bits, k_major, True)
        except Fault as fault:
            fault.lane = lane
            raise

        def fetch() -> np.ndarray:
            raw = md.elements(at, {16: np.uint16, 32: np.uint32}.get(bits, np.uint8), k_major)[0]
            if type_ in _TABLES:
                return small_elements(raw, type_, bits == 4)
            return decode(np.ascontiguousarray(raw), type_).reshape(raw.shape)

        return fetch, at.reshape(-1)

    def tensor_a(self, cta: int, address: int, rows: int, d: Descriptor, kind: str):
        """A in tensor memory, packed in columns."""
        bits = _CONTAINER.get(d.a_type, 4 if kind.startswith("mxf4") else 8)
        lane0, column, columns = address >> 16, address & 0xFFFF, d.k * bits // 32
        places = lane0 + (np.arange(rows) if rows != 64 else np.arange(64) % 16 + np.arange(64) // 16 * 32)

        def fetch() -> np.ndarray:
            words = np.ascontiguousarray(self.tensor_memory[cta, places, column : column + columns])
            if d.a_type in _TABLES:
                raw = words.view(np.uint8)
                if bits == 4:
                    return small_elements(raw, d.a_type, True)
                mask = {"e2m1": 15, "e2m3": 63, "e3m2": 63}.get(d.a_type, 255)
                return _TABLES[d.a_type][raw & mask]
            return decode(words, d.a_type).reshape(rows, d.k)

        return fetch, (column, columns)

    def scale_place(
        self, lane: int, cta: int, address: int, rows: int, ident: int, blocks: int, kind: str
    ) -> tuple[int, int]:
        """(first column, columns) of the scales of an operand. Bits 30 and 31 of the address are not part of it: CUTLASS keeps
        there the byte that the instruction descriptor asks for."""
        column, count = address & 0xFFFF, -(-rows // 32)
        if address >> 16 & 0x3FFF:
            raise Fault(
                "tensor memory",
                f"scales of tcgen05.mma begin in lane {address >> 16 & 0x3FFF}, not in 0",
                lane,
            )
        if ident % blocks:
            raise Fault(
                "tensor memory",
                f"tcgen05.mma.kind::{kind} with {blocks} scales a row takes none from byte {ident} of a word",
                lane,
            )
        self.tensor_span(lane, cta, column, count)
        return column, count

    def scales(
        self, lane: int, cta: int, address: int, rows: int, ident: int, blocks: int, type_: str, k: int
    ) -> np.ndarray:
        """Scales [rows, k]: one for each of `blocks` parts of K."""
        column = address & 0xFFFF
        r = np.arange(rows)
        copies = np.stack([self.tensor_memory[cta, q * 32 + r % 32, column + r // 32] for q in range(4)])
        found = copies.view(np.uint8).reshape(4, rows, 4)[:, :, ident : ident + blocks]
        differ = np.flatnonzero((found != found[0]).any((0, 2)))
        if differ.size:
            raise Fault(
                "tensor memory",
                f"the scales of row {int(differ[0])} of tcgen05.mma are not the same in all four partitions of lanes",
                lane,
            )
        codes = found[0]
        if type_ == "ue8m0":
            values = np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))
        else:
            values = np.where(codes & 127 == 127, np.nan, _TABLES["e4m3"][codes & 127])
        return np.repeat(values, k // blocks, axis=1)

    def tensor_mma(self, inst, kind: str, group: int, blocks: int, a_in_tensor: bool, to, a, b, idesc, lanes_off: tuple,
                   enable, scale_d: int, scale_a, scale_b, mask, idx, n: int) -> None:  # fmt: skip
        arrays = [to, a, b, idesc, enable.astype(np.int64), *lanes_off]
        if blocks:
            arrays += [scale_a, scale_b]
        for lane, v in self.each(mask, idx, n, *arrays):
            d = Descriptor(v[3], kind, lane)
            ctas = self.pair_of(int(self.cta_of[lane]), group)
            rows = d.m // group
            allowed: tuple[int, ...] = (64, 128) if group == 1 or d.m != 64 else ()
            if blocks and group == 1:
                allowed = (128,)
            if rows not in allowed or not 8 <= d.n <= 256 or d.n % (16 if rows * group >= 128 else 8):
                raise Fault(
                    "tensor memory",
                    f"tcgen05.mma has no shape M = {d.m}, N = {d.n} for cta_group::{group}",
                    lane,
                )
            column, lane0, halves = v[0] & 0xFFFF, v[0] >> 16, group == 2 and rows == 64
            half = (
                group == 1 and rows == 64
            )  # sixteen lanes of each warp's, the lower or the upper ones (layout F)
            if lane0 and not (half and lane0 == 16):
                raise Fault(
                    "tensor memory",
                    f"an accumulator of tcgen05.mma with M = {d.m} begins in lane {lane0}, not in 0{' or 16' * half}",
                    lane,
                )
            width = d.n // 2 if halves else d.n
            fetch_a, fetch_b, reads, holds = [], [], [], []
            for cta in ctas:
                self.check_there(lane, cta, inst)
                self.tensor_span(lane, cta, column, width)
                if a_in_tensor:
                    fetch, (first, count) = self.tensor_a(cta, v[1], rows, d, kind)
                    self.tensor_span(lane, cta, first, count)
                    holds.append(("r", granules(cta, first, count)))
                else:
                    fetch, at = self.operand_elements(cta, v[1], rows, d, True, kind, lane)
                    reads.append(at)
                fetch_a.append(fetch)
                fetch, at = self.operand_elements(cta, v[2], d.n // group, d, False, kind, lane)
                fetch_b.append(fetch)
                reads.append(at)
                holds.append(
                    (
                        "w",
                        granules(cta, column, width, lane0 // 16, 1, 4)
                        if half
                        else granules(cta, column, width),
                    )
                )
                for address, count, ident in zip(v[5 + len(lanes_off) :], (rows, d.n), (d.a_id, d.b_id)):
                    first, span = self.scale_place(lane, cta, address, count, ident, blocks, kind)
                    holds.append(("r", granules(cta, first, span)))
            off = v[5 : 5 + len(lanes_off)]
            places = v[5 + len(lanes_off) :]

            def run(d=d, ctas=ctas, v=v, fetch_a=fetch_a, fetch_b=fetch_b, off=off, places=places, rows=rows,
                    halves=halves, column=column, lane=lane) -> None:  # fmt: skip
                bm = np.concatenate([fetch() for fetch in fetch_b])
                for i, cta in enumerate(ctas):
                    am, bs = fetch_a[i](), bm
                    if blocks:
                        am = am * self.scales(lane, cta, places[0], rows, d.a_id, blocks, d.scale_type, d.k)
                        bs = bm * self.scales(lane, cta, places[1], d.n, d.b_id, blocks, d.scale_type, d.k)
                    product = products(am, bs)
                    if d.negative:
                        product = -product
                    keep = off[i * 4 : i * 4 + 4]
                    self.tensor_accumulate(
                        cta, v[0] >> 16, column, product, d, bool(v[4]), scale_d, halves, keep
                    )

            if self.checker is not None:
                self.checker.tensor_issued(self, inst, lane, np.concatenate(reads), holds)
            if self.meter is not None:
                self.meter.product(self, np.array(ctas) * self.warps_per_cta * 32, inst)
            self.enqueue(lane, run)

    def tensor_accumulate(self, cta: int, lane0: int, column: int, product, d: Descriptor, add: bool, scale_d: int,
                          halves: bool, off) -> None:  # fmt: skip
        rows, n = product.shape
        r = np.arange(rows)
        if halves:
            lanes = np.concatenate([r, r + 64])
            product = np.concatenate([product[:, : n // 2], product[:, n // 2 :]])
        else:
            lanes = r if rows != 64 else r % 16 + r // 16 * 32
        lanes = lanes + lane0
        view = self.tensor_memory[cta, :, column : column + product.shape[1]]
        if add:
            old = np.ascontiguousarray(view[lanes])
            c = (
                old.view(np.int32) if d.d_type == "s32" else old.view(np.float32) if d.d_type == "f32"
                else old.astype(np.uint16).view(np.float16)
            ).astype(np.float64)  # fmt: skip
            product = product + c * 2.0**-scale_d
        if d.d_type == "s32":
            total = product.astype(np.int64)
            total = np.clip(total, -(2**31), 2**31 - 1) if d.saturate else total
            words = total.astype(np.int32).view(np.uint32)
        elif d.d_type == "f32":
            words = num.canon32(product.astype(np.float32)).view(np.uint32)
        else:
            words = num.canon16(product.astype(np.float16)).view(np.uint16).astype(np.uint32)
        if any(off):
            on = np.array([not off[x // 32] >> (x % 32) & 1 for x in lanes.tolist()])
            lanes, words = lanes[on], words[on]
        view[lanes] = words

    # copies from shared memory
    def tensor_copy(self, inst, shape: str, group: int, pattern: str, to, desc, mask, idx, n: int) -> None:
        rows, size = {"128x256b": (128, 32), "128x128b": (128, 16), "64x128b": (64, 16), "32x128b": (32, 16)}[
            shape
        ]
        for lane, (address, word) in self.each(mask, idx, n, to, desc):
            column = address & 0xFFFF
            reads, holds, parts = [], [], []
            for cta in self.pair_of(int(self.cta_of[lane]), group):
                self.tensor_span(lane, cta, column, size // 4)
                words = np.array([word], np.uint64)
                at, _ = self.matrix_chunks(words, np.array([cta]), rows, size, 8, True, True)
                reads.append(at.reshape(-1))
                holds.append(("w", granules(cta, column, size // 4)))
                parts.append((cta, at))

            def run(parts=parts, column=column) -> None:
                for cta, at in parts:
                    data = md.elements(at, np.uint32, True)[0]
                    out = {
                        128: lambda data: data,
                        32: lambda data: np.tile(data, (4, 1)),
                        64: lambda data: (
                            np.tile(data, (2, 1)) if pattern == "02_13"
                            else np.concatenate([data[:32], data[:32], data[32:], data[32:]])
                        ),
                    }[rows](data)  # fmt: skip
                    self.tensor_memory[cta, :, column : column + size // 4] = out

            if self.checker is not None:
                self.checker.tensor_issued(self, inst, lane, np.concatenate(reads), holds)
            if self.meter is not None:
                self.meter.copy(inst, sum(at.size for at in reads) * 16)
            self.enqueue(lane, run)
