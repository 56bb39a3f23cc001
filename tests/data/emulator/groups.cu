// Cooperative groups: tiles, coalesced threads, partitions by label, and reductions over them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

// sums of tiles of 8 threads, the largest of a warp, the lanes whose value is odd, and a sum over the block
extern "C" __global__ void groups(const int* x, int* y, int n) {
  __shared__ int total;
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(block);
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
  if (block.thread_rank() == 0) total = 0;
  block.sync();
  y[i] = cg::reduce(eight, v, cg::plus<int>());
  y[n + i] = cg::reduce(warp, v, cg::greater<int>());
  if (v & 1) {
    auto odd = cg::coalesced_threads();
    y[2 * n + i] = odd.size() * 100 + odd.thread_rank();
  } else {
    y[2 * n + i] = -1;
  }
  auto same = cg::labeled_partition(warp, v & 3);
  y[3 * n + i] = cg::reduce(same, 1, cg::plus<int>());
  int sum = cg::reduce(warp, v, cg::plus<int>());
  if (warp.thread_rank() == 0) atomicAdd(&total, sum);
  block.sync();
  y[4 * n + i] = total;
}
