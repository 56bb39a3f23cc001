// Shows what add_tile_kernel put into the program: the kernels' tables and images. With a GPU it also launches the vector
// addition through the generated, typed launcher and checks every element. The CUDA driver is opened at run time, so the
// program links, starts and passes on a machine without one.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "kernels/matmul_tile.h"
#include "kernels/softmax_tile.h"
#include "kernels/vector_add_tile.h"

namespace {

bool show(const char *title, const tileirasKernel *kernels, unsigned count, const unsigned char *image, size_t size) {
  const unsigned magic = image[0] | image[1] << 8 | image[2] << 16 | unsigned(image[3]) << 24;
  const bool is_fatbin = size > 64 && magic == 0xBA55ED50u;
  std::printf("%-12s %7zu bytes, %s\n", title, size, is_fatbin ? "a fatbin" : "NOT A FATBIN");
  for (unsigned i = 0; i < count; ++i) {
    const tileirasKernel &k = kernels[i];
    std::printf("  %s: %u parameters, block %ux%ux%u, %u bytes of dynamic shared memory, for %s\n", k.name,
                k.param_count, k.block[0], k.block[1], k.block[2], k.dynamic_shared, k.archs);
  }
  return is_fatbin && count == 1;
}

// The driver's entry points that this program needs besides those of the generated loader.
struct Driver {
  int (*init)(unsigned);
  int (*device_get)(int *, int);
  int (*retain)(void **, int);
  int (*set_current)(void *);
  int (*alloc)(unsigned long long *, size_t);
  int (*to_device)(unsigned long long, const void *, size_t);
  int (*to_host)(void *, unsigned long long, size_t);
};

template <class F>
bool find(void *library, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// 0: right, 1: wrong, 2: there is no GPU
int add_on_gpu() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  Driver cu;
  if (!library || !find(library, "cuInit", cu.init) || !find(library, "cuDeviceGet", cu.device_get) ||
      !find(library, "cuDevicePrimaryCtxRetain", cu.retain) || !find(library, "cuCtxSetCurrent", cu.set_current) ||
      !find(library, "cuMemAlloc_v2", cu.alloc) || !find(library, "cuMemcpyHtoD_v2", cu.to_device) ||
      !find(library, "cuMemcpyDtoH_v2", cu.to_host)) {
    return 2;
  }
  int device = 0;
  void *context = nullptr;
  if (cu.init(0) || cu.device_get(&device, 0) || cu.retain(&context, device) || cu.set_current(context)) return 2;

  const int n = 3000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) {
    a[i] = 0.5f * float(i);
    b[i] = 1.0f - float(i);
  }
  unsigned long long da = 0, db = 0, dc = 0;
  const size_t size = n * sizeof(float);
  if (cu.alloc(&da, size) || cu.alloc(&db, size) || cu.alloc(&dc, size)) return 1;
  if (cu.to_device(da, a.data(), size) || cu.to_device(db, b.data(), size)) return 1;
  const tileirasGrid grid = {(n + 1023) / 1024, 1, 1};
  const int status = kernels_vector_add::launch_vector_add(grid, nullptr, reinterpret_cast<float *>(da),
                                                   reinterpret_cast<float *>(db), reinterpret_cast<float *>(dc), n);
  if (status) {
    std::printf("the launch failed: CUDA error %d\n", status);
    return 1;
  }
  if (cu.to_host(c.data(), dc, size)) return 1;
  for (int i = 0; i < n; ++i) {
    if (c[i] != a[i] + b[i]) {
      std::printf("c[%d] is %g, not %g\n", i, c[i], a[i] + b[i]);
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main() {
  bool good = show("vector_add", kernels_vector_add_kernels, kernels_vector_add_kernel_count, kernels_vector_add_image,
               kernels_vector_add_image_size);
  good &= show("softmax", kernels_softmax_kernels, kernels_softmax_kernel_count, kernels_softmax_image,
               kernels_softmax_image_size);
  good &= show("matmul", kernels_matmul_kernels, kernels_matmul_kernel_count, kernels_matmul_image,
               kernels_matmul_image_size);
  if (!good) {
    std::puts("an image is damaged");
    return 1;
  }
  switch (add_on_gpu()) {
    case 0: std::puts("vector_add on the GPU: right"); return 0;
    case 2: std::puts("no GPU here: the images are embedded and complete; the CPU runs follow"); return 0;
    default: std::puts("vector_add on the GPU: WRONG"); return 1;
  }
}
