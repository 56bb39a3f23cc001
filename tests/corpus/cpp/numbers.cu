// Tile C++ arithmetic: every element type, corner cases of integers, conversions, rounding and NaN modes, functions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_tf32.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;

template <size_t N>
__tile__ auto positions() {
  return ct::iota<tile<int, N>>() + int(ct::bid().x) * int(N);
}

// Rows of n elements, one row per result.
template <typename T, size_t N>
struct rows {
  T *p;
  tile<int, N> i;
  int n;
  template <typename V>
  __tile__ void put(int row, V v) {
    ct::store_masked(p + (i + row * n), ct::element_cast<T>(v), i < n);
  }
};

template <typename T>
__tile_global__ void num_wrap(const T *x, const T *y, T *z, int n) {
  auto i = positions<128>();
  auto a = ct::load_masked(x + i, i < n), b = ct::load_masked(y + i, i < n);
  rows<T, 128> out{z, i, n};
  out.put(0, a + b);
  out.put(1, a - b);
  out.put(2, a * b);
  out.put(3, ct::element_cast<T>(-a));
  out.put(4, ~a);
  out.put(5, (a & b) | (a ^ T(5)));
  out.put(6, ct::max(a, b));
  out.put(7, ct::min(a, b));
}
template __tile_global__ void num_wrap(const signed char *, const signed char *, signed char *, int);
template __tile_global__ void num_wrap(const unsigned char *, const unsigned char *, unsigned char *, int);
template __tile_global__ void num_wrap(const short *, const short *, short *, int);
template __tile_global__ void num_wrap(const unsigned short *, const unsigned short *, unsigned short *, int);
template __tile_global__ void num_wrap(const int *, const int *, int *, int);
template __tile_global__ void num_wrap(const unsigned *, const unsigned *, unsigned *, int);
template __tile_global__ void num_wrap(const long long *, const long long *, long long *, int);
template __tile_global__ void num_wrap(const unsigned long long *, const unsigned long long *, unsigned long long *, int);

template <typename T>
__tile_global__ void num_divide(const T *x, const T *y, T *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n, T(1)), b = ct::load_masked(y + i, i < n, T(1));
  rows<T, 64> out{z, i, n};
  out.put(0, a / b);
  out.put(1, a % b);
  out.put(2, ct::ceildiv(a, b));
  out.put(3, ct::floordiv(a, b));
  out.put(4, a / T(7));
  out.put(5, a % T(10));
}
template __tile_global__ void num_divide(const signed char *, const signed char *, signed char *, int);
template __tile_global__ void num_divide(const unsigned char *, const unsigned char *, unsigned char *, int);
template __tile_global__ void num_divide(const short *, const short *, short *, int);
template __tile_global__ void num_divide(const unsigned short *, const unsigned short *, unsigned short *, int);
template __tile_global__ void num_divide(const int *, const int *, int *, int);
template __tile_global__ void num_divide(const unsigned *, const unsigned *, unsigned *, int);
template __tile_global__ void num_divide(const long long *, const long long *, long long *, int);
template __tile_global__ void num_divide(const unsigned long long *, const unsigned long long *, unsigned long long *, int);

template <typename T>
__tile_global__ void num_shift(const T *x, const T *s, T *z, bool *less, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n), k = ct::load_masked(s + i, i < n);
  rows<T, 64> out{z, i, n};
  out.put(0, a << k);
  out.put(1, a >> k);
  out.put(2, ct::abs(a));
  ct::store_masked(less + i, (a < k) != (a >= T(100)), i < n);
}
template __tile_global__ void num_shift(const signed char *, const signed char *, signed char *, bool *, int);
template __tile_global__ void num_shift(const unsigned char *, const unsigned char *, unsigned char *, bool *, int);
template __tile_global__ void num_shift(const short *, const short *, short *, bool *, int);
template __tile_global__ void num_shift(const int *, const int *, int *, bool *, int);
template __tile_global__ void num_shift(const unsigned *, const unsigned *, unsigned *, bool *, int);
template __tile_global__ void num_shift(const long long *, const long long *, long long *, bool *, int);
template __tile_global__ void num_shift(const unsigned long long *, const unsigned long long *, unsigned long long *, bool *, int);

