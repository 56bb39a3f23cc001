"""Control flow as users write it: returns and breaks out of nests, loops that do not run, carried tuples, effects in
branches, memory that two parameters share."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def return_from_nested(x, y, key, T: Const):
    b = ct.bid(0)
    for i in range(4):
        for j in range(4):
            v = ct.gather(x, (b, i * 4 + j))
            if v == key:
                ct.scatter(y, b, i * 10 + j)
                return
    ct.scatter(y, b, -1)


@ct.kernel
def countdown(x, y, n, T: Const):
    """A count down in steps of two."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    acc = ct.zeros((T,), ct.int32)
    k = n
    while k > 0:
        acc = acc * 3 + v * k
        k = k - 2
    for j in range(5, n):
        acc = acc + j
    ct.store(y, (b,), acc)


@ct.kernel
def while_break_continue(x, y, T: Const):
    b = ct.bid(0)
    acc = ct.zeros((T,), ct.float32)
    k = 0
    hits = 0
    while k < 20:
        k = k + 1
        if k % 4 == b:
            continue
        inner = 0
        while True:
            inner = inner + 1
            if inner * k > 15:
                break
            if inner > 5:
                break
            v = ct.load(x, (inner,), (T,), padding_mode=ZERO)
            acc = acc + v
        hits = hits + inner
        if hits > 60:
            break
    ct.store(y, (b,), acc + hits)


@ct.kernel
def return_in_while(x, y, limit):
    b = ct.bid(0)
    total = 0
    i = 0
    while i < x.shape[1]:
        total = total + ct.gather(x, (b, i))
        if total > limit:
            for z in range(3):
                if z == 2:
                    ct.scatter(y, (b, 1), i)
                    return
                ct.scatter(y, (b, 0), total + z)
        i = i + 1
    ct.scatter(y, (b, 0), total)
    ct.scatter(y, (b, 1), -1)


def helper_clamp(v, lo, hi):
    if lo > hi:
        return v
    return ct.minimum(ct.maximum(v, lo), hi)


@ct.kernel
def helper_calls(x, y, lo, hi, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    w = helper_clamp(v, lo, hi)
    u = helper_clamp(w * 2.0, -hi, -lo)
    ct.store(y, (b,), w + u)


@ct.kernel
def tuple_carry(x, y, n, T: Const):
    b = ct.bid(0)
    state = (ct.load(x, (b,), (T,)), 0, ct.zeros((), ct.float32))
    for i in range(n):
        v, k, s = state
        if i % 2 == 0:
            state = (v + 1.0, k + i, s + ct.sum(v))
        else:
            state = (v * 0.5, k, s)
    v, k, s = state
    ct.store(y, (b,), v + k + s)


@ct.kernel
def int64_loop(x, y, lo, hi, step):
    b = ct.bid(0)
    acc = ct.zeros((), ct.int64)
    for k in range(lo, hi, step):
        acc = acc ^ (k * (b + 3))
    ct.scatter(y, b, acc)


@ct.kernel
def branch_memory(x, y, z, T: Const):
    """Loads in one arm, atomics in the other, nested if without else."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    if ct.max(v) > 50:
        if ct.min(v) < -50:
            ct.atomic_add(z, 0, 1)
            v = v * 2
        elif b > 2:
            ct.atomic_max(z, 1, ct.sum(v))
    else:
        if b % 2 == 0:
            v = ct.load(y, (b,), (T,)) + v
        ct.atomic_min(z, 2, b)
    ct.store(y, (b,), v)


@ct.kernel
def mutual_carry(y, n, T: Const):
    """Three carried tiles of three types permuted, trip 0 possible."""
    b = ct.bid(0)
    p = ct.arange(T, dtype=ct.int32) + b
    q = p.astype(ct.float32) * 0.5
    m = p % 2 == 0
    for i in range(n):
        p = ct.where(m, p + i, p - i)
        m = (p % 3 == 0) ^ m
        q = ct.where(m, q + 1.0, -q)
    ct.store(y, (b,), p.astype(ct.float32) + q + m.astype(ct.float32))


@ct.kernel
def invariant_hoist(x, y, z, n, T: Const):
    """Same address each round, loop-invariant load after a store to another array; store inside."""
    b = ct.bid(0)
    for i in range(n):
        v = ct.load(x, (b,), (T,))
        w = ct.load(y, (b,), (T,))
        ct.store(y, (b,), w + v * i)
        ct.store(z, (i, b), (w - v).reshape((1, T)))


@ct.kernel
def alias_rounds(x, y, n, T: Const):
    """Both arrays may be the same memory."""
    b = ct.bid(0)
    for _ in range(n):
        v = ct.load(x, (b,), (T,))
        ct.store(y, (b,), v + 1)
        u = ct.load(x, (b,), (T,))
        ct.store(x, (b,), u * 2)


@ct.kernel
def deep_nest(x, y, T: Const):
    b = ct.bid(0)
    acc = ct.load(x, (b,), (T,))
    for i in range(3):
        for j in range(i, 4):
            if (i + j) % 2 == 0:
                for k in range(j):
                    if k == 2:
                        if i == 1:
                            break
                        continue
                    acc = acc + (i * 100 + j * 10 + k)
            else:
                acc = acc - 7
                if j == 3:
                    continue
            acc = acc ^ j
    ct.store(y, (b,), acc)


@ct.kernel
def conditional_expr(x, y, flag: ct.Constant[bool], T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    w = v * 2 if flag else v - 1
    u = w + 1 if b > 0 else w
    t = (b > 0 and ct.sum(v) > 0) or b == 0
    if not t:
        u = u * 10
    ct.store(y, (b,), u)


@ct.kernel
def grid_3d(y, z):
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.num_blocks(0) + 10 * ct.num_blocks(1) + 100 * ct.num_blocks(2)
    ct.scatter(y, (i, j, k), i + 10 * j + 100 * k + 1000 * n)
    if i == 1 and j == 0 or k == 1:
        ct.atomic_add(z, 0, 1)


@ct.kernel
def empty_extent(x, y, n, T: Const):
    """Arrays of extent 0 and a loop of num_tiles 0."""
    b = ct.bid(0)
    acc = ct.full((1, T), 7.0, ct.float32)
    for k in range(ct.num_tiles(x, 1, (1, T))):
        acc = acc + ct.load(x, (b, k), (1, T), padding_mode=ZERO)
    ct.store(y, (b, 0), acc)


@ct.kernel
def many_args(a, b, c, d, e, f, g, h, i, j, k, l, out):
    ct.scatter(out, 0, (a + b * 2).astype(ct.float64))
    ct.scatter(out, 1, (c - d).astype(ct.float64))
    ct.scatter(out, 2, e.astype(ct.float64) + f)
    ct.scatter(out, 3, g.astype(ct.float64) * h)
    ct.scatter(out, 4, i.astype(ct.float64))
    ct.scatter(out, 5, j.astype(ct.float64))
    ct.scatter(out, 6, k.astype(ct.float64))
    ct.scatter(out, 7, l.astype(ct.float64))
