// Tile C++ loops of products with branches: what a number of a list ends, what a mode chooses, what both sides multiply.
#include <cuda_bf16.h>
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

// A list of steps, which a negative number ends, or its length.
extern "C" __tile_global__ void br_listed(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *places, int m, int n,
                                          int k, int count) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0; s < count; ++s) {
    int place = places[s];
    if (place < 0) break;
    acc = ct::mma(av.load_masked(i, place), bv.load_masked(place, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// The same from the last number to the first, with a second test, and the work on the other side of the first.
extern "C" __tile_global__ void br_backwards(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *places, int m, int n,
                                             int k, int count, int least) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  int s = 0;
  while (s < count) {
    int place = places[count - 1 - s];
    if (!(place >= 0)) break;
    if (place + places[s] <= least) break;
    acc = ct::mma(av.load_masked(i, place), bv.load_masked(place, j), acc);
    s += 1;
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// How many steps were done is read behind the loop.
extern "C" __tile_global__ void br_counted(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *places, int m, int n,
                                           int k, int count) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  int s = 0;
  for (; s < count; ++s) {
    if (places[s] < 0) break;
    acc = ct::mma(av.load_masked(i, places[s]), bv.load_masked(places[s], j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc * static_cast<float>(s), i, j);
}

// The list ends in the condition of the loop itself.
extern "C" __tile_global__ void br_while(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *places, int m, int n,
                                         int k, int count) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  int s = 0;
  for (; s < count && places[s] >= 0; ++s)
    acc = ct::mma(av.load_masked(i, places[s]), bv.load_masked(places[s], j), acc);
  blocks<64, 64>(c, m, n).store_masked(acc * static_cast<float>(s), i, j);
}

// Even steps add to one sum, odd ones are taken from another; a mode says where the right operand comes from.
extern "C" __tile_global__ void br_in_turn(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const __nv_bfloat16 *other, float *d,
                                           int m, int n, int k, int mode) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic), other = ct::assume_aligned(other, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto even = ct::zeros<tile<float, 64, 64>>();
  auto odd = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  auto ov = blocks<32, 64>(other, k, n);
  for (int s = 0; s < (k + 31) / 32; ++s) {
    auto x = av.load_masked(i, s);
    if (mode == 0) {
      auto y = bv.load_masked(s, j);
      if (s % 2 == 0)
        even = ct::mma(x, y, even);
      else
        odd = odd - ct::mma(x, y, ct::zeros<tile<float, 64, 64>>());
    } else {
      auto y = ov.load_masked(s, j);
      even = ct::mma(x, y, even);
    }
  }
  blocks<64, 64>(c, m, n).store_masked(even, i, j);
  blocks<64, 64>(d, m, n).store_masked(odd, i, j);
}
