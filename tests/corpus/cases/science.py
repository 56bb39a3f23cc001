"""Algorithms from outside neural networks: ciphers, checksums, linear algebra, dynamic programming, graphs, images,
signals.

Integer results are exact; f32 ones err by their sums and products.
"""

from __future__ import annotations

import zlib

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

F, I, U = "f32", "i32", "u32"
F32T = {"rtol": 4e-6, "atol": 2e-4}

integer_case = Family("integer", "python/science.py")


def chachaf(key, out):
    n = len(out)
    s = np.zeros((16, n), "u4")
    s[:4] = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], "u4")[:, None]
    s[4:12] = key[:, None]
    s[12] = np.arange(n)
    s[14] = 7
    s[15] = 9
    x = s.copy()

    def q(a, b, c, d):
        def r(v, k):
            return (v << np.uint32(k)) | (v >> np.uint32(32 - k))

        x[a] += x[b]
        x[d] = r(x[d] ^ x[a], 16)
        x[c] += x[d]
        x[b] = r(x[b] ^ x[c], 12)
        x[a] += x[b]
        x[d] = r(x[d] ^ x[a], 8)
        x[c] += x[d]
        x[b] = r(x[b] ^ x[c], 7)

    for _ in range(10):
        q(0, 4, 8, 12)
        q(1, 5, 9, 13)
        q(2, 6, 10, 14)
        q(3, 7, 11, 15)
        q(0, 5, 10, 15)
        q(1, 6, 11, 12)
        q(2, 7, 8, 13)
        q(3, 4, 9, 14)
    return {1: (x + s).T.copy()}


integer_case(
    "chacha",
    "chacha",
    [A(U, 1), A(U, 2), 32],
    (2,),
    lambda rng: (integers(rng, 8, U), like((50, 16), U)),
    chachaf,
)


def crc32_values():
    t = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0xEDB88320 if c & 1 else 0)
        t.append(c)
    return np.array(t, "u4")


integer_case(
    "crc32",
    "crc32",
    [A("u8", 2), A(U, 1), A(U, 1), 20, 16],
    (2,),
    lambda rng: (integers(rng, (30, 20), "u8"), crc32_values(), like(30, U)),
    lambda d, t, o: {2: np.array([zlib.crc32(bytes(r)) for r in d], "u4")},
)

integer_case(
    "mod_pow",
    "mod_pow",
    [A("u64", 1)] * 3 + [Scalar("u64"), 32],
    (2,),
    lambda rng: (
        integers(rng, 50, "u64", 0, 2**60),
        integers(rng, 50, "u64", 0, 2**20),
        like(50, "u64"),
        np.uint64(4294967291),
    ),
    lambda b, e, o, m: {2: np.array([pow(int(x), int(y), int(m)) for x, y in zip(b, e)], "u8")},
)


def bigint_mul_values(a, b, c):
    out = np.zeros(c.shape, "u8")
    for r in range(len(a)):
        for i in range(8):
            for j in range(8):
                p = int(a[r, i]) * int(b[r, j])
                out[r, i + j] += np.uint64(p & 0xFFFFFFFF)
                out[r, i + j + 1] += np.uint64(p >> 32)
    return {2: out}


integer_case(
    "bigint_mul",
    "bigint_mul",
    [A(U, 2), A(U, 2), A("u64", 2), 8],
    (3,),
    lambda rng: (integers(rng, (3, 8), U), integers(rng, (3, 8), U), like((3, 16), "u64")),
    bigint_mul_values,
)


def morton_values(x, y, z):
    return {
        2: np.array(
            [
                sum((int(a >> k & 1) << (2 * k)) | (int(b >> k & 1) << (2 * k + 1)) for k in range(32))
                for a, b in zip(x.tolist(), y.tolist())
            ],
            "u8",
        )
    }


integer_case(
    "morton",
    "morton",
    [A(U, 1), A(U, 1), A("u64", 1), 64],
    (2,),
    lambda rng: (integers(rng, 100, U), integers(rng, 100, U), like(100, "u64")),
    morton_values,
)


def sieve_values(f, n):
    f = f.copy()
    for p in range(2, int(n) + 1):
        if all(p % q for q in range(2, int(p**0.5) + 1)):
            continue
        f[p] = 1
    return {0: f}


integer_case(
    "sieve",
    "sieve",
    [A("i8", 1), Scalar(I), 32],
    (1,),
    lambda rng: (like(301, "i8"), np.int32(300)),
    sieve_values,
)

