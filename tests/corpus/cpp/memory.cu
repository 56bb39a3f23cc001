// Tile C++ memory: atomics of every kind, order and scope, locks, views of all layouts, printing, checks, tables.
#include <cuda_bf16.h>
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
using block = ct::thread_scope_block_t;
using device = ct::thread_scope_device_t;
using everywhere = ct::thread_scope_system_t;
using ext1 = ct::extents<int, ct::dynamic_extent>;
using ext2 = ct::extents<int, ct::dynamic_extent, ct::dynamic_extent>;

// Every operation on 32 elements of its own; what was there goes to `old`.
template <typename T, typename Order, typename Scope>
__tile__ void every(T *x, T *old) {
  auto i = ct::iota<tile<int, 32>>();
  auto v = ct::element_cast<T>(i) * T(3) + T(2);
  ct::store(old + i, ct::atomic_add(x + i, v, Order{}, Scope{}));
  ct::store(old + (i + 32), ct::atomic_sub(x + (i + 32), v, Order{}, Scope{}));
  ct::store(old + (i + 64), ct::atomic_min(x + (i + 64), v, Order{}, Scope{}));
  ct::store(old + (i + 96), ct::atomic_max(x + (i + 96), v, Order{}, Scope{}));
  ct::store(old + (i + 128), ct::atomic_and(x + (i + 128), v, Order{}, Scope{}));
  ct::store(old + (i + 160), ct::atomic_or(x + (i + 160), v, Order{}, Scope{}));
  ct::store(old + (i + 192), ct::atomic_xor(x + (i + 192), v, Order{}, Scope{}));
  ct::store(old + (i + 224), ct::atomic_xchg(x + (i + 224), v, Order{}, Scope{}));
  ct::store(old + (i + 256), ct::atomic_compare_exchange(x + (i + 256), v, v + T(1), Order{}, Scope{}));
}
extern "C" __tile_global__ void mem_every_i32(int *x, int *old) { every<int, relaxed, block>(x, old); }
extern "C" __tile_global__ void mem_every_u32(unsigned *x, unsigned *old) { every<unsigned, acq_rel, everywhere>(x, old); }
extern "C" __tile_global__ void mem_every_i64(long long *x, long long *old) { every<long long, acquire, device>(x, old); }
extern "C" __tile_global__ void mem_every_u64(unsigned long long *x, unsigned long long *old) {
  every<unsigned long long, release, device>(x, old);
}

// The same under a mask: what is masked off stays as it is.
extern "C" __tile_global__ void mem_masked(int *x, unsigned long long *y, float *z, int limit) {
  auto i = ct::iota<tile<int, 64>>();
  auto m = (i < limit) && (i % 3 != 1);
  ct::atomic_add_masked(x + i, i, m, relaxed{}, device{});
  ct::atomic_or_masked(x + (i + 64), ct::full<tile<int, 64>>(8), !m, acq_rel{}, device{});
  ct::atomic_max_masked(x + (i + 128), i * 2, m, relaxed{}, block{});
  auto u = ct::element_cast<unsigned long long>(i);
  ct::atomic_xchg_masked(y + i, u, m, release{}, everywhere{});
  ct::atomic_compare_exchange_masked(y + (i + 64), u * 0ull + 5ull, u * 0ull + 9ull, m, acquire{}, device{});
  ct::atomic_add_masked(z + i / 4, ct::full<tile<float, 64>>(0.25f), m, relaxed{}, device{});
  ct::atomic_sub_masked(z + (i + 16), ct::element_cast<float>(i), m, relaxed{}, everywhere{});
}

// Floats of all widths that can be added, with collisions.
extern "C" __tile_global__ void mem_float_adds(float *a, double *b, __half *c) {
  auto i = ct::iota<tile<int, 64>>();
  auto v = ct::element_cast<float>(i % 5);
  ct::atomic_add(a + i % 8, v, relaxed{}, device{});
  ct::atomic_add(b + i % 4, ct::element_cast<double>(v), acq_rel{}, device{});
  ct::atomic_add(c + i % 16, ct::element_cast<__half>(v), relaxed{}, device{});
}

// Exchange and compare of floats go by bits.
extern "C" __tile_global__ void mem_float_swap(float *x, double *y, float *old) {
  using f32 = tile<float, 32>;
  using f64 = tile<double, 32>;
  auto i = ct::iota<tile<int, 32>>();
  ct::store(old + i, ct::atomic_xchg(x + i, ct::element_cast<float>(i), relaxed{}, device{}));
  ct::store(old + (i + 32), ct::atomic_compare_exchange(x + (i + 32), ct::full<f32>(-0.0f), ct::full<f32>(7.0f), acq_rel{}, device{}));
  ct::atomic_compare_exchange(y + i, ct::full<f64>(1.5), ct::full<f64>(2.5), relaxed{}, device{});
}

