// The description of a launch that the tests read.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "driver.hpp"

inline int number(char const* word) { return std::stoi(word); }

template <class T>
T* pointer(char const* word) { return reinterpret_cast<T*>(std::stoull(word)); }

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
