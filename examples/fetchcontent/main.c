/* Lists the kernels of the embedded image and checks the image. With a GPU it also launches the vector addition through
 * the generated launcher and checks every element; the CUDA driver is opened at run time, so that the program links and
 * starts without one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "kernels/vector_add_tile.h"

enum { N = 3000, NO_GPU = 2 };

/* The driver's entry points that this program needs besides those of the generated loader. */
static struct {
  int (*init)(unsigned);
  int (*device_get)(int *, int);
  int (*retain)(void **, int);
  int (*set_current)(void *);
  int (*alloc)(unsigned long long *, size_t);
  int (*to_device)(unsigned long long, const void *, size_t);
  int (*to_host)(void *, unsigned long long, size_t);
} cu;

static int find(void *library, const char *name, void *slot) {
  void *function = dlsym(library, name);
  memcpy(slot, &function, sizeof function);
  return function != NULL;
}

static int open_gpu(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *context = NULL;
  int device = 0;
  return library && find(library, "cuInit", &cu.init) && find(library, "cuDeviceGet", &cu.device_get) &&
         find(library, "cuDevicePrimaryCtxRetain", &cu.retain) && find(library, "cuCtxSetCurrent", &cu.set_current) &&
         find(library, "cuMemAlloc_v2", &cu.alloc) && find(library, "cuMemcpyHtoD_v2", &cu.to_device) &&
         find(library, "cuMemcpyDtoH_v2", &cu.to_host) && !cu.init(0) && !cu.device_get(&device, 0) &&
         !cu.retain(&context, device) && !cu.set_current(context);
}

/* 0: right, 1: wrong, NO_GPU: nothing to launch on */
static int add_on_gpu(void) {
  static float a[N], b[N], c[N];
  unsigned long long da, db, dc;
  const tileirasGrid grid = {(N + 1023) / 1024, 1, 1};
  int n = N, i, status;
  void *args[4];
  if (!open_gpu())
    return NO_GPU;
  for (i = 0; i < N; ++i) {
    a[i] = 0.5f * (float)i;
    b[i] = 1.0f - (float)i;
  }
  if (cu.alloc(&da, sizeof a) || cu.alloc(&db, sizeof b) || cu.alloc(&dc, sizeof c) ||
      cu.to_device(da, a, sizeof a) || cu.to_device(db, b, sizeof b))
    return 1;
  args[0] = &da;
  args[1] = &db;
  args[2] = &dc;
  args[3] = &n;
  status = kernels_vector_add_launch(0, grid, NULL, args);
  if (status) {
    printf("the launch failed: CUDA error %d\n", status);
    return 1;
  }
  if (cu.to_host(c, dc, sizeof c))
    return 1;
  for (i = 0; i < N; ++i)
    if (c[i] != a[i] + b[i]) {
      printf("c[%d] is %g, not %g\n", i, c[i], a[i] + b[i]);
      return 1;
    }
  return 0;
}

int main(void) {
  static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba};
  unsigned i;
  for (i = 0; i < kernels_vector_add_kernel_count; ++i) {
    const tileirasKernel *kernel = &kernels_vector_add_kernels[i];
    printf("%s: %u parameters, block %u, for %s\n", kernel->name, kernel->param_count, kernel->block[0], kernel->archs);
  }
  if (kernels_vector_add_kernel_count != 1 || kernels_vector_add_image_size <= 64 ||
      memcmp(kernels_vector_add_image, fatbin, sizeof fatbin)) {
    puts("the image is damaged");
    return 1;
  }
  switch (add_on_gpu()) {
  case 0: puts("vector_add on the GPU: right"); return 0;
  case NO_GPU: puts("no GPU here: the image is embedded and complete"); return 0;
  default: puts("vector_add on the GPU: WRONG"); return 1;
  }
}
