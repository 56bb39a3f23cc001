// Elementwise Tile C++ kernels: pointer tiles with masks, views, mixed types, rounding modes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;

// Positions of this block's elements along x.
template <size_t N>
__tile__ auto positions() {
  return ct::iota<tile<int, N>>() + int(ct::bid().x) * int(N);
}

template <typename T>
__tile__ void add_masked(const T *x, const T *y, T *z, int n) {
  auto i = positions<128>();
  auto m = i < n;
  ct::store_masked(z + i, ct::load_masked(x + i, m) + ct::load_masked(y + i, m), m);
}

extern "C" __tile_global__ void cpp_vadd_f32(const float *x, const float *y, float *z, int n) { add_masked(x, y, z, n); }
extern "C" __tile_global__ void cpp_vadd_f16(const __half *x, const __half *y, __half *z, int n) {
  add_masked(x, y, z, n);
}
extern "C" __tile_global__ void cpp_vadd_bf16(const __nv_bfloat16 *x, const __nv_bfloat16 *y, __nv_bfloat16 *z, int n) {
  add_masked(x, y, z, n);
}
extern "C" __tile_global__ void cpp_vadd_i32(const int *x, const int *y, int *z, int n) { add_masked(x, y, z, n); }
extern "C" __tile_global__ void cpp_vadd_f64(const double *x, const double *y, double *z, int n) {
  add_masked(x, y, z, n);
}

// Aligned and unmasked: the pointer and the length are known to be multiples.
extern "C" __tile_global__ void cpp_axpy_aligned(float a, const float *x, float *y) {
  x = ct::assume_aligned(x, 16_ic);
  y = ct::assume_aligned(y, 16_ic);
  auto i = positions<256>();
  ct::store(y + i, a * ct::load(x + i) + ct::load(y + i));
}

extern "C" __tile_global__ void cpp_chain(const __half *x, const int *k, float *z, int n) {
  auto i = positions<128>();
  auto m = i < n;
  auto v = ct::element_cast<float>(ct::load_masked(x + i, m, __half(1.0f)));
  auto w = ct::element_cast<float>(ct::load_masked(k + i, m, 0));
  auto r = ct::select(v > w, ct::sqrt(ct::abs(v - w)), ct::exp(v - w)) + ct::log(ct::abs(v) + 1.0f);
  ct::store_masked(z + i, r + ct::tanh(w) * ct::cos(v), m);
}

extern "C" __tile_global__ void cpp_rounding(const float *x, const float *y, float *up, float *down, float *cut, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto a = ct::load_masked(x + i, m, 1.0f), b = ct::load_masked(y + i, m, 1.0f);
  ct::store_masked(up + i, ct::mul(a, b, ct::round_toward_positive_t{}), m);
  ct::store_masked(down + i, ct::mul(a, b, ct::round_toward_negative_t{}), m);
  ct::store_masked(cut + i, ct::mul(a, b, ct::round_toward_zero_t{}), m);
}

extern "C" __tile_global__ void cpp_fused(const float *x, const float *y, const float *z, float *out, int n) {
  auto i = positions<64>();
  auto m = i < n;
  ct::store_masked(out + i, ct::fma(ct::load_masked(x + i, m), ct::load_masked(y + i, m), ct::load_masked(z + i, m)), m);
}

extern "C" __tile_global__ void cpp_integers(const int *x, const int *y, int *quot, int *rem, int *up, int *low, int *hi,
                                             int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto a = ct::load_masked(x + i, m, 1), b = ct::load_masked(y + i, m, 1);
  ct::store_masked(quot + i, a / b, m);
  ct::store_masked(rem + i, a % b, m);
  ct::store_masked(up + i, ct::ceildiv(a, b), m);
  ct::store_masked(low + i, ct::floordiv(a, b), m);
  ct::store_masked(hi + i, ct::mulhi(a, b), m);
}

extern "C" __tile_global__ void cpp_mulhi_u64(const unsigned long long *x, const unsigned long long *y,
                                              unsigned long long *hi, unsigned *h32, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto a = ct::load_masked(x + i, m), b = ct::load_masked(y + i, m);
  ct::store_masked(hi + i, ct::mulhi(a, b), m);
  ct::store_masked(h32 + i, ct::mulhi(ct::element_cast<unsigned>(a), ct::element_cast<unsigned>(b)), m);
}

extern "C" __tile_global__ void cpp_shift_logic(const unsigned *x, const unsigned *s, unsigned *out, bool *flag, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto v = ct::load_masked(x + i, m), k = ct::load_masked(s + i, m);
  ct::store_masked(out + i, ((v << k) | (v >> (32u - k))) ^ ~v, m);
  ct::store_masked(flag + i, (v > 1000u) && !(k == 3u), m);
}

extern "C" __tile_global__ void cpp_bits(const float *x, unsigned *y, float *back, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto u = ct::element_bitcast<unsigned>(ct::load_masked(x + i, m));
  ct::store_masked(y + i, u, m);
  ct::store_masked(back + i, ct::element_bitcast<float>(u & 0x7fffffffu), m);
}

extern "C" __tile_global__ void cpp_remainder(const double *x, const double *y, double *z, int n) {
  auto i = positions<64>();
  auto m = i < n;
  ct::store_masked(z + i, ct::remainder(ct::load_masked(x + i, m, 1.0), ct::load_masked(y + i, m, 1.0)), m);
}

extern "C" __tile_global__ void cpp_special(const float *x, float *a, float *b, bool *nan, bool *inf, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto v = ct::load_masked(x + i, m, 1.0f);
  ct::store_masked(a + i, ct::atan2(v, v * v + 0.5f), m);
  ct::store_masked(b + i, ct::pow(ct::abs(v), 1.0f / (v * v + 1.0f)), m);
  ct::store_masked(nan + i, ct::isnan(v), m);
  ct::store_masked(inf + i, ct::isinf(v), m);
}

// Two-dimensional grid and pointer arithmetic with a 64-bit row stride.
extern "C" __tile_global__ void cpp_add_2d(const float *x, const float *y, float *z, int rows, int cols, long long stride) {
  auto r = ct::reshape<ct::shape<16, 1>>(ct::iota<tile<int, 16>>()) + int(ct::bid().x) * 16;
  auto c = ct::reshape<ct::shape<1, 32>>(ct::iota<tile<int, 32>>()) + int(ct::bid().y) * 32;
  auto m = (r < rows) && (c < cols);
  auto at = ct::element_cast<long long>(r) * stride + ct::element_cast<long long>(c);
  ct::store_masked(z + at, ct::load_masked(x + at, m) + ct::load_masked(y + at, m), m);
}
