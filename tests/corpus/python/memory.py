"""Gather, scatter, masks, histograms, locks, every atomic, and memory orders."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
MO, MS = ct.MemoryOrder, ct.MemoryScope


@ct.kernel
def gather_rows(x, index, y, M: Const, N: Const):
    """Embedding lookup with a row number per output row; numbers out of range read the padding."""
    b = ct.bid(0)
    rows = ct.gather(index, b * M + ct.arange(M, dtype=ct.int32), padding_value=-1)
    cols = ct.arange(N, dtype=ct.int32)
    v = ct.gather(x, (rows.reshape((M, 1)), cols.reshape((1, N))), padding_value=-7.0)
    ct.scatter(y, ((b * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1)), cols.reshape((1, N))), v)


@ct.kernel
def scatter_permuted(x, index, y, T: Const):
    b = ct.bid(0)
    i = b * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(y, ct.gather(index, i, padding_value=-1), ct.gather(x, i))


@ct.kernel
def masked_gather(x, index, keep, y, T: Const):
    """An explicit mask and the frontend's own bounds check together."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    m = ct.gather(keep, i, padding_value=0) != 0
    v = ct.gather(x, ct.gather(index, i, padding_value=0), mask=m, padding_value=-1)
    ct.scatter(y, i, v, mask=m)


@ct.kernel
def reverse(x, y, T: Const):
    """Negative steps: no vector access is possible."""
    n = x.shape[0]
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(y, i, ct.gather(x, n - 1 - i))


@ct.kernel
def strided_columns(x, y, step, T: Const):
    """Every step-th element of a row-major matrix, by computed offsets."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(y, i, ct.gather(x, (i % x.shape[0], (i * step) % x.shape[1])))


@ct.kernel
def histogram(x, counts, T: Const):
    """Many lanes hit the same counters."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.atomic_add(counts, ct.gather(x, i, padding_value=-1), 1)


@ct.kernel
def histogram_local(x, counts, T: Const, B: Const):
    """Counts inside the block by comparing with every bin, then one atomic per bin."""
    v = ct.load(x, (ct.bid(0),), (T,)).reshape((T, 1))
    bins = ct.arange(B, dtype=ct.int32)
    ct.atomic_add(counts, bins, ct.sum((v == bins.reshape((1, B))).astype(ct.int32), 0))


@ct.kernel
def weighted_histogram(x, w, sums, T: Const):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.atomic_add(sums, ct.gather(x, i, padding_value=-1), ct.gather(w, i))


@ct.kernel
def atomic_integers(x, add, lo, hi, band, bor, bxor, T: Const):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, i)
    k = i % add.shape[0]
    ct.atomic_add(add, k, v)
    ct.atomic_min(lo, k, v)
    ct.atomic_max(hi, k, v)
    ct.atomic_and(band, k, v)
    ct.atomic_or(bor, k, v)
    ct.atomic_xor(bxor, k, v)


@ct.kernel
def atomic_float_add(x, y, T: Const):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.atomic_add(y, i % y.shape[0], ct.gather(x, i))


@ct.kernel
def atomic_ticket(counter, order, T: Const):
    """The old values are distinct tickets: each is marked once."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ticket = ct.atomic_add(counter, ct.zeros((T,), ct.int32), 1)
    ct.atomic_add(order, ticket, (i >= 0).astype(ct.int32))


@ct.kernel
def atomic_exchange(x, y, T: Const):
    """Each place is swapped once, so old values are known."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    old = ct.atomic_xchg(x, i, i * 10)
    ct.scatter(y, i, old)


@ct.kernel
def atomic_compare_swap(x, y, T: Const):
    """Only places that hold 3 change; the old value comes back in any case."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(y, i, ct.atomic_cas(x, i, 3, 100 + i))


@ct.kernel
def cas_accumulate(x, y, T: Const):
    """A product of floats built from compare-and-swap in a loop, one scalar place shared by all blocks."""
    b = ct.bid(0)
    v = ct.prod(ct.load(x, (b,), (T,)))
    done = 0
    while done == 0:
        old = ct.gather(y, 0)
        seen = ct.atomic_cas(y, 0, old, old * v)
        if ct.bitcast(seen, ct.int32) == ct.bitcast(old, ct.int32):
            done = 1


@ct.kernel
def spin_lock(lock, total, x, T: Const):
    """Blocks take turns in a critical section that reads and writes plain memory."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=MO.ACQUIRE) == 1:
        pass
    ct.store(total, (0,), ct.load(total, (0,), (T,)) + v)
    ct.atomic_xchg(lock, 0, 0, memory_order=MO.RELEASE)


