// Tile C++ with eight-bit floats: products, conversions and scaled sums, instantiated for both formats.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;

template <size_t M, size_t N, typename T>
__tile__ auto blocks(T *p) {
  return ct::partition_view(ct::tensor_span(p, ct::extents<int, M, N>{}), ct::shape<M, N>{});
}

template <typename T>
__tile_global__ void fp8_product(const T *a, const T *b, float *c) {
  auto acc = ct::zeros<tile<float, 32, 32>>();
  blocks<32, 32>(c).store(ct::mma(blocks<32, 64>(a).load(0, 0), blocks<64, 32>(b).load(0, 0), acc), 0, 0);
}
template __tile_global__ void fp8_product(const __nv_fp8_e4m3 *, const __nv_fp8_e4m3 *, float *);
template __tile_global__ void fp8_product(const __nv_fp8_e5m2 *, const __nv_fp8_e5m2 *, float *);

template <typename T>
__tile_global__ void fp8_quantise(const __half *x, T *q, float *scale, __half *back) {
  int r = ct::bid().x;
  auto i = ct::iota<tile<int, 128>>() + r * 128;
  auto v = ct::element_cast<float>(ct::load(x + i));
  auto top = ct::reduce_max(ct::abs(v), 0_ic);
  auto s = ct::select(top > 0.0f, top / 256.0f, ct::ones<tile<float, 1>>());
  auto narrow = ct::element_cast<T>(v / s);
  ct::store(q + i, narrow);
  scale[r] = float(ct::reshape<ct::shape<>>(s));
  ct::store(back + i, ct::element_cast<__half>(ct::element_cast<float>(narrow) * s));
}
template __tile_global__ void fp8_quantise(const __half *, __nv_fp8_e4m3 *, float *, __half *);
template __tile_global__ void fp8_quantise(const __half *, __nv_fp8_e5m2 *, float *, __half *);
