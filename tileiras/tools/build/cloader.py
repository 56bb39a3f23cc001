"""The C of the loader: types and prototypes of every header, the code of every source.

`tile_` begins the names that all images share, @P@ stands for the prefix of an image, @U@ for what its private names
begin with.
"""

from __future__ import annotations

TYPES = """\
/* CUDA's own header where there is one (TILEIRAS_NO_CUDA_H does without), else the few names needed. */
#if !defined(CUDA_VERSION) && !defined(TILEIRAS_NO_CUDA_H) && defined(__has_include)
#  if __has_include(<cuda.h>)
#    include <cuda.h>
#  endif
#endif
#if !defined(CUDA_VERSION) && !defined(TILEIRAS_CUDA_TYPES)
#  define TILEIRAS_CUDA_TYPES
typedef int CUresult;
typedef int CUdevice;
typedef struct CUstream_st *CUstream;
typedef struct CUfunc_st *CUfunction;
#endif
#if (!defined(CUDA_VERSION) || CUDA_VERSION < 12000) && !defined(TILEIRAS_CUDA_LIBRARY_TYPES)
#  define TILEIRAS_CUDA_LIBRARY_TYPES
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
#endif

#ifndef TILEIRAS_KERNEL_TABLE
#define TILEIRAS_KERNEL_TABLE
/* A number of a tensor map: the value of an integer argument, or the constant where `argument` is -1. */
typedef struct tileirasNumber {
  int argument;
  uint64_t constant;
} tileirasNumber;

/* A descriptor for bulk tensor copies, which a launch makes from the arguments and passes behind them. Dimensions
   stand outermost first; extents and strides count elements. */
typedef struct tileirasTensorMap {
  unsigned array;            /* the argument that points to the elements */
  unsigned element_type;     /* CUtensorMapDataType */
  unsigned element_size;     /* bytes */
  unsigned rank;
  tileirasNumber extents[5];
  tileirasNumber strides[5];
  unsigned box[5];
  unsigned swizzle;          /* CUtensorMapSwizzle */
  unsigned fill;             /* CUtensorMapFloatOOBfill */
} tileirasTensorMap;

/* How a kernel is launched on one architecture. */
typedef struct tileirasVariant {
  unsigned arch;             /* 90 */
  unsigned kind;             /* 0: image for arch and later ones of its major, 1: for arch alone,
                                2: compiled by the driver for arch and later */
  unsigned block[3];
  unsigned cluster[3];
  unsigned dynamic_shared;   /* bytes */
  unsigned map_count;
  const tileirasTensorMap *maps;
} tileirasVariant;

/* One kernel. block, cluster and dynamic_shared are those of variants[0]. */
typedef struct tileirasKernel {
  const char *name;
  const char *symbol;
  unsigned param_count;
  const size_t *param_sizes;
  const size_t *param_offsets;
  const char *const *param_types;
  unsigned block[3];
  unsigned cluster[3];
  unsigned dynamic_shared;
  const char *archs;
  const char *host_arch;
  unsigned variant_count;
  const tileirasVariant *variants;
} tileirasKernel;

/* Blocks in x, y, z. */
typedef struct tileirasGrid {
  unsigned x, y, z;
} tileirasGrid;
#endif
"""

PROTOTYPES = """\
/* The image, aligned to 64 bytes, its size, and a digest of its content. */
extern const unsigned char @P@_image[];
extern const size_t @P@_image_size;
extern const char @P@_image_hash[];

extern const unsigned @P@_kernel_count;
extern const tileirasKernel @P@_kernels[];

/* All functions may be called from any thread and return 0 (CUDA_SUCCESS) or the driver's error. The image is
   loaded by the first call that needs it, for all contexts; a launch uses the calling thread's current context.
   A launch whose arguments make no tensor map starts nothing, says why on standard error, and returns
   CUDA_ERROR_MISALIGNED_ADDRESS (716) for an address or stride that is no multiple of 16 bytes, else
   CUDA_ERROR_INVALID_VALUE (1) or what the driver said. */
CUresult @P@_load(CUlibrary *library); /* library may be NULL */
CUresult @P@_get(unsigned index, CUkernel *kernel);
CUresult @P@_get_by_name(const char *name, CUkernel *kernel);
CUresult @P@_launch(unsigned index, tileirasGrid grid, CUstream stream, void **args);
CUresult @P@_unload(void); /* no launch may be under way */
"""

