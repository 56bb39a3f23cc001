/* A libcuda without a GPU, for the rehearsal of tests/gpu/bare: memory of the host, kernels that add, do nothing, crash or hang.
 * What a kernel does goes by its name: "vadd..." adds as the corpus kernel of that name, $STUB_FAILS fails its launch,
 * $STUB_CRASHES ends the process, $STUB_HANGS never returns. Blocks above 16 MiB have addresses but no memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t address;
static const address FAR = 1ull << 60;
static address next_far = 1ull << 60;
static int lost;

int cuInit(unsigned flags) { return getenv("STUB_NO_DEVICE") ? 100 : 0; }
int cuDeviceGet(int *device, int n) { return *device = n, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &lost, 0; }
int cuCtxSetCurrent(void *context) { return context == &lost ? 0 : 201; }
int cuGetErrorName(int error, const char **name) {
  *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : error == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
  return 0;
}
int cuDeviceGetAttribute(int *value, int number, int device) {
  *value = number == 75 ? 9 : number == 76 ? 0 : number == 16 ? 132 : 1000;
  return 0;
}
int cuDeviceGetName(char *name, int size, int device) { return strncpy(name, "Stub", size), 0; }
int cuDriverGetVersion(int *version) { return *version = 13040, 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { return *size = 1ull << 37, 0; }
int cuMemAlloc_v2(address *out, size_t size) {
  if (size > 16u << 20) {
    *out = next_far;
    next_far += (size + 255) & ~255ull;
    return 0;
  }
  *out = (address)(uintptr_t)aligned_alloc(256, (size + 255) & ~(size_t)255);
  return 0;
}
int cuMemFree_v2(address p) {
  if (p < FAR) free((void *)(uintptr_t)p);
  return 0;
}
int cuMemcpyHtoD_v2(address to, const void *from, size_t size) {
  if (to < FAR) memcpy((void *)(uintptr_t)to, from, size);
  return lost;
}
int cuMemcpyDtoH_v2(void *to, address from, size_t size) {
  if (from < FAR) memcpy(to, (void *)(uintptr_t)from, size);
  else memset(to, 0, size);
  return lost;
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t size, void *stream) {
  if (to < FAR && from < FAR) memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
  return lost;
}
int cuMemsetD8Async(address p, unsigned char value, size_t size, void *stream) {
  if (p < FAR) memset((void *)(uintptr_t)p, value, size);
  return lost;
}
/* Writes what it is asked to the file $STUB_MAPS. */
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *extents, const uint64_t *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion, int fill) {
  const char *name = getenv("STUB_MAPS");
  FILE *file = name ? fopen(name, "a") : 0;
  if ((uintptr_t)map % 64 || (uintptr_t)base % 16 || !base) return 1;
  if (file) {
    fprintf(file, "%d %u %d", type, rank, swizzle);
    for (unsigned i = 0; i < rank; ++i) fprintf(file, " %llu", (unsigned long long)extents[i]);
    fprintf(file, "\n");
    fclose(file);
  }
  memset(map, 7, 128);
  return interleave || promotion != 2 || fill || steps[0] != 1 || strides[0] % 16 || !box[0];
}
int cuCtxSynchronize(void) { return lost; }
int cuModuleLoadData(void **module, const void *image) {
  if (memcmp(image, "\177ELF", 4)) return 200;
  *module = (void *)image;
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) { return *function = strdup(name), 0; }
int cuFuncSetAttribute(void *function, int number, int value) { return 0; }
static int is(const char *name, const char *variable) {
  const char *wanted = getenv(variable);
  return wanted && !strcmp(name, wanted);
}
int cuLaunchKernel(const char *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameters, void **extra) {
  if (is(name, "STUB_FAILS")) return lost = 719;
  if (is(name, "STUB_CRASHES")) abort();
  if (is(name, "STUB_HANGS"))
    for (;;) pause();
  if (!strncmp(name, "vadd_f32", 8)) { /* x, extent, stride, y, extent, stride, z, extent, stride */
    const float *x = *(float **)parameters[0], *y = *(float **)parameters[3];
    float *z = *(float **)parameters[6];
    if ((address)(uintptr_t)x < FAR)
      for (int i = 0; i < *(int *)parameters[7]; ++i) z[i] = x[i] + y[i];
  }
  return lost;
}
int cuEventCreate(void **event, unsigned flags) { return *event = calloc(1, sizeof(struct timespec)), 0; }
int cuEventRecord(void *event, void *stream) { return clock_gettime(CLOCK_MONOTONIC, event), lost; }
int cuEventSynchronize(void *event) { return lost; }
int cuEventElapsedTime(float *ms, struct timespec *a, struct timespec *b) {
  *ms = (b->tv_sec - a->tv_sec) * 1e3f + (b->tv_nsec - a->tv_nsec) * 1e-6f + 1e-6f;
  return 0;
}
