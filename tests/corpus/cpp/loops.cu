// Tile C++ loops of products that leave steps out, and go on from both ends.
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

// Steps that a table, a parameter and their own number leave out.
extern "C" __tile_global__ void loop_skipped_thrice(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *kept,
                                                    int m, int n, int k, int last) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0; s < (k + 31) / 32; ++s) {
    if (kept[s] == 0) continue;
    if (s == last) continue;
    if (!(s % 3)) continue;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// The index goes on in front of both tests.
extern "C" __tile_global__ void loop_skipped_behind(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *kept,
                                                    int m, int n, int k, int last) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, next = 0;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  while (next < (k + 31) / 32) {
    int s = next++;
    if (kept[s] == 0 || s == last) continue;
    if (s % 3 == 0) continue;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// From both ends towards the middle, without the pairs whose lower index a table leaves out.
extern "C" __tile_global__ void loop_skipped_pairs(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *kept, int m,
                                                   int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0, t = (k + 31) / 32 - 1; s <= t; ++s, --t) {
    if (kept[s] == 0) continue;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
    if (s != t) acc = ct::mma(av.load_masked(i, t), bv.load_masked(t, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// From both ends towards the middle, which is multiplied once.
extern "C" __tile_global__ void loop_middle_once(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0, t = (k + 31) / 32 - 1; s <= t; ++s, --t) {
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
    if (s == t) continue;
    acc = ct::mma(av.load_masked(i, t), bv.load_masked(t, j), acc);
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// Each way to the next step counts for itself.
extern "C" __tile_global__ void loop_skipped_alone(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, const int *kept, int m,
                                                   int n, int k, int last) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y, s = 0;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  while (s < (k + 31) / 32) {
    if (kept[s] == 0) {
      ++s;
      continue;
    }
    if (s == last || s % 3 == 0) {
      ++s;
      continue;
    }
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
    ++s;
  }
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}

// A second table is read where the first one lets it, and both are written behind the loop.
extern "C" __tile_global__ void loop_skipped_between(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int *kept, int *more,
                                                     int m, int n, int k) {
  a = ct::assume_aligned(a, 16_ic), b = ct::assume_aligned(b, 16_ic);
  m = ct::assume_divisible(m, 16_ic), n = ct::assume_divisible(n, 16_ic), k = ct::assume_divisible(k, 16_ic);
  int i = ct::bid().x, j = ct::bid().y;
  kept = kept + i * 8, more = more + i * 4;
  auto acc = ct::zeros<tile<float, 64, 64>>();
  auto av = blocks<64, 32>(a, m, k);
  auto bv = blocks<32, 64>(b, k, n);
  for (int s = 0; s < (k + 31) / 32; ++s) {
    int at = kept[s];
    if (at < 0) continue;
    int takes = more[at];
    if (takes == 0) continue;
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc) * float(takes);
  }
  kept[0] = 7, more[0] = 8;
  blocks<64, 64>(c, m, n).store_masked(acc, i, j);
}
