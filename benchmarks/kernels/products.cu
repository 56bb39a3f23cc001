// Matrix products of production size in Tile C++.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;
using ext2 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent>;

template <size_t M, size_t N, typename T>
__tile__ auto blocks(T *p, int rows, int cols) {
  return ct::partition_view(ct::tensor_span(p, ext2(rows, cols)), ct::shape<M, N>{});
}

template <size_t M, size_t N, size_t K, typename T>
__tile__ void product(const T *a, const T *b, T *c, int m, int n, int k) {
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, M, N>>();
  auto av = blocks<M, K>(a, m, k);
  auto bv = blocks<K, N>(b, k, n);
  for (int s = 0; s < (k + int(K) - 1) / int(K); ++s) acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  blocks<M, N>(c, m, n).store_masked(ct::element_cast<T>(acc), i, j);
}

// Nothing is promised about pointers and extents.
extern "C" __tile_global__ void cpp_product(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n,
                                            int k) {
  product<128, 128, 64>(a, b, c, m, n, k);
}

// Pointers on 16 bytes, extents multiples of 16.
extern "C" __tile_global__ void cpp_product_aligned(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m,
                                                    int n, int k) {
  product<128, 128, 64>(ct::assume_aligned(a, 16_ic), ct::assume_aligned(b, 16_ic), ct::assume_aligned(c, 16_ic),
                        ct::assume_divisible(m, 16_ic), ct::assume_divisible(n, 16_ic), ct::assume_divisible(k, 16_ic));
}

// act(x w^T + bias), weights as PyTorch keeps them.
extern "C" __tile_global__ void cpp_linear_gelu(const __nv_bfloat16 *x, const __nv_bfloat16 *w, const __nv_bfloat16 *bias,
                                                __nv_bfloat16 *y, int m, int n, int k) {
  x = ct::assume_aligned(x, 16_ic), w = ct::assume_aligned(w, 16_ic), bias = ct::assume_aligned(bias, 16_ic);
  y = ct::assume_aligned(y, 16_ic), m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic);
  k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, s = 0;
  auto acc = ct::zeros<tile<float, 128, 128>>();
  auto xv = blocks<128, 64>(x, m, k), wv = blocks<128, 64>(w, n, k);
  while (s * 64 < k) {
    acc = ct::mma(xv.load_masked(i, s), ct::transpose(wv.load_masked(j, s)), acc);
    ++s;
  }
  auto v = acc + ct::element_cast<float>(blocks<1, 128>(bias, 1, n).load_masked(0, j));
  auto out = v * 0.5f * (ct::tanh((v + v * v * v * 0.044715f) * 0.79788456f) + 1.0f);
  blocks<128, 128>(y, m, n).store_masked(ct::element_cast<__nv_bfloat16>(out), i, j);
}

// 8-bit operands, a scale for each row of a and each column of b.
extern "C" __tile_global__ void cpp_e4m3_scaled(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, const float *rows,
                                                const float *cols, __nv_bfloat16 *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 128, 128>>();
  auto av = blocks<128, 128>(a, m, k), bv = blocks<128, 128>(b, n, k);
  for (int s : ct::irange(0, (k + 127) / 128)) acc = ct::mma(av.load_masked(i, s), ct::transpose(bv.load_masked(j, s)), acc);
  auto r = ct::transpose(blocks<1, 128>(rows, 1, m).load_masked(0, i));
  auto q = blocks<1, 128>(cols, 1, n).load_masked(0, j);
  blocks<128, 128>(c, m, n).store_masked(ct::element_cast<__nv_bfloat16>(acc * r * q), i, j);
}

// One template for all layouts: lambdas load the operands, so that tokens come with the index of the first time round.
template <size_t M, size_t N, size_t K, bool AT, bool BT, typename S, typename T, typename R>
__tile__ void by_lambdas(const T *a, const T *b, R *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, steps = (k + int(K) - 1) / int(K);
  auto acc = ct::zeros<tile<S, M, N>>();
  for (int s = 0; s < steps; ++s) {
    auto x = [&] {
      if constexpr (AT) return ct::transpose(blocks<K, M>(a, k, m).load_masked(s, i));
      else return blocks<M, K>(a, m, k).load_masked(i, s);
    }();
    auto y = [&] {
      if constexpr (BT) return ct::transpose(blocks<N, K>(b, n, k).load_masked(j, s));
      else return blocks<K, N>(b, k, n).load_masked(s, j);
    }();
    acc = ct::mma(x, y, acc);
  }
  blocks<M, N>(c, m, n).store_masked(ct::element_cast<R>(acc), i, j);
}
extern "C" __tile_global__ void cpp_lambdas_i8(const signed char *a, const signed char *b, int *c, int m, int n, int k) {
  by_lambdas<128, 128, 64, true, false, int>(a, b, c, m, n, k);
}

