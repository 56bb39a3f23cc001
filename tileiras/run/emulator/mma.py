"""mma.sync: fragment layouts of the PTX ISA and the product of each warp.

A fragment register holds elements whose (row, column) follow from lane and position, with group = lane / 4 and
t = lane % 4; `per` elements share a register. Element (k-step, half, j) of A lies at row 8 * half + group and column
(k-step * 4 + t) * per + j; of B at row (k-step * 4 + t) * per + j and column group; element (half, j) of C at row
8 * half + group and column 2 * t + j. So a fragment is a matrix up to a permutation of its 32-bit words (B: of the
transposed matrix). Products and sums are exact in f64 (int64 for integers) and rounded once to the accumulator's type:
the ISA leaves order and intermediate precision open, so tests allow the type's tolerance.
"""

from __future__ import annotations

import numpy as np

from . import numerics as num
from .ops_cvt import decode_small, decode_ue8m0
from .sparse import expand
from .syntax import EmulatorError

_INT = {"s8": (8, True), "u8": (8, False), "s4": (4, True), "u4": (4, False), "b1": (1, False)}


def dims(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def decode(words: np.ndarray, type_: str) -> np.ndarray:
    """The elements of registers in memory order, flat, as f64."""
    if type_ == "f64":
        return words.reshape(-1)
    if type_ == "f16":
        return words.reshape(-1).view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return num.bf16_to_f32(words.reshape(-1).view(np.uint16)).astype(np.float64)
    if type_ == "tf32":  # the low 13 bits are not read
        return (words.reshape(-1) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if type_ in ("s8", "u8"):
        return words.reshape(-1).view(np.int8 if type_ == "s8" else np.uint8).astype(np.float64)
    if type_ in ("s4", "u4", "b1"):
        bits, signed = _INT[type_]
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        v = ((words.reshape(-1, 1) >> shifts) & np.uint32((1 << bits) - 1)).astype(np.float64)
        return (np.where(v >= 8, v - 16, v) if signed else v).reshape(-1)
    codes = words.reshape(-1).view(np.uint8)
    if type_ == "e2m1":
        codes = (codes >> np.uint8(2)) & np.uint8(15)
    elif type_ in ("e3m2", "e2m3"):
        codes = codes & np.uint8(63)
    return decode_small(np.arange(256), type_).astype(np.float64)[codes]


def a_matrix(regs: list[np.ndarray], type_: str, m: int, k: int) -> np.ndarray:
    """Fragments of A, registers [W, 32] each, as [W, m, k]."""
    halves = m // 8
    words = np.empty((len(regs[0]), halves, 8, len(regs) // halves, 4), regs[0].dtype)
    for i, reg in enumerate(regs):
        words[:, i % halves, :, i // halves] = reg.reshape(-1, 8, 4)
    return decode(words, type_).reshape(-1, m, k)


def b_matrix(regs: list[np.ndarray], type_: str, n: int, k: int) -> np.ndarray:
    """Fragments of B as [W, k, n] (n is 8)."""
    words = np.empty((len(regs[0]), n, len(regs), 4), regs[0].dtype)
    for i, reg in enumerate(regs):
        words[:, :, i] = reg.reshape(-1, 8, 4)
    return decode(words, type_).reshape(-1, n, k).transpose(0, 2, 1)


def c_matrix(regs: list[np.ndarray], type_: str, m: int, n: int) -> np.ndarray:
    """Accumulators as [W, m, n], in their own type."""
    pair = type_ == "f16"
    words = np.empty((len(regs[0]), m // 8, 8, 4, 1 if pair else 2), regs[0].dtype)
    for i, reg in enumerate(regs):
        words[:, i if pair else i // 2, :, :, 0 if pair else i % 2] = reg.reshape(-1, 8, 4)
    return (words.view(np.float16) if pair else words).reshape(-1, m, n)


class MmaOps:
    """Mixed into Batch."""

    def fragment(self, f, part: str, regs: tuple, type_: str, rows: int, cols: int, n: int) -> np.ndarray:
        """The matrix of an operand; the last few are kept, because one operand often serves several products."""
        cache = self.mma_cache
        key = (part, type_, rows, cols, *map(id, regs))
        got = cache.get(key)
        if got is not None:
            return got[0]
        spread = [f.spread(x, n) for x in regs]
        matrix = {"a": a_matrix, "b": b_matrix, "c": c_matrix}[part](spread, type_, rows, cols)
        self.remember(key, matrix, regs)
        return matrix

    def remember(self, key: tuple, matrix: np.ndarray, regs) -> None:
        if len(self.mma_cache) > 64:
            self.mma_cache.clear()
        self.mma_cache[key] = (matrix, regs)  # holding the registers keeps their ids unique

    def mma(
        self,
        shape: str,
        dt: str,
        at: str,
        bt: str,
        ct: str,
        a: tuple,
        b: tuple,
        c: tuple,
        bit_op: str,
        satfinite: bool,
        a_order: str,
        sparse: tuple | None,
        idx,
        n: int,
    ):
        if self.meter is not None:
            self.meter.product(self, self.lanes(idx, n, None))
        f = self.form(idx, n)
        if f is not self.mma_form:
            self.mma_cache.clear()
            self.mma_form = f
        m, nn, k = dims(shape)
        if shape == "m8n8k4" and at == "f16":
            raise EmulatorError("mma.m8n8k4 with f16 (Volta layout) is not supported by the emulator")
        am = self.fragment(f, "a", a, at, m, k // 2 if sparse else k, n)
        if sparse:
            am = expand(am, np.ascontiguousarray(f.spread(sparse[0], n)), at, sparse[1])
        bm = self.fragment(f, "b", b, bt, nn, k, n)
        cm = self.fragment(f, "c", c, ct, m, nn, n)
        if bit_op:
            fn = np.logical_and if bit_op == "and" else np.logical_xor
            prod = fn(am[:, :, :, None] != 0, bm[:, None, :, :] != 0).sum(2).astype(np.float64)
        else:
            prod = np.matmul(am, bm)
        if dt == "s32":
            total = prod.astype(np.int64) + cm
            if satfinite:
                total = np.clip(total, -(2**31), 2**31 - 1)
            total = total.astype(np.int32)
        else:
            prod += cm
            total = (
                num.canon32(prod.astype(np.float32))
                if dt == "f32"
                else num.canon16(prod.astype(np.float16))
                if dt == "f16"
                else prod
            )
        return self.accumulator_fragment(f, total, m, nn, dt)

    def accumulator_fragment(self, f, total: np.ndarray, m: int, nn: int, dt: str) -> list[np.ndarray]:
        """[W, m, n] as registers; kept, because the next product often accumulates into them."""
        parts = total.reshape(-1, m // 8, 8, 4, 2)
        if dt == "f16":
            words = np.ascontiguousarray(parts).view(np.uint32).reshape(-1, m // 8, 32).transpose(1, 0, 2)
        else:
            words = parts.transpose(1, 4, 0, 2, 3)
        words = np.ascontiguousarray(words).reshape(-1, f.warps * 32)
        out = [row if f.whole else row[f.at] for row in words]
        if dt != "f16" and f.whole:
            self.remember(("c", dt, m, nn, *map(id, out)), total, out)
        return out

    def mma_scaled(
        self, shape: str, at: str, bt: str, packed: bool, a: tuple, b: tuple, c: tuple, scales: tuple, selectors: tuple,
        blocks: int, scale_type: str, sparse: tuple | None, idx, n: int,
    ):  # fmt: skip
        """Block-scaled mma.sync: each of `blocks` parts of K has a scale for every row of A and column of B.

        The scales of rows g and g + 8 of A are bytes of the registers of lanes 2 * t and 2 * t + 1 of quad g, those of
        column g of B of lane t, where selectors say the first byte and t.
        """
        f = self.form(idx, n)
        if f is not self.mma_form:
            self.mma_cache.clear()
            self.mma_form = f
        m, nn, k = dims(shape)
        stored = k // 2 if sparse else k
        if packed:  # two four-bit elements to a byte
            table = decode_small(np.arange(256), "e2m1").astype(np.float64)
            am, bm = (
                table[matrix([f.spread(x, n) for x in regs], "u4", rows, depth).astype(np.int64)]
                for matrix, regs, rows, depth in ((a_matrix, a, m, stored), (b_matrix, b, nn, k))
            )
        else:
            am, bm = self.fragment(f, "a", a, at, m, stored, n), self.fragment(f, "b", b, bt, nn, k, n)
        if sparse:
            am = expand(
                am, np.ascontiguousarray(f.spread(sparse[0], n)), "packed" if packed else at, sparse[1]
            )
        cm = self.fragment(f, "c", c, "f32", m, nn, n)
        row = np.arange(m)
        lanes = (row % 8 * 4 + row // 8 + 2 * selectors[1], np.arange(nn) * 4 + selectors[3])
        factors = []
        for word, lane, first in zip(scales, lanes, (selectors[0], selectors[2])):
            words = np.ascontiguousarray(f.spread(word, n)[:, lane])
            codes = words.view(np.uint8).reshape(*words.shape, 4)[..., first : first + blocks]
            if scale_type == "ue8m0":
                value = decode_ue8m0(codes)
            else:
                value = decode_small(np.arange(256), "e4m3").astype(np.float64)[codes & np.uint8(127)]
            factors.append(np.repeat(value, k // blocks, axis=-1))
        product = np.matmul(am * factors[0], bm * factors[1].transpose(0, 2, 1))
        return self.accumulator_fragment(f, num.canon32((product + cm).astype(np.float32)), m, nn, "f32")
