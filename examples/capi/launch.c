/* Compiles the vector addition for the GPU at hand while the program runs, and launches it: launch FILE.
 *
 * Without a GPU the kernel is compiled for sm_90 and the image is checked. The CUDA driver is opened at run time.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <tileiras.h>

enum { N = 3000, TILE = 1024, NO_GPU = 2 };
/* CUdevice_attribute and CUfunction_attribute */
enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76, MAX_THREADS_PER_BLOCK = 0 };

static struct {
  int (*init)(unsigned);
  int (*device_get)(int *, int);
  int (*attribute)(int *, int, int);
  int (*retain)(void **, int);
  int (*set_current)(void *);
  int (*load)(void **, const void *);
  int (*function)(void **, void *, const char *);
  int (*function_attribute)(int *, int, void *);
  int (*alloc)(unsigned long long *, size_t);
  int (*to_device)(unsigned long long, const void *, size_t);
  int (*to_host)(void *, unsigned long long, size_t);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} cu;

static int find(void *library, const char *name, void *slot) {
  void *function = dlsym(library, name);
  memcpy(slot, &function, sizeof function);
  return function != NULL;
}

/* The GPU's name for the compiler, or NULL without one. */
static const char *open_gpu(void) {
  static char name[16];
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
  int device = 0, major = 0, minor = 0;
  if (!library || !find(library, "cuInit", &cu.init) || !find(library, "cuDeviceGet", &cu.device_get) ||
      !find(library, "cuDeviceGetAttribute", &cu.attribute) || !find(library, "cuDevicePrimaryCtxRetain", &cu.retain) ||
      !find(library, "cuCtxSetCurrent", &cu.set_current) || !find(library, "cuModuleLoadData", &cu.load) ||
      !find(library, "cuModuleGetFunction", &cu.function) || !find(library, "cuFuncGetAttribute", &cu.function_attribute) ||
      !find(library, "cuMemAlloc_v2", &cu.alloc) || !find(library, "cuMemcpyHtoD_v2", &cu.to_device) ||
      !find(library, "cuMemcpyDtoH_v2", &cu.to_host) || !find(library, "cuLaunchKernel", &cu.launch))
    return NULL;
  if (cu.init(0) || cu.device_get(&device, 0) || cu.retain(&context, device) || cu.set_current(context) ||
      cu.attribute(&major, COMPUTE_CAPABILITY_MAJOR, device) || cu.attribute(&minor, COMPUTE_CAPABILITY_MINOR, device))
    return NULL;
  snprintf(name, sizeof name, "sm_%d%d", major, minor);
  return name;
}

/* 0: right, 1: wrong. The image says how many threads a block has: its kernels require exactly that many. */
static int add_on_gpu(const void *cubin) {
  static float a[N], b[N], c[N];
  unsigned long long da, db, dc;
  void *module, *function;
  int threads = 0, n = N, i, status;
  void *args[4];
  if (cu.load(&module, cubin) || cu.function(&function, module, "vector_add") ||
      cu.function_attribute(&threads, MAX_THREADS_PER_BLOCK, function))
    return 1;
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
  status = cu.launch(function, (N + TILE - 1) / TILE, 1, 1, (unsigned)threads, 1, 1, 0, NULL, args, NULL);
  if (status || cu.to_host(c, dc, sizeof c)) {
    printf("the launch failed: CUDA error %d\n", status);
    return 1;
  }
  for (i = 0; i < N; ++i)
    if (c[i] != a[i] + b[i])
      return 1;
  return 0;
}

static void diagnostic(const void *record, const char *rendered, void *user) {
  (void)record;
  (void)user;
  fprintf(stderr, "%s\n", rendered);
}

int main(int argc, char **argv) {
  static char input[65536];
  const char *gpu = open_gpu();
  tileirasOptions options = {0};
  tileirasProgram program;
  tileirasResult result;
  const void *cubin = NULL;
  size_t size = 0;
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  int wrong = 1;
  if (!file) {
    fprintf(stderr, "usage: %s vector_add.tileir\n", argv[0]);
    return 1;
  }
  size = fread(input, 1, sizeof input, file);
  fclose(file);
  options.struct_size = sizeof options;
  options.gpu_name = gpu ? gpu : "sm_90";
  options.opt_level = 3;
  options.flags = TILEIRAS_ABI_SIMT; /* launched with as many threads as the kernel has */
  options.diagnostic = diagnostic;
  result = tileirasProgramCreate(&program, input, size, &options);
  if (result != TILEIRAS_SUCCESS)
    return (int)result;
  result = tileirasProgramCompile(program);
  if (result == TILEIRAS_SUCCESS)
    result = tileirasProgramGetOutput(program, &cubin, &size);
  if (result == TILEIRAS_SUCCESS) {
    if (gpu) {
      wrong = add_on_gpu(cubin);
      printf("vector_add on the GPU, %s: %s\n", gpu, wrong ? "WRONG" : "right");
    } else {
      wrong = size < 64 || memcmp(cubin, "\177ELF", 4) != 0;
      printf("no GPU here: the image for %s is %s\n", options.gpu_name, wrong ? "DAMAGED" : "complete");
    }
  }
  tileirasProgramRelease(&program);
  return result != TILEIRAS_SUCCESS ? (int)result : wrong;
}
