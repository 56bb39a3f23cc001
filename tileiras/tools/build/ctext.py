"""The text of the generated header and source; everything that varies comes from a `header_verb.Unit`.

Several generated sources may be compiled as one (CMake's unity builds): every name of an image's own holds its prefix,
nothing is told apart by case alone where C tells it apart by case, and the loader, which is the same for all, is
compiled by the first of them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.tools.build.header_verb import Entry, Unit

_BYTES_PER_LINE = 32
_LONGEST_LITERAL = 65_000
# Each byte in a string literal. Three octal digits end by themselves, whatever follows; ? would begin a trigraph.
_CHARACTERS = [
    chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in range(256)
]

# Tile IR types with a C++ type of the same size and meaning; the others are passed as bits of their size.
_SCALARS = {
    "i8": "std::int8_t",
    "i16": "std::int16_t",
    "i32": "std::int32_t",
    "i64": "std::int64_t",
    "f32": "float",
    "f64": "double",
}
_BITS = {1: "std::uint8_t", 2: "std::uint16_t", 4: "std::uint32_t", 8: "std::uint64_t"}

_TYPES = """\
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
/* How a kernel is launched on one architecture. */
typedef struct tileirasVariant {
  unsigned arch;             /* 90 */
  unsigned kind;             /* 0: image for arch and later ones of its major, 1: for arch alone,
                                2: compiled by the driver for arch and later */
  unsigned block[3];
  unsigned cluster[3];
  unsigned dynamic_shared;   /* bytes */
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

_PROTOTYPES = """\
/* The image, aligned to 64 bytes, its size, and a digest of its content. */
extern const unsigned char @P@_image[];
extern const size_t @P@_image_size;
extern const char @P@_image_hash[];

extern const unsigned @P@_kernel_count;
extern const tileirasKernel @P@_kernels[];

/* All functions may be called from any thread and return 0 (CUDA_SUCCESS) or the driver's error. The image is
   loaded by the first call that needs it, for all contexts; a launch uses the calling thread's current context. */
CUresult @P@_load(CUlibrary *library); /* library may be NULL */
CUresult @P@_get(unsigned index, CUkernel *kernel);
CUresult @P@_get_by_name(const char *name, CUkernel *kernel);
CUresult @P@_launch(unsigned index, tileirasGrid grid, CUstream stream, void **args);
CUresult @P@_unload(void); /* no launch may be under way */
"""

_LOADER = r"""
#ifndef TILEIRAS_LOADER_1
#define TILEIRAS_LOADER_1

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
#define TILE_NO_BINARY_FOR_GPU 209
#define TILE_SYMBOL_NOT_FOUND 302
#define TILE_DRIVER_NOT_FOUND 303
#define TILE_NOT_FOUND 500
#define TILE_COMPUTE_CAPABILITY_MAJOR 75
#define TILE_COMPUTE_CAPABILITY_MINOR 76
#define TILE_MAX_DYNAMIC_SHARED 8
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
#undef TILE_NO_BINARY_FOR_GPU
#undef TILE_SYMBOL_NOT_FOUND
#undef TILE_DRIVER_NOT_FOUND
#undef TILE_NOT_FOUND
#undef TILE_COMPUTE_CAPABILITY_MAJOR
#undef TILE_COMPUTE_CAPABILITY_MINOR
#undef TILE_MAX_DYNAMIC_SHARED
#undef TILE_ONCE

#endif  /* TILEIRAS_LOADER_1 */
"""

_FUNCTIONS = """
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
# The image as a literal, and the casts and the NULL of C, for users who compile their C++ with every warning as an error.
_QUIET_BEGIN = """\
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
#ifdef __cplusplus
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wzero-as-null-pointer-constant"
#endif
#endif
"""
_QUIET_END = """
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
"""


def header(unit: Unit) -> str:
    """The header."""
    prefix = unit.prefix
    guard = f"TILEIRAS_HEADER_{prefix}"
    lines = [
        "/* Generated by tileiras-build header. Do not edit. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "",
        _TYPES,
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        _PROTOTYPES.replace("@P@", prefix),
    ]
    if unit.entries:
        lines.append("/* Index of each kernel, for get and launch. */")
        lines.append("enum {")
        for index, name in enumerate(identifiers(unit)):
            lines.append(f"  {prefix}_{name} = {index},")
        lines[-1] = lines[-1].rstrip(",")
        lines += ["};", ""]
    lines += ["#ifdef __cplusplus", '}  /* extern "C" */', "", "#include <cstdint>", ""]
    lines += _typed(unit)
    lines += ["#endif", "", f"#endif  /* {guard} */", ""]
    return "\n".join(lines)


def identifiers(unit: Unit) -> list[str]:
    """A C identifier for each kernel, all different."""
    taken = {"image", "image_size", "image_hash", "kernel_count", "kernels", "load", "get", "get_by_name"}
    taken |= {"launch", "unload", "IMAGE_FILE"}
    found = []
    for entry in unit.entries:
        name = "".join(
            char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in entry.name
        )
        if name[:1].isdigit():
            name = "_" + name
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return found


def _typed(unit: Unit) -> list[str]:
    """A C++ function per kernel whose parameters are all of a known size."""
    opening = [f"namespace {part} {{" for part in unit.namespace.split("::")]
    lines = [*opening, ""]
    for index, (entry, name) in enumerate(zip(unit.entries, identifiers(unit))):
        types = [cxx_type(param["type"], param["size"]) for param in entry.params]
        if None in types:
            lines += [f"/* {entry.name}: a parameter has no C++ type; use {unit.prefix}_launch. */", ""]
            continue
        words = [f"{kind} a{i}" for i, kind in enumerate(types)]
        signature = ", ".join(["tileirasGrid grid", "CUstream stream", *words])
        lines.append(f"/* {entry.name}({', '.join(param['type'] for param in entry.params)}) */")
        lines.append(f"inline CUresult launch_{name}({signature}) {{")
        if words:
            pointers = ", ".join(f"&a{i}" for i in range(len(words)))
            lines.append(f"  void *args[] = {{{pointers}}};")
            lines.append(f"  return {unit.prefix}_launch({index}, grid, stream, args);")
        else:
            lines.append(f"  return {unit.prefix}_launch({index}, grid, stream, nullptr);")
        lines += ["}", ""]
    lines += [f"}}  // namespace {part}" for part in reversed(unit.namespace.split("::"))]
    return [*lines, ""]


def cxx_type(kind: str, size: int) -> str | None:
    """ "float *" for "ptr<f32>", "std::int32_t" for "i32", bits of the right size for the rest; None for
    aggregates."""
    if kind.startswith("ptr"):
        pointee = kind[4:-1] if kind.startswith("ptr<") else ""
        return f"{_SCALARS.get(pointee, 'void')} *"
    return _SCALARS.get(kind) or _BITS.get(size)


def source(unit: Unit, image: bytes, include: str, embed: str, image_path: str) -> str:
    """The source, the same text for C and C++."""
    from tileiras.toolchain.digest import digest_bytes

    prefix = unit.prefix
    lines = [
        "/* Generated by tileiras-build header. Do not edit. */",
        f'#include "{include}"',
        "",
        "#include <string.h>",
        "",
        _QUIET_BEGIN,
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    if embed == "none":
        lines += ["/* The image comes from an object of `tileiras-build object`. */", ""]
    else:
        lines += _image(prefix, image, embed, image_path)
        lines += [
            f"const size_t {prefix}_image_size = {len(image)}u;",
            f'const char {prefix}_image_hash[] = "{digest_bytes(image)}";',
            "",
        ]
    lines += _rows(unit)
    lines += ["#ifdef __cplusplus", '}  /* extern "C" */', "#endif", ""]
    text = "\n".join(lines)
    functions = _FUNCTIONS.replace("@N@", str(max(1, len(unit.entries)))).replace("@C@", str(len(unit.entries)))
    code = (_LOADER + functions).replace("tile_", "tileiras_loader_")
    return text + code.replace("@U@", _private(prefix)).replace("@P@", prefix) + _QUIET_END


def _private(prefix: str) -> str:
    """What the names begin with that no other file is to see."""
    return f"tileiras_{prefix}_"


def _image(prefix: str, image: bytes, embed: str, image_path: str) -> list[str]:
    if embed == "incbin":
        path = image_path.replace(os.sep, "/").replace("\\", "\\\\").replace('"', '\\"')
        return [
            "#if !defined(__GNUC__) || defined(_WIN32) || defined(__APPLE__)",
            '#error "--embed incbin needs a GNU or Clang compiler for ELF; use --embed array"',
            "#endif",
            f"#ifndef {prefix}_IMAGE_FILE",
            f'#define {prefix}_IMAGE_FILE "{path}"',
            "#endif",
            '__asm__(".pushsection .rodata\\n.balign 64\\n"',
            f'        ".globl {prefix}_image\\n.type {prefix}_image, %object\\n"',
            f'        "{prefix}_image:\\n.incbin \\"" {prefix}_IMAGE_FILE "\\"\\n"',
            f'        ".size {prefix}_image, . - {prefix}_image\\n.byte 0\\n.popsection\\n");',
            "",
        ]
    literal = [
        '  "' + "".join([_CHARACTERS[byte] for byte in image[at : at + _BYTES_PER_LINE]]) + '"'
        for at in range(0, len(image), _BYTES_PER_LINE)
    ]
    # A compiler reads a string ten times as fast as numbers; Microsoft's takes one of 65,535 bytes at most.
    if len(image) > _LONGEST_LITERAL:
        numbers = [
            "  " + ",".join(map(str, image[at : at + _BYTES_PER_LINE])) + ","
            for at in range(0, len(image), _BYTES_PER_LINE)
        ]
        literal = ["#ifdef _MSC_VER", "  {", *numbers, "  0}", "#else", *literal, "#endif"]
    return [
        "#ifdef _MSC_VER",
        "__declspec(align(64))",
        "#else",
        "__attribute__((aligned(64)))",
        "#endif",
        f"const unsigned char {prefix}_image[{len(image)} + 1] =",  # C++ counts the zero that ends a string
        *(literal or ['  ""']),
        ";",
        "",
    ]


def _rows(unit: Unit) -> list[str]:
    lines: list[str] = []
    table: list[str] = []
    private = _private(unit.prefix)
    for index, entry in enumerate(unit.entries):
        if entry.params:
            sizes = ", ".join(str(param["size"]) for param in entry.params)
            offsets = ", ".join(str(param["offset"]) for param in entry.params)
            types = ", ".join(_quote(param["type"]) for param in entry.params)
            lines.append(f"static const size_t {private}sizes_{index}[] = {{{sizes}}};")
            lines.append(f"static const size_t {private}offsets_{index}[] = {{{offsets}}};")
            lines.append(f"static const char *const {private}types_{index}[] = {{{types}}};")
        lines.append(f"static const tileirasVariant {private}variants_{index}[] = {{")
        for variant in entry.variants:
            shapes = f"{_triple(variant.block)}, {_triple(variant.cluster)}"
            kind = 2 if variant.virtual else int(variant.exact)
            lines.append(f"  {{{variant.number}, {kind}, {shapes}, {variant.dynamic_shared}}},")
        lines += ["};", ""]
        table += _table_row(index, entry, unit.host_arch, private)
    lines.append(f"const unsigned {unit.prefix}_kernel_count = {len(unit.entries)};")
    lines.append(f"const tileirasKernel {unit.prefix}_kernels[] = {{")
    lines += table
    if not unit.entries:
        zero = "{0, 0, 0}"
        lines.append(f"  {{NULL, NULL, 0, NULL, NULL, NULL, {zero}, {zero}, 0, NULL, NULL, 0, NULL}}")
    return [*lines, "};", ""]


def _table_row(index: int, entry: Entry, host_arch: str, private: str) -> list[str]:
    first = entry.variants[0]
    arrays = ", ".join(
        f"{private}{what}_{index}" if entry.params else "NULL" for what in ("sizes", "offsets", "types")
    )
    return [
        f"  {{{_quote(entry.name)}, {_quote(entry.symbol)}, {len(entry.params)}, {arrays},",
        f"   {_triple(first.block)}, {_triple(first.cluster)}, {first.dynamic_shared},",
        f"   {_quote(entry.archs)}, {_quote(host_arch)}, {len(entry.variants)}, {private}variants_{index}}},",
    ]


def _triple(shape: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, shape)) + "}"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
