"""Whole algorithms: convolutions, attention, FFT, sorting, simulation."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
NEG_INF = ct.PaddingMode.NEG_INF


@ct.kernel
def conv1d(x, w, y, K: Const, T: Const):
    """Direct convolution with 'same' padding: shifted gathers."""
    i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    acc = ct.zeros((T,), ct.float32)
    for k in range(K):
        acc = acc + ct.gather(x, i + k - K // 2, padding_value=0.0) * ct.gather(w, k)
    ct.scatter(y, i, acc)


@ct.kernel
def conv2d_direct(x, w, y, M: Const, N: Const):
    """3 x 3, one channel, 'same'."""
    r = (ct.bid(0) * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    c = (ct.bid(1) * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    acc = ct.zeros((M, N), ct.float32)
    for dy in range(3):
        for dx in range(3):
            acc = acc + ct.gather(x, (r + dy - 1, c + dx - 1), padding_value=0.0) * ct.gather(w, (dy, dx))
    ct.scatter(y, (r, c), acc)


@ct.kernel
def conv2d_implicit_gemm(x, w, y, H: Const, W: Const, P: Const, CI: Const, CO: Const):
    """NHWC 3 x 3 valid convolution as a sum of nine matrix products over gathered pixels."""
    p = ct.bid(0) * P + ct.arange(P, dtype=ct.int32)
    oh, ow = H - 2, W - 2
    py, px = p // ow, p % ow
    ci = ct.arange(CI, dtype=ct.int32)
    acc = ct.zeros((P, CO), ct.float32)
    for dy in range(3):
        for dx in range(3):
            pixel = (py + dy) * W + px + dx
            pixel = ct.where(p < oh * ow, pixel, -1)
            a = ct.gather(x, (pixel.reshape((P, 1)), ci.reshape((1, CI))), padding_value=0.0)
            b = ct.load(w, (dy * 3 + dx, 0, 0), (1, CI, CO)).reshape((CI, CO))
            acc = ct.mma(a, b, acc)
    ct.store(y, (ct.bid(0), 0), acc)


@ct.kernel
def depthwise_conv(x, w, y, T: Const, C: Const):
    """Causal, four taps, per channel: the state of a state-space layer."""
    t = (ct.bid(0) * T + ct.arange(T, dtype=ct.int32)).reshape((T, 1))
    c = ct.arange(C, dtype=ct.int32).reshape((1, C))
    acc = ct.zeros((T, C), ct.float32)
    for k in range(4):
        acc = acc + ct.gather(x, (t + k - 3, c), padding_value=0.0) * ct.gather(w, (k, c))
    ct.scatter(y, (t, c), acc)


@ct.kernel
def attention(q, k, v, o, scale, M: Const, N: Const, D: Const, CAUSAL: Const):
    """Tiled attention with a running maximum; CAUSAL skips tiles above the diagonal."""
    h, i = ct.bid(1), ct.bid(0)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    length = k.shape[1]
    rows = (i * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    end = ct.cdiv(length, N)
    if CAUSAL == 1:
        end = ct.minimum(end, ct.cdiv((i + 1) * M, N))
    for j in range(end):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32)) * scale
        cols = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
        ok = cols < length
        if CAUSAL == 1:
            ok = ok & (cols <= rows)
        s = ct.where(ok, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.where(ok, ct.exp(s - new), 0.0)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def linear_attention(q, k, v, o, M: Const, D: Const):
    """Causal linear attention in chunks of M: the products of a chunk, and a matrix of state that every chunk adds to."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32).reshape((M, 1))
    columns = ct.arange(M, dtype=ct.int32).reshape((1, M))
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        vt = ct.load(v, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= columns, s, 0.0).astype(v.dtype)
        past = ct.mma(qt, state.astype(q.dtype), ct.zeros((M, D), ct.float32))
        ct.store(o, (h, i, 0), ct.mma(s, vt, past).astype(o.dtype).reshape((1, M, D)))
        state = ct.mma(ct.transpose(kt), vt, state)


@ct.kernel
def attention_of_batches(q, k, v, o, scale, M: Const, N: Const, D: Const):
    """Attention whose tiles keep the head as a batch of one."""
    h, i = ct.bid(1), ct.bid(0)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO)
    length = k.shape[1]
    top = ct.full((1, M, 1), -1.0e30, ct.float32)
    total = ct.zeros((1, M, 1), ct.float32)
    acc = ct.zeros((1, M, D), ct.float32)
    for j in range(ct.cdiv(length, N)):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO)
        s = ct.mma(qt, kt, ct.zeros((1, M, N), ct.float32)) * scale
        ok = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, 1, N)) < length
        s = ct.where(ok, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 2, keepdims=True))
        p = ct.where(ok, ct.exp(s - new), 0.0)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 2, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO)
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype))


