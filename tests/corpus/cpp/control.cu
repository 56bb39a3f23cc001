// Tile C++ control flow, atomics, locks, 64-bit addressing, globals and local arrays.
#include <cuda_fp16.h>
#include <cuda_tile.h>

namespace ct = cuda::tiles;
using namespace ct::literals;

template <typename E, size_t... N>
using tile = ct::tile<E, ct::shape<N...>>;
using relaxed = ct::memory_order_relaxed_t;
using acquire = ct::memory_order_acquire_t;
using release = ct::memory_order_release_t;
using acq_rel = ct::memory_order_acq_rel_t;
using device = ct::thread_scope_device_t;

extern "C" __tile_global__ void cpp_collatz(const int *x, int *y) {
  int b = ct::bid().x;
  int v = x[b], steps = 0;
  while (v > 1) {
    v = v % 2 == 0 ? v / 2 : 3 * v + 1;
    ++steps;
  }
  y[b] = steps;
}

// Leaves two loops at once, and skips some rounds.
extern "C" __tile_global__ void cpp_early_exit(const int *x, int *y, int n, int limit) {
  auto at = ct::iota<tile<int, 32>>();
  auto acc = ct::zeros<tile<int, 32>>();
  int seen = 0;
  for (int i = 0; i < n; ++i) {
    if (i % 3 == 1) continue;
    bool stop = false;
    for (int j = 0; j < 4; ++j) {
      auto v = ct::load(x + at + (i * 4 + j) * 32);
      int top = int(ct::reduce_max(v, 0_ic));
      if (top > limit) {
        stop = true;
        break;
      }
      acc = acc + v;
      ++seen;
    }
    if (stop) break;
  }
  ct::store(y + at, acc + seen);
}

extern "C" __tile_global__ void cpp_return_early(const float *x, float *y, int n) {
  int b = ct::bid().x;
  if (b * 64 >= n) return;
  auto i = ct::iota<tile<int, 64>>() + b * 64;
  ct::store_masked(y + i, ct::load_masked(x + i, i < n) * 2.0f, i < n);
}

extern "C" __tile_global__ void cpp_switch(const float *x, float *y, int mode) {
  auto i = ct::iota<tile<int, 64>>();
  auto v = ct::load(x + i);
  switch (mode + int(ct::bid().x)) {
    case 0: v = v + 1.0f; break;
    case 1: v = v * v; [[fallthrough]];
    case 2: v = -v; break;
    default: v = ct::exp(v);
  }
  ct::store(y + i + int(ct::bid().x) * 64, v);
}

extern "C" __tile_global__ void cpp_histogram(const unsigned char *x, int *bins, int n) {
  auto i = ct::iota<tile<int, 128>>() + int(ct::bid().x) * 128;
  auto m = i < n;
  auto v = ct::element_cast<int>(ct::load_masked(x + i, m));
  ct::atomic_add_masked(bins + v, ct::ones<tile<int, 128>>(), m, relaxed{}, device{});
}

extern "C" __tile_global__ void cpp_atomics(unsigned *x, unsigned *old, float *sum) {
  auto i = ct::iota<tile<int, 32>>();
  auto v = ct::element_cast<unsigned>(i) * 7u + 1u;
  ct::store(old + i, ct::atomic_max(x + i, v, relaxed{}, device{}));
  ct::store(old + i + 32, ct::atomic_xor(x + i + 32, v, acq_rel{}, device{}));
  ct::store(old + i + 64, ct::atomic_xchg(x + i + 64, v, acquire{}));
  ct::store(old + i + 96, ct::atomic_compare_exchange(x + i + 96, v, v + 1u, acq_rel{}, device{}));
  ct::atomic_sub(sum + i % 4, ct::full<tile<float, 32>>(0.5f), relaxed{}, device{});
}

extern "C" __tile_global__ void cpp_spin_lock(int *lock, int *total, const int *x) {
  auto i = ct::iota<tile<int, 32>>();
  auto v = ct::load(x + i + int(ct::bid().x) * 32);
  while (int(ct::atomic_compare_exchange(lock, 0, 1, acquire{}, device{})) != 0) {
  }
  ct::store(total + i, ct::load(total + i) + v);
  ct::atomic_store(lock, 0, release{}, device{});
}

// Producer and consumer blocks with a flag per pair: block 2k+1 waits for block 2k.
extern "C" __tile_global__ void cpp_flags(int *flag, int *data, int *out) {
  int b = ct::bid().x;
  auto i = ct::iota<tile<int, 32>>();
  if (b % 2 == 0) {
    ct::store(data + i + b * 32, i * (b + 1));
    ct::atomic_store(flag + b, 1, release{}, device{});
  } else {
    while (int(ct::atomic_load(flag + (b - 1), acquire{}, device{})) == 0) {
    }
    ct::store(out + i + b * 32, ct::load(data + i + (b - 1) * 32) + 5);
  }
}

extern "C" __tile_global__ void cpp_wide(const short *x, short *y, long long n, long long stride) {
  auto i = ct::element_cast<long long>(ct::iota<tile<int, 64>>()) + (long long)ct::bid().x * 64;
  auto m = i < n;
  ct::store_masked(y + i, ct::load_masked(x + i * stride, m), m);
}

// Walks backwards through memory with a pointer that moves in the loop.
extern "C" __tile_global__ void cpp_moving_pointer(const float *x, float *y, int chunks) {
  auto i = ct::iota<tile<int, 32>>();
  auto p = x + i + (chunks - 1) * 32;
  auto acc = ct::zeros<tile<float, 32>>();
  for (int k = 0; k < chunks; ++k) {
    acc = acc * 0.5f + ct::load(p);
    p = p - 32;
  }
  ct::store(y + i, acc);
}

// Scalars of several sizes, with padding between them in the parameter block.
extern "C" __tile_global__ void cpp_scalar_arguments(const float *x, float *y, signed char a, double b, short c, bool d) {
  auto i = ct::iota<tile<int, 64>>();
  ct::store(y + i, ct::load(x + i) * float(b) + float(a) + (d ? float(c) : 0.0f));
}

__tile__ float weights[4] = {0.1f, 0.2f, 0.3f, 0.4f};

extern "C" __tile_global__ void cpp_global_table(const float *x, float *y) {
  auto i = ct::iota<tile<int, 64>>();
  ct::store(y + i, ct::load(x + i) * ct::load(weights + i % 4));
}

extern "C" __tile_global__ void cpp_local_array(const int *x, int *y) {
  int b = ct::bid().x;
  int ring[4] = {1, 2, 3, 4};
  for (int k = 0; k < 16; ++k) ring[(k + x[b]) % 4] += ring[k % 4] + k;
  y[b] = ring[0] + 10 * ring[1] + 100 * ring[2] + 1000 * ring[3];
}
