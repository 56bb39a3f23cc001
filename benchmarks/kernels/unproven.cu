// Products with tiles of pointers of which nothing is promised, in Tile C++.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;

template <size_t N>
__tile__ auto down() {
  return ct::reshape<ct::shape<N, 1>>(ct::iota<tile<int, N>>());
}
template <size_t N>
__tile__ auto across() {
  return ct::reshape<ct::shape<1, N>>(ct::iota<tile<int, N>>());
}

// Pointers that step, rows apart by any stride, masked at every edge.
extern "C" __tile_global__ void cpp_stepping(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n,
                                             int k, int lda, int ldb, int ldc) {
  constexpr int M = 128, N = 128, K = 64;
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = across<N>() + j * N;
  auto pa = a + (rows * lda + across<K>());
  auto pb = b + (down<K>() * ldb + cols);
  auto acc = ct::zeros<tile<float, M, N>>();
  auto zero = __nv_bfloat16(0.0f);
  for (int s = 0; s < (k + K - 1) / K; ++s) {
    auto x = ct::load_masked(pa, rows < m && across<K>() < k - s * K, zero);
    auto y = ct::load_masked(pb, down<K>() < k - s * K && cols < n, zero);
    acc = ct::mma(x, y, acc);
    pa = pa + K, pb = pb + K * ldb;
  }
  ct::store_masked(c + (rows * ldc + cols), ct::element_cast<__nv_bfloat16>(acc), rows < m && cols < n);
}

// No masks; addresses computed from the number of the step.
extern "C" __tile_global__ void cpp_whole(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n,
                                          int k) {
  constexpr int M = 128, N = 128, K = 64;
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

// Strides of both dimensions of each operand, 64 bits wide, as libraries pass them; weights N x K.
extern "C" __tile_global__ void cpp_half_nt(const __half *a, const __half *b, __half *c, int m, int n, int k, long long lda,
                                            long long ldb, long long ldc) {
  constexpr int M = 128, N = 128, K = 64;
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = ct::element_cast<long long>(down<M>() + i * M);
  auto cols = ct::element_cast<long long>(down<N>() + j * N);
  auto depth = ct::element_cast<long long>(across<K>());
  auto acc = ct::zeros<tile<float, M, N>>();
  auto zero = __half(0.0f);
  for (int s = 0; s < k; s += K) {
    auto inside = across<K>() < k - s;
    auto x = ct::load_masked(a + (rows * lda + depth + (long long)s), down<M>() + i * M < m && inside, zero);
    auto y = ct::load_masked(b + (cols * ldb + depth + (long long)s), down<N>() + j * N < n && inside, zero);
    acc = ct::mma(x, ct::transpose(y), acc);
  }
  auto out = ct::element_cast<long long>(across<N>() + j * N);
  ct::store_masked(c + (rows * ldc + out), ct::element_cast<__half>(acc), down<M>() + i * M < m && across<N>() + j * N < n);
}

// 8-bit floats, weights N x K.
extern "C" __tile_global__ void cpp_e4m3(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, __nv_bfloat16 *c, int m, int n,
                                         int k) {
  constexpr int M = 128, N = 128, K = 128;
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = down<N>() + j * N;
  auto pa = a + (rows * k + across<K>());
  auto pb = b + (cols * k + across<K>());
  auto acc = ct::zeros<tile<float, M, N>>();
  for (int s = 0; s < k / K; ++s) {
    acc = ct::mma(ct::load(pa), ct::transpose(ct::load(pb)), acc);
    pa = pa + K, pb = pb + K;
  }
  auto out = across<N>() + j * N;
  ct::store_masked(c + (rows * n + out), ct::element_cast<__nv_bfloat16>(acc), rows < m && out < n);
}