@ct.kernel
def last_block_sums(x, partial, counter, y, T: Const, B: Const):
    """Each block stores a partial sum; the last one to arrive adds them up."""
    b = ct.bid(0)
    ct.scatter(partial, b, ct.sum(ct.load(x, (b,), (T,))))
    arrived = ct.atomic_add(counter, 0, 1, memory_order=MO.ACQ_REL)
    if arrived == ct.num_blocks(0) - 1:
        ct.scatter(y, 0, ct.sum(ct.load(partial, (0,), (B,), padding_mode=ZERO)))


@ct.kernel
def ordered_access(flag, x, y, T: Const):
    """Acquire loads and release stores at device scope, on a tile."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), memory_order=MO.ACQUIRE, memory_scope=MS.DEVICE)
    ct.store(y, (b,), v + 1, memory_order=MO.RELEASE, memory_scope=MS.DEVICE)
    ct.store(flag, (b,), v, memory_order=MO.RELAXED, memory_scope=MS.SYS)


@ct.kernel
def view_reductions(x, add, lo, hi, bor, T: Const):
    """Atomic reductions through tiled views, without results."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    add.tiled_view((T,)).atomic_store_add((0,), v)
    lo.tiled_view((T,)).atomic_store_min((0,), v)
    hi.tiled_view((T,)).atomic_store_max((0,), v)
    bor.tiled_view((T,)).atomic_store_or((0,), v)


@ct.kernel
def view_reduction_float(x, y, M: Const, N: Const):
    """Column sums over row blocks through an atomic add on a 2-D view, ragged at the edge."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.sum(ct.load(x, (i, j), (M, N), padding_mode=ZERO), 0, keepdims=True)
    y.tiled_view((1, N)).atomic_store_add((0, j), v)


@ct.kernel
def raw_offsets(x, y, T: Const):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    v = x.get_raw_memory().load_offset(i * 2, mask=i < 90, padding_value=5)
    y.get_raw_memory().store_offset(i, v + 1, mask=i < 100)


@ct.kernel
def raw_atomics(x, y, T: Const):
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    m = i % 3 == 0
    raw = x.get_raw_memory()
    raw.atomic_add_offset(i % 16, i, mask=m)
    y.get_raw_memory().atomic_max_offset(i % 16, i, mask=~m)


@ct.kernel
def wide_index(x, y, T: Const):
    """Offsets computed in 64 bits."""
    i = ct.bid(0).astype(ct.int64) * T + ct.arange(T, dtype=ct.int64)
    v = ct.gather(x, (i * 2654435761) % x.shape[0])
    ct.scatter(y, i, v)


@ct.kernel
def graph_step(starts, targets, rank, out):
    """Sparse rows (CSR): a dynamic loop of gathers per block."""
    r = ct.bid(0)
    acc = ct.full((), 0.0, ct.float32)
    for k in range(ct.gather(starts, r), ct.gather(starts, r + 1)):
        acc = acc + ct.gather(rank, ct.gather(targets, k))
    ct.scatter(out, r, acc)


@ct.kernel
def compaction(x, y, count, T: Const):
    """Positive elements moved together: a scan gives their places."""
    v = ct.load(x, (0,), (T,), padding_mode=ZERO)
    m = v > 0
    at = ct.cumsum(m.astype(ct.int32), 0) - 1
    ct.scatter(y, ct.where(m, at, -1), v)
    ct.scatter(count, 0, ct.sum(m.astype(ct.int32)))


@ct.kernel
def prints(x, y, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.printf("block %d sum %d\n", b, ct.sum(v))
    print(f"tile {v}")
    ct.store(y, (b,), v + 1)


@ct.kernel
def asserts(x, y, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), padding_mode=ZERO)
    ct.assert_(v >= 0, "negative input")
    ct.store(y, (b,), v * 3)


@ct.kernel
def dependent_launch(x, y, T: Const):
    """Grid dependency control around ordinary work."""
    ct.grid_dependency_control_wait()
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.grid_dependency_control_launch_dependents()
    ct.store(y, (b,), v + 1)
