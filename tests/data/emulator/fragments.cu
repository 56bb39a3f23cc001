// Matrix fragments of CUDA C++, and intrinsics on the bytes of words.
#include <mma.h>

using namespace nvcuda;

// d = relu(a b) + c, through halves, one 16x16 tile a warp; a is row-major, b column-major
extern "C" __global__ void half_tiles(const half* a, const half* b, const float* c, float* d, int n, int k) {
  int tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, row = tile / (n / 16) * 16, column = tile % (n / 16) * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, add;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(fa, a + row * k + i, k);
    wmma::load_matrix_sync(fb, b + column * k + i, k);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  wmma::load_matrix_sync(add, c + row * n + column, n, wmma::mem_row_major);
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = fmaxf(sum.x[i], 0.0f) + add.x[i];
  wmma::store_matrix_sync(d + row * n + column, sum, n, wmma::mem_row_major);
}

extern "C" __global__ void byte_tile(const signed char* a, const signed char* b, int* d) {
  wmma::fragment<wmma::matrix_a, 8, 32, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 32, 16, signed char, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 32, 16, int> sum;
  wmma::fill_fragment(sum, 1);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(sum, fa, fb, sum);
  wmma::store_matrix_sync(d, sum, 32, wmma::mem_row_major);
}

extern "C" __global__ void double_tile(const double* a, const double* b, double* d) {
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum;
  wmma::fill_fragment(sum, 0.5);
  wmma::load_matrix_sync(fa, a, 4);
  wmma::load_matrix_sync(fb, b, 8);
  wmma::mma_sync(sum, fa, fb, sum);
  wmma::store_matrix_sync(d, sum, 8, wmma::mem_col_major);
}

extern "C" __global__ void bytes(const unsigned* x, const unsigned* y, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned a = x[i], b = y[i];
  unsigned r[] = {__vadd4(a, b), __vsub4(a, b), __vabsdiffu4(a, b), __vmaxu4(a, b), __vmins4(a, b), __vavgu4(a, b), __vcmpgtu4(a, b),
                  __vsadu4(a, b), __vaddss4(a, b), __vabsdiffs2(a, b), __vadd2(a, b), __vmaxs2(a, b), __dp4a(a, b, 7u), __dp2a_lo(a, b, 7u),
                  __byte_perm(a, b, 0x5140), __funnelshift_l(a, b, 13), __brev(a), __sad(int(a), int(b), 3u)};
  for (int k = 0; k < 18; ++k) out[k * n + i] = r[k];
}