// Updates of views, ragged on both sides; several blocks hit the same elements.
extern "C" __tile_global__ void mem_view_atomics(int *x, unsigned *y, float *z, long long *w, int rows, int cols) {
  int i = ct::bid().x, j = ct::bid().y;
  auto xv = ct::partition_view(ct::tensor_span(x, ext2(rows, cols)), ct::shape<8, 16>{});
  auto one = ct::ones<tile<int, 8, 16>>();
  xv.atomic_add(one * (i + 1), relaxed{}, device{}, i, j);
  xv.atomic_or(one * 256, relaxed{}, block{}, i, j);
  auto yv = ct::strided_view(ct::tensor_span(y, ext2(rows, cols)), ct::shape<8, 16>{}, ct::strides<int, 4, 8>{});
  yv.atomic_max(ct::full<tile<unsigned, 8, 16>>(unsigned(i * 3 + j)), relaxed{}, device{}, i, j);
  auto zv = ct::strided_view(ct::tensor_span(z, ext2(rows, cols)), ct::shape<8, 16>{}, ct::strides<int, 4, 8>{});
  zv.atomic_sub(ct::full<tile<float, 8, 16>>(0.5f), relaxed{}, device{}, i, j);
  auto wv = ct::partition_view(ct::tensor_span(w, ext2(rows, cols)), ct::shape<8, 16>{});
  wv.atomic_min(ct::element_cast<long long>(ct::reshape<ct::shape<8, 16>>(ct::iota<tile<int, 128>>())) - 64ll, relaxed{}, device{}, i, j);
  wv.atomic_xor(ct::full<tile<long long, 8, 16>>(0x100000001ll), relaxed{}, device{}, i, j);
}

// Loads and stores with an order of their own.
extern "C" __tile_global__ void mem_ordered(const int *x, int *y, __half *z) {
  auto i = ct::iota<tile<int, 64>>();
  auto a = ct::atomic_load(x + i, acquire{}, device{});
  auto b = ct::atomic_load_masked(x + i, i % 2 == 0, -1, relaxed{}, everywhere{});
  ct::atomic_store(y + i, a + b, release{}, everywhere{});
  ct::atomic_store_masked(z + i, ct::element_cast<__half>(b), i < 50, relaxed{}, block{});
  auto v = ct::partition_view(ct::tensor_span(x, ext1(40)), ct::shape<64>{});
  auto w = ct::partition_view(ct::tensor_span(y + 64, ext1(50)), ct::shape<64>{});
  w.atomic_store_masked(v.atomic_load_masked(ct::view_padding_zero_t{}, acquire{}, device{}, 0), release{}, device{}, 0);
}

// A lock by exchange around a read-modify-write of many elements, tried by several blocks.
extern "C" __tile_global__ void mem_lock(int *lock, float *total, const float *x, int rounds) {
  auto i = ct::iota<tile<int, 32>>();
  for (int r = 0; r < rounds; ++r) {
    auto v = ct::load(x + (i + (int(ct::bid().x) * rounds + r) * 32));
    while (int(ct::atomic_xchg(lock, 1, acquire{}, device{})) == 1) {
    }
    ct::store(total + i, ct::load(total + i) + v);
    ct::atomic_xchg(lock, 0, release{}, device{});
  }
}

// A ticket lock keeps the order in which blocks came.
extern "C" __tile_global__ void mem_ticket(unsigned *next, unsigned *serving, int *log, int *count) {
  unsigned mine = unsigned(ct::atomic_add(next, 1u, relaxed{}, device{}));
  while (unsigned(ct::atomic_load(serving, acquire{}, device{})) != mine) {
  }
  int at = count[0];
  log[at] = int(mine) * 10;
  count[0] = at + 1;
  ct::atomic_add(serving, 1u, release{}, device{});
}

// All blocks wait for all: what one writes before, every other reads after.
extern "C" __tile_global__ void mem_grid_barrier(int *arrived, int *data, int *out) {
  int b = ct::bid().x, n = ct::num_blocks().x;
  auto i = ct::iota<tile<int, 16>>();
  ct::store(data + (i + b * 16), i * b + 1);
  ct::atomic_add(arrived, 1, acq_rel{}, device{});
  while (int(ct::atomic_load(arrived, acquire{}, device{})) < n) {
  }
  auto acc = ct::zeros<tile<int, 16>>();
  for (int k = 0; k < n; ++k) acc = acc + ct::load(data + (i + k * 16));
  ct::store(out + (i + b * 16), acc + b);
}

