// Plain SIMT kernels: index arithmetic, divergence, shared memory, shuffles, atomics, printf.
#include <cstdio>
#include <cstdint>

extern "C" __global__ void vadd(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void int_corners(const int *a, const int *b, long long *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i], y = b[i];
  unsigned ux = x, uy = y;
  long long lx = ((long long)x << 32) | uy, ly = ((long long)y << 17) ^ ux;
  long long *o = out + (size_t)i * 24;
  o[0] = (long long)x + y;
  o[1] = (int)(ux * uy);
  o[2] = y ? (x == INT32_MIN && y == -1 ? 0 : x / y) : 7;
  o[3] = y ? (x == INT32_MIN && y == -1 ? 0 : x % y) : 7;
  o[4] = uy ? ux / uy : 7;
  o[5] = uy ? ux % uy : 7;
  o[6] = __mulhi(x, y);
  o[7] = __umulhi(ux, uy);
  o[8] = __mul64hi(lx, ly);
  o[9] = (long long)__umul64hi(lx, ly);
  o[10] = __clz(x);
  o[11] = __popcll(lx);
  o[12] = __brev(ux);
  o[13] = __ffs(y);
  o[14] = x << (y & 31);
  o[15] = x >> (y & 31);
  o[16] = ux >> (uy & 31);
  o[17] = __funnelshift_l(ux, uy, x & 63);
  o[18] = __funnelshift_rc(ux, uy, x & 63);
  o[19] = __byte_perm(ux, uy, 0x7531 ^ (x & 0x8888));
  o[20] = __sad(x, y, 5u);
  o[21] = ly ? lx / (ly | 1) : 7;
  o[22] = __dp4a(x, y, 11);
  o[23] = min(x, y) ^ max(ux, uy);
}

extern "C" __global__ void reduce_sum(const float *in, float *out, int n) {
  __shared__ float part[32];
  float s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
  for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x == 0) out[blockIdx.x] = s;
  }
}

extern "C" __global__ void transpose(const float *in, float *out, int rows, int cols) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * cols + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < rows && y + j < cols) out[(size_t)(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  int r = blockIdx.y * 16 + threadIdx.y, q = blockIdx.x * 16 + threadIdx.x;
  float s = 0;
  for (int t = 0; t < (k + 15) / 16; ++t) {
    int ka = t * 16 + threadIdx.x, kb = t * 16 + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = r < m && ka < k ? a[r * k + ka] : 0;
    bs[threadIdx.y][threadIdx.x] = kb < k && q < n ? b[kb * n + q] : 0;
    __syncthreads();
    for (int j = 0; j < 16; ++j) s += as[threadIdx.y][j] * bs[j][threadIdx.x];
    __syncthreads();
  }
  if (r < m && q < n) c[r * n + q] = s;
}

extern "C" __global__ void collatz(const unsigned *in, int *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long v = in[i];
  int count = 0;
  while (v != 1) {
    if (v & 1) v = 3 * v + 1; else v >>= 1;
    if (++count > 500) break;
  }
  int extra = 0;
  for (int a = 0; a < i % 5; ++a)
    for (int b = a; b < 7; ++b) {
      if (b == i % 7) continue;
      if (a * b > 11) break;
      extra += a * 3 + b;
    }
  switch (i % 9) {
    case 0: extra += 100; break;
    case 1: extra ^= 77;
    case 2: extra *= 3; break;
    case 3: extra -= 1000; break;
    case 4: extra = -extra; break;
    case 5: steps[i] = -1; return;
    case 7: extra <<= 2; break;
    default: extra += 5;
  }
  steps[i] = count * 1000 + extra;
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

extern "C" __global__ void atomics(int *i32, unsigned *u32, unsigned long long *u64, float *f32, double *f64,
                                   int *order) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicMin(&i32[0], t - 50);
  atomicMax(&i32[1], (t * 37) % 101);
  atomicOr(&u32[0], 1u << (t & 31));
  atomicAnd(&u32[1], ~(1u << (t & 7)));
  atomicXor(&u32[2], t);
  atomicInc(&u32[3], 10);
  atomicDec(&u32[4], 7);
  atomicAdd(&u64[0], (unsigned long long)t << 20);
  atomicMax(&u64[1], (unsigned long long)t * t);
  atomicAdd(&f32[t & 3], 0.25f);
  atomicAdd(&f64[0], 0.5);
  order[atomicAdd(&u32[5], 1)] = t;
  unsigned seen = u32[6], want;
  do { want = seen; seen = atomicCAS(&u32[6], want, want + 3); } while (seen != want);
}

__device__ int turn;
extern "C" __global__ void spin_lock(int *lock, volatile int *count, int *order) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1)) __nanosleep(20);
    __threadfence();
    int c = *count;
    *count = c + 1;
    order[c] = blockIdx.x;
    __threadfence();
    atomicExch(lock, 0);
  }
  __syncthreads();
  // Every lane of a warp takes the lock, one after another.
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      count[1] = count[1] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

