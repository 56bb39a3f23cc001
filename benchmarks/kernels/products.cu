// Matrix products of production size in Tile C++.
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