// Attention of one head and 128 queries, keys in steps of 128 up to the diagonal.
extern "C" __tile_global__ void cpp_attention_causal(const __half *q, const __half *k, const __half *v, __half *o, int len,
                                                     float scale) {
  constexpr int M = 128, N = 128, D = 64;
  q = ct::assume_aligned(q, 16_ic), k = ct::assume_aligned(k, 16_ic), v = ct::assume_aligned(v, 16_ic);
  o = ct::assume_aligned(o, 16_ic), len = ct::assume_divisible(len, 16_ic);
  int i = ct::bid().x;
  long long head = (long long)ct::bid().y * len * D;
  auto qv = blocks<M, D>(q + head, len, D).load_masked(i, 0);
  auto kv = blocks<N, D>(k + head, len, D), vv = blocks<N, D>(v + head, len, D);
  auto acc = ct::zeros<tile<float, M, D>>();
  auto high = ct::full<tile<float, M, 1>>(-INFINITY), sum = ct::zeros<tile<float, M, 1>>();
  auto rows = ct::reshape<ct::shape<M, 1>>(ct::iota<tile<int, M>>() + i * M);
  for (int j : ct::irange(0, ((i + 1) * M + N - 1) / N)) {
    auto s = ct::mma(qv, ct::transpose(kv.load_masked(j, 0)), ct::zeros<tile<float, M, N>>()) * (scale * 1.44269504f);
    auto cols = ct::reshape<ct::shape<1, N>>(ct::iota<tile<int, N>>() + j * N);
    s = ct::select((rows >= cols) & (cols < len), s, ct::full<tile<float, M, N>>(-INFINITY));
    auto now = ct::max(high, ct::reduce_max(s, 1_ic));
    auto p = ct::exp2(s - now);
    auto old = ct::exp2(high - now);
    sum = sum * old + ct::sum(p, 1_ic);
    acc = ct::mma(ct::element_cast<__half>(p), vv.load_masked(j, 0), acc * old);
    high = now;
  }
  blocks<M, D>(o + head, len, D).store_masked(ct::element_cast<__half>(acc / sum), i, 0);
}

template <size_t N>
__tile__ auto down() {
  return ct::reshape<ct::shape<N, 1>>(ct::iota<tile<int, N>>());
}
template <size_t N>
__tile__ auto across() {
  return ct::reshape<ct::shape<1, N>>(ct::iota<tile<int, N>>());
}

// Tiles of pointers that step along K, masked at the edge of K, as in most kernels that were written with pointers.
extern "C" __tile_global__ void cpp_pointers(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n,
                                             int k) {
  constexpr int M = 128, N = 128, K = 64;
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = across<N>() + j * N;
  auto pa = a + (rows * k + across<K>());
  auto pb = b + (down<K>() * n + cols);
  auto acc = ct::zeros<tile<float, M, N>>();
  auto zero = __nv_bfloat16(0.0f);
  for (int s = 0; s < (k + K - 1) / K; ++s) {
    auto x = ct::load_masked(pa, rows < m && across<K>() < k - s * K, zero);
    auto y = ct::load_masked(pb, down<K>() < k - s * K && cols < n, zero);
    acc = ct::mma(x, y, acc);
    pa = pa + K, pb = pb + K * n;
  }
  ct::store_masked(c + (rows * n + cols), ct::element_cast<__nv_bfloat16>(acc), rows < m && cols < n);
}

// The same without masks: the sizes are multiples of the tiles.
extern "C" __tile_global__ void cpp_pointers_whole(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m,
                                                   int n, int k) {
  constexpr int M = 128, N = 128, K = 64;
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = across<N>() + j * N;
  auto acc = ct::zeros<tile<float, M, N>>();
  for (int s = 0; s < k; s += K) {
    auto x = ct::load(a + (rows * k + (across<K>() + s)));
    auto y = ct::load(b + ((down<K>() + s) * n + cols));
    acc = ct::mma(x, y, acc);
  }
  ct::store(c + (rows * n + cols), ct::element_cast<__nv_bfloat16>(acc));
}

// Columns up to a limit that the caller gives, in two forms of a loop that is left early.
extern "C" __tile_global__ void cpp_left_by_break(const __half *a, const __half *b, __half *c, int m, int n, int k, int limit) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 128, 128>>();
  auto av = blocks<128, 64>(a, m, k);
  auto bv = blocks<64, 128>(b, k, n);
  for (int s = 0; s < (k + 63) / 64; ++s) {
    if (s * 64 >= limit) break;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  }
  blocks<128, 128>(c, m, n).store_masked(ct::element_cast<__half>(acc), i, j);
}

extern "C" __tile_global__ void cpp_left_behind(const __half *a, const __half *b, __half *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), c = ct::assume_aligned(c, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, s = 0;
  auto acc = ct::zeros<tile<float, 128, 128>>();
  auto av = blocks<128, 64>(a, m, k);
  auto bv = blocks<64, 128>(b, k, n);
  do {
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
    ++s;
  } while (s * 64 < k);
  blocks<128, 128>(c, m, n).store_masked(ct::element_cast<__half>(acc), i, j);
}
