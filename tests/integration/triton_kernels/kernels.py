"""Kernels in Triton, written for the emulator's tests: what Triton makes of them is PTX of another compiler's experts."""

# mypy: ignore-errors
# ruff: noqa
import triton, triton.language as tl


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    G: tl.constexpr,
    OUT: tl.constexpr,
):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (G * nn)
    first = group * G
    size = min(nm - first, G)
    pm = first + (pid % (G * nn)) % size
    pn = (pid % (G * nn)) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    a = a_ptr + rm[:, None] * sam + rk[None, :] * sak
    b = b_ptr + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), OUT)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a, mask=rk[None, :] < K - k * BK, other=0.0)
        y = tl.load(b, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc, out_dtype=OUT)
        a += BK * sak
        b += BK * sbk
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    tl.store(
        c_ptr + rm[:, None] * scm + rn[None, :] * scn,
        acc.to(c_ptr.dtype.element_ty),
        mask=(rm[:, None] < M) & (rn[None, :] < N),
    )


@triton.jit
def matmul_desc(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    start = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(start, nm * nn, tl.num_programs(0), flatten=False, warp_specialize=False):
        pm, pn = tile // nn, tile % nn
        acc = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(tl.cdiv(K, BK), warp_specialize=WS):
            x = a.load([pm * BM, k * BK])
            y = b.load([pn * BN, k * BK])
            acc = tl.dot(x, y.T, acc)
        c.store([pm * BM, pn * BN], acc.to(tl.float16))


@triton.jit
def scaled(
    a_ptr,
    sa_ptr,
    b_ptr,
    sb_ptr,
    c_ptr,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    KIND: tl.constexpr,
    PACK: tl.constexpr,
    V: tl.constexpr,
):
    rm, rn = tl.arange(0, BM), tl.arange(0, BN)
    rk, rs = tl.arange(0, BK // PACK), tl.arange(0, BK // V)
    acc = tl.zeros((BM, BN), tl.float32)
    KB, KS = K // PACK, K // V
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a_ptr + rm[:, None] * KB + (k * (BK // PACK) + rk)[None, :])
        y = tl.load(b_ptr + rn[None, :] * KB + (k * (BK // PACK) + rk)[:, None])
        sx = tl.load(sa_ptr + rm[:, None] * KS + (k * (BK // V) + rs)[None, :])
        sy = tl.load(sb_ptr + rn[:, None] * KS + (k * (BK // V) + rs)[None, :])
        acc = tl.dot_scaled(x, sx, KIND, y, sy, KIND, acc)
    tl.store(c_ptr + rm[:, None] * BN + rn[None, :], acc)


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    l_ptr,
    scale,
    T,
    CAUSAL: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    start, head = tl.program_id(0), tl.program_id(1)
    base = head * T * D
    rm = start * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < T, other=0.0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum(T, (start + 1) * BM) if CAUSAL else T
    for n in range(0, end, BN):
        rn = n + tl.arange(0, BN)
        k = tl.load(k_ptr + base + rn[None, :] * D + rd[:, None], mask=rn[None, :] < T, other=0.0)
        s = tl.dot(q, k) * (scale * 1.44269504)
        live = rn[None, :] < T
        if CAUSAL:
            live = live & (rm[:, None] >= rn[None, :])
        s = tl.where(live, s, -1.0e30)
        mm = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - mm[:, None])
        alpha = tl.math.exp2(m - mm)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = mm
    acc = acc / l[:, None]
    tl.store(o_ptr + base + rm[:, None] * D + rd[None, :], acc.to(tl.float16), mask=rm[:, None] < T)
    tl.store(l_ptr + head * T + rm, m + tl.math.log2(l), mask=rm < T)


@triton.jit
def attention_desc(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    scale,
    T,
    H,
    WS: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
):
    start, head = tl.program_id(0), tl.program_id(1)
    q_d = tl.make_tensor_descriptor(q_ptr, [H * T, D], [D, 1], [BM, D])
    k_d = tl.make_tensor_descriptor(k_ptr, [H * T, D], [D, 1], [BN, D])
    v_d = tl.make_tensor_descriptor(v_ptr, [H * T, D], [D, 1], [BN, D])
    o_d = tl.make_tensor_descriptor(o_ptr, [H * T, D], [D, 1], [BM, D])
    base = head * T
    q = q_d.load([base + start * BM, 0])
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for n in tl.range(0, T, BN, warp_specialize=WS):
        k = k_d.load([base + n, 0])
        s = tl.dot(q, k.T) * (scale * 1.44269504)
        mm = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - mm[:, None])
        alpha = tl.math.exp2(m - mm)
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_d.load([base + n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = mm
    o_d.store([base + start * BM, 0], (acc / l[:, None]).to(tl.float16))


@triton.jit
def layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, B: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([B], tl.float32)
    for off in range(0, N, B):
        c = off + tl.arange(0, B)
        total += tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / N
    var = tl.zeros([B], tl.float32)
    for off in range(0, N, B):
        c = off + tl.arange(0, B)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        x = tl.where(c < N, x - mean, 0.0)
        var += x * x
    rstd = 1 / tl.sqrt(tl.sum(var, 0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for off in range(0, N, B):
        c = off + tl.arange(0, B)
        w = tl.load(w_ptr + c, mask=c < N)
        b = tl.load(b_ptr + c, mask=c < N)
        x = tl.load(x_ptr + c, mask=c < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + c, ((x - mean) * rstd * w + b).to(y_ptr.dtype.element_ty), mask=c < N)


@triton.jit
def layer_norm_bwd(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, lock_ptr, N, G: tl.constexpr, B: tl.constexpr
):
    row = tl.program_id(0)
    c = tl.arange(0, B)
    live = c < N
    x = tl.load(x_ptr + row * N + c, mask=live, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * N + c, mask=live, other=0).to(tl.float32)
    w = tl.load(w_ptr + c, mask=live).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    xh = tl.where(live, (x - mean) * rstd, 0.0)
    wdy = tl.where(live, w * dy, 0.0)
    c1 = tl.sum(xh * wdy, 0) / N
    c2 = tl.sum(wdy, 0) / N
    tl.store(dx_ptr + row * N + c, (wdy - (xh * c1 + c2)) * rstd, mask=live)
    part = dy * xh
    slot = row % G
    lock = lock_ptr + slot
    count = lock_ptr + G + slot
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    n = tl.load(count)
    d = dw_ptr + slot * N + c
    if n == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(d, mask=live)
    tl.store(d, part, mask=live)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def softmax(o_ptr, i_ptr, rows, N, B: tl.constexpr, S: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=S):
        c = tl.arange(0, B)
        x = tl.load(i_ptr + row * N + c, mask=c < N, other=-float("inf"))
        x = x - tl.max(x, 0)
        e = tl.exp(x)
        tl.store(o_ptr + row * N + c, e / tl.sum(e, 0), mask=c < N)


@triton.jit
def mix(x_ptr, h_ptr, s_ptr, c_ptr, g_ptr, a_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(h_ptr + tl.arange(0, 64), tl.histogram(x, 64))
    tl.store(s_ptr + i, tl.sort(x))
    tl.store(c_ptr + i, tl.cumsum(x, 0))
    tl.store(g_ptr + i, tl.gather(x, (i * 7) % N, 0))
    tl.store(a_ptr + 0, tl.argmax(x, 0))
    tl.store(a_ptr + 1, tl.xor_sum(x, 0))
    tl.atomic_add(a_ptr + 2 + (x & 7), 1)
    tl.atomic_max(a_ptr + 10 + 0 * x, x)
    f = x.to(tl.float32)
    tl.atomic_add((a_ptr + 16).to(tl.pointer_type(tl.float32)) + (x & 7), f)
    tl.atomic_add((a_ptr + 24).to(tl.pointer_type(tl.float16)) + (x & 7), f.to(tl.float16))
    tl.atomic_max((a_ptr + 32).to(tl.pointer_type(tl.float32)) + (x & 1), f - 20.0)


@triton.jit
def floats(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, tl.exp(x))
    tl.store(y_ptr + N + i, tl.log(tl.abs(x) + 0.5))
    tl.store(y_ptr + 2 * N + i, tl.sin(x))
    tl.store(y_ptr + 3 * N + i, tl.rsqrt(tl.abs(x) + 0.5))
    tl.store(y_ptr + 4 * N + i, tl.erf(x))
    tl.store(y_ptr + 5 * N + i, tl.floor(x) + tl.ceil(x))
    tl.store(y_ptr + 6 * N + i, tl.sigmoid(x))
    tl.store(y_ptr + 7 * N + i, tl.fdiv(x, tl.abs(x) + 1.0))
    tl.store(y_ptr + 8 * N + i, x.to(tl.float8e4nv).to(tl.float32))
    tl.store(y_ptr + 9 * N + i, x.to(tl.float8e5).to(tl.float32))
    tl.store(y_ptr + 10 * N + i, x.to(tl.bfloat16).to(tl.float32))
    tl.store(y_ptr + 11 * N + i, tl.rand(7, i))
    tl.store(y_ptr + 12 * N + i, tl.randn(7, i))
    tl.store(y_ptr + 13 * N + i, tl.cumprod(tl.abs(x) * 0.0 + 1.001, 0))
    tl.store(y_ptr + 14 * N + i, tl.flip(x))
    tl.store(y_ptr + 15 * N + i, tl.math.fma(x, x, x))