@ct.kernel
def decode_attention(q, k, v, lengths, o, scale, N: Const, D: Const):
    """One query row per batch, every batch with its own length, no mma."""
    b = ct.bid(0)
    n = ct.gather(lengths, b)
    qt = ct.load(q, (b, 0), (1, D)).astype(ct.float32)
    top = ct.full((), -1.0e30, ct.float32)
    total = ct.full((), 0.0, ct.float32)
    acc = ct.zeros((D,), ct.float32)
    for j in range(ct.cdiv(n, N)):
        kt = ct.load(k, (b, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D)).astype(ct.float32)
        s = ct.sum(kt * qt, 1) * scale
        at = j * N + ct.arange(N, dtype=ct.int32)
        s = ct.where(at < n, s, -1.0e30)
        new = ct.maximum(top, ct.max(s))
        p = ct.where(at < n, ct.exp(s - new), 0.0)
        fix = ct.exp(top - new)
        vt = ct.load(v, (b, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D)).astype(ct.float32)
        acc = acc * fix + ct.sum(p.reshape((N, 1)) * vt, 0)
        total = total * fix + ct.sum(p)
        top = new
    ct.store(o, (b, 0), (acc / total).astype(o.dtype).reshape((1, D)))


@ct.kernel
def fft_stockham(re, im, out_re, out_im, N: Const, LOG: Const):
    """Radix-2 FFT of one row per block: each stage splits, turns and joins through reshapes."""
    b = ct.bid(0)
    xr = ct.load(re, (b, 0), (1, N)).reshape((N,))
    xi = ct.load(im, (b, 0), (1, N)).reshape((N,))
    for stage in ct.static_iter(range(LOG)):
        half = N // 2
        m = 2**stage
        ar, br = xr.extract((0,), (half,)), xr.extract((1,), (half,))
        ai, bi = xi.extract((0,), (half,)), xi.extract((1,), (half,))
        # Element p of the half is block p // m of twiddle group p % m.
        angle = (ct.arange(half, dtype=ct.int32) % m).astype(ct.float32) * (-3.141592653589793 / m)
        c, s = ct.cos(angle), ct.sin(angle)
        tr, ti = br * c - bi * s, br * s + bi * c
        sr, si = (ar + tr).reshape((half // m, 1, m)), (ai + ti).reshape((half // m, 1, m))
        dr, di = (ar - tr).reshape((half // m, 1, m)), (ai - ti).reshape((half // m, 1, m))
        xr = ct.cat((sr, dr), 1).reshape((N,))
        xi = ct.cat((si, di), 1).reshape((N,))
    ct.store(out_re, (b, 0), xr.reshape((1, N)))
    ct.store(out_im, (b, 0), xi.reshape((1, N)))


@ct.kernel
def dft_by_mma(re, im, cos, sin, out_re, out_im, B: Const, N: Const):
    """The same transform as products with the DFT matrix."""
    b = ct.bid(0)
    c, s = ct.load(cos, (0, 0), (N, N)), ct.load(sin, (0, 0), (N, N))
    r, i = ct.load(re, (b, 0), (B, N)), ct.load(im, (b, 0), (B, N))
    zero = ct.zeros((B, N), ct.float32)
    ct.store(out_re, (b, 0), ct.mma(r, c, ct.mma(i, s, zero)))
    ct.store(out_im, (b, 0), ct.mma(i, c, zero) - ct.mma(r, s, zero))


@ct.kernel
def bitonic_sort(x, y, N: Const, LOG: Const):
    """Sorts one row per block by compare-exchange steps on reshaped tiles."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0), (1, N)).reshape((N,))
    at = ct.arange(N, dtype=ct.int32)
    for k in ct.static_iter(range(1, LOG + 1)):
        up = (at >> k) % 2 == 0
        for j in ct.static_iter(range(k - 1, -1, -1)):
            d = 2**j
            pairs = v.reshape((N // (2 * d), 2, d))
            lo = pairs.extract((0, 0, 0), (N // (2 * d), 1, d))
            hi = pairs.extract((0, 1, 0), (N // (2 * d), 1, d))
            swapped = ct.cat((hi, lo), 1).reshape((N,))
            first = (at >> j) % 2 == 0
            v = ct.where(first == up, ct.minimum(v, swapped), ct.maximum(v, swapped))
    ct.store(y, (b, 0), v.reshape((1, N)))


@ct.kernel
def mandelbrot(y, width, height, rounds, M: Const, N: Const):
    """Escape times: a loop of selects, every element with its own end."""
    r = (ct.bid(0) * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    c = (ct.bid(1) * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    cr = ct.broadcast_to(c.astype(ct.float32) * (3.0 / width) - 2.0, (M, N))
    ci = ct.broadcast_to(r.astype(ct.float32) * (2.0 / height) - 1.0, (M, N))
    zr, zi = ct.zeros((M, N), ct.float32), ct.zeros((M, N), ct.float32)
    count = ct.zeros((M, N), ct.int32)
    for _ in range(rounds):
        inside = zr * zr + zi * zi <= 4.0
        nr = zr * zr - zi * zi + cr
        ni = 2.0 * zr * zi + ci
        zr, zi = ct.where(inside, nr, zr), ct.where(inside, ni, zi)
        count = count + inside.astype(ct.int32)
    ct.scatter(y, (r, c), count)


@ct.kernel
def life(x, y, M: Const, N: Const):
    """A step of Conway's game on a torus, in bytes."""
    h, w = x.shape
    r = (ct.bid(0) * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    c = (ct.bid(1) * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    around = ct.zeros((M, N), ct.int32)
    for dy in ct.static_iter(range(-1, 2)):
        for dx in ct.static_iter(range(-1, 2)):
            if ct.static_eval(dy != 0 or dx != 0):
                around = around + ct.gather(x, ((r + dy + h) % h, (c + dx + w) % w)).astype(ct.int32)
    own = ct.gather(x, (r, c)).astype(ct.int32)
    alive = (around == 3) | ((own == 1) & (around == 2))
    ct.scatter(y, (r, c), alive.astype(ct.int8))


@ct.kernel
def black_scholes(s, k, t, call, rate, vol, T: Const):
    """Option prices: log, sqrt, exp, division and a polynomial for the normal distribution."""
    b = ct.bid(0)
    spot, strike, years = ct.load(s, (b,), (T,)), ct.load(k, (b,), (T,)), ct.load(t, (b,), (T,))
    root = vol * ct.sqrt(years)
    d1 = (ct.log(spot / strike) + (rate + 0.5 * vol * vol) * years) / root
    d2 = d1 - root
    ct.store(call, (b,), spot * _normal(d1) - strike * ct.exp(-rate * years) * _normal(d2))


@ct.function
def _normal(d):
    u = 1.0 / (1.0 + 0.2316419 * ct.abs(d))
    poly = u * (0.31938153 + u * (-0.356563782 + u * (1.781477937 + u * (-1.821255978 + u * 1.330274429))))
    tail = 0.3989422804014327 * ct.exp(-0.5 * d * d) * poly
    return ct.where(d > 0.0, 1.0 - tail, tail)


@ct.kernel
def nbody(p, a, n, M: Const, N: Const):
    """Accelerations of M bodies per block against all others in chunks of N: positions in an n x 4 array."""
    i = ct.bid(0)
    me = ct.load(p, (i, 0), (M, 4), padding_mode=ZERO)
    x, y, z = me.extract((0, 0), (M, 1)), me.extract((0, 1), (M, 1)), me.extract((0, 2), (M, 1))
    ax, ay, az = ct.zeros((M, N), ct.float32), ct.zeros((M, N), ct.float32), ct.zeros((M, N), ct.float32)
    for j in range(ct.cdiv(n, N)):
        other = ct.transpose(ct.load(p, (j, 0), (N, 4), padding_mode=ZERO))
        dx = other.extract((0, 0), (1, N)) - x
        dy = other.extract((1, 0), (1, N)) - y
        dz = other.extract((2, 0), (1, N)) - z
        mass = other.extract((3, 0), (1, N))
        inv = ct.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
        f = mass * inv * inv * inv
        ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
    rows = i * M + ct.arange(M, dtype=ct.int32)
    ct.scatter(a, (rows, 0), ct.sum(ax, 1))
    ct.scatter(a, (rows, 1), ct.sum(ay, 1))
    ct.scatter(a, (rows, 2), ct.sum(az, 1))


@ct.kernel
def top_k(x, value, index, N: Const, K: Const):
    """The K largest of a row by repeated argmax and exclusion."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG_INF).reshape((N,))
    at = ct.arange(N, dtype=ct.int32)
    for k in range(K):
        best = ct.argmax(v, 0)
        ct.scatter(value, (r, k), ct.max(v, 0))
        ct.scatter(index, (r, k), best)
        v = ct.where(at == best, -1.0e30, v)


@ct.kernel
def nearest_center(x, centers, label, M: Const, K: Const, D: Const):
    """k-means assignment: squared distances by a product, then argmin."""
    i = ct.bid(0)
    a = ct.load(x, (i, 0), (M, D), padding_mode=ZERO)
    c = ct.load(centers, (0, 0), (K, D), padding_mode=ZERO)
    dot = ct.mma(a, ct.transpose(c), ct.zeros((M, K), ct.float32))
    distance = ct.sum(c * c, 1).reshape((1, K)) - 2.0 * dot
    ct.store(label, (i,), ct.argmin(distance, 1))


@ct.kernel
def state_space(a, x, b, c, y, T: Const, N: Const):
    """A recurrence over time with a carried state vector: h = a h + b x, y = sum(c h)."""
    r = ct.bid(0)
    h = ct.zeros((N,), ct.float32)
    decay = ct.load(a, (r, 0), (1, N)).reshape((N,))
    for t in range(T):
        h = decay * h + ct.load(b, (t, 0), (1, N)).reshape((N,)) * ct.gather(x, (r, t))
        ct.scatter(y, (r, t), ct.sum(h * ct.load(c, (t, 0), (1, N)).reshape((N,))))


@ct.kernel
def two_signatures(x, y, T: Const, D: Const):
    """Exported several times into one file, with different types and constants."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.store(y, (b,), v * D + v)


@ct.kernel(num_ctas=2, occupancy=2)
def hinted(x, y, T: Const):
    """Optimization hints on the entry and on the accesses."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), latency=3, allow_tma=False)
    ct.store(y, (b,), v + 1.0, latency=2)


@ct.kernel
def quantized_attention(q, k, sq, sk, v, o, M: Const, N: Const, D: Const):
    """Scores of 8-bit integers with a factor a row of Q and of K, probabilities and V in 16 bits."""
    h, i = ct.bid(1), ct.bid(0)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    rows = ct.load(sq, (h, i), (1, M), padding_mode=ZERO).reshape((M, 1)) * 1.4426950408889634
    length = k.shape[1]
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(length, N)):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        columns = ct.load(sk, (h, j), (1, N), padding_mode=ZERO)
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.int32)).astype(ct.float32) * rows * columns
        s = ct.where((j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N)) < length, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def complex_product(ar, ai, br, bi, cr, ci, TM: Const, TN: Const, TK: Const):
    """Complex numbers in two planes each: every sum is of two products a step, one of them negated."""
    m, n = ct.bid(0), ct.bid(1)
    real = ct.zeros((TM, TN), ct.float32)
    imag = ct.zeros((TM, TN), ct.float32)
    for k in range(ct.cdiv(ar.shape[1], TK)):
        xr = ct.load(ar, (m, k), (TM, TK), padding_mode=ZERO)
        xi = ct.load(ai, (m, k), (TM, TK), padding_mode=ZERO)
        yr = ct.load(br, (k, n), (TK, TN), padding_mode=ZERO)
        yi = ct.load(bi, (k, n), (TK, TN), padding_mode=ZERO)
        real = ct.mma(-xi, yi, ct.mma(xr, yr, real))
        imag = ct.mma(xi, yr, ct.mma(xr, yi, imag))
    ct.store(cr, (m, n), real)
    ct.store(ci, (m, n), imag)


@ct.kernel
def running_states(k, v, s, scale, M: Const, D: Const, BEFORE: Const, AFTER: Const):
    """A matrix of state that every chunk adds to, written before it does (halves), and after."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    for i in range(ct.cdiv(k.shape[1], M)):
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        vt = ct.load(v, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        if BEFORE:
            ct.store(s, (h, 2 * i, 0, 0), (state * 0.5).reshape((1, 1, D, D)))
        state = ct.mma(ct.transpose(kt), vt, state)
        if AFTER:
            ct.store(s, (h, 2 * i + 1, 0, 0), (state * scale).reshape((1, 1, D, D)))


@ct.kernel
def distance_attention(q, k, v, o, slopes, scale, M: Const, N: Const, D: Const):
    """Causal attention with a bias that falls with distance, a slope for every head."""
    i, h = ct.bid(0), ct.bid(1)
    length = k.shape[1]
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
    slope = ct.load(slopes, (h,), (1,)).reshape((1, 1))
    for j in range(ct.minimum(ct.cdiv(length, N), ct.cdiv((i + 1) * M, N))):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        columns = j * N + ct.arange(N, dtype=ct.int32).reshape((1, N))
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32)) * scale + slope * (columns - rows).astype(ct.float32)
        s = ct.where((columns < length) & (columns <= rows), s * 1.4426950408889634, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))
