// Tile C++ that needs nvcc 13.5: powers, insertion, saturating and directed casts, repacking, scaled products.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <cuda_tf32.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;
using relaxed = ct::memory_order_relaxed_t;
using device = ct::thread_scope_device_t;

template <size_t M, size_t N, typename T>
__tile__ auto blocks(T *p) {
  return ct::partition_view(ct::tensor_span(p, ct::extents<int, M, N>{}), ct::shape<M, N>{});
}

extern "C" __tile_global__ void later_powi(const float *x, const int *e, float *y) {
  auto i = ct::iota<tile<int, 64>>();
  ct::store(y + i, ct::powi(ct::load(x + i), ct::load(e + i)));
}

extern "C" __tile_global__ void later_insert(const int *x, int *y, int at) {
  auto a = ct::load(x + ct::iota<tile<int, 64>>());
  auto b = ct::insert(a, ct::load(x + (ct::iota<tile<int, 16>>() + 100)), at);
  ct::store(y + ct::iota<tile<int, 64>>(), b);
}

extern "C" __tile_global__ void later_casts(const float *x, int *a, signed char *b, unsigned *c, __half *d, float *t) {
  auto i = ct::iota<tile<int, 64>>();
  auto v = ct::load(x + i);
  ct::store(a + i, ct::element_cast<int>(v, ct::saturate_finite_t{}));
  ct::store(b + i, ct::element_cast<signed char>(v, ct::saturate_finite_t{}));
  ct::store(c + i, ct::element_cast<unsigned>(v, ct::saturate_finite_t{}));
  ct::store(d + i, ct::element_cast<__half>(v, ct::round_toward_zero_t{}));
  ct::store(t + i, ct::element_cast<float>(ct::element_cast<__nv_tf32>(v, ct::round_ties_to_away_t{})));
}

extern "C" __tile_global__ void later_repack(const unsigned *x, unsigned char *y, unsigned long long *z) {
  auto v = blocks<4, 16>(x).load(0, 0);
  blocks<4, 64>(y).store(ct::repack<unsigned char>(v, 1_ic), 0, 0);
  blocks<2, 16>(z).store(ct::repack<unsigned long long>(v, 0_ic), 0, 0);
}

extern "C" __tile_global__ void later_view_atomics(int *x, float *y, int n) {
  using ext1 = ct::extents<int, ct::dynamic_extent>;
  auto v = ct::partition_view(ct::tensor_span(x, ext1(n)), ct::shape<32>{});
  v.atomic_add_masked(ct::iota<tile<int, 32>>(), relaxed{}, device{}, int(ct::bid().x));
  auto w = ct::partition_view(ct::tensor_span(y, ext1(n)), ct::shape<32>{});
  w.atomic_sub_masked(ct::full<tile<float, 32>>(0.5f), relaxed{}, device{}, int(ct::bid().x));
}

extern "C" __tile_global__ void later_scaled8(const __nv_fp8_e4m3 *a, const __nv_fp8_e8m0 *sa, const __nv_fp8_e4m3 *b, const __nv_fp8_e8m0 *sb, float *c) {
  auto acc = ct::zeros<tile<float, 32, 16>>();
  blocks<32, 16>(c).store(ct::scaled_mma(blocks<32, 64>(a).load(0, 0), blocks<32, 2>(sa).load(0, 0), blocks<64, 16>(b).load(0, 0), blocks<2, 16>(sb).load(0, 0), acc), 0, 0);
}

extern "C" __tile_global__ void later_scaled4(const unsigned char *a, const __nv_fp8_e4m3 *sa, const unsigned char *b, const __nv_fp8_e4m3 *sb, float *c) {
  auto x = ct::repack<__nv_fp4_e2m1>(blocks<16, 32>(a).load(0, 0), 1_ic);
  auto y = ct::transpose(ct::repack<__nv_fp4_e2m1>(blocks<16, 32>(b).load(0, 0), 1_ic));
  auto acc = ct::zeros<tile<float, 16, 16>>();
  blocks<16, 16>(c).store(ct::scaled_mma(x, blocks<16, 4>(sa).load(0, 0), y, blocks<4, 16>(sb).load(0, 0), acc), 0, 0);
}

extern "C" __tile_global__ void later_e8m0(const float *x, __nv_fp8_e8m0 *y, float *z) {
  auto i = ct::iota<tile<int, 64>>();
  auto v = ct::element_cast<__nv_fp8_e8m0>(ct::load(x + i), ct::round_toward_positive_t{});
  ct::store(y + i, v);
  ct::store(z + i, ct::element_cast<float>(v));
}

extern "C" __tile_global__ void later_fp4(const float *x, unsigned char *y, float *z) {
  auto v = ct::element_cast<__nv_fp4_e2m1>(ct::load(x + ct::iota<tile<int, 64>>()));
  ct::store(y + ct::iota<tile<int, 32>>(), ct::repack<unsigned char>(v, 0_ic));
  ct::store(z + ct::iota<tile<int, 64>>(), ct::element_cast<float>(v));
}
