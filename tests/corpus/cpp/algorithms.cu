// Whole algorithms in Tile C++: attention, convolutions, transforms, sorting, norms, products in every type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_tf32.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;
using ext1 = ct::extents<int, ct::dynamic_extent>;
using ext2 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent>;
using ext3 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent, ct::dynamic_extent>;

template <size_t M, size_t N, typename T>
__tile__ auto blocks(T *p, int rows, int cols) {
  return ct::partition_view(ct::tensor_span(p, ext2(rows, cols)), ct::shape<M, N>{});
}

// Causal attention with running maximum and sum: one block of rows against all blocks of keys up to it.
template <size_t M, size_t N, size_t D>
__tile__ void attend(const __half *q, const __half *k, const __half *v, float *o, int length, float scale) {
  int i = ct::bid().x;
  auto qt = blocks<M, D>(q, length, int(D)).load_masked(i, 0);
  auto kv = blocks<N, D>(k, length, int(D));
  auto vv = blocks<N, D>(v, length, int(D));
  auto best = ct::full<tile<float, M, 1>>(-1e30f);
  auto total = ct::zeros<tile<float, M, 1>>();
  auto acc = ct::zeros<tile<float, M, D>>();
  auto row = ct::reshape<ct::shape<M, 1>>(ct::iota<tile<int, M>>()) + i * int(M);
  auto col = ct::reshape<ct::shape<1, N>>(ct::iota<tile<int, N>>());
  int reach = (i + 1) * int(M) < length ? (i + 1) * int(M) : length, last = (reach + int(N) - 1) / int(N);
  for (int j = 0; j < last; ++j) {
    auto s = ct::mma(qt, ct::transpose(kv.load_masked(j, 0)), ct::zeros<tile<float, M, N>>()) * scale;
    auto at = col + j * int(N);
    s = ct::select(at <= row && at < length, s, ct::full<tile<float, M, N>>(-1e30f));
    auto top = ct::max(best, ct::reduce_max(s, 1_ic));
    auto p = ct::exp(s - top);
    auto shrink = ct::exp(best - top);
    total = total * shrink + ct::sum(p, 1_ic);
    acc = ct::mma(ct::element_cast<__half>(p), vv.load_masked(j, 0), acc * shrink);
    best = top;
  }
  blocks<M, D>(o, length, int(D)).store_masked(acc / total, i, 0);
}
extern "C" __tile_global__ void alg_attention(const __half *q, const __half *k, const __half *v, float *o, int length,
                                              float scale) {
  attend<32, 16, 32>(q, k, v, o, length, scale);
}

// A 3 x 3 convolution over an image in pointer tiles, zero outside.
extern "C" __tile_global__ void alg_conv2d(const float *x, const float *w, float *y, int rows, int cols) {
  auto r = ct::reshape<ct::shape<8, 1>>(ct::iota<tile<int, 8>>()) + int(ct::bid().x) * 8;
  auto c = ct::reshape<ct::shape<1, 32>>(ct::iota<tile<int, 32>>()) + int(ct::bid().y) * 32;
  auto acc = ct::zeros<tile<float, 8, 32>>();
  for (int dr = -1; dr <= 1; ++dr)
    for (int dc = -1; dc <= 1; ++dc) {
      auto in = (r + dr >= 0) && (r + dr < rows) && (c + dc >= 0) && (c + dc < cols);
      acc = ct::fma(ct::load_masked(x + ((r + dr) * cols + (c + dc)), in, 0.0f), w[(dr + 1) * 3 + dc + 1], acc);
    }
  ct::store_masked(y + (r * cols + c), acc, (r < rows) && (c < cols));
}

// A convolution of channels as products: for each tap a matrix [out, in] times a window of [in, positions].
extern "C" __tile_global__ void alg_conv1d_channels(const __half *x, const __half *w, float *y, int length) {
  int b = ct::bid().x;
  auto in = ct::strided_view(ct::tensor_span(x, ext2(16, length)), ct::shape<16, 32>{}, ct::strides<int, 16, 1>{});
  auto taps = ct::partition_view(ct::tensor_span(w, ct::extents<int, 3, 32, 16>{}), ct::shape<1, 32, 16>{});
  auto acc = ct::zeros<tile<float, 32, 32>>();
  for (int t = 0; t < 3; ++t)
    acc = ct::mma(ct::reshape<ct::shape<32, 16>>(taps.load(t, 0, 0)), in.load_masked(0, b * 32 + t), acc);
  blocks<32, 32>(y, 32, length - 2).store_masked(acc, 0, b);
}