// Sums over all blocks, each waiting for the one before it.
extern "C" __tile_global__ void mem_chained_scan(const int *x, int *y, int *flag, int *carry) {
  int b = ct::bid().x;
  auto i = ct::iota<tile<int, 64>>() + b * 64;
  auto v = ct::partial_sum(ct::load(x + i), 0_ic);
  int total = int(ct::reshape<ct::shape<>>(ct::extract(v, ct::shape<1>{}, 63)));
  int before = 0;
  if (b > 0) {
    while (int(ct::atomic_load(flag + (b - 1), acquire{}, device{})) == 0) {
    }
    before = carry[b - 1];
  }
  carry[b] = before + total;
  ct::atomic_store(flag + b, 1, release{}, device{});
  ct::store(y + i, v + before);
}

// Gathers and scatters along either axis of a matrix, with padding; row numbers beyond the end give the padding.
extern "C" __tile_global__ void mem_gather(const float *x, const int *at, float *rows, float *cols, float *copy, int m, int n) {
  auto i = ct::iota<tile<int, 8>>();
  auto pick = ct::load(at + i);
  auto by_row = ct::gather_scatter_view(ct::tensor_span(x, ext2(m, n)), ct::shape<8, 16>{}, 0_ic);
  auto by_col = ct::gather_scatter_view(ct::tensor_span(x, ext2(m, n)), ct::shape<16, 8>{}, 1_ic);
  auto out = ct::partition_view(ct::tensor_span(rows, ct::extents<int, 8, 16>{}), ct::shape<8, 16>{});
  out.store(by_row.load_masked(ct::view_padding_nan_t{}, pick, 4), 0, 0);
  auto out2 = ct::partition_view(ct::tensor_span(cols, ct::extents<int, 16, 8>{}), ct::shape<16, 8>{});
  out2.store(by_col.load_masked(ct::view_padding_negative_zero_t{}, 3, pick), 0, 0);
  auto to = ct::gather_scatter_view(ct::tensor_span(copy, ext2(m, n)), ct::shape<8, 16>{}, 0_ic);
  to.store_masked(by_row.load_masked(i + 2, 0), pick, 0);
}

// Layouts: column-major, padded rows, strides known and not known, one that repeats.
extern "C" __tile_global__ void mem_layouts(const int *x, int *left, int *padded, int *strided, int *repeated, int m, int n, int step,
                                            int none) {
  auto tl = ct::shape<8, 16>{};
  auto in = ct::partition_view(ct::tensor_span(x, ext2(m, n)), tl);
  int i = ct::bid().x, j = ct::bid().y;
  auto v = in.load_masked(i, j);
  ct::partition_view(ct::tensor_span(left, ext2(m, n), ct::layout_left{}), tl).store_masked(v, i, j);
  auto pad = ct::layout_right_padded_mapping(ext2(m, n), 32_ic);
  ct::partition_view(ct::tensor_span(padded, pad), tl).store_masked(v + 1, i, j);
  auto way = ct::layout_strided_mapping(ext2(m, n), ct::strides<int, ct::dynamic_stride, 2>(step));
  ct::partition_view(ct::tensor_span(strided, way), tl).store_masked(v * 2, i, j);
  auto same = ct::layout_strided_mapping(ext2(m, n), ct::strides<int, ct::dynamic_stride, 1>(none));
  auto row = ct::partition_view(ct::tensor_span(x, same), tl).load_masked(i, j);
  ct::partition_view(ct::tensor_span(repeated, ext2(m, n)), tl).store_masked(row - v, i, j);
}

// Extents and strides of 64 bits.
extern "C" __tile_global__ void mem_wide_view(const unsigned char *x, unsigned char *y, long long n, long long stride) {
  using ext = ct::extents<long long, ct::dynamic_extent, 4>;
  auto way = ct::layout_strided_mapping(ext(n), ct::strides<long long, ct::dynamic_stride, 1>(stride));
  auto in = ct::partition_view(ct::tensor_span(x, way), ct::shape<16, 4>{});
  auto out = ct::partition_view(ct::tensor_span(y, ext(n)), ct::shape<16, 4>{});
  long long i = ct::bid().x;
  out.store_masked(in.load_masked(i, 0ll), i, 0ll);
}

