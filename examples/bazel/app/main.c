/* Shows the kernel that is inside this program. With a GPU it also launches it, through the generated loader, and checks
 * every element; without one it verifies the image. The CUDA driver is opened at run time: nothing of CUDA is needed to
 * build or start the program. */
#include <dlfcn.h>
#include <stdio.h>

#include "kernels/vector_add_tile.h"

enum { N = 3000 };

/* The driver's entry points that a program needs for memory; loading and launching is in the generated code. */
static int (*init)(unsigned);
static int (*device_get)(int *, int);
static int (*retain)(void **, int);
static int (*set_current)(void *);
static int (*allocate)(unsigned long long *, size_t);
static int (*to_device)(unsigned long long, const void *, size_t);
static int (*to_host)(void *, unsigned long long, size_t);

static int open_driver(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (!cuda) return 0;
  *(void **)&init = dlsym(cuda, "cuInit");
  *(void **)&device_get = dlsym(cuda, "cuDeviceGet");
  *(void **)&retain = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  *(void **)&set_current = dlsym(cuda, "cuCtxSetCurrent");
  *(void **)&allocate = dlsym(cuda, "cuMemAlloc_v2");
  *(void **)&to_device = dlsym(cuda, "cuMemcpyHtoD_v2");
  *(void **)&to_host = dlsym(cuda, "cuMemcpyDtoH_v2");
  return init && device_get && retain && set_current && allocate && to_device && to_host;
}

/* 0: right, 1: wrong, 2: there is no GPU */
static int add_on_gpu(void) {
  static float a[N], b[N], c[N];
  unsigned long long da, db, dc;
  int device = 0, n = N, i, status;
  void *context = NULL;
  if (!open_driver() || init(0) || device_get(&device, 0) || retain(&context, device) || set_current(context)) return 2;
  for (i = 0; i < N; ++i) {
    a[i] = 0.5f * (float)i;
    b[i] = 1.0f - (float)i;
  }
  if (allocate(&da, sizeof a) || allocate(&db, sizeof b) || allocate(&dc, sizeof c)) return 1;
  if (to_device(da, a, sizeof a) || to_device(db, b, sizeof b)) return 1;
  {
    const tileirasGrid grid = {(N + 1023) / 1024, 1, 1};
    void *arguments[] = {&da, &db, &dc, &n};
    status = vector_add_launch(0, grid, NULL, arguments);
  }
  if (status) {
    printf("the launch failed: CUDA error %d\n", status);
    return 1;
  }
  if (to_host(c, dc, sizeof c)) return 1;
  for (i = 0; i < N; ++i) {
    if (c[i] != a[i] + b[i]) {
      printf("c[%d] is %g, not %g\n", i, c[i], a[i] + b[i]);
      return 1;
    }
  }
  return 0;
}

int main(void) {
  const tileirasKernel *k = vector_add_kernels;
  const unsigned char *image = vector_add_image;
  int result;
  if (vector_add_kernel_count != 1 || vector_add_image_size < 64) return 1;
  if (image[0] != 0x50 || image[1] != 0xed || image[2] != 0x55 || image[3] != 0xba) return 1;
  printf("%s: %u parameters, block %ux%ux%u, for %s; the container has %lu bytes\n", k->name, (unsigned)k->param_count,
         (unsigned)k->block[0], (unsigned)k->block[1], (unsigned)k->block[2], k->archs,
         (unsigned long)vector_add_image_size);
  result = add_on_gpu();
  puts(result == 0 ? "on the GPU: right" : result == 1 ? "on the GPU: WRONG" : "no GPU here: the image was verified");
  return result == 1;
}
