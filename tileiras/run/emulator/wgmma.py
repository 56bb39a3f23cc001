"""wgmma: products of four warps with operands in shared memory, and what is in flight until their wait.

Each warp computes its own 16 rows of the 64. Where the order is perturbed (a seed, or checks), a product reads its
operands and writes its accumulators at some moment between issue and wait, and until the wait its registers belong to
it: touching them is a finding. A plain `mov` of an accumulator in flight is a renaming, which the assembler resolves,
so that what it writes is in flight likewise; it completes the product early instead. Without a seed a product completes
when it is issued.

Products and sums are exact in f64 (int64 for integers) and rounded once to the accumulator's type, as for mma.sync.
"""

from __future__ import annotations

import numpy as np

from . import matrix_desc as md
from . import numerics as num
from .access import Fault
from .mma import a_matrix, decode
from .sparse import expand

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}


class Shape:
    """Everything about an instruction that is the same for all warps."""

    __slots__ = (
        "a_trans",
        "a_type",
        "b_trans",
        "b_type",
        "d_type",
        "k",
        "n",
        "negative",
        "satfinite",
        "selector",
        "stored",
    )

    def __init__(
        self, n, k, d_type, a_type, b_type, negative, a_trans, b_trans, satfinite, selector=None
    ) -> None:
        self.n, self.k, self.d_type, self.a_type, self.b_type = n, k, d_type, a_type, b_type
        self.selector = selector  # of a sparse A's codes; None for a dense one
        self.stored = k if selector is None else k // 2  # elements of a row of A
        self.negative, self.a_trans, self.b_trans, self.satfinite = negative, a_trans, b_trans, satfinite


class Product:
    """One instruction in flight, for some warps. Arrays go by warp; a is registers [W, 32] each, or descriptors."""

    __slots__ = (
        "a",
        "b",
        "copies",
        "done",
        "group",
        "inst",
        "places",
        "read",
        "regs",
        "scale",
        "shape",
        "sources",
        "warps",
    )

    def __init__(self, inst, shape, regs, sources, warps, a, b, places, scale, group, read) -> None:
        self.places = places  # codes of a sparse A: [W, 32], else None
        self.inst, self.shape, self.regs, self.sources, self.warps = inst, shape, regs, sources, warps
        self.a, self.b, self.scale, self.group, self.read = a, b, scale, group, read
        self.done = np.zeros(warps.size, bool)
        self.copies: dict[int, dict[int, int]] = {}  # register that a mov wrote -> warp -> accumulator

    def part(self, keep: np.ndarray) -> Product:
        a = self.a[keep] if isinstance(self.a, np.ndarray) else [v[keep] for v in self.a]
        read = None if self.read is None else (self.read[0][keep[self.read[1]]], None)
        new = Product(
            self.inst, self.shape, self.regs, self.sources, self.warps[keep], a, self.b[keep],
            None if self.places is None else self.places[keep], self.scale[keep], self.group[keep], None,
        )  # fmt: skip
        if read is not None:
            at, warp = self.read
            inside = keep[warp]
            new.read = at[inside], (np.cumsum(keep) - 1)[warp[inside]]
        new.done, new.copies = self.done[keep], self.copies
        return new


