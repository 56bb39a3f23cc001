// Tile C++ kernels on views: reductions, softmax, norms, transposes, scans, matrix products.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;
using ext1 = ct::extents<int, ct::dynamic_extent>;
using ext2 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent>;
using ext3 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent, ct::dynamic_extent>;

// A row-major matrix cut into tiles of M x N.
template <size_t M, size_t N, typename T>
__tile__ auto blocks(T *p, int rows, int cols) {
  return ct::partition_view(ct::tensor_span(p, ext2(rows, cols)), ct::shape<M, N>{});
}

extern "C" __tile_global__ void cpp_softmax(const float *x, float *y, int rows, int cols) {
  int r = ct::bid().x;
  auto v = blocks<1, 256>(x, rows, cols).load_masked(ct::view_padding_negative_inf_t{}, r, 0);
  auto e = ct::exp(v - ct::reduce_max(v, 1_ic));
  blocks<1, 256>(y, rows, cols).store_masked(e / ct::sum(e, 1_ic), r, 0);
}

extern "C" __tile_global__ void cpp_layer_norm(const __half *x, const float *w, const float *b, __half *y, int rows, int cols,
                                               float eps) {
  int r = ct::bid().x;
  auto c = ct::iota<tile<int, 128>>();
  auto in = c < cols;
  auto v = ct::reshape<ct::shape<128>>(ct::element_cast<float>(blocks<1, 128>(x, rows, cols).load_masked(r, 0)));
  auto mean = ct::sum(v, 0_ic) / float(cols);
  auto d = ct::select(in, v - mean, ct::zeros<tile<float, 128>>());
  auto scale = ct::rsqrt(ct::sum(d * d, 0_ic) / float(cols) + eps);
  auto out = d * scale * ct::load_masked(w + c, in, 0.0f) + ct::load_masked(b + c, in, 0.0f);
  blocks<1, 128>(y, rows, cols).store_masked(ct::reshape<ct::shape<1, 128>>(ct::element_cast<__half>(out)), r, 0);
}

extern "C" __tile_global__ void cpp_reductions(const int *x, int *sums, int *lows, int *highs, int *at, int *bits) {
  auto v = blocks<16, 32>(x, 16, 32).load(0, 0);
  auto i = ct::iota<tile<int, 16>>();
  ct::store(sums + i, ct::reshape<ct::shape<16>>(ct::sum(v, 1_ic)));
  ct::store(lows + i, ct::reshape<ct::shape<16>>(ct::reduce_min(v, 1_ic)));
  ct::store(highs + i, ct::reshape<ct::shape<16>>(ct::reduce_max(v, 1_ic)));
  ct::store(at + i, ct::element_cast<int>(ct::reshape<ct::shape<16>>(ct::max_element(v, 1_ic))));
  ct::store(bits + i, ct::reshape<ct::shape<16>>(ct::reduce_bitxor(v, 1_ic)));
}

extern "C" __tile_global__ void cpp_column_sums(const double *x, double *y, int rows, int cols) {
  int j = ct::bid().x;
  auto acc = ct::zeros<tile<double, 1, 32>>();
  auto in = blocks<16, 32>(x, rows, cols);
  for (int i : ct::irange(0, (rows + 15) / 16)) acc = acc + ct::sum(in.load_masked(i, j), 0_ic);
  blocks<1, 32>(y, 1, cols).store_masked(acc, 0, j);
}

extern "C" __tile_global__ void cpp_any_all(const float *x, bool *any, bool *all) {
  auto v = blocks<8, 64>(x, 8, 64).load(0, 0);
  auto i = ct::iota<tile<int, 8>>();
  ct::store(any + i, ct::reshape<ct::shape<8>>(ct::any_of(v > 1.9f, 1_ic)));
  ct::store(all + i, ct::reshape<ct::shape<8>>(ct::all_of(v > -1.9f, 1_ic)));
}

extern "C" __tile_global__ void cpp_scans(const int *x, int *sums, int *back, long long *prods) {
  auto v = blocks<4, 64>(x, 4, 64).load(0, 0);
  blocks<4, 64>(sums, 4, 64).store(ct::partial_sum(v, 1_ic), 0, 0);
  blocks<4, 64>(back, 4, 64).store(ct::partial_sum(v, 0_ic, ct::scan_backward_t{}), 0, 0);
  blocks<4, 64>(prods, 4, 64).store(ct::partial_prod(ct::element_cast<long long>(v), 1_ic), 0, 0);
}

extern "C" __tile_global__ void cpp_transpose(const __half *x, __half *y, int rows, int cols) {
  int i = ct::bid().x, j = ct::bid().y;
  blocks<64, 32>(y, cols, rows).store_masked(ct::transpose(blocks<32, 64>(x, rows, cols).load_masked(i, j)), j, i);
}

extern "C" __tile_global__ void cpp_permute(const int *x, int *y) {
  auto in = ct::partition_view(ct::tensor_span(x, ct::extents<int, 4, 8, 16>{}), ct::shape<4, 8, 16>{});
  auto out = ct::partition_view(ct::tensor_span(y, ct::extents<int, 16, 4, 8>{}), ct::shape<16, 4, 8>{});
  out.store(ct::permute(in.load(0, 0, 0), ct::dimension_map<2, 0, 1>{}), 0, 0, 0);
}

