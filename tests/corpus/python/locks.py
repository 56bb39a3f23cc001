"""Blocks that wait for each other: locks, barriers, chained scans, products shared by several blocks."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
MO, MS = ct.MemoryOrder, ct.MemoryScope


@ct.kernel
def ticket_lock(head, tail, seen, total, x, T: Const):
    """First come, first served: a number from `tail`, a wait until `head` shows it, work on plain memory."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    mine = ct.atomic_add(tail, 0, 1, memory_order=MO.RELAXED)
    while ct.atomic_cas(head, 0, -1, -1, memory_order=MO.ACQUIRE) != mine:
        pass
    ct.scatter(seen, b, 1 + ct.gather(seen, b))
    ct.store(total, (0,), ct.maximum(ct.load(total, (0,), (T,)), v) + 1)
    ct.atomic_xchg(head, 0, mine + 1, memory_order=MO.RELEASE)


@ct.kernel
def producer_consumer(flag, data, out, T: Const):
    """Odd blocks wait for their even neighbour."""
    b = ct.bid(0)
    if b % 2 == 0:
        ct.store(data, (b // 2,), ct.arange(T, dtype=ct.int32) * (b + 1))
        ct.atomic_xchg(flag, b // 2, 1, memory_order=MO.RELEASE)
    else:
        while ct.atomic_cas(flag, b // 2, 1, 2, memory_order=MO.ACQUIRE) != 1:
            pass
        ct.store(out, (b // 2,), ct.load(data, (b // 2,), (T,)) + 7)


@ct.kernel
def grid_barrier(count, a, b_, rounds, T: Const):
    """All blocks meet at a barrier each round; neighbours read."""
    b = ct.bid(0)
    n = ct.num_blocks(0)
    for r in range(rounds):
        v = ct.load(a, (b,), (T,))
        w = ct.load(a, ((b + 1) % n,), (T,))
        ct.store(b_, (b,), v + w)
        ct.atomic_add(count, 0, 1, memory_order=MO.ACQ_REL)
        while ct.atomic_add(count, 0, 0, memory_order=MO.ACQUIRE) < n * (2 * r + 1):
            pass
        ct.store(a, (b,), ct.load(b_, (b,), (T,)))
        ct.atomic_add(count, 0, 1, memory_order=MO.ACQ_REL)
        while ct.atomic_add(count, 0, 0, memory_order=MO.ACQUIRE) < n * (2 * r + 2):
            pass


@ct.kernel
def lookback_scan(x, y, state, T: Const):
    """Chained scan: block b waits for the inclusive prefix of block b-1 (i64 packed value with flag)."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), padding_mode=ZERO)
    s = ct.cumsum(v, 0)
    total = ct.sum(v)
    before = ct.zeros((), ct.int64)
    if b > 0:
        p = ct.atomic_add(state, b - 1, 0, memory_order=MO.ACQUIRE)
        while p == -1:
            p = ct.atomic_add(state, b - 1, 0, memory_order=MO.ACQUIRE)
        before = p
    ct.atomic_xchg(state, b, before + total, memory_order=MO.RELEASE)
    ct.store(y, (b,), s + before.astype(ct.int32))


@ct.kernel
def lock_array(locks, acc, keys, w, T: Const):
    """A lock per bucket; two scalars updated in plain memory."""
    b = ct.bid(0)
    for i in range(T):
        k = ct.gather(keys, b * T + i)
        while ct.atomic_cas(locks, k, 0, 1, memory_order=MO.ACQUIRE) != 0:
            pass
        ct.scatter(acc, (k, 0), ct.gather(acc, (k, 0)) + ct.gather(w, b * T + i))
        ct.scatter(acc, (k, 1), ct.gather(acc, (k, 1)) + 1.0)
        ct.atomic_xchg(locks, k, 0, memory_order=MO.RELEASE)


@ct.kernel
def mm_split_lock(a, b, c, lock, M: Const, N: Const, K: Const, S: Const):
    """Split-K with a spin lock per output tile."""
    i, j, s = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(s, ct.num_tiles(a, 1, (M, K)), S):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    t = i * ct.num_blocks(1) + j
    while ct.atomic_cas(lock, t, 0, 1, memory_order=MO.ACQUIRE) == 1:
        pass
    ct.store(c, (i, j), ct.load(c, (i, j), (M, N), padding_mode=ZERO) + acc)
    ct.atomic_xchg(lock, t, 0, memory_order=MO.RELEASE)


@ct.kernel
def mm_split_ticket(a, b, part, c, count, M: Const, N: Const, K: Const, S: Const):
    """Split-K: partial sums to a workspace; the last block by ticket adds them in order."""
    i, j, s = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((M, N), ct.float32)
    n = ct.num_tiles(a, 1, (M, K))
    per = ct.cdiv(n, S)
    for k in range(s * per, ct.minimum(n, (s + 1) * per)):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(part, (s, i, j), acc.reshape((1, M, N)))
    done = ct.atomic_add(count, (i, j), 1, memory_order=MO.ACQ_REL)
    if done == S - 1:
        total = ct.zeros((1, M, N), ct.float32)
        for q in range(S):
            total = total + ct.load(part, (q, i, j), (1, M, N), padding_mode=ZERO)
        ct.store(c, (i, j), total.reshape((M, N)).astype(c.dtype))
        ct.scatter(count, (i, j), 0)


@ct.kernel
def mm_stream_k(a, b, c, M: Const, N: Const, K: Const):
    """Stream-K: every block takes an equal run of (tile, k) steps and adds atomically when a tile ends."""
    tm, tn, tk = ct.cdiv(a.shape[0], M), ct.cdiv(b.shape[1], N), ct.cdiv(a.shape[1], K)
    total = tm * tn * tk
    per = ct.cdiv(total, ct.num_blocks(0))
    at = ct.bid(0) * per
    end = ct.minimum(at + per, total)
    while at < end:
        t = at // tk
        first = at % tk
        last = ct.minimum(tk, first + (end - at))
        i, j = t // tn, t % tn
        acc = ct.zeros((M, N), ct.float32)
        for k in range(first, last):
            acc = ct.mma(
                ct.load(a, (i, k), (M, K), padding_mode=ZERO),
                ct.load(b, (k, j), (K, N), padding_mode=ZERO),
                acc,
            )
        if first == 0 and last == tk:
            ct.store(c, (i, j), acc)
        else:
            r = (i * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
            q = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
            ct.atomic_add(c, (r, q), acc, memory_order=MO.RELAXED)
        at = at + (last - first)


@ct.kernel
def mm_syrk(a, c, T: Const, K: Const):
    """Lower triangle only of A A^T, diagonal masked."""
    i, j = ct.bid(0), ct.bid(1)
    if j > i:
        return
    acc = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(a, 1, (T, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (T, K), padding_mode=ZERO),
            ct.transpose(ct.load(a, (j, k), (T, K), padding_mode=ZERO)),
            acc,
        )
    r = i * T + ct.arange(T, dtype=ct.int32).reshape((T, 1))
    q = j * T + ct.arange(T, dtype=ct.int32).reshape((1, T))
    ct.scatter(c, (r, q), acc, mask=q <= r)


@ct.kernel
def mm_experts_topk(x, w, ids, gate, y, M: Const, N: Const, K: Const, E: Const):
    """Every block: dense loop over experts, rows weighted by a mask of who chose them (fused MoE, small)."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, 0), (M, K), padding_mode=ZERO)
    who = ct.load(ids, (i, 0), (M, 2), padding_mode=ZERO)
    g = ct.load(gate, (i, 0), (M, 2), padding_mode=ZERO)
    out = ct.zeros((M, N), ct.float32)
    for e in range(E):
        share = ct.sum(ct.where(who == e, g, 0.0), 1, keepdims=True)
        if ct.max(share) > 0.0:
            t = ct.mma(
                v,
                ct.load(w, (e, 0, j), (1, K, N), padding_mode=ZERO).reshape((K, N)),
                ct.zeros((M, N), ct.float32),
            )
            out = out + t * share
    ct.store(y, (i, j), out)