// From one type to all others; the sources are in the range of every target.
template <typename S>
__tile_global__ void num_cast(const S *x, signed char *a, unsigned short *b, int *c, unsigned long long *d, __half *e,
                              __nv_bfloat16 *f, float *g, double *h, bool *k, int n) {
  auto i = positions<64>();
  auto m = i < n;
  auto v = ct::load_masked(x + i, m);
  ct::store_masked(a + i, ct::element_cast<signed char>(v), m);
  ct::store_masked(b + i, ct::element_cast<unsigned short>(v), m);
  ct::store_masked(c + i, ct::element_cast<int>(v), m);
  ct::store_masked(d + i, ct::element_cast<unsigned long long>(v), m);
  ct::store_masked(e + i, ct::element_cast<__half>(v), m);
  ct::store_masked(f + i, ct::element_cast<__nv_bfloat16>(v), m);
  ct::store_masked(g + i, ct::element_cast<float>(v), m);
  ct::store_masked(h + i, ct::element_cast<double>(v), m);
  ct::store_masked(k + i, ct::element_cast<bool>(v), m);
}
#define CASTS(S)                                                                                                   \
  template __tile_global__ void num_cast(const S *, signed char *, unsigned short *, int *, unsigned long long *, \
                                         __half *, __nv_bfloat16 *, float *, double *, bool *, int);
CASTS(signed char)
CASTS(unsigned char)
CASTS(short)
CASTS(unsigned)
CASTS(long long)
CASTS(__half)
CASTS(__nv_bfloat16)
CASTS(float)
CASTS(double)
CASTS(bool)

// Mixed operands: what the language converts before it computes.
extern "C" __tile_global__ void num_mixed(const signed char *a, const unsigned *b, const __half *c, const double *d,
                                          long long *p, float *q, double *r, bool *s) {
  auto i = ct::iota<tile<int, 64>>();
  auto va = ct::load(a + i);
  auto vb = ct::load(b + i);
  auto vc = ct::load(c + i);
  auto vd = ct::load(d + i);
  ct::store(p + i, ct::element_cast<long long>(va) * 3 + ct::element_cast<long long>(vb >> 3u));
  ct::store(q + i, ct::element_cast<float>(vc) * 1.5f + ct::element_cast<float>(va));
  ct::store(r + i, vd * 2.0 + ct::element_cast<double>(vb));
  ct::store(s + i, ct::element_cast<int>(va) < ct::element_cast<int>(vb & 127u));
}

template <typename T>
__tile_global__ void num_round(const T *x, const T *y, T *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n, T(1)), b = ct::load_masked(y + i, i < n, T(1));
  rows<T, 64> out{z, i, n};
  out.put(0, ct::add(a, b, ct::round_toward_positive_t{}));
  out.put(1, ct::sub(a, b, ct::round_toward_negative_t{}));
  out.put(2, ct::mul(a, b, ct::round_toward_zero_t{}));
  out.put(3, ct::div(a, b, ct::round_toward_positive_t{}));
  out.put(4, ct::fma(a, b, a, ct::round_toward_negative_t{}));
  out.put(5, ct::sqrt(ct::abs(a), ct::round_toward_zero_t{}));
}
template __tile_global__ void num_round(const float *, const float *, float *, int);
template __tile_global__ void num_round(const double *, const double *, double *, int);
template __tile_global__ void num_round(const __half *, const __half *, __half *, int);
template __tile_global__ void num_round(const __nv_bfloat16 *, const __nv_bfloat16 *, __nv_bfloat16 *, int);

template <typename T>
__tile_global__ void num_nan(const T *x, const T *y, T *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n), b = ct::load_masked(y + i, i < n);
  rows<T, 64> out{z, i, n};
  out.put(0, ct::max(a, b, ct::propagate_nan_t{}));
  out.put(1, ct::min(a, b, ct::suppress_nan_t{}));
  out.put(2, ct::max(a, b));
  out.put(3, ct::floor(a));
  out.put(4, ct::ceil(b));
  out.put(5, ct::select(a == b, a, ct::select(a != a, b, -a)));
}
template __tile_global__ void num_nan(const float *, const float *, float *, int);
template __tile_global__ void num_nan(const double *, const double *, double *, int);
template __tile_global__ void num_nan(const __half *, const __half *, __half *, int);
template __tile_global__ void num_nan(const __nv_bfloat16 *, const __nv_bfloat16 *, __nv_bfloat16 *, int);

