// Launches a Tile C++ kernel (by <<<>>>) and a Tile IR kernel (by its generated launcher) one after the other.
// Exit code 0: right, 1: wrong, 2: no GPU here.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "vector_add_tile.h"

void start_scale(const float *x, float *y, float factor, int n);

int main() {
  const tileirasKernel &kernel = vector_add_kernels[vector_add_vector_add];
  std::printf("%s: %u parameters, for %s, %zu bytes\n", kernel.name, kernel.param_count, kernel.archs, vector_add_image_size);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU here: emulate.py runs the kernels on the CPU");
    return 2;
  }
  const int n = 3000;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = float(i);
  float *x, *y, *z;
  const size_t size = n * sizeof(float);
  cudaMalloc(&x, size), cudaMalloc(&y, size), cudaMalloc(&z, size);
  cudaMemcpy(x, host.data(), size, cudaMemcpyHostToDevice);
  start_scale(x, y, 2.0f, n);
  const tileirasGrid grid = {(n + 1023) / 1024, 1, 1};
  const int status = vector_add::launch_vector_add(grid, nullptr, x, y, z, n);
  std::vector<float> result(n);
  const cudaError_t error = cudaMemcpy(result.data(), z, size, cudaMemcpyDeviceToHost);
  if (status || error != cudaSuccess) {
    std::printf("a launch failed: %d, %s\n", status, cudaGetErrorString(error));
    return 1;
  }
  for (int i = 0; i < n; ++i) {
    if (result[i] != 3.0f * float(i)) {
      std::printf("z[%d] is %g, not %g\n", i, result[i], 3.0f * float(i));
      return 1;
    }
  }
  std::puts("both kernels: right");
  return 0;
}