// Max and mean of windows that overlap.
extern "C" __tile_global__ void alg_pool(const float *x, float *high, float *mean, int rows, int cols) {
  int i = ct::bid().x, j = ct::bid().y;
  auto win = ct::strided_view(ct::tensor_span(x, ext2(rows, cols)), ct::shape<4, 4>{}, ct::strides<int, 2, 2>{});
  auto v = win.load_masked(ct::view_padding_negative_inf_t{}, i, j);
  int at = i * int(ct::num_blocks().y) + j;
  high[at] = float(ct::reshape<ct::shape<>>(ct::reduce_max(ct::reduce_max(v, 0_ic), 1_ic)));
  auto z = win.load_masked(i, j);
  mean[at] = float(ct::reshape<ct::shape<>>(ct::sum(ct::sum(z, 1_ic), 0_ic))) / 16.0f;
}

// A transform of 64 complex numbers: radix 2, by reshapes that pair what is apart.
template <size_t Half>
__tile__ void stage(tile<float, 64> &re, tile<float, 64> &im) {
  constexpr size_t groups = 32 / Half;
  auto r = ct::reshape<ct::shape<groups, 2, Half>>(re), i = ct::reshape<ct::shape<groups, 2, Half>>(im);
  using part = ct::shape<groups, 1, Half>;
  auto r0 = ct::extract(r, part{}, 0, 0, 0), r1 = ct::extract(r, part{}, 0, 1, 0);
  auto i0 = ct::extract(i, part{}, 0, 0, 0), i1 = ct::extract(i, part{}, 0, 1, 0);
  auto angle = ct::reshape<ct::shape<1, 1, Half>>(ct::element_cast<float>(ct::iota<tile<int, Half>>())) *
               (-3.14159265358979f / float(Half));
  auto c = ct::cos(angle), s = ct::sin(angle);
  auto tr = r1 * c - i1 * s, ti = r1 * s + i1 * c;
  re = ct::reshape<ct::shape<64>>(ct::cat(r0 + tr, r0 - tr, 1_ic));
  im = ct::reshape<ct::shape<64>>(ct::cat(i0 + ti, i0 - ti, 1_ic));
}
extern "C" __tile_global__ void alg_fft(const float *x, float *y) {
  auto k = ct::iota<tile<int, 64>>();
  auto rev = ct::zeros<tile<int, 64>>();
  for (int b = 0; b < 6; ++b) rev = rev | (((k >> b) & 1) << (5 - b));
  int base = int(ct::bid().x) * 128;
  auto re = ct::load(x + (rev * 2 + base)), im = ct::load(x + (rev * 2 + (base + 1)));
  stage<1>(re, im);
  stage<2>(re, im);
  stage<4>(re, im);
  stage<8>(re, im);
  stage<16>(re, im);
  stage<32>(re, im);
  ct::store(y + (k * 2 + base), re);
  ct::store(y + (k * 2 + (base + 1)), im);
}

// Bitonic sort of 128 keys with their places.
extern "C" __tile_global__ void alg_sort(int *keys, int *places) {
  auto i = ct::iota<tile<int, 128>>();
  auto key = ct::load(keys + i), at = i;
  for (int size = 2; size <= 128; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      // what lies `step` away, fetched through memory: the exchange is a run-time permutation
      ct::store(keys + i, key);
      ct::store(places + i, at);
      auto other = i ^ step;
      auto k2 = ct::load(keys + other), a2 = ct::load(places + other);
      auto low = (i & step) == 0, up = (i & size) == 0;
      auto mine = (key < k2) || (key == k2 && at < a2);
      auto keep = (low == up) == mine;
      key = ct::select(keep, key, k2);
      at = ct::select(keep, at, a2);
    }
  ct::store(keys + i, key);
  ct::store(places + i, at);
}

// Ranks by comparing everything with everything.
extern "C" __tile_global__ void alg_rank(const float *x, int *rank) {
  auto i = ct::iota<tile<int, 64>>();
  auto v = ct::load(x + i);
  auto a = ct::reshape<ct::shape<64, 1>>(v);
  auto b = ct::reshape<ct::shape<1, 64>>(v);
  auto ia = ct::reshape<ct::shape<64, 1>>(i);
  auto ib = ct::reshape<ct::shape<1, 64>>(i);
  auto before = (b < a) || (b == a && ib < ia);
  ct::store(rank + i, ct::reshape<ct::shape<64>>(ct::sum(ct::element_cast<int>(before), 1_ic)));
}