extern "C" __global__ void chain(volatile int *flags, int *out) {
  // CTA i waits for CTA i+1: the last one starts.
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 < gridDim.x)
      while (flags[blockIdx.x + 1] == 0) {}
    out[blockIdx.x] = blockIdx.x + 1 < gridDim.x ? flags[blockIdx.x + 1] + 1 : 1;
    __threadfence();
    flags[blockIdx.x] = out[blockIdx.x];
  }
}

extern "C" __global__ void say(int n, float f, const char *name) {
  if (threadIdx.x < n)
    printf("hello %d of %d: %5.2f|%-6s|%x %llu %c %lld %% %e %s\n", threadIdx.x, n, f * threadIdx.x, "ab",
           threadIdx.x * 77, (unsigned long long)threadIdx.x << 40, 'A' + threadIdx.x, -5ll * threadIdx.x, f, name);
}

struct Pair { double a; int b; short c[3]; };
__device__ __noinline__ Pair mix(Pair p, int k) {
  if (k & 1) { p.a *= k; return p; }
  p.b += k;
  p.c[k % 3] = (short)(k * 5);
  return p;
}
__device__ __noinline__ float twice(float x) { return x * 2; }
__device__ __noinline__ float negate(float x) { return -x; }
typedef float (*fn)(float);
__device__ fn table[2] = {twice, negate};
__constant__ int weights[4] = {1, 10, 100, 1000};
extern "C" __global__ void calls(Pair seed, double *out, float *out2) {
  int t = threadIdx.x;
  Pair p = mix(seed, t);
  Pair q = mix(p, t / 2);
  out[t] = q.a + q.b + q.c[0] + 2 * q.c[1] + 3 * q.c[2];
  out2[t] = table[t % 3 == 0](t + 0.5f) * weights[t & 3];
}

extern "C" __global__ void votes(const int *in, unsigned *out) {
  int t = threadIdx.x, v = in[t];
  out[t * 8 + 0] = __ballot_sync(~0u, v > 3);
  out[t * 8 + 1] = __any_sync(~0u, v == 9) + 2 * __all_sync(~0u, v < 10);
  out[t * 8 + 2] = __shfl_sync(~0u, v, (t * 7) & 31);
  out[t * 8 + 3] = __shfl_up_sync(~0u, v, 3, 8);
#if __CUDA_ARCH__ >= 800
  out[t * 8 + 4] = __reduce_add_sync(~0u, v);
  out[t * 8 + 5] = __match_any_sync(~0u, v);
#endif
  int pred = 0;
  out[t * 8 + 6] = __match_all_sync(~0u, v / 100, &pred) + pred;
  out[t * 8 + 7] = 0;
  if (v & 1) out[t * 8 + 7] = __popc(__activemask()) + __syncthreads_count(0) * 0;
  else out[t * 8 + 7] = 100 + __popc(__activemask()) + __syncthreads_count(0) * 0;
  out[t * 8 + 6] += 1000 * __syncthreads_count(v > 4) + 100000 * __syncthreads_or(v == 8);
}

extern "C" __global__ void scan(const int *in, int *out, int n) {
  extern __shared__ int buf[];
  int t = threadIdx.x;
  buf[t] = t < n ? in[t] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    int v = t >= d ? buf[t - d] : 0;
    __syncthreads();
    buf[t] += v;
    __syncthreads();
  }
  if (t < n) out[t] = buf[t];
}

extern "C" __global__ void local_array(const int *in, int *out) {
  int a[16];
  for (int i = 0; i < 16; ++i) a[i] = in[i] * threadIdx.x;
  for (int i = 0; i < 15; ++i)
    for (int j = 0; j < 15 - i; ++j)
      if (a[j] > a[j + 1]) { int x = a[j]; a[j] = a[j + 1]; a[j + 1] = x; }
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = a[in[i] & 15];
}
