// c = a @ b, f16 in and f32 out, wherever this program finds itself: the generated launcher takes the GPU when there are a
// driver, a device and an image for it, else the CPU (TILEIRAS_DEVICE=gpu or cpu decides instead). The one thing that a
// program must see to is memory that the GPU can reach.
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/matmul_tile.h"

namespace {

// Memory for both sides: from the CUDA driver where kernels go to a GPU, else from the C library.
class Memory {
 public:
  Memory() {
    const char *device = std::getenv("TILEIRAS_DEVICE");
    if ((device && std::string(device) == "cpu") || kernels_matmul_load(nullptr)) return;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return;
    auto retain = reinterpret_cast<int (*)(void **, int)>(dlsym(library, "cuDevicePrimaryCtxRetain"));
    auto set_current = reinterpret_cast<int (*)(void *)>(dlsym(library, "cuCtxSetCurrent"));
    managed_ = reinterpret_cast<int (*)(void **, size_t, unsigned)>(dlsym(library, "cuMemAllocManaged"));
    wait_ = reinterpret_cast<int (*)()>(dlsym(library, "cuCtxSynchronize"));
    void *context = nullptr;
    on_gpu_ = retain && set_current && managed_ && wait_ && !retain(&context, 0) && !set_current(context);
  }
  template <class T>
  T *make(size_t count) {
    void *found = nullptr;
    if (on_gpu_ && managed_(&found, count * sizeof(T), 1)) return nullptr;
    return static_cast<T *>(on_gpu_ ? found : std::calloc(count, sizeof(T)));
  }
  int wait() { return on_gpu_ ? wait_() : 0; }  // on the CPU a launch has ended when it returns
  bool on_gpu() const { return on_gpu_; }

 private:
  bool on_gpu_ = false;
  int (*managed_)(void **, size_t, unsigned) = nullptr;
  int (*wait_)() = nullptr;
};

std::uint16_t half(int whole) {  // the bits of an f16 from -64 to 64, exact
  if (whole == 0) return 0;
  const int magnitude = std::abs(whole), exponent = static_cast<int>(std::log2(magnitude));
  return static_cast<std::uint16_t>((whole < 0) << 15 | (exponent + 15) << 10 | ((magnitude << (10 - exponent)) & 1023));
}

int a_at(int row, int k) { return (row * 7 + k * 3) % 17 - 8; }
int b_at(int k, int column) { return (k * 5 + column) % 13 - 6; }

}  // namespace

int main() {
  const int m = 1000, n = 900, depth = 1100;  // no multiples of the tiles: the edges are handled
  Memory memory;
  auto *a = memory.make<std::uint16_t>(size_t(m) * depth), *b = memory.make<std::uint16_t>(size_t(depth) * n);
  auto *c = memory.make<float>(size_t(m) * n);
  if (!a || !b || !c) return 1;
  for (int i = 0; i < m; ++i)
    for (int k = 0; k < depth; ++k) a[size_t(i) * depth + k] = half(a_at(i, k));
  for (int k = 0; k < depth; ++k)
    for (int j = 0; j < n; ++j) b[size_t(k) * n + j] = half(b_at(k, j));

  const tileirasGrid grid = {(m + 63) / 64, (n + 63) / 64, 1};
  double best = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    int status = kernels_matmul::launch_matmul(grid, nullptr, a, b, c, m, n, depth);
    if (!status) status = memory.wait();
    if (status) {
      std::printf("the launch failed: CUDA error %d\n", status);
      return 1;
    }
    best = std::fmin(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (int i = 0; i < m; i += 37) {
    for (int j = 0; j < n; j += 11) {
      int sum = 0;
      for (int k = 0; k < depth; ++k) sum += a_at(i, k) * b_at(k, j);
      if (c[size_t(i) * n + j] != float(sum)) {
        std::printf("c[%d, %d] is %g, not %d\n", i, j, double(c[size_t(i) * n + j]), sum);
        return 1;
      }
    }
  }
  std::printf("%.1f GFLOP/s\n", 2e-9 * m * n * depth / best);
  std::printf("matmul on the %s: right\n", memory.on_gpu() ? "GPU" : "CPU");
  return 0;
}
