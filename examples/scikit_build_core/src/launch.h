// What both bindings offer: the image, a line about it, and a launch on device pointers.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/vector_add_tile.h"  // generated from tile_bindings/kernels/vector_add.tileir

inline std::string describe() {
  const tileirasKernel &k = kernels_vector_add_kernels[kernels_vector_add_vector_add];
  return std::string(k.name) + ": " + std::to_string(k.param_count) + " parameters, for " + k.archs;
}

inline void launch(std::uint64_t a, std::uint64_t b, std::uint64_t c, int n) {
  const tileirasGrid grid = {unsigned((n + 1023) / 1024), 1, 1};
  const int status = kernels_vector_add::launch_vector_add(grid, nullptr, reinterpret_cast<float *>(a),
                                                           reinterpret_cast<float *>(b),
                                                   reinterpret_cast<float *>(c), n);
  if (status) throw std::runtime_error("the launch failed: CUDA error " + std::to_string(status));
}
