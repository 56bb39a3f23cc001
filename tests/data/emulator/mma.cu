// Tensor-core instructions through inline assembly, ldmatrix, cp.async.
#include <cstdint>

__device__ uint32_t smem(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// C[64,64] = A[64,K] B[K,64] per CTA of 4 warps, f16 inputs, f32 sums, double buffered with cp.async.
extern "C" __global__ void gemm_f16(const unsigned short *a, const unsigned short *b, float *c, int m, int n, int k) {
  __shared__ __align__(16) unsigned short as[2][64][40], bs[2][32][72];
  int t = threadIdx.x, warp = t / 32, lane = t % 32;
  int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
  float acc[8][4] = {};
  auto load = [&](int stage, int kk) {
    for (int i = t; i < 64 * 4; i += 128) {
      int r = i / 4, q = i % 4 * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&as[stage][r][q])),
                   "l"(a + (size_t)(row0 + r) * k + kk + q));
    }
    for (int i = t; i < 32 * 8; i += 128) {
      int r = i / 8, q = i % 8 * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&bs[stage][r][q])),
                   "l"(b + (size_t)(kk + r) * n + col0 + q));
    }
    asm volatile("cp.async.commit_group;");
  };
  load(0, 0);
  for (int kk = 0, stage = 0; kk < k; kk += 32, stage ^= 1) {
    if (kk + 32 < k) {
      load(stage ^ 1, kk + 32);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    for (int ks = 0; ks < 32; ks += 16) {
      uint32_t ar[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(ar[0]), "=r"(ar[1]), "=r"(ar[2]), "=r"(ar[3])
                   : "r"(smem(&as[stage][warp * 16 + lane % 16][ks + lane / 16 * 8])));
      for (int j = 0; j < 8; ++j) {
        uint32_t br[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(br[0]), "=r"(br[1])
                     : "r"(smem(&bs[stage][ks + lane % 16][j * 8])));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(acc[j][0]), "+f"(acc[j][1]), "+f"(acc[j][2]), "+f"(acc[j][3])
                     : "r"(ar[0]), "r"(ar[1]), "r"(ar[2]), "r"(ar[3]), "r"(br[0]), "r"(br[1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j)
    for (int e = 0; e < 4; ++e)
      c[(size_t)(row0 + warp * 16 + lane / 4 + e / 2 * 8) * n + col0 + j * 8 + lane % 4 * 2 + e % 2] = acc[j][e];
}

// One warp, fragments read from row-major A and column-major B by the layouts of the ISA manual.
extern "C" __global__ void mma_s8(const int *a, const int *b, int *d) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;          // A 16x32 bytes = 16x8 words, B^T 8x32 bytes
  int r[4];
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + 4 + t]), "r"(a[(g + 8) * 8 + 4 + t]),
        "r"(b[g * 8 + t]), "r"(b[g * 8 + 4 + t]), "r"(1));
  for (int e = 0; e < 4; ++e) d[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = r[e];
}

extern "C" __global__ void mma_tf32(const float *a, const float *b, float *d) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;          // A 16x8, B^T 8x8
  float r[4];
  uint32_t x[4], y[2];
  float av[4] = {a[g * 8 + t], a[(g + 8) * 8 + t], a[g * 8 + 4 + t], a[(g + 8) * 8 + 4 + t]};
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(av[i]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[0]) : "f"(b[g * 8 + t]));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y[1]) : "f"(b[g * 8 + 4 + t]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "f"(0.5f));
  for (int e = 0; e < 4; ++e) d[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = r[e];
}

extern "C" __global__ void mma_f64(const double *a, const double *b, double *d) {
  int lane = threadIdx.x, g = lane / 4, t = lane % 4;          // A 8x4, B^T 8x4
  double r[2];
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%4};"
      : "=d"(r[0]), "=d"(r[1]) : "d"(a[g * 4 + t]), "d"(b[g * 4 + t]), "d"(0.25));
  d[g * 8 + t * 2] = r[0];
  d[g * 8 + t * 2 + 1] = r[1];
}

// Copies of fewer bytes than the destination fill with zeros.
extern "C" __global__ void zfill(const int *in, int *out, int n) {
  __shared__ __align__(16) int buf[128 * 4];
  int t = threadIdx.x, left = n - t * 4;
  int bytes = left >= 4 ? 16 : left > 0 ? left * 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(smem(&buf[t * 4])), "l"(in + t * 4), "r"(bytes));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  for (int i = 0; i < 4; ++i) out[t * 4 + i] = buf[(t * 4 + i) ^ 5];
}