extern "C" __tile_global__ void cpp_cat_extract(const float *x, float *y) {
  auto v = blocks<16, 16>(x, 16, 16).load(0, 0);
  auto a = ct::extract(v, ct::shape<8, 16>{}, 0, 0), b = ct::extract(v, ct::shape<8, 16>{}, 1, 0);
  blocks<16, 16>(y, 16, 16).store(ct::cat(b, a * 2.0f, 0_ic), 0, 0);
}

template <size_t M, size_t N, size_t K, typename T, typename O>
__tile__ void product(const T *a, const T *b, O *c, int m, int n, int k) {
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, M, N>>();
  auto av = blocks<M, K>(a, m, k);
  auto bv = blocks<K, N>(b, k, n);
  for (int s : ct::irange(0, (k + int(K) - 1) / int(K)))
    acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  blocks<M, N>(c, m, n).store_masked(ct::element_cast<O>(acc), i, j);
}

extern "C" __tile_global__ void cpp_matmul_f16(const __half *a, const __half *b, float *c, int m, int n, int k) {
  product<32, 32, 32>(a, b, c, m, n, k);
}
extern "C" __tile_global__ void cpp_matmul_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n,
                                                int k) {
  product<64, 32, 16>(a, b, c, m, n, k);
}
extern "C" __tile_global__ void cpp_matmul_f32(const float *a, const float *b, float *c, int m, int n, int k) {
  product<16, 16, 16>(a, b, c, m, n, k);
}
extern "C" __tile_global__ void cpp_matmul_i8(const signed char *a, const signed char *b, int *c, int m, int n, int k) {
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<int, 32, 32>>();
  for (int s : ct::irange(0, (k + 31) / 32))
    acc = ct::mma(blocks<32, 32>(a, m, k).load_masked(i, s), blocks<32, 32>(b, k, n).load_masked(s, j), acc);
  blocks<32, 32>(c, m, n).store_masked(acc, i, j);
}
extern "C" __tile_global__ void cpp_matmul_u8_s8(const unsigned char *a, const signed char *b, int *c) {
  auto acc = ct::mma(blocks<16, 32>(a, 16, 32).load(0, 0), blocks<32, 16>(b, 32, 16).load(0, 0), ct::full<tile<int, 16, 16>>(7));
  blocks<16, 16>(c, 16, 16).store(acc, 0, 0);
}
extern "C" __tile_global__ void cpp_matmul_f64(const double *a, const double *b, double *c) {
  auto acc = ct::matmul(blocks<16, 32>(a, 16, 32).load(0, 0), blocks<32, 16>(b, 32, 16).load(0, 0));
  blocks<16, 16>(c, 16, 16).store(acc, 0, 0);
}

// Column-major operands: the view carries the layout.
extern "C" __tile_global__ void cpp_matmul_tt(const __half *a, const __half *b, float *c, int m, int n, int k) {
  auto av = ct::partition_view(ct::tensor_span(a, ext2(m, k), ct::layout_left{}), ct::shape<32, 32>{});
  auto bv = ct::partition_view(ct::tensor_span(b, ext2(k, n), ct::layout_left{}), ct::shape<32, 32>{});
  int i = ct::bid().x, j = ct::bid().y;
  auto acc = ct::zeros<tile<float, 32, 32>>();
  for (int s : ct::irange(0, (k + 31) / 32)) acc = ct::mma(av.load_masked(i, s), bv.load_masked(s, j), acc);
  blocks<32, 32>(c, m, n).store_masked(acc, i, j);
}

extern "C" __tile_global__ void cpp_padding(const float *x, float *y, int n) {
  auto in = ct::partition_view(ct::tensor_span(x, ext1(n)), ct::shape<32>{});
  auto out = ct::partition_view(ct::tensor_span(y, ct::extents<int, 64>{}), ct::shape<32>{});
  out.store(in.load_masked(ct::view_padding_nan_t{}, 0), 0);
  out.store(in.load_masked(ct::view_padding_positive_inf_t{}, 0), 1);
}

extern "C" __tile_global__ void cpp_windows(const float *x, float *y, int n) {
  auto in = ct::strided_view(ct::tensor_span(x, ext1(n)), ct::shape<16>{}, ct::strides<int, 4>{});
  int b = ct::bid().x;
  ct::store(y + b, ct::reshape<ct::shape<>>(ct::sum(in.load_masked(b), 0_ic)));
}

extern "C" __tile_global__ void cpp_gather_view(const float *x, const int *rows, float *y, int n) {
  auto in = ct::gather_scatter_view(ct::tensor_span(x, ext2(n, 32)), ct::shape<8, 32>{}, 0_ic);
  auto out = blocks<8, 32>(y, 8, 32);
  out.store(in.load_masked(ct::load(rows + ct::iota<tile<int, 8>>()), 0), 0, 0);
}

extern "C" __tile_global__ void cpp_fp8(const float *x, __nv_fp8_e4m3 *a, float *back, int n) {
  auto i = ct::iota<tile<int, 64>>() + int(ct::bid().x) * 64;
  auto m = i < n;
  auto v = ct::element_cast<__nv_fp8_e4m3>(ct::load_masked(x + i, m, 0.0f));
  ct::store_masked(a + i, v, m);
  ct::store_masked(back + i, ct::element_cast<float>(v) + 1.0f, m);
}
