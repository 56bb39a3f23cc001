// Clusters: distributed shared memory, cluster barriers, an mbarrier pipeline between warps (sm_90).
extern "C" __global__ __cluster_dims__(4, 1, 1) void ring(const int *in, int *out) {
  __shared__ int s[64];
  unsigned rank, mine, theirs;
  int t = threadIdx.x, v;
  s[t] = in[blockIdx.x * 64 + t];
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  mine = (unsigned)__cvta_generic_to_shared(s + (t ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"((rank + 1) % 4));
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(theirs));
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  out[blockIdx.x * 64 + t] = v * 10 + rank;
}

__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void wait(unsigned bar, unsigned parity) {
  asm volatile("{ .reg .pred p; LAB: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @p bra DONE; bra LAB; DONE: }"
               ::"r"(bar), "r"(parity) : "memory");
}
__device__ void arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
extern "C" __global__ void pipeline(const int *in, int *out, int n) {
  __shared__ int buf[3][32];
  __shared__ __align__(8) unsigned long long full[3], empty[3];
  int t = threadIdx.x, lane = t % 32;
  if (t < 3) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(full + t)) : "memory");
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(empty + t)) : "memory");
  }
  __syncthreads();
  if (t < 32) {
    for (int i = 0; i < n; ++i) {
      wait(at(empty + i % 3), (i / 3 + 1) & 1);
      buf[i % 3][lane] = in[i * 32 + lane];
      arrive(at(full + i % 3));
    }
  } else {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
      wait(at(full + i % 3), (i / 3) & 1);
      sum += buf[i % 3][31 - lane] * (i + 1);
      arrive(at(empty + i % 3));
    }
    out[lane] = sum;
  }
}
