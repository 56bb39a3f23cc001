"""mma.sync: fragment layouts of the PTX ISA and the product of each warp.

A fragment register holds elements whose (row, column) follow from lane and position. Layouts are built here once per
shape as index arrays [lane, element] -> flat index of the matrix, from the ISA's formulas: groupID = lane / 4,
threadID_in_group = lane % 4. Products and sums are exact in f64 (int64 for integers) and rounded once to the
accumulator's type: the ISA leaves order and intermediate precision open, so tests allow the type's tolerance.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from . import numerics as num
from .ops_cvt import decode_small

_INT = {"s8": (8, True), "u8": (8, False), "s4": (4, True), "u4": (4, False), "b1": (1, False)}
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "f32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
         "e4m3": 8, "e5m2": 8, "e3m2": 8, "e2m3": 8, "e2m1": 8, "s32": 32}


def dims(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


@lru_cache(maxsize=None)
def layout(part: str, m: int, n: int, k: int, bits: int) -> np.ndarray:
    """[32, elements] -> flat index into A [m, k], B [k, n] or C [m, n]."""
    lane = np.arange(32)
    group, t = lane // 4, lane % 4
    out = []
    if part == "c":
        if bits == 0:                                          # m8n8k4 f16: see quad pairs, handled apart
            raise ValueError
        for half in range(m // 8):
            for j in range(2):
                out.append((group + 8 * half) * n + t * 2 + j)
        return np.stack(out, 1)
    per = max(1, 32 // bits)                                   # elements of one 32-bit register
    span = 4 * per                                             # columns of k that one register row covers
    if part == "a":
        for kk in range(k // span):
            for half in range(m // 8):
                for j in range(per):
                    out.append((group + 8 * half) * k + kk * span + t * per + j)
    else:
        for kk in range(k // span):
            for j in range(per):
                out.append((kk * span + t * per + j) * n + group)
    return np.stack(out, 1)


def decode(regs: list[np.ndarray], type_: str) -> np.ndarray:
    """[W, 32, elements] values of fragment registers, each [W, 32], as f64 or int64."""
    if type_ in ("f64", "f32", "s32"):
        return np.stack(regs, 2)
    words = np.stack(regs, 2)
    flat = np.ascontiguousarray(words)
    shape = (*words.shape[:2], -1)
    if type_ == "f16":
        return flat.view(np.float16).reshape(shape).astype(np.float32)
    if type_ == "bf16":
        return num.bf16_to_f32(flat.view(np.uint16)).reshape(shape)
    if type_ == "tf32":                                        # the low 13 bits are not read
        return (flat & np.uint32(0xFFFFE000)).view(np.float32).reshape(shape)
    if type_ in ("s8", "u8"):
        return flat.view(np.int8 if type_ == "s8" else np.uint8).reshape(shape).astype(np.float64)
    if type_ in ("s4", "u4", "b1"):
        bits, signed = _INT[type_]
        cols = [(flat >> np.uint32(bits * i)) & np.uint32((1 << bits) - 1) for i in range(32 // bits)]
        v = np.stack(cols, -1).astype(np.float64)
        if signed:
            v = np.where(v >= 8, v - 16, v)
        return v.reshape(shape)
    codes = flat.view(np.uint8).reshape(shape)
    if type_ == "e2m1":
        codes = (codes >> 2) & 15
    elif type_ in ("e3m2", "e2m3"):
        codes = codes & 63
    table = decode_small(np.arange(256), type_)
    return table[codes]


def matrices(values: np.ndarray, index: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Fragments [W, 32, e] as matrices [W, rows, cols]."""
    out = np.empty((values.shape[0], rows * cols), values.dtype)
    out[:, index.reshape(-1)] = values.reshape(values.shape[0], -1)
    return out.reshape(-1, rows, cols)


class MmaOps:
    """Mixed into Batch."""

    def mma(self, shape: str, dt: str, at: str, bt: str, ct: str, a: tuple, b: tuple, c: tuple, bit_op: str,
            satfinite: bool, a_order: str, idx, n: int):
        f = self.form(idx, n)
        a, b, c = ([f.spread(x, n) for x in regs] for regs in (a, b, c))
        m, nn, k = dims(shape)
        if shape == "m8n8k4" and at == "f16":
            from .syntax import EmulatorError
            raise EmulatorError("mma.m8n8k4 with f16 (Volta layout) is not supported by the emulator")
        av, bv = decode(a, at), decode(b, bt)
        cv = decode(c, ct)
        am = matrices(av, layout("a", m, nn, k, min(_BITS[at], 32)), m, k)
        bm = matrices(bv, layout("b", m, nn, k, min(_BITS[bt], 32)), k, nn)
        ci = layout("c", m, nn, k, 32)
        cm = matrices(cv, ci, m, nn)
        if bit_op:
            fn = np.logical_and if bit_op == "and" else np.logical_xor
            prod = fn(am[:, :, :, None] != 0, bm[:, None, :, :] != 0).sum(2).astype(np.float64)
        else:
            prod = np.matmul(am.astype(np.float64), bm.astype(np.float64))
        total = prod + cm
        if dt == "s32":
            whole = prod.astype(np.int64) + cm.astype(np.int64)
            if satfinite:
                whole = np.clip(whole, -2**31, 2**31 - 1)
            total = whole.astype(np.int32)
        elif dt == "f32":
            total = num.canon32(total.astype(np.float32))
        elif dt == "f16":
            total = num.canon16(total.astype(np.float16))
        flat = total.reshape(total.shape[0], -1)[:, ci.reshape(-1)].reshape(-1, 32, ci.shape[1])
        if dt == "f16":
            words = np.ascontiguousarray(flat).view(np.uint32)
            return [f.collect(words[:, :, i]) for i in range(words.shape[2])]
        return [f.collect(flat[:, :, i]) for i in range(flat.shape[2])]