def accumulator_matrix(regs: list[np.ndarray], d_type: str, n: int) -> np.ndarray:
    """Registers [W, 32] each as [W, 16, n], in their own type."""
    stack = np.stack(regs)
    if d_type == "f16":
        words = stack.reshape(n // 8, 2, -1, 8, 4).transpose(2, 1, 3, 0, 4)
        return np.ascontiguousarray(words).view(np.float16).reshape(-1, 16, n)
    return stack.reshape(n // 8, 2, 2, -1, 8, 4).transpose(3, 1, 4, 0, 5, 2).reshape(-1, 16, n)


def accumulator_registers(total: np.ndarray, d_type: str) -> np.ndarray:
    """[W, 16, n] as registers [count, W * 32]."""
    n = total.shape[2]
    if d_type == "f16":
        words = np.ascontiguousarray(total).view(np.uint32).reshape(-1, 2, 8, n // 8, 4)
        return np.ascontiguousarray(words.transpose(3, 1, 0, 2, 4)).reshape(n // 4, -1)
    parts = total.reshape(-1, 2, 8, n // 8, 4, 2).transpose(3, 1, 5, 0, 2, 4)
    return np.ascontiguousarray(parts).reshape(n // 2, -1)


class WgmmaOps:
    """Mixed into Batch."""

    def operand(self, words: np.ndarray, warps: np.ndarray, rows: int, shape: Shape, first: bool):
        """(chunk addresses of each different operand, which one each warp has): for A (first) or B."""
        kind = shape.a_type if first else shape.b_type
        k_major = not (shape.a_trans if first else shape.b_trans)
        depth = shape.stored if first else shape.k
        return self.matrix_chunks(words, self.cta_of[warps * 32], rows, depth, BITS[kind], k_major, False)

    def matrix_chunks(self, words, ctas, rows: int, depth: int, bits: int, k_major: bool, tcgen05: bool):
        """(addresses [different operands, ...], which one each descriptor names); all inside shared memory."""
        base = words & ~np.uint64(0x3FFF)
        if (base != base[0]).any():
            out, which = [], np.zeros(words.size, np.int64)
            total = 0
            for value in np.unique(base):
                some = np.flatnonzero(base == value)
                at, inner = self.matrix_chunks(words[some], ctas[some], rows, depth, bits, k_major, tcgen05)
                which[some] = inner + total
                total += at.shape[0]
                out.append(at)
            return np.concatenate(out), which
        one = md.Operand(int(words[0]), tcgen05)
        starts = (words & np.uint64(0x3FFF)).astype(np.int64) << 4
        keys, which = np.unique(ctas << 18 | starts, return_inverse=True)
        at = md.addresses(one.kind, keys & 0x3FFFF, rows, depth, bits, k_major)
        if int(at.max()) + 16 > self.shared_bytes:
            where = int(at.max())
            bad = int(np.flatnonzero(which == int(np.argmax(at.max((1, 2)))))[0])
            raise Fault(
                "out of bounds",
                f"matrix descriptor {int(words[bad]):#x} reaches shared offset {where + 16} "
                f"({self.shared_bytes} bytes of shared memory)",
                None,
            )
        return at + (self.shared_start + (keys >> 18) * self.shared_stride)[:, None, None], which.reshape(-1)

    def warp_product(self, shape: Shape, a, b, places, warps: np.ndarray) -> np.ndarray:
        """A times B of each warp: [W, 16, n] in f64."""
        b_at, which = self.operand(b, warps, shape.n, shape, False)
        bits = BITS[shape.b_type]
        bm = decode_elements(md.elements(b_at, _UNSIGNED[bits], not shape.b_trans), shape.b_type)
        if isinstance(a, np.ndarray):
            a_at, a_which = self.operand(a, warps, 64, shape, True)
            bits = BITS[shape.a_type]
            am = decode_elements(md.elements(a_at, _UNSIGNED[bits], not shape.a_trans), shape.a_type)
            rows = am.reshape(-1, 4, 16, shape.stored)
            am = rows[a_which, (warps % self.warps_per_cta) & 3]
        else:
            am = a_matrix(a, shape.a_type, 16, shape.stored)
        if shape.selector is not None:
            am = expand(am, places, shape.a_type, shape.selector)
        if shape.negative:
            am = -am
        groups = which.reshape(-1, 4) if which.size % 4 == 0 else None
        if groups is not None and (groups == groups[:, :1]).all():
            y = np.matmul(am.reshape(-1, 64, shape.k), bm[groups[:, 0]].transpose(0, 2, 1))
            return y.reshape(-1, 16, shape.n)
        return np.matmul(am, bm[which].transpose(0, 2, 1))

    @staticmethod
    def accumulate(shape: Shape, product: np.ndarray, c: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The new accumulators, in their type."""
        if shape.d_type == "s32":
            total = product.astype(np.int64)
            total = total + (c if scale.all() else np.where(scale[:, None, None], c, 0))
            if shape.satfinite:
                total = np.clip(total, -(2**31), 2**31 - 1)
            return total.astype(np.int32)
        product += c if scale.all() else np.where(scale[:, None, None], c, 0)
        if shape.d_type == "f16":
            return num.canon16(product.astype(np.float16))
        return num.canon32(product.astype(np.float32))

    def whole_warps(self, idx, n: int):
        f = self.form(idx, n)
        if not f.whole:
            raise Fault(
                "barrier divergence", "a warp is not complete at a warpgroup instruction", int(idx[0])
            )
        return f

    def wgmma_parts(self, a, b, scale, f, n: int):
        """Operands by warp."""
        b = f.spread(b, n)[:, 0]
        scale = f.spread(scale, n)[:, 0]
        if isinstance(a, np.ndarray):
            return np.ascontiguousarray(f.spread(a, n)[:, 0]), np.ascontiguousarray(b), scale
        return [np.ascontiguousarray(f.spread(v, n)) for v in a], np.ascontiguousarray(b), scale

    def wgmma(self, shape: Shape, a, b, places, c: tuple, scale, mask, idx, n: int):
        """Accumulators after the product, at once."""
        sel = self.select(mask, n)
        if sel is not None:
            if sel.size == 0:
                return c
            lanes = self.lanes(idx, n, sel)

            def cut(v):
                return v if v.size == 1 else v[sel]

            some = self.wgmma(
                shape, cut(a) if isinstance(a, np.ndarray) else tuple(map(cut, a)), cut(b),
                None if places is None else cut(places), tuple(map(cut, c)), cut(scale), None, lanes, lanes.size,
            )  # fmt: skip
            out = [np.broadcast_to(v, (n,)).copy() for v in c]
            for v, w in zip(out, some):
                v[sel] = w
            return out
        f = self.whole_warps(idx, n)
        if self.meter is not None:
            self.meter.product(self, self.lanes(idx, n, None))
        a, b, scale = self.wgmma_parts(a, b, scale, f, n)
        if places is not None:
            places = np.ascontiguousarray(f.spread(places, n))
        warps = self.lanes(idx, n, None)[::32] >> 5
        product = self.warp_product(shape, a, b, places, warps)
        if not scale.any():
            cm = np.zeros((1, 1, 1), np.int32 if shape.d_type == "s32" else np.float32)
        else:
            got = self.mma_cache.get(("wgmma", *map(id, c)))
            cm = (
                got[0]
                if got is not None and f is self.mma_form
                else accumulator_matrix([f.spread(v, n) for v in c], shape.d_type, shape.n)
            )
        total = self.accumulate(shape, product, cm, scale)
        out = list(accumulator_registers(total, shape.d_type))
        if f is not self.mma_form:
            self.mma_cache.clear()
            self.mma_form = f
        self.remember(("wgmma", *map(id, out)), total, out)
        return out

    # in flight: only where the order is perturbed
    def wgmma_issue(
        self, inst, shape: Shape, regs: tuple, sources: tuple, a, b, places, scale, mask, idx, n: int
    ) -> None:
        """Puts a product in flight; regs and sources number the registers of the accumulators and of A."""
        sel = self.select(mask, n)
        lanes = self.lanes(idx, n, sel)
        if not lanes.size:
            return
        if sel is not None:
            a, b, places, scale = (
                v if v is None or isinstance(v, np.ndarray) and v.size == 1 else v[sel] if isinstance(v, np.ndarray)
                else tuple(x if x.size == 1 else x[sel] for x in v)
                for v in (a, b, places, scale)
            )  # fmt: skip
        f = self.whole_warps(lanes, lanes.size)
        if self.meter is not None:
            self.meter.product(self, lanes, inst)
        a, b, scale = self.wgmma_parts(a, b, scale, f, lanes.size)
        if places is not None:
            places = np.ascontiguousarray(f.spread(places, lanes.size))
        warps = lanes[::32] >> 5
        read = None
        if self.checker is not None:
            self.checker.wgmma_registers(self, inst, regs, sources, warps)
            read = self.wgmma_reads(shape, a, b, warps)
            self.checker.async_read(self, inst, read[0], 16, warps[read[1]] * 32)
        group = self.wgmma_committed[warps]
        self.products.append(Product(inst, shape, regs, sources, warps, a, b, places, scale, group, read))
        if self.order.rng.random() < 0.3:
            self.wgmma_perform(warps)

    def wgmma_reads(self, shape: Shape, a, b, warps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(chunk addresses, number of the warp in `warps`): what each warp may read until its wait."""
        at, which = self.operand(b, warps, shape.n, shape, False)
        at = at.reshape(at.shape[0], -1)
        last = {key: i for i, key in enumerate(which.tolist())}
        first = {key: i for i, key in reversed(list(enumerate(which.tolist())))}
        readers = sorted({*last.values(), *first.values()})  # the checker remembers two readers of a place
        places = [at[which[i]] for i in readers]
        owners = [np.full(at.shape[1], i) for i in readers]
        if isinstance(a, np.ndarray):
            at, which = self.operand(a, warps, 64, shape, True)
            if shape.a_trans:
                rows = at.reshape(at.shape[0], 4, -1)
            else:
                rows = at.reshape(at.shape[0], 4, 16 * at.shape[2])
            part = rows[which, (warps % self.warps_per_cta) & 3]
            places.append(part.reshape(-1))
            owners.append(np.repeat(np.arange(warps.size), part.shape[1]))
        return np.concatenate(places), np.concatenate(owners)

    def wgmma_perform(self, warps: np.ndarray, limit: np.ndarray | None = None) -> None:
        """Carries out what these warps have in flight, in order; with limit, groups below it."""
        chosen = np.zeros(self.warp_live.size, np.bool_)
        chosen[warps] = True
        held: tuple | None = None  # (registers, warps) whose accumulators are in `total`
        total = None
        last = None

        def store() -> None:
            if held is None or total is None or last is None:
                return
            lanes = (last.warps_now[:, None] * 32 + np.arange(32)).reshape(-1)
            for k, row in zip(held[0], accumulator_registers(total, last.shape.d_type)):
                self.put(k, row if self.R[k].dtype == row.dtype else row.view(self.R[k].dtype), lanes)

        for p in self.products:
            due = chosen[p.warps] & ~p.done
            if limit is not None:
                due &= p.group < limit[p.warps]
            if not due.any():
                continue
            now = p if due.all() else p.part(due)
            key = (p.regs, now.warps.tobytes())
            if key != held:
                store()
                lanes = (now.warps[:, None] * 32 + np.arange(32)).reshape(-1)
                raw = (
                    np.int32
                    if p.shape.d_type == "s32"
                    else np.uint32
                    if p.shape.d_type == "f16"
                    else np.float32
                )
                regs = [
                    num.pick(self.R[k], lanes) if self.R[k].size > 1 else np.repeat(self.R[k], lanes.size)
                    for k in p.regs
                ]
                regs = [np.ascontiguousarray(v).view(raw).reshape(-1, 32) for v in regs]
                total = accumulator_matrix(regs, p.shape.d_type, p.shape.n)
                held = key
            product = self.warp_product(now.shape, now.a, now.b, now.places, now.warps)
            assert total is not None
            total = self.accumulate(now.shape, product, total, now.scale)
            last = _Last(now.shape, now.warps)
            p.done[due] = True
        store()

    def wgmma_commit(self, mask, idx, n: int) -> None:
        warps = np.unique(self.lanes(idx, n, self.select(mask, n)) >> 5)
        self.wgmma_committed[warps] += 1

    def wgmma_fence(self, mask, idx, n: int) -> None:
        if self.checker is not None:
            self.checker.wgmma_fence(self, np.unique(self.lanes(idx, n, self.select(mask, n)) >> 5))

    def wgmma_wait(self, keep: int, mask, idx, n: int) -> None:
        """Completes the groups older than the `keep` newest."""
        if not self.products:
            return
        warps = np.unique(self.lanes(idx, n, self.select(mask, n)) >> 5)
        limit = np.full(self.L // 32, -1, np.int64)
        limit[warps] = self.wgmma_committed[warps] - keep
        self.wgmma_perform(warps, limit)
        left = []
        for p in self.products:
            due = p.group < limit[p.warps]
            if not due.any():
                left.append(p)
                continue
            if p.read is not None:
                inside = due[p.read[1]]
                self.checker.async_read_done(self, p.read[0][inside], 16, p.warps[p.read[1][inside]] * 32)
            if not due.all():
                left.append(p.part(~due))
        self.products = left

    def wgmma_touch(self, inst, regs: tuple, writes: tuple, to: tuple, mask, idx, n: int) -> None:
        """An ordinary instruction reads (regs) or writes registers that may be in flight; it writes `to`, which a mov may make
        copies of such."""
        if not self.products and (self.checker is None or not writes):
            return
        lanes = self.lanes(idx, n, self.select(mask, n))
        if not lanes.size:
            return
        if self.checker is not None and writes and inst.op != "mov":  # a mov is a renaming
            self.checker.wgmma_written(self, writes, lanes)
        running = np.zeros(self.warp_live.size, np.bool_)
        running[lanes >> 5] = True
        for p in list(self.products):
            hit = running[p.warps]
            if not hit.any():
                continue
            read = [k for k in regs if k in p.regs]
            written = [k for k in writes if k in p.regs or k in p.sources]
            copied = self.wgmma_copied(inst, p, regs, to, p.warps[hit].tolist()) if p.copies or read else []
            if not read and not written:
                if copied and inst.op != "mov" and self.checker is not None:
                    self.checker.wgmma_touched(self, inst, p, int(p.warps[hit][0]), False, copied)
                continue
            if inst.op == "mov" and not written:
                self.wgmma_perform(p.warps[hit])
            elif self.checker is not None:
                self.checker.wgmma_touched(
                    self, inst, p, int(p.warps[hit][0]), bool(written), written or read
                )

    def wgmma_copied(self, inst, p: Product, regs: tuple, to: tuple, warps: list[int]) -> list[int]:
        """Those of regs that hold copies of accumulators in flight; `to` are copies behind a mov of them, else no more."""
        found = [k for k in regs if any(w in p.copies.get(k, ()) for w in warps)]
        for w in warps:
            source = next(
                (p.copies.get(k, {}).get(w, k) for k in regs if k in p.regs or w in p.copies.get(k, ())), None
            )
            for k in to:
                if inst.op == "mov" and source is not None:
                    p.copies.setdefault(k, {})[w] = source
                elif k in p.copies:
                    p.copies[k].pop(w, None)
        return found


class _Last:
    __slots__ = ("shape", "warps_now")

    def __init__(self, shape: Shape, warps: np.ndarray) -> None:
        self.shape, self.warps_now = shape, warps


def decode_elements(raw: np.ndarray, type_: str) -> np.ndarray:
    return decode(np.ascontiguousarray(raw), type_).reshape(raw.shape)
