// Math functions and narrow floats: nvcc expands them to long PTX with exact fma sequences.

extern "C" __global__ void mathf(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  float r[] = {sinf(x), cosf(x), expf(x * 0.1f), logf(fabsf(x)), sqrtf(fabsf(x)), tanhf(x), powf(fabsf(x), 1.7f),
               x / 3.7f, rsqrtf(fabsf(x)), erff(x), atan2f(x, 2.f), cbrtf(x), log1pf(fabsf(x)), floorf(x),
               rintf(x), fmodf(x, 1.3f)};
  for (int j = 0; j < 16; ++j) out[i * 16 + j] = r[j];
}

extern "C" __global__ void mathd(const double *in, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = in[i];
  double r[] = {sin(x), cos(x), exp(x * 0.1), log(fabs(x)), sqrt(fabs(x)), tanh(x), pow(fabs(x), 1.7), x / 3.7,
                cbrt(x), erf(x), atan2(x, 2.), fma(x, x, -1.0)};
  for (int j = 0; j < 12; ++j) out[i * 12 + j] = r[j];
}

extern "C" __global__ void rounding(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i];
  float r[] = {__fadd_rz(x, y), __fadd_ru(x, y), __fadd_rd(x, y), __fmul_rz(x, y), __fmul_ru(x, y), __fmul_rd(x, y),
               __fdiv_rz(x, y), __fdiv_ru(x, y), __fdiv_rd(x, y), __fsqrt_rz(fabsf(x)), __fsqrt_ru(fabsf(x)),
               __fsqrt_rd(fabsf(x)), __fmaf_rz(x, y, x), __fmaf_ru(x, y, y), __fmaf_rd(x, y, 1.f), __fmaf_rn(x, y, x)};
  for (int j = 0; j < 16; ++j) out[i * 16 + j] = r[j];
}

// f16 and bf16 by instruction (the header of __half needs packages that the peers lack).
#define H1(op, x) ({ unsigned short r_; asm(op " %0, %1;" : "=h"(r_) : "h"(x)); r_; })
#define H2(op, x, y) ({ unsigned short r_; asm(op " %0, %1, %2;" : "=h"(r_) : "h"(x), "h"(y)); r_; })
#define H3(op, x, y, z) ({ unsigned short r_; asm(op " %0, %1, %2, %3;" : "=h"(r_) : "h"(x), "h"(y), "h"(z)); r_; })
#define W3(op, x, y, z) ({ unsigned r_; asm(op " %0, %1, %2, %3;" : "=r"(r_) : "r"(x), "r"(y), "r"(z)); r_; })

extern "C" __global__ void halves(const unsigned short *a, const unsigned short *b, unsigned short *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned short x = a[i], y = b[i];
  unsigned p = x | (unsigned)y << 16, q = y | (unsigned)x << 16, w = W3("fma.rn.f16x2", p, p, q);
  unsigned short r[] = {H2("add.rn.f16", x, y), H2("mul.rn.f16", x, y), H3("fma.rn.f16", x, y, x),
                        H2("max.f16", x, y), H2("min.f16", x, y), H2("sub.rn.f16", x, y),
                        (unsigned short)w, (unsigned short)(w >> 16)};
  for (int j = 0; j < 8; ++j) out[i * 8 + j] = r[j];
}

extern "C" __global__ void bhalves(const unsigned short *a, const unsigned short *b, unsigned short *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned short x = a[i], y = b[i];
  unsigned p = x | (unsigned)y << 16, q = y | (unsigned)x << 16, w = W3("fma.rn.bf16x2", p, p, q);
  unsigned short r[] = {H3("fma.rn.bf16", x, y, y), H3("fma.rn.bf16", x, y, x), H2("max.bf16", x, y),
                        H2("min.bf16", x, y), H1("neg.bf16", x), H1("abs.bf16", y),
                        (unsigned short)w, (unsigned short)(w >> 16)};
  for (int j = 0; j < 8; ++j) out[i * 8 + j] = r[j];
}

__device__ unsigned short to_half_rz(float x) {
  unsigned short r;
  asm("cvt.rz.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}

extern "C" __global__ void conversions(const float *in, long long *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  long long r[] = {__float2int_rn(x), __float2int_rz(x), __float2int_ru(x), __float2int_rd(x), __float2uint_rz(x),
                   __float2ll_rn(x), (long long)__float2ull_rz(x), (long long)to_half_rz(x),
                   (signed char)x, (unsigned char)x, __float_as_int(__int2float_rz(__float_as_int(x))),
                   __float_as_int(__ll2float_ru((long long)__float_as_int(x) * 7777777))};
  for (int j = 0; j < 12; ++j) out[i * 12 + j] = r[j];
}