LOADER = r"""
#ifndef TILEIRAS_LOADER_2
#define TILEIRAS_LOADER_2

/* What one image and its kernels need at run time. */
typedef struct tile_unit {
  const unsigned char *image;
  const tileirasKernel *kernels;
  unsigned count;
  CUlibrary library;
  CUkernel *found;        /* one for each kernel */
  unsigned (*raised)[2];  /* one for each kernel; bit d: device d was told the dynamic size */
} tile_unit;

/* ---- the driver ---- */

#define TILE_SUCCESS 0
#define TILE_INVALID_VALUE 1
#define TILE_OUT_OF_MEMORY 2
#define TILE_NO_BINARY_FOR_GPU 209
#define TILE_SYMBOL_NOT_FOUND 302
#define TILE_DRIVER_NOT_FOUND 303
#define TILE_NOT_FOUND 500
#define TILE_MISALIGNED 716
#define TILE_COMPUTE_CAPABILITY_MAJOR 75
#define TILE_COMPUTE_CAPABILITY_MINOR 76
#define TILE_MAX_DYNAMIC_SHARED 8
#define TILE_MAP_BYTES 128
#define TILE_MAP_ALIGN 128
/* One copy for all images of this translation unit; a compiler would make one for each. */
#if defined(__GNUC__) && !defined(__clang__)
#define TILE_ONCE __attribute__((noinline, noclone))
#else
#define TILE_ONCE
#endif

typedef int (*tile_init_fn)(unsigned);
typedef int (*tile_load_fn)(CUlibrary *, const void *, void *, void **, unsigned, void *, void **, unsigned);
typedef int (*tile_get_fn)(CUkernel *, CUlibrary, const char *);
typedef int (*tile_unload_fn)(CUlibrary);
typedef int (*tile_attribute_fn)(int, int, CUkernel, CUdevice);
typedef int (*tile_device_fn)(CUdevice *);
typedef int (*tile_query_fn)(int *, int, CUdevice);
typedef int (*tile_launch_fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, CUstream, void **, void **);
typedef int (*tile_encode_fn)(void *, int, unsigned, void *, const uint64_t *, const uint64_t *,
                              const unsigned *, const unsigned *, int, int, int, int);
typedef int (*tile_alloc_fn)(uint64_t *, size_t, CUstream);
typedef int (*tile_fill_fn)(uint64_t, unsigned char, size_t, CUstream);
typedef int (*tile_free_fn)(uint64_t, CUstream);

static struct {
  int ready;
  tile_init_fn init;
  tile_load_fn load;
  tile_get_fn get;
  tile_unload_fn unload;
  tile_attribute_fn attribute;
  tile_device_fn device;
  tile_query_fn query;
  tile_launch_fn launch;
  tile_encode_fn encode; /* this and what follows: NULL where the driver lacks it */
  tile_alloc_fn alloc;
  tile_fill_fn fill;
  tile_free_fn free;
} tile_driver;

#ifdef TILEIRAS_LINK_CUDA

#ifndef CUDA_VERSION
#ifdef __cplusplus
extern "C" {
#endif
extern int cuInit(unsigned);
extern int cuLibraryLoadData(CUlibrary *, const void *, void *, void **, unsigned, void *, void **, unsigned);
extern int cuLibraryGetKernel(CUkernel *, CUlibrary, const char *);
extern int cuLibraryUnload(CUlibrary);
extern int cuKernelSetAttribute(int, int, CUkernel, CUdevice);
extern int cuCtxGetDevice(CUdevice *);
extern int cuDeviceGetAttribute(int *, int, CUdevice);
extern int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          CUstream, void **, void **);
extern int cuTensorMapEncodeTiled(void *, int, unsigned, void *, const uint64_t *,
                                  const uint64_t *, const unsigned *, const unsigned *, int, int, int, int);
extern int cuMemAllocAsync(uint64_t *, size_t, CUstream);
extern int cuMemsetD8Async(uint64_t, unsigned char, size_t, CUstream);
extern int cuMemFreeAsync(uint64_t, CUstream);
#ifdef __cplusplus
}
#endif
#endif

/* cuda.h declares enums where the table above has int: both are passed alike, so the pointer is converted. */
#define TILE_BIND(slot, name)                                      \
  do {                                                             \
    void (*function)(void) = (void (*)(void))name;                 \
    memcpy(&tile_driver.slot, &function, sizeof tile_driver.slot); \
  } while (0)

static int tile_open_driver(void) {
  TILE_BIND(init, cuInit);
  TILE_BIND(load, cuLibraryLoadData);
  TILE_BIND(get, cuLibraryGetKernel);
  TILE_BIND(unload, cuLibraryUnload);
  TILE_BIND(attribute, cuKernelSetAttribute);
  TILE_BIND(device, cuCtxGetDevice);
  TILE_BIND(query, cuDeviceGetAttribute);
  TILE_BIND(launch, cuLaunchKernel);
  TILE_BIND(encode, cuTensorMapEncodeTiled);
  TILE_BIND(alloc, cuMemAllocAsync);
  TILE_BIND(fill, cuMemsetD8Async);
  TILE_BIND(free, cuMemFreeAsync);
  return TILE_SUCCESS;
}
#undef TILE_BIND

#else

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef HMODULE tile_module;
static tile_module tile_open_module(void) { return LoadLibraryA("nvcuda.dll"); }
static int tile_find_symbol(tile_module module, const char *name, void *slot) {
  FARPROC found = GetProcAddress(module, name);
  memcpy(slot, &found, sizeof found);
  return found ? TILE_SUCCESS : TILE_SYMBOL_NOT_FOUND;
}
#else
#include <dlfcn.h>
typedef void *tile_module;
static tile_module tile_open_module(void) {
  tile_module module = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return module ? module : dlopen("libcuda.so", RTLD_NOW | RTLD_LOCAL);
}
static int tile_find_symbol(tile_module module, const char *name, void *slot) {
  void *found = dlsym(module, name);
  memcpy(slot, &found, sizeof found);
  return found ? TILE_SUCCESS : TILE_SYMBOL_NOT_FOUND;
}
#endif

/* The driver stays open: other users of this process share it, and it may not be unloaded safely. */
static int tile_open_driver(void) {
  int status = TILE_SUCCESS;
  tile_module module = tile_open_module();
  if (!module) return TILE_DRIVER_NOT_FOUND;
  if (!status) status = tile_find_symbol(module, "cuInit", &tile_driver.init);
  if (!status) status = tile_find_symbol(module, "cuLibraryLoadData", &tile_driver.load);
  if (!status) status = tile_find_symbol(module, "cuLibraryGetKernel", &tile_driver.get);
  if (!status) status = tile_find_symbol(module, "cuLibraryUnload", &tile_driver.unload);
  if (!status) status = tile_find_symbol(module, "cuKernelSetAttribute", &tile_driver.attribute);
  if (!status) status = tile_find_symbol(module, "cuCtxGetDevice", &tile_driver.device);
  if (!status) status = tile_find_symbol(module, "cuDeviceGetAttribute", &tile_driver.query);
  if (!status) status = tile_find_symbol(module, "cuLaunchKernel", &tile_driver.launch);
  if (!status) { /* which only kernels with tensor maps ask for */
    (void)tile_find_symbol(module, "cuTensorMapEncodeTiled", &tile_driver.encode);
    (void)tile_find_symbol(module, "cuMemAllocAsync", &tile_driver.alloc);
    (void)tile_find_symbol(module, "cuMemsetD8Async", &tile_driver.fill);
    (void)tile_find_symbol(module, "cuMemFreeAsync", &tile_driver.free);
  }
  return status;
}

#endif

/* ---- one lock for everything below that is written ---- */

#ifdef _MSC_VER
#include <intrin.h>
static volatile long tile_lock_word;
static void tile_lock(void) {
  while (_InterlockedExchange(&tile_lock_word, 1)) {
  }
}
static void tile_unlock(void) { _InterlockedExchange(&tile_lock_word, 0); }
#else
#include <sched.h>
static int tile_lock_word;
static void tile_lock(void) {
  while (__atomic_exchange_n(&tile_lock_word, 1, __ATOMIC_ACQUIRE)) sched_yield();
}
static void tile_unlock(void) { __atomic_store_n(&tile_lock_word, 0, __ATOMIC_RELEASE); }
#endif

static int tile_load_locked(tile_unit *unit) {
  int status = TILE_SUCCESS;
  if (unit->library) return TILE_SUCCESS;
  if (!tile_driver.ready) {
    status = tile_open_driver();
    if (!status) status = tile_driver.init(0);
    if (status) return status;
    tile_driver.ready = 1;
  }
  return tile_driver.load(&unit->library, unit->image, NULL, NULL, 0, NULL, NULL, 0);
}

static int tile_get_locked(tile_unit *unit, unsigned index, CUkernel *kernel) {
  int status = tile_load_locked(unit);
  if (status) {
    unit->library = NULL;
    return status;
  }
  if (!unit->found[index]) {
    status = tile_driver.get(&unit->found[index], unit->library, unit->kernels[index].symbol);
    if (status) {
      unit->found[index] = NULL;
      return status;
    }
  }
  *kernel = unit->found[index];
  return TILE_SUCCESS;
}

/* The variant the driver chooses on this device: its own image, else the highest image of the same major,
   else the highest that it can compile. */
static const tileirasVariant *tile_variant_for(const tileirasKernel *kernel, unsigned arch) {
  const tileirasVariant *best = NULL;
  unsigned i;
  for (i = 0; i < kernel->variant_count; ++i) {
    const tileirasVariant *candidate = &kernel->variants[i];
    if (candidate->arch > arch) continue;
    if (candidate->kind == 0 && candidate->arch / 10 != arch / 10) continue;
    if (candidate->kind == 1 && candidate->arch != arch) continue;
    if (best && best->kind < 2 && candidate->kind == 2) continue;
    if (!best || (candidate->kind < 2 && best->kind == 2) || candidate->arch > best->arch) best = candidate;
  }
  return best;
}

TILE_ONCE static int tile_load(tile_unit *unit, CUlibrary *library) {
  int status;
  tile_lock();
  status = tile_load_locked(unit);
  if (status) unit->library = NULL;
  if (!status && library) *library = unit->library;
  tile_unlock();
  return status;
}

TILE_ONCE static int tile_get(tile_unit *unit, unsigned index, CUkernel *kernel) {
  int status;
  if (index >= unit->count || !kernel) return TILE_INVALID_VALUE;
  tile_lock();
  status = tile_get_locked(unit, index, kernel);
  tile_unlock();
  return status;
}

TILE_ONCE static int tile_get_by_name(tile_unit *unit, const char *name, CUkernel *kernel) {
  unsigned i;
  if (!name || !kernel) return TILE_INVALID_VALUE;
  for (i = 0; i < unit->count; ++i) {
    if (!strcmp(name, unit->kernels[i].symbol) || !strcmp(name, unit->kernels[i].name)) return tile_get(unit, i, kernel);
  }
  return TILE_NOT_FOUND;
}

/* ---- tensor maps ---- */

static int tile_refuse(int status, const tileirasKernel *row, const tileirasTensorMap *map, const char *what,
                       int64_t value) {
  fprintf(stderr, "tileiras: kernel '%s' is not launched, as argument %u makes no tensor map: %s %.0f\n", row->name,
          map->array, what, (double)value);
  return status;
}

static int64_t tile_number(const tileirasKernel *row, const tileirasNumber *number, void **args) {
  union { signed char b; short h; int w; int64_t d; } value;
  if (number->argument < 0) return (int64_t)number->constant;
  memcpy(&value, args[number->argument], row->param_sizes[number->argument]);
  switch (row->param_sizes[number->argument]) {
    case 1: return value.b;
    case 2: return value.h;
    case 4: return value.w;
    default: return value.d;
  }
}

/* Writes the map to `out`. An array without elements is one element of `nothing`, which holds what lies outside any
   array; *nothing is made on the stream when the first map needs it. */
static int tile_encode(const tileirasKernel *row, const tileirasTensorMap *map, void **args, CUstream stream,
                       uint64_t *nothing, void *out) {
  uint64_t extents[5], strides[5], base = 0;
  unsigned box[5], steps[5], i;
  int status = TILE_SUCCESS, empty = 0;
  void *place;
  memcpy(&base, args[map->array], row->param_sizes[map->array]);
  for (i = 0; i < map->rank; ++i) { /* the driver's dimensions begin with the innermost */
    unsigned d = map->rank - 1 - i;
    int64_t value = tile_number(row, &map->extents[i], args);
    if (value < 0 || value > (int64_t)1 << 32)
      return tile_refuse(TILE_INVALID_VALUE, row, map, "at most 4294967296 elements a dimension are possible, not", value);
    if (!value) empty = 1;
    extents[d] = (uint64_t)value;
    box[d] = map->box[i];
    steps[d] = 1;
    if (!d) continue;
    strides[d - 1] = TILE_MAP_ALIGN; /* of a single element nobody reads it */
    if (value <= 1) continue;
    value = tile_number(row, &map->strides[i], args);
    if (value < 0 || value >= ((int64_t)1 << 40) / map->element_size)
      return tile_refuse(TILE_INVALID_VALUE, row, map, "strides of less than 2^40 bytes are possible, not elements:", value);
    value *= map->element_size;
    if (value % 16)
      return tile_refuse(TILE_MISALIGNED, row, map, "strides are multiples of 16 bytes, not", value);
    strides[d - 1] = (uint64_t)value;
  }
  if (empty) {
    if (!*nothing) {
      if (!tile_driver.alloc || !tile_driver.fill || !tile_driver.free) return TILE_SYMBOL_NOT_FOUND;
      status = tile_driver.alloc(nothing, 2 * TILE_MAP_ALIGN, stream);
      if (status) {
        *nothing = 0;
        return status;
      }
      status = tile_driver.fill(*nothing, 0, TILE_MAP_ALIGN, stream);
      if (!status) status = tile_driver.fill(*nothing + TILE_MAP_ALIGN, 0xFF, TILE_MAP_ALIGN, stream); /* NaN */
      if (status) return status;
    }
    base = *nothing + (map->fill ? TILE_MAP_ALIGN : 0);
    for (i = 0; i < map->rank; ++i) {
      extents[i] = 1;
      strides[i] = TILE_MAP_ALIGN;
    }
  }
  if (base % 16)
    return tile_refuse(TILE_MISALIGNED, row, map, "it points to a multiple of 16 bytes and", (int64_t)(base % 16));
  place = (void *)(size_t)base;
  if (!tile_driver.encode) return TILE_SYMBOL_NOT_FOUND;
  status = tile_driver.encode(out, (int)map->element_type, map->rank, place, extents, strides, box, steps, 0,
                              (int)map->swizzle, 2, (int)map->fill); /* no interleave; lines of 128 bytes to L2 */
  return status ? tile_refuse(status, row, map, "the driver refuses it with", status) : TILE_SUCCESS;
}

/* A launch whose kernel takes maps behind its arguments; the driver has copied them when it returns. */
static int tile_launch_with_maps(const tileirasKernel *row, const tileirasVariant *how, CUfunction function,
                                 tileirasGrid grid, CUstream stream, void **args) {
  uint64_t nothing = 0;
  size_t count = (size_t)row->param_count + how->map_count;
  char *memory = (char *)malloc(count * sizeof(void *) + (size_t)how->map_count * TILE_MAP_BYTES + TILE_MAP_ALIGN);
  void **all = (void **)(void *)memory;
  char *maps;
  unsigned i;
  int status = TILE_SUCCESS;
  if (!memory) return TILE_OUT_OF_MEMORY;
  maps = memory + count * sizeof(void *);
  maps += TILE_MAP_ALIGN - (size_t)maps % TILE_MAP_ALIGN;
  for (i = 0; i < row->param_count; ++i) all[i] = args[i];
  for (i = 0; i < how->map_count && !status; ++i) {
    all[row->param_count + i] = maps + (size_t)i * TILE_MAP_BYTES;
    status = tile_encode(row, &how->maps[i], args, stream, &nothing, all[row->param_count + i]);
  }
  if (!status)
    status = tile_driver.launch(function, grid.x, grid.y, grid.z, how->block[0], how->block[1], how->block[2],
                                how->dynamic_shared, stream, all, NULL);
  if (nothing) { /* in the order of the stream, so not before the kernel has ended */
    int freed = tile_driver.free(nothing, stream);
    if (!status) status = freed;
  }
  free(memory);
  return status;
}

TILE_ONCE static int tile_launch(tile_unit *unit, unsigned index, tileirasGrid grid, CUstream stream, void **args) {
  const tileirasKernel *row;
  const tileirasVariant *how;
  CUkernel kernel;
  CUfunction function;
  CUdevice device = 0;
  int status, major = 0, minor = 0;
  if (index >= unit->count) return TILE_INVALID_VALUE;
  row = &unit->kernels[index];
  status = tile_get(unit, index, &kernel);
  if (!status) status = tile_driver.device(&device);
  if (!status) status = tile_driver.query(&major, TILE_COMPUTE_CAPABILITY_MAJOR, device);
  if (!status) status = tile_driver.query(&minor, TILE_COMPUTE_CAPABILITY_MINOR, device);
  if (status) return status;
  how = tile_variant_for(row, (unsigned)(major * 10 + minor));
  if (!how) return TILE_NO_BINARY_FOR_GPU;
  if (how->dynamic_shared > 48 * 1024) {
    unsigned bit = device >= 0 && device < 64 ? 1u << device % 32 : 0;
    unsigned *told = &unit->raised[index][bit ? device / 32 : 0];
    unsigned known;
    tile_lock();
    known = *told & bit;
    if (!known) {
      status = tile_driver.attribute(TILE_MAX_DYNAMIC_SHARED, (int)how->dynamic_shared, kernel, device);
      if (!status) *told |= bit;
    }
    tile_unlock();
    if (status) return status;
  }
  memcpy(&function, &kernel, sizeof function); /* a CUkernel may stand for a CUfunction in a launch */
  if (how->map_count) return tile_launch_with_maps(row, how, function, grid, stream, args);
  return tile_driver.launch(function, grid.x, grid.y, grid.z, how->block[0], how->block[1],
                                 how->block[2], how->dynamic_shared, stream, args, NULL);
}

TILE_ONCE static int tile_unload(tile_unit *unit) {
  int status = TILE_SUCCESS;
  tile_lock();
  if (unit->library) status = tile_driver.unload(unit->library);
  unit->library = NULL;
  memset(unit->found, 0, unit->count * sizeof *unit->found);
  memset(unit->raised, 0, unit->count * sizeof *unit->raised);
  tile_unlock();
  return status;
}

#undef TILE_SUCCESS
#undef TILE_INVALID_VALUE
#undef TILE_OUT_OF_MEMORY
#undef TILE_NO_BINARY_FOR_GPU
#undef TILE_SYMBOL_NOT_FOUND
#undef TILE_DRIVER_NOT_FOUND
#undef TILE_NOT_FOUND
#undef TILE_MISALIGNED
#undef TILE_COMPUTE_CAPABILITY_MAJOR
#undef TILE_COMPUTE_CAPABILITY_MINOR
#undef TILE_MAX_DYNAMIC_SHARED
#undef TILE_MAP_BYTES
#undef TILE_MAP_ALIGN
#undef TILE_ONCE

#endif  /* TILEIRAS_LOADER_2 */
"""

FUNCTIONS = """
/* ---- what the header declares ---- */

static CUkernel @U@found[@N@];
static unsigned @U@raised[@N@][2];
static tile_unit @U@unit = {@P@_image, @P@_kernels, @C@, NULL, @U@found, @U@raised};

CUresult @P@_load(CUlibrary *library) { return (CUresult)tile_load(&@U@unit, library); }
CUresult @P@_get(unsigned index, CUkernel *kernel) { return (CUresult)tile_get(&@U@unit, index, kernel); }
CUresult @P@_get_by_name(const char *name, CUkernel *kernel) {
  return (CUresult)tile_get_by_name(&@U@unit, name, kernel);
}
CUresult @P@_launch(unsigned index, tileirasGrid grid, CUstream stream, void **args) {
  return (CUresult)tile_launch(&@U@unit, index, grid, stream, args);
}
CUresult @P@_unload(void) { return (CUresult)tile_unload(&@U@unit); }
"""
