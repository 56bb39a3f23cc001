"""Control flow: loops that carry tiles and scalars, nesting, early exits, branches, early return."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def power_sum(x, y, n, T: Const):
    """A dynamic trip count and a carried tile: 1 + x + x^2 + ... by Horner's rule."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    acc = ct.ones((T,), ct.float32)
    for _ in range(n):
        acc = acc * v + 1.0
    ct.store(y, (b,), acc)


@ct.kernel
def swap_loop(x, y, a, b, n, T: Const):
    """Two carried tiles that change places every round (a parallel copy)."""
    p, q = ct.load(x, (0,), (T,)), ct.load(y, (0,), (T,))
    for _ in range(n):
        p, q = q, p + q
    ct.store(a, (0,), p)
    ct.store(b, (0,), q)


@ct.kernel
def nested_loops(x, y, n, m, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    acc = ct.zeros((T,), ct.int32)
    for i in range(n):
        inner = ct.zeros((T,), ct.int32)
        for j in range(1, m, 2):
            inner = inner + v * (j + i)
        acc = acc + inner - i
    ct.store(y, (b,), acc)


@ct.kernel
def collatz(x, y):
    """A scalar while loop whose length depends on the data."""
    b = ct.bid(0)
    v = ct.gather(x, b)
    steps = 0
    while v > 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps = steps + 1
    ct.scatter(y, b, steps)


@ct.kernel
def newton_sqrt(x, y, rounds, T: Const):
    """Iterates until the whole tile has converged: the loop condition is a reduction."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    r = v
    k = 0
    tally = 0
    while True:
        nxt = 0.5 * (r + v / r)
        gap = ct.max(ct.abs(nxt - r))
        r = nxt
        k = k + 1
        if gap < 1.0e-6:
            break
        if k >= 60:
            break
        tally = tally + 1
    ct.store(y, (b,), r)
    ct.scatter(rounds, b, k - tally)


@ct.kernel
def find_first(x, y, key, T: Const):
    """Walks over chunks and leaves the loop at the first hit; chunks without a hit continue."""
    r = ct.bid(0)
    found = -1
    seen = 0
    for k in range(ct.num_tiles(x, 1, (1, T))):
        v = ct.load(x, (r, k), (1, T), padding_mode=ZERO)
        hit = v == key
        seen = seen + 1
        if ct.max(hit.astype(ct.int32)) == 0:
            continue
        found = k * T + ct.argmax(hit.astype(ct.int32), 1).item()
        break
    ct.scatter(y, (r, 0), found)
    ct.scatter(y, (r, 1), seen)


@ct.kernel
def break_nested(x, y, T: Const):
    """Breaks out of the inner loop only, under two nested ifs."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    acc = ct.zeros((T,), ct.int32)
    for i in range(6):
        for j in range(6):
            if i > 1:
                if j * i > 7:
                    break
            if (i + j) % 3 == 0:
                continue
            acc = acc + v * (i + 1) + j
    ct.store(y, (b,), acc)


@ct.kernel
def branch_tiles(x, y, T: Const):
    """Both branches make a tile; which one runs depends on the block."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    if b % 3 == 0:
        r = ct.exp(v)
        s = 1.0
    elif b % 3 == 1:
        r = v * v
        s = 2.0
    else:
        r = -v
        s = ct.sum(v)
    ct.store(y, (b,), r * s)


@ct.kernel
def early_return(x, y, flags, T: Const):
    b = ct.bid(0)
    if ct.gather(flags, b) == 0:
        return
    ct.store(y, (b,), ct.load(x, (b,), (T,)) + 1.0)


@ct.kernel
def store_in_branch(x, y, limit, T: Const):
    """Memory effects inside both arms and after the join."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    if ct.sum(v) > limit:
        ct.store(y, (b,), v * 2)
    else:
        ct.store(y, (b,), v - 1)
    w = ct.load(y, (b,), (T,))
    ct.store(y, (b,), w + 1)


@ct.kernel
def in_place_rounds(x, n, T: Const):
    """Each round reads what the round before stored."""
    b = ct.bid(0)
    for k in range(n):
        v = ct.load(x, (b,), (T,))
        ct.store(x, (b,), v * 2 + k)


@ct.kernel
def zero_trips(x, y, n, T: Const):
    """A loop that does not run leaves its initial values."""
    b = ct.bid(0)
    acc = ct.load(x, (b,), (T,))
    last = -5
    for k in range(n, 3):
        acc = acc * 0
        last = k
    ct.store(y, (b,), acc + last)


@ct.kernel
def bisection(table, x, y, n, T: Const):
    """Every element searches a sorted table: a loop of gathers."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    lo = ct.zeros((T,), ct.int32)
    hi = ct.full((T,), n, ct.int32)
    for _ in range(10):
        mid = (lo + hi) // 2
        less = ct.gather(table, mid, padding_value=2147483647) < v
        active = lo < hi
        lo = ct.where(active & less, mid + 1, lo)
        hi = ct.where(active & ~less, mid, hi)
    ct.store(y, (b,), lo)


@ct.kernel
def fibonacci_mod(y, T: Const):
    """No input at all: block and iota only, 64-bit carried values."""
    b = ct.bid(0)
    k = ct.arange(T, dtype=ct.int64) + b * T
    p = ct.zeros((T,), ct.int64)
    q = ct.ones((T,), ct.int64)
    for i in range(40):
        take = i < k
        p, q = ct.where(take, q, p), ct.where(take, (p + q) % 1000007, q)
    ct.store(y, (b,), p)


@ct.kernel
def stencil_rounds(a, b, n, T: Const):
    """Ping-pong between two arrays with neighbours read at shifted places; one block, many rounds."""
    i = ct.arange(T, dtype=ct.int32)
    for _k in range(n):
        left = ct.gather(a, i - 1, padding_value=0)
        mid = ct.gather(a, i, padding_value=0)
        right = ct.gather(a, i + 1, padding_value=0)
        ct.scatter(b, i, left + 2 * mid + right)
        ct.scatter(a, i, ct.gather(b, i, padding_value=0) % 1009)