// Subnormals as zero: only f32 has the mode.
extern "C" __tile_global__ void num_flush(const float *x, const float *y, float *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n), b = ct::load_masked(y + i, i < n);
  using ftz = ct::round_subnormals_to_zero_t;
  using even = ct::round_ties_to_even_t;
  rows<float, 64> out{z, i, n};
  out.put(0, ct::add(a, b, even{}, ftz{}));
  out.put(1, ct::mul(a, b, even{}, ftz{}));
  out.put(2, ct::fma(a, b, a, even{}, ftz{}));
  out.put(3, ct::max(a, b, ct::suppress_nan_t{}, ftz{}));
  out.put(4, ct::mul(a, b));
}

template <typename T>
__tile_global__ void num_math(const T *x, const T *y, T *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n, T(1)), b = ct::load_masked(y + i, i < n, T(1));
  rows<T, 64> out{z, i, n};
  out.put(0, ct::exp(a));
  out.put(1, ct::exp2(a));
  out.put(2, ct::log(b));
  out.put(3, ct::log2(b));
  out.put(4, ct::sin(a));
  out.put(5, ct::cos(a));
  out.put(6, ct::tan(a));
  out.put(7, ct::sinh(a));
  out.put(8, ct::cosh(a));
  out.put(9, ct::tanh(a));
  out.put(10, ct::sqrt(b));
  out.put(11, ct::rsqrt(b));
  out.put(12, ct::pow(b, a));
  out.put(13, ct::atan2(a, b));
  out.put(14, ct::remainder(a, b));
}
template __tile_global__ void num_math(const float *, const float *, float *, int);
template __tile_global__ void num_math(const double *, const double *, double *, int);
template __tile_global__ void num_math(const __half *, const __half *, __half *, int);
template __tile_global__ void num_math(const __nv_bfloat16 *, const __nv_bfloat16 *, __nv_bfloat16 *, int);

extern "C" __tile_global__ void num_approx(const float *x, const float *y, float *z, int n) {
  auto i = positions<64>();
  auto a = ct::load_masked(x + i, i < n, 1.0f), b = ct::load_masked(y + i, i < n, 1.0f);
  rows<float, 64> out{z, i, n};
  out.put(0, ct::div(a, b, ct::round_approximate_t{}));
  out.put(1, ct::div(a, b, ct::round_full_t{}));
  out.put(2, ct::sqrt(b, ct::round_approximate_t{}));
  out.put(3, ct::exp(a, ct::round_approximate_t{}));
  out.put(4, ct::tanh(a, ct::round_approximate_t{}));
  out.put(5, ct::exp2(a, ct::round_subnormals_to_zero_t{}));
  out.put(6, ct::rsqrt(b, ct::round_subnormals_to_zero_t{}));
}

// Scalars are tiles of rank 0: whole programs on them, one per block.
extern "C" __tile_global__ void num_scalars(const int *x, const double *y, long long *z, double *w) {
  int b = ct::bid().x;
  long long a = x[b];
  unsigned long long u = (unsigned long long)a * 0x9E3779B97F4A7C15ull;
  u ^= u >> 29;
  z[b] = (long long)(u % 1000003ull) - (a << 3) + (a >> 2) * (b ? -1 : 1);
  double t = y[b];
  for (int k = 0; k < 20 && t > 1.0; ++k) t = t / 2.0 - 0.125;
  w[b] = t < 0 ? -t : t * double(unsigned(b) + 1u);
}

// Bytes of wider elements, one shift at a time.
extern "C" __tile_global__ void num_bytes(const unsigned *x, unsigned char *y, unsigned *crc) {
  auto i = ct::iota<tile<int, 32>>();
  auto v = ct::load(x + i);
  for (int k = 0; k < 4; ++k) ct::store(y + (i * 4 + k), ct::element_cast<unsigned char>((v >> unsigned(8 * k)) & 255u));
  auto c = ~v;
  for (int k = 0; k < 32; ++k) c = ct::select((c & 1u) == 1u, (c >> 1u) ^ 0xEDB88320u, c >> 1u);
  ct::store(crc + i, ~c);
}

// Logic on tiles of bool, and what they are in memory.
extern "C" __tile_global__ void num_bool(const bool *p, const bool *q, bool *r, int *s) {
  auto i = ct::iota<tile<int, 64>>();
  auto a = ct::load(p + i), b = ct::load(q + i);
  ct::store(r + i, (a && !b) || (!a && b));
  ct::store(r + (i + 64), a == b);
  ct::store(r + (i + 128), ct::select(a, b, !b));
  ct::store(s + i, ct::element_cast<int>(a) * 2 + ct::element_cast<int>(b));
}
