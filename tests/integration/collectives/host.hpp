// What host code of CUTLASS needs of a driver, and the description of a launch that the tests read.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

inline int number(char const* word) { return std::stoi(word); }

template <class T>
T* pointer(char const* word) { return reinterpret_cast<T*>(std::stoull(word)); }

// The emulator's layout of a descriptor (docs/ptx-emulator.md) instead of the driver's.
extern "C" CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType element, cuuint32_t rank, void* address, cuuint64_t const* extents,
    cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  // numbers of CUtensorMapDataType as those of tensormap.replace
  static constexpr std::uint8_t kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};
  // numbers of CUtensorMapSwizzle as mode and atomicity
  static constexpr std::uint8_t modes[][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}};
  if (rank < 1 || rank > 5 || reinterpret_cast<std::uintptr_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
  auto* to = reinterpret_cast<std::uint8_t*>(map);
  auto put = [&](std::size_t at, auto value) { std::memcpy(to + at, &value, sizeof value); };
  std::memset(to, 0, 128);
  put(0, reinterpret_cast<std::uint64_t>(address));
  put(8, std::uint32_t(0x50414D54));
  put(12, std::uint8_t(rank));
  put(13, kinds[element]);
  put(14, modes[swizzle][0]);
  put(15, modes[swizzle][1]);
  put(16, std::uint8_t(interleave));
  put(17, std::uint8_t(fill));
  for (cuuint32_t i = 0; i < rank; ++i) {
    put(20 + 4 * i, std::uint32_t(extents[i]));
    if (i) put(40 + 8 * (i - 1), std::uint64_t(strides[i - 1]));
    put(72 + 2 * i, std::uint16_t(box[i]));
    put(82 + 2 * i, std::uint16_t(steps[i]));
  }
  return CUDA_SUCCESS;
}

// Prints grid, block, cluster, bytes of shared memory and of workspace, and the parameters in hexadecimal.
template <class Params>
int print(dim3 grid, dim3 block, int shared, std::size_t workspace, Params const& params) {
  cute::Shape<CLUSTER> cluster{};
  std::printf("%u %u %u %u %u %u %d %d %d %d %zu\n", grid.x, grid.y, grid.z, block.x, block.y, block.z,
              int(cute::get<0>(cluster)), int(cute::get<1>(cluster)), int(cute::get<2>(cluster)), shared, workspace);
  auto const* bytes = reinterpret_cast<std::uint8_t const*>(&params);
  for (std::size_t i = 0; i < sizeof params; ++i) std::printf("%02x", bytes[i]);
  std::printf("\n");
  return 0;
}

template <class Kernel>
int describe(typename Kernel::Arguments const& arguments, void* workspace) {
  if (!Kernel::can_implement(arguments)) return 3;
  auto params = Kernel::to_underlying_arguments(arguments, workspace);
  return print(Kernel::get_grid_shape(params), Kernel::get_block_shape(), int(Kernel::SharedStorageSize),
               std::size_t(Kernel::get_workspace_size(arguments)), params);
}