// What a print says and an assertion lets through.
extern "C" __tile_global__ void mem_print(const int *x, float *y) {
  auto i = ct::iota<tile<int, 8>>();
  auto v = ct::load(x + i);
  printf("block %d of %u: %5d|%-6d|%08x\n", int(ct::bid().x), ct::num_blocks().x, x[0], x[1], unsigned(x[2]));
  printf("%e %g %.3f %lld %c%%\n", 0.1f, 1e10, 2.0 / 3.0, (long long)x[3] << 33, 'q');
  assert(x[0] < 1000);
  ct::store(y + (i + int(ct::bid().x) * 8), ct::element_cast<float>(v) * 0.5f);
}

// Tables: of bytes, of structures of numbers, two-dimensional, written and read by all blocks.
__tile__ const unsigned char letters[16] = "tile by tile ok";
__tile__ int grid_of[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
__tile__ double poly[5] = {0.5, -0.25, 0.125, -0.0625, 1.0};
__tile__ int seen;
extern "C" __tile_global__ void mem_tables(const int *at, unsigned char *text, int *cells, double *value, int *calls) {
  auto i = ct::iota<tile<int, 16>>();
  auto k = ct::load(at + i);
  ct::store(text + i, ct::load(letters + k % 16));
  ct::store(cells + i, ct::load(&grid_of[0][0] + k % 12));
  auto x = ct::element_cast<double>(k) * 0.125, acc = ct::zeros<tile<double, 16>>();
  for (int d = 0; d < 5; ++d) acc = ct::fma(acc, x, ct::full<tile<double, 16>>(poly[d]));
  ct::store(value + i, acc);
  calls[0] = int(ct::atomic_add(&seen, 5, relaxed{}, device{})) + 1;
}

// A list in memory, walked from block to block by pointers that were stored as numbers.
extern "C" __tile_global__ void mem_pointers(const int *next, const unsigned long long *base, float *y, int start) {
  int at = start, steps = 0;
  float total = 0.0f;
  while (at >= 0) {
    const float *p = (const float *)base[at % 2];
    total += p[at] * float(steps + 1);
    if (++steps > 40) break;
    at = next[at];
  }
  y[0] = total;
  y[1] = float(steps);
}

// Structures of tiles, references, lambdas, loops of every kind, and leaving them in the middle.
struct running {
  tile<float, 32> mean, power;
  int count;
  __tile__ void add(tile<float, 32> v) {
    ++count;
    auto d = v - mean;
    mean = mean + d / float(count);
    power = power + d * (v - mean);
  }
};
extern "C" __tile_global__ void mem_structures(const float *x, float *mean, float *power, int *count, int n) {
  auto i = ct::iota<tile<int, 32>>();
  running r{ct::zeros<tile<float, 32>>(), ct::zeros<tile<float, 32>>(), 0};
  auto read = [&](int row) { return ct::load(x + (i + row * 32)); };
  int row = 0;
  do {
    if (row == 3) continue;
    auto v = read(row);
    if (bool(ct::reshape<ct::shape<>>(ct::any_of(v > 100.0f, 0_ic)))) break;
    for (int k = 0;; ++k) {
      if (k == row % 3) break;
      r.add(v + float(k));
    }
    switch (row % 4) {
      case 0: r.add(v); break;
      case 1: r.count += 0; [[fallthrough]];
      default: r.add(-v);
    }
  } while (++row < n);
  ct::store(mean + i, r.mean);
  ct::store(power + i, r.power);
  count[0] = r.count;
}

// What the source promises and hints at.
extern "C" [[cutile::hint(0, occupancy = 2)]] __tile_global__ void mem_hints(const float *x, float *y, int n, int stride) {
  x = ct::assume_aligned(x, 16_ic);
  n = ct::assume_bounded(n, 0_ic, 100000_ic);
  stride = ct::assume_divisible(stride, 8_ic);
  auto way = ct::layout_strided_mapping(ext2(n, 32), ct::strides<int, ct::dynamic_stride, 1>(stride));
  auto in = ct::partition_view(ct::tensor_span(x, way), ct::shape<16, 32>{});
  tile<float, 16, 32> v;
  [[cutile::hint(0, latency = 4, allow_tma = 0)]] v = in.load_masked(int(ct::bid().x), 0);
  auto out = ct::partition_view(ct::tensor_span(y, ext2(n, 32)), ct::shape<16, 32>{});
  [[cutile::hint(0, allow_tma = 0)]] out.store_masked(v * 3.0f, int(ct::bid().x), 0);
}
