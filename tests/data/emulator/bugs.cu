// One planted bug a kernel; -DFIXED compiles the same kernels without it. For the emulator's checks.
#ifdef FIXED
#define WHEN_FIXED(x) x
#define BUG(bad, good) good
#else
#define WHEN_FIXED(x)
#define BUG(bad, good) bad
#endif

extern "C" __global__ void shared_race(const int *in, int *out) {       // the barrier before the exchange is missing
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = in[t];
  WHEN_FIXED(__syncthreads();)
  out[t] = s[127 - t];
}

extern "C" __global__ void loop_race(const int *in, int *out) {         // the buffer is overwritten while others read it
  __shared__ int s[128];
  int t = threadIdx.x, sum = 0;
  for (int i = 0; i < 4; ++i) {
    s[t] = in[t] + i;
    __syncthreads();
    sum += s[(t + 37) % 128];
    WHEN_FIXED(__syncthreads();)
  }
  out[t] = sum;
}

extern "C" __global__ void global_race(int *in, int *out) {             // a block reads what another one writes
  int t = threadIdx.x + blockIdx.x * 128;
  out[t] = in[BUG((t + 128) % 256, t)];
  in[t] = t;
}

extern "C" __global__ void uninitialised(const int *in, int *out) {     // the last element is never written
  __shared__ int s[128];
  int t = threadIdx.x;
  if (t < BUG(127, 128)) s[t] = in[t];
  __syncthreads();
  out[t] = s[127 - t];
}

extern "C" __global__ void misaligned(const int *in, int *out) {        // a vector access at an odd element
  int t = threadIdx.x;
  if (t < 20) *(int2 *)(out + t * 2 + BUG(1, 0)) = make_int2(in[t], t);
}

extern "C" __global__ void out_of_bounds(const int *in, int *out) {
  int t = threadIdx.x;
  out[t + BUG(200, 0)] = in[t];
}

extern "C" __global__ void divergent(const int *in, int *out) {         // a barrier that some threads never reach
  int t = threadIdx.x, v = in[t];
  if (t < BUG(100, 128)) __syncthreads();
  out[t] = v;
}

extern "C" __global__ void no_wait(const int *in, int *out) {           // the copy is not waited for
  __shared__ __align__(16) int s[128];
  int t = threadIdx.x;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(s + t)), "l"(in + t));
  asm volatile("cp.async.commit_group;");
  WHEN_FIXED(asm volatile("cp.async.wait_group 0;" ::: "memory");)
  __syncthreads();
  out[t] = s[127 - t];
}

__device__ unsigned ticket;
extern "C" __global__ void last_block(const int *in, int *out) {        // results are published without a fence
  __shared__ unsigned last;
  int t = threadIdx.x;
  if (t == 0) {
    out[blockIdx.x] = in[blockIdx.x] * 2;
    WHEN_FIXED(__threadfence();)
    last = atomicAdd(&ticket, 1) == gridDim.x - 1;
    WHEN_FIXED(__threadfence();)
  }
  __syncthreads();
  if (last && t == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += out[i];
    out[128] = sum;
  }
}