// Histogram of a block without atomics: one comparison with all bins, then counts.
extern "C" __tile_global__ void alg_histogram(const unsigned char *x, int *bins, int n) {
  auto bin = ct::reshape<ct::shape<32, 1>>(ct::iota<tile<int, 32>>());
  auto acc = ct::zeros<tile<int, 32, 1>>();
  for (int s : ct::irange(0, n, 64)) {
    auto i = ct::iota<tile<int, 64>>() + s;
    auto v = ct::reshape<ct::shape<1, 64>>(ct::element_cast<int>(ct::load_masked(x + i, i < n, (unsigned char)255)) >> 3);
    auto here = ct::reshape<ct::shape<1, 64>>(i < n);
    acc = acc + ct::sum(ct::element_cast<int>(v == bin && here), 1_ic);
  }
  ct::store(bins + ct::iota<tile<int, 32>>(), ct::reshape<ct::shape<32>>(acc));
}

// Statistics in one pass, and what is made of them.
extern "C" __tile_global__ void alg_rms_norm(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, int rows, int cols) {
  int r = ct::bid().x;
  auto in = blocks<1, 128>(x, rows, cols);
  auto total = ct::zeros<tile<float, 1, 1>>();
  for (int j : ct::irange(0, (cols + 127) / 128)) {
    auto v = ct::element_cast<float>(in.load_masked(r, j));
    total = total + ct::sum(v * v, 1_ic);
  }
  auto scale = ct::rsqrt(total / float(cols) + 1e-6f);
  auto weights = ct::partition_view(ct::tensor_span(w, ext1(cols)), ct::shape<128>{});
  for (int j : ct::irange(0, (cols + 127) / 128)) {
    auto v = ct::element_cast<float>(in.load_masked(r, j)) * scale;
    auto g = ct::reshape<ct::shape<1, 128>>(ct::element_cast<float>(weights.load_masked(j)));
    blocks<1, 128>(y, rows, cols).store_masked(ct::element_cast<__nv_bfloat16>(v * g), r, j);
  }
}

extern "C" __tile_global__ void alg_batch_norm(const float *x, float *y, float *mean, float *var, int rows, int cols) {
  int j = ct::bid().x;
  auto in = blocks<16, 16>(x, rows, cols);
  auto s = ct::zeros<tile<float, 1, 16>>(), q = s;
  int steps = (rows + 15) / 16;
  for (int i = 0; i < steps; ++i) {
    auto v = in.load_masked(i, j);
    s = s + ct::sum(v, 0_ic);
    q = q + ct::sum(v * v, 0_ic);
  }
  auto m = s / float(rows), d = q / float(rows) - m * m;
  blocks<1, 16>(mean, 1, cols).store_masked(m, 0, j);
  blocks<1, 16>(var, 1, cols).store_masked(d, 0, j);
  for (int i = 0; i < steps; ++i)
    blocks<16, 16>(y, rows, cols).store_masked((in.load_masked(i, j) - m) * ct::rsqrt(d + 1e-5f), i, j);
}

// Reductions of rank 3 along each axis, in several types, and the places of extremes.
extern "C" __tile_global__ void alg_reduce3(const short *x, int *a, short *b, unsigned *c, long long *d) {
  auto v = ct::partition_view(ct::tensor_span(x, ct::extents<int, 8, 4, 16>{}), ct::shape<8, 4, 16>{}).load(0, 0, 0);
  auto w = ct::element_cast<int>(v);
  ct::store(a + ct::iota<tile<int, 64>>(), ct::reshape<ct::shape<64>>(ct::sum(w, 0_ic)));
  ct::store(b + ct::iota<tile<int, 128>>(), ct::reshape<ct::shape<128>>(ct::reduce_min(v, 1_ic)));
  ct::store(c + ct::iota<tile<int, 32>>(), ct::reshape<ct::shape<32>>(ct::min_element(v, 2_ic)));
  ct::store(d + ct::iota<tile<int, 32>>(),
            ct::reshape<ct::shape<32>>(ct::prod(ct::element_cast<long long>(v & short(3)) + 1ll, 2_ic)));
}

extern "C" __tile_global__ void alg_bits(const unsigned long long *x, unsigned long long *y, bool *z) {
  auto v = ct::reshape<ct::shape<4, 32>>(ct::load(x + ct::iota<tile<int, 128>>()));
  auto i = ct::iota<tile<int, 4>>();
  ct::store(y + i, ct::reshape<ct::shape<4>>(ct::reduce_bitand(v, 1_ic)));
  ct::store(y + (i + 4), ct::reshape<ct::shape<4>>(ct::reduce_bitor(v, 1_ic)));
  ct::store(y + (i + 8), ct::reshape<ct::shape<4>>(ct::reduce_bitxor(v, 1_ic)));
  ct::store(z + i, ct::reshape<ct::shape<4>>(ct::any_of((v & 255ull) == 7ull, 1_ic)));
}