integer_case(
    "radix_pass",
    "radix_pass",
    [A(I, 1), A(I, 1), 256],
    (1,),
    lambda rng: (integers(rng, 256, I, 0, 2**30), like(256, I)),
    lambda x, y: {1: x[np.argsort((x >> 4) & 3, kind="stable")]},
)

integer_case(
    "rank_sort",
    "sort_pairs",
    [A("u8", 1), A("f16", 1), A("u8", 1), A("f16", 1), 128, 0],
    (1,),
    lambda rng: (
        integers(rng, 128, "u8", 0, 40),
        uniform(rng, 128, "f16"),
        like(128, "u8"),
        like(128, "f16"),
    ),
    lambda k, v, a, b: {2: np.sort(k, kind="stable"), 3: v[np.argsort(k, kind="stable")]},
)


linear_case = Family("linear", "python/science.py")


def lu_tile_values(a, o):
    out = []
    for m in wide(a)[0]:
        m = m.copy()
        for k in range(len(m)):
            m[k + 1 :, k] /= m[k, k]
            m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
        out.append(m)
    return {1: np.array(out).astype("f4")}


linear_case(
    "lu_tile",
    "lu_tile",
    [A(F, 3), A(F, 3), 16],
    (2,),
    lambda rng: ((uniform(rng, (2, 16, 16), F, -0.2, 0.2) + np.eye(16) * 3).astype("f4"), like((2, 16, 16))),
    lu_tile_values,
    rtol=1e-4,
    atol=1e-5,
)


def chol_in(rng):
    g = uniform(rng, (16, 16), "f64")
    return g @ g.T + np.eye(16) * 16, like((16, 16), "f64")


linear_case(
    "cholesky_f64",
    "cholesky_f64",
    [A("f64", 2)] * 2 + [16],
    (1,),
    chol_in,
    lambda a, o: {1: np.linalg.cholesky(a)},
    rtol=1e-11,
    atol=1e-12,
)


def gauss_jordan_values(a, r, x):
    av = a.copy().astype("f8")
    rv = r.copy().astype("f8")
    xs = np.zeros(x.shape)
    for b in range(len(a)):
        for k in range(8):
            p = k + np.argmax(np.abs(av[b, k:, k]))
            av[b, [k, p]] = av[b, [p, k]]
            rv[b, [k, p]] = rv[b, [p, k]]
            f = av[b, :, k] / av[b, k, k]
            f[k] = 0
            av[b] -= np.outer(f, av[b, k])
            rv[b] -= f * rv[b, k]
        xs[b] = rv[b] / np.diag(av[b])
    return {0: av.astype("f4"), 1: rv.astype("f4"), 2: xs.astype("f4")}


linear_case(
    "gauss_jordan",
    "gauss_jordan",
    [A(F, 3), A(F, 2), A(F, 2), 8],
    (2,),
    lambda rng: (
        (uniform(rng, (2, 8, 8)) + np.roll(np.eye(8), 3, 0) * 4).astype("f4"),
        uniform(rng, (2, 8)),
        like((2, 8)),
    ),
    gauss_jordan_values,
    rtol=1e-4,
    atol=1e-4,
)


def block_sparse_inputs(rng):
    cols = np.array([0, 2, 1, 0, 1, 2], "i4")
    st = np.array([0, 2, 2, 3, 6], "i4")
    return uniform(rng, (6, 16, 16), "f16"), uniform(rng, (48, 20), "f16"), cols, st, like((64, 20), F, 3)


def block_sparse_values(a, b, cols, st, c):
    out = np.zeros(c.shape)
    for i in range(4):
        for e in range(st[i], st[i + 1]):
            out[i * 16 : i * 16 + 16] += a[e].astype("f8") @ b[cols[e] * 16 : cols[e] * 16 + 16].astype("f8")
    return {4: out.astype("f4")}


linear_case(
    "block_sparse",
    "block_sparse",
    [A("f16", 3), A("f16", 2), A(I, 1), A(I, 1), A(F, 2), 16],
    (4, 2),
    block_sparse_inputs,
    block_sparse_values,
    rtol=1e-5,
    atol=1e-4,
)


def mm_complex_values(a, b, c, d, e, f):
    z = (wide(a)[0] + 1j * wide(b)[0]) @ (wide(c)[0] + 1j * wide(d)[0])
    return {4: z.real.astype("f4"), 5: z.imag.astype("f4")}


