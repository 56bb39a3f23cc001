// Products fed by tiles of pointers: stepping along K, computed from the counter, masked, whole, of several types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
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

// Pointers go on by a step of K each time; the edge of K is masked.
template <size_t M, size_t N, size_t K, typename T>
__tile__ void stepping(const T *a, const T *b, float *c, int m, int n, int k) {
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * int(M);
  auto cols = across<N>() + j * int(N);
  auto pa = a + (rows * k + across<K>());
  auto pb = b + (down<K>() * n + cols);
  auto acc = ct::zeros<tile<float, M, N>>();
  for (int s = 0; s < (k + int(K) - 1) / int(K); ++s) {
    auto x = ct::load_masked(pa, rows < m && across<K>() < k - s * int(K), T(0.0f));
    auto y = ct::load_masked(pb, down<K>() < k - s * int(K) && cols < n, T(0.0f));
    acc = ct::mma(x, y, acc);
    pa = pa + int(K), pb = pb + int(K) * n;
  }
  ct::store_masked(c + (rows * n + cols), acc, rows < m && cols < n);
}
extern "C" __tile_global__ void ptr_stepping(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  stepping<64, 64, 32>(a, b, c, m, ct::assume_divisible(n, 16_ic), ct::assume_divisible(k, 16_ic));
}
// Nothing is promised: no copy has 4 bytes.
extern "C" __tile_global__ void ptr_stepping_unaligned(const __half *a, const __half *b, float *c, int m, int n, int k) {
  stepping<64, 32, 32>(a, b, c, m, n, k);
}
// Rows of 4 and of 8 bytes.
extern "C" __tile_global__ void ptr_stepping_narrow(const __half *a, const __half *b, float *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  stepping<64, 32, 32>(a, b, c, m, ct::assume_divisible(n, 4_ic), ct::assume_divisible(k, 2_ic));
}

// Addresses from the counter, no masks; a second carried value steps backwards through B's rows.
extern "C" __tile_global__ void ptr_whole(const __half *a, const __half *b, float *c, int n, int k) {
  constexpr int M = 64, N = 64, K = 32;
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = across<N>() + j * N;
  auto acc = ct::zeros<tile<float, M, N>>();
  int last = k - K;
  for (int s = 0; s < k; s += K) {
    auto x = ct::load(a + (rows * k + (across<K>() + last)));
    auto y = ct::load(b + ((down<K>() + last) * n + cols));
    acc = ct::mma(x, y, acc);
    last -= K;
  }
  ct::store(c + (rows * n + cols), acc);
}

// Two carried numbers make an address: K is walked in two halves in turn.
extern "C" __tile_global__ void ptr_two_walks(const __half *a, const __half *b, float *c, int n, int k) {
  constexpr int M = 64, N = 64, K = 16;
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 32_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M;
  auto cols = across<N>() + j * N;
  auto acc = ct::zeros<tile<float, M, N>>();
  int here = 0, there = ct::assume_divisible(k / 2, 16_ic);
  for (int s = 0; s < k; s += K) {
    auto x = ct::load(a + (rows * k + (across<K>() + here)));
    auto y = ct::load(b + ((down<K>() + here) * n + cols));
    acc = ct::mma(x, y, acc);
    int next = there;
    there = here + K;
    here = next;
  }
  ct::store(c + (rows * n + cols), acc);
}

// Bytes, both operands with K innermost.
extern "C" __tile_global__ void ptr_bytes(const signed char *a, const signed char *b, int *c, int m, int n, int k) {
  constexpr int M = 64, N = 64, K = 64;
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto rows = down<M>() + i * M, cols = down<N>() + j * N;
  auto acc = ct::zeros<tile<int, M, N>>();
  for (int s = 0; s < k; s += K) {
    auto deep = across<K>() + s;
    auto x = ct::load_masked(a + (rows * k + deep), rows < m && deep < k, (signed char)0);
    auto y = ct::load_masked(b + (cols * k + deep), cols < n && deep < k, (signed char)0);
    acc = ct::mma(x, ct::transpose(y), acc);
  }
  auto out = across<N>() + j * N;
  ct::store_masked(c + (rows * n + out), acc, rows < m && out < n);
}