// Prefix sums and products of floats, both ways, with a rounding of their own.
extern "C" __tile_global__ void alg_scan(const double *x, double *a, double *b, float *c) {
  auto v = blocks<16, 32>(x, 16, 32).load(0, 0);
  blocks<16, 32>(a, 16, 32).store(ct::partial_sum(v, 0_ic), 0, 0);
  blocks<16, 32>(b, 16, 32).store(ct::partial_prod(v, 1_ic, ct::scan_backward_t{}), 0, 0);
  blocks<16, 32>(c, 16, 32).store(ct::partial_sum(ct::element_cast<float>(ct::floor(v * 8.0)), 1_ic, ct::scan_backward_t{}), 0, 0);
}

// Products: batched with one operand for all, in every type that has a product.
extern "C" __tile_global__ void alg_batched(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
  auto av = ct::partition_view(ct::tensor_span(a, ct::extents<int, 4, 16, 32>{}), ct::shape<4, 16, 32>{}).load(0, 0, 0);
  auto bv = ct::partition_view(ct::tensor_span(b, ct::extents<int, 1, 32, 16>{}), ct::shape<1, 32, 16>{}).load(0, 0, 0);
  auto cv = ct::partition_view(ct::tensor_span(c, ct::extents<int, 4, 16, 16>{}), ct::shape<4, 16, 16>{});
  cv.store(ct::mma(av, bv, ct::full<tile<float, 4, 16, 16>>(0.5f)), 0, 0, 0);
}
extern "C" __tile_global__ void alg_mma_half(const __half *a, const __half *b, __half *c) {
  blocks<32, 32>(c, 32, 32).store(ct::matmul(blocks<32, 16>(a, 32, 16).load(0, 0), blocks<16, 32>(b, 16, 32).load(0, 0)), 0, 0);
}
extern "C" __tile_global__ void alg_mma_tf32(const float *a, const float *b, float *c) {
  auto x = ct::element_cast<__nv_tf32>(blocks<32, 32>(a, 32, 32).load(0, 0));
  auto y = ct::element_cast<__nv_tf32>(blocks<32, 16>(b, 32, 16).load(0, 0));
  blocks<32, 16>(c, 32, 16).store(ct::mma(x, y, ct::zeros<tile<float, 32, 16>>()), 0, 0);
}
template <typename A, typename B>
__tile_global__ void alg_mma_bytes(const A *a, const B *b, int *c) {
  blocks<16, 32>(c, 16, 32).store(
      ct::mma(blocks<16, 64>(a, 16, 64).load(0, 0), blocks<64, 32>(b, 64, 32).load(0, 0), ct::full<tile<int, 16, 32>>(-9)), 0, 0);
}
template __tile_global__ void alg_mma_bytes(const unsigned char *, const unsigned char *, int *);
template __tile_global__ void alg_mma_bytes(const signed char *, const unsigned char *, int *);
extern "C" __tile_global__ void alg_mma_f64(const double *a, const double *b, double *c, int k) {
  auto acc = ct::zeros<tile<double, 32, 8>>();
  for (int s : ct::irange(0, k / 16)) acc = ct::mma(blocks<32, 16>(a, 32, k).load(0, s), blocks<16, 8>(b, k, 8).load(s, 0), acc);
  blocks<32, 8>(c, 32, 8).store(acc, 0, 0);
}

// Shares of a long product are added by atomics.
extern "C" __tile_global__ void alg_split_k(const __half *a, const __half *b, float *c, int m, int n, int k, int share) {
  int i = ct::bid().x, j = ct::bid().y, s = ct::bid().z;
  auto acc = ct::zeros<tile<float, 32, 32>>();
  for (int t : ct::irange(s * share, (s + 1) * share))
    acc = ct::mma(blocks<32, 16>(a, m, k).load_masked(i, t), blocks<16, 32>(b, k, n).load_masked(t, j), acc);
  blocks<32, 32>(c, m, n).atomic_add(acc, ct::memory_order_relaxed_t{}, ct::thread_scope_device_t{}, i, j);
}