for d in ("f16", "f32"):
    linear_case(
        f"mm_complex_{d}",
        "mm_complex",
        [A(d, 2)] * 4 + [A(F, 2)] * 2 + [32],
        (2, 2),
        lambda rng, d=d: (
            *[uniform(rng, (40, 50) if q < 2 else (50, 40), d, -1, 1) for q in range(4)],
            like((40, 40)),
            like((40, 40)),
        ),
        mm_complex_values,
        **F32T,
    )


dynamic_case = Family("dynamic", "python/science.py")


def levenshtein_values(s, t, o):
    o = o.copy()

    def dist(a, b):
        d = np.arange(len(b) + 1)
        for i, x in enumerate(a, 1):
            p = d.copy()
            d[0] = i
            for j, y in enumerate(b, 1):
                d[j] = min(p[j] + 1, d[j - 1] + 1, p[j - 1] + (x != y))
        return d[-1]

    n = s.shape[1]
    for r in range(len(s)):
        v = np.full(32, 9999)
        v[n] = dist(s[r], t[r])
        o[r * 64 : r * 64 + 32] = v
        o[r * 64 + 32 : r * 64 + 64] = 0
        o[r * 64 + 32] = v[n]
    return {2: o}


dynamic_case(
    "levenshtein",
    "levenshtein",
    [A("i8", 2), A("i8", 2), A(I, 1), 16],
    (3,),
    lambda rng: (integers(rng, (3, 13), "i8", 0, 4), integers(rng, (3, 13), "i8", 0, 4), like(192, I)),
    levenshtein_values,
)


def viterbi_values(lp, tr, ep):
    ep = ep.copy()
    S = 8
    for b in range(len(lp)):
        v = lp[b, 0]
        for t in range(1, lp.shape[1]):
            sc = v[:, None] + tr
            ep[b, t, :S] = sc.argmax(0)
            v = sc.max(0) + lp[b, t]
        k = v.argmax()
        for t in range(lp.shape[1] - 1, 0, -1):
            ep[b, t, S] = k
            k = ep[b, t, k]
        ep[b, 0, S] = k
    return {2: ep}


dynamic_case(
    "viterbi",
    "viterbi",
    [A(F, 3), A(F, 2), A(I, 3), 8],
    (2,),
    lambda rng: (uniform(rng, (2, 12, 8)), uniform(rng, (8, 8)), like((2, 12, 9), I)),
    viterbi_values,
)


def ctc_forward_ctc(lp, lab, loss):
    out = []
    for b in range(len(lp)):
        ext = [0]
        for l in lab[b]:
            ext += [int(l), 0]
        P = np.exp(lp[b].astype("f8"))
        a = np.zeros(len(ext))
        a[0] = P[0, 0]
        a[1] = P[0, ext[1]]
        for t in range(1, len(P)):
            n = np.zeros_like(a)
            for s in range(len(ext)):
                v = a[s] + (a[s - 1] if s else 0)
                if s > 1 and ext[s] != 0 and ext[s] != ext[s - 2]:
                    v += a[s - 2]
                n[s] = v * P[t, ext[s]]
            a = n
        out.append(-np.log(a[-1] + a[-2]))
    return {2: np.array(out, "f4")}


def ctc_forward_values(rng):
    l = uniform(rng, (3, 12, 6))
    l = (l - np.log(np.exp(l.astype("f8")).sum(2, keepdims=True))).astype("f4")
    return l, np.array([[1, 2, 2, 3], [5, 1, 1, 1], [4, 3, 2, 1]], "i4"), like(3)


dynamic_case(
    "ctc",
    "ctc_forward",
    [A(F, 3), A(I, 2), A(F, 1), 16],
    (3,),
    ctc_forward_values,
    ctc_forward_ctc,
    rtol=1e-4,
    atol=1e-4,
)


def floyd_block_values(d):
    m = d.copy()
    for k in range(32):
        m = np.minimum(m, m[k][None] + m[:, k][:, None])
    return {0: m}


dynamic_case(
    "floyd",
    "floyd_block",
    [A(F, 2), 32],
    (1,),
    lambda rng: (
        np.where(rng.random((32, 32)) < 0.8, np.float32(1e8), uniform(rng, (32, 32), F, 1, 9)).astype("f4"),
    ),
    floyd_block_values,
)