// Few blocks walk over many tiles of the result.
extern "C" __tile_global__ void alg_persistent(const __half *a, const __half *b, __half *c, int m, int n, int k) {
  int across = (n + 31) / 32, tiles = (m + 31) / 32 * across;
  for (int t = ct::bid().x; t < tiles; t += ct::num_blocks().x) {
    int i = t / across, j = t % across;
    auto acc = ct::zeros<tile<float, 32, 32>>();
    for (int s = 0; s < (k + 31) / 32; ++s)
      acc = ct::mma(blocks<32, 32>(a, m, k).load_masked(i, s), blocks<32, 32>(b, k, n).load_masked(s, j), acc);
    auto relu = ct::max(acc, 0.0f);
    blocks<32, 32>(c, m, n).store_masked(ct::element_cast<__half>(relu), i, j);
  }
}

// A row of experts: each block of tokens is multiplied with the matrix that its expert number names.
extern "C" __tile_global__ void alg_experts(const __half *x, const __half *w, const int *expert, const int *token, float *y, int tokens) {
  int b = ct::bid().x;
  auto rows = ct::load(token + (ct::iota<tile<int, 16>>() + b * 16));
  auto in = ct::gather_scatter_view(ct::tensor_span(x, ext2(tokens, 32)), ct::shape<16, 32>{}, 0_ic).load_masked(rows, 0);
  auto mat = ct::partition_view(ct::tensor_span(w, ext3(3, 32, 16)), ct::shape<1, 32, 16>{}).load(expert[b], 0, 0);
  auto out = ct::mma(in, ct::reshape<ct::shape<32, 16>>(mat), ct::zeros<tile<float, 16, 16>>());
  ct::gather_scatter_view(ct::tensor_span(y, ext2(tokens, 16)), ct::shape<16, 16>{}, 0_ic).store_masked(out, rows, 0);
}

// Mandelbrot and a fixed point: loops whose number of rounds differs from lane to lane.
extern "C" __tile_global__ void alg_mandelbrot(int *count, int width) {
  auto i = ct::iota<tile<int, 64>>() + int(ct::bid().x) * 64;
  auto cx = ct::element_cast<float>(i % width) * (3.0f / float(width)) - 2.0f;
  auto cy = ct::element_cast<float>(i / width) * 0.125f - 1.0f;
  auto x = ct::zeros<tile<float, 64>>(), y = x;
  auto n = ct::zeros<tile<int, 64>>();
  for (int k = 0; k < 50; ++k) {
    auto in = x * x + y * y <= 4.0f;
    if (!bool(ct::reshape<ct::shape<>>(ct::any_of(in, 0_ic)))) break;
    auto t = x * x - y * y + cx;
    y = ct::select(in, x * y * 2.0f + cy, y);
    x = ct::select(in, t, x);
    n = n + ct::element_cast<int>(in);
  }
  ct::store(count + i, n);
}

// Shares of a long product whose number the launch decides: every so many steps, each share in its own plane.
extern "C" __tile_global__ void alg_every_share(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k,
                                                int shares) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, z = ct::bid().z;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = z; s < (k + 31) / 32; s += shares) acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  blocks<64, 64>(c + z * m * n, m, n).store_masked(acc, i, j);
}

// One loop over the steps of all of a block's tiles, in place of a loop in a loop.
extern "C" __tile_global__ void alg_one_loop(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int across = (n + 63) / 64, tiles = (m + 63) / 64 * across, depth = (k + 31) / 32;
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  auto acc = ct::zeros<tile<float, 64, 64>>();
  int t = ct::bid().x, step = 0, mine = (tiles - t + ct::num_blocks().x - 1) / ct::num_blocks().x;
  for (int s = 0; s < mine * depth; ++s) {
    int i = t / across, j = t % across;
    acc = ct::mma(av.load_masked(i, step), bv.load_masked(step, j), acc);
    if (++step == depth) {
      blocks<64, 64>(c, m, n).store_masked(acc, i, j);
      acc = ct::zeros<tile<float, 64, 64>>();
      step = 0;
      t += ct::num_blocks().x;
    }
  }
}

// Steps that a table leaves out: `continue` in front of the work.
extern "C" __tile_global__ void alg_skipped_steps(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *kept, int m,
                                                  int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0; s < (k + 31) / 32; ++s) {
    if (kept[s] == 0) continue;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// A sum from both ends towards the middle.
extern "C" __tile_global__ void alg_from_both_ends(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0, t = (k + 31) / 32 - 1; s <= t; ++s, --t) {
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
    if (s != t) acc = ct::mma(av.load_masked(i, t), bv.load_masked(t, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}
