"""The part of a generated source that runs its kernels on the CPU: their assembly, and a pool of threads in C.

The code was made by `run/cpu/ahead.py`; what a launch's record holds is said in `run/cpu/runtime.py`. All sources of a
program share one pool: its functions are weak. It starts with the first launch and ends with the process; a forked
process starts its own.
"""

from __future__ import annotations

from tileiras.tools.build.cpuprint import PRINT, quote, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TYPES = r"""
/* ---- the CPU ---- */

#ifndef TILEIRAS_CPU_POOL_1
#define TILEIRAS_CPU_POOL_1
#if !defined(__GNUC__) || defined(_WIN32) || defined(__APPLE__)
#error "kernels for the CPU need a GNU or Clang compiler for ELF"
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TILE_CPU_RESIDENT 1056
#define TILE_CPU_FAULTS 64
#define TILE_WEAK __attribute__((weak, visibility("hidden")))

typedef void (*tile_cpu_code)(int64_t *launch, void *arena, int64_t *state, int64_t share);
typedef struct tile_cpu_kernel {
  const char *symbol;
  const char *const *sites;  /* what a fault says */
  tile_cpu_code code[3];     /* one for each level, NULL from the last on */
  size_t bytes[3];           /* memory of a tile block */
  int waits;                 /* blocks may wait for each other */
  void (*print)(int64_t site, void **places);  /* NULL where nothing is printed */
  void *const *globals;      /* memory of the module's globals */
  unsigned global_count;
  const char *largest;       /* the op that needs most of the memory */
} tile_cpu_kernel;
"""

POOL = r"""

/* One launch at a time has the pool. */
extern struct tile_cpu_pool {
  pthread_mutex_t launching, mutex;
  pthread_cond_t work, done;
  unsigned threads, next, wanted, busy;
  unsigned long round;
  tile_cpu_code code;
  int64_t *launch, *states;
  char *arena;
  size_t step;
  int64_t share;
} tile_cpu_pool;
TILE_WEAK struct tile_cpu_pool tile_cpu_pool = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

/* The level of vectors that this processor has: an index into code. */
static int tile_cpu_level(const tile_cpu_kernel *kernel) {
#if defined(__x86_64__)
  int level = 0;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    level = 1;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      level = 2;
  }
  while (level > 0 && !kernel->code[level]) --level;
  return level;
#else
  (void)kernel;
  return 0;
#endif
}

void tile_cpu_part(unsigned i);
TILE_WEAK void tile_cpu_part(unsigned i) {
  struct tile_cpu_pool *p = &tile_cpu_pool;
  p->code(p->launch, p->arena + i * p->step, p->states + 8 * i, p->share);
}

void *tile_cpu_worker(void *nothing);
TILE_WEAK void *tile_cpu_worker(void *nothing) {
  struct tile_cpu_pool *p = &tile_cpu_pool;
  (void)nothing;
  pthread_mutex_lock(&p->mutex);
  for (;;) {
    unsigned i;
    while (p->next >= p->wanted) pthread_cond_wait(&p->work, &p->mutex);
    i = p->next++;
    pthread_mutex_unlock(&p->mutex);
    tile_cpu_part(i);
    pthread_mutex_lock(&p->mutex);
    if (--p->busy == 0) pthread_cond_signal(&p->done);
  }
  return NULL;
}

/* A forked process has none of its parent's threads. */
void tile_cpu_forked(void);
TILE_WEAK void tile_cpu_forked(void) {
  struct tile_cpu_pool *p = &tile_cpu_pool;
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->launching, NULL);
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->work, NULL);
  pthread_cond_init(&p->done, NULL);
}

static double tile_cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A setting of the environment; -1, and a line on standard error, for what is none. */
static double tile_cpu_number(const char *name, double otherwise, int whole) {
  const char *text = getenv(name);
  char *end = NULL;
  double value;
  if (!text || !*text) return otherwise;
  value = strtod(text, &end);
  if (!*end && value >= whole && value <= 1e9 && !(whole && value > (double)(uint64_t)value)) return value;
  fprintf(stderr, "tileiras: %s=%s: expected %s\\n", name, text,
          whole ? "a whole number from 1" : "a number of seconds, 0 for never");
  return -1;
}

/* The processors that this process may use. */
static double tile_cpu_processors(void) {
#ifdef __linux__
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return (double)CPU_COUNT(&set);
#endif
  return (double)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Blocks that wait for each other: a thread each. All waiting without a change of memory is a deadlock. */
static void *tile_cpu_resident(void *argument) {
  tile_cpu_part((unsigned)(size_t)argument);
  return NULL;
}

static int tile_cpu_together(struct tile_cpu_pool *p, const tile_cpu_kernel *kernel, unsigned workers, double patience) {
  pthread_t *crew = (pthread_t *)calloc(workers, sizeof *crew);
  unsigned i, started = 0;
  int64_t changes = p->launch[6];
  double since = tile_cpu_seconds();
  int status = 0;
  pthread_attr_t attributes;
  if (!crew) return 2;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1 << 20);
  for (i = 0; i < workers; ++i) {
    if (pthread_create(&crew[started], &attributes, tile_cpu_resident, (void *)(size_t)i)) {
      p->states[8 * i + 6] = 1;
      continue;
    }
    ++started;
  }
  pthread_attr_destroy(&attributes);
  if (!started) status = 2;
  while (!status) {
    struct timespec pause = {0, 200000};
    unsigned left = 0, waiting = 0, one = 0;
    for (i = 0; i < workers; ++i) {
      if (__atomic_load_n(&p->states[8 * i + 6], __ATOMIC_ACQUIRE)) continue;
      ++left;
      one = i;
      waiting += __atomic_load_n(&p->states[8 * i + 3], __ATOMIC_RELAXED) != 0;
    }
    if (!left) break;
    if (waiting < left || __atomic_load_n(&p->launch[6], __ATOMIC_RELAXED) != changes || patience <= 0) {
      changes = __atomic_load_n(&p->launch[6], __ATOMIC_RELAXED);
      since = tile_cpu_seconds();
    } else if (tile_cpu_seconds() - since > patience) {
      fprintf(stderr, "tileiras: kernel '%s': no tile block makes progress for %g s; %u wait, block %ld at address %#lx: %s\n",
              kernel->symbol, patience, left, (long)p->states[8 * one + 5],
              (unsigned long)p->states[8 * one + 4], kernel->sites[p->states[8 * one]]);
      status = 702;
      __atomic_store_n(&p->launch[5], 1, __ATOMIC_RELAXED);
    }
    nanosleep(&pause, NULL);
  }
  for (i = 0; i < started; ++i) pthread_join(crew[i], NULL);
  free(crew);
  return status;
}

int tile_cpu_launch(const tile_cpu_kernel *kernel, const tileirasKernel *row, tileirasGrid grid, void **args);
TILE_WEAK int tile_cpu_launch(const tile_cpu_kernel *kernel, const tileirasKernel *row, tileirasGrid grid, void **args) {
  struct tile_cpu_pool *p = &tile_cpu_pool;
  int level = tile_cpu_level(kernel), status = 0;
  size_t step = (kernel->bytes[level] + 127) / 64 * 64;
  uint64_t total = (uint64_t)grid.x * grid.y * grid.z, most;
  double wanted = tile_cpu_number("TILEIRAS_CPU_THREADS", tile_cpu_processors(), 1);
  double patience = tile_cpu_number("TILEIRAS_CPU_TIMEOUT", 2.0, 0);
  int64_t *words, *faults;
  unsigned i, workers;
  void *arena = NULL;
  if (!total || wanted < 1 || patience < 0) return 1;
  most = kernel->waits ? TILE_CPU_RESIDENT : kernel->print ? 1 : (uint64_t)wanted;
  workers = (unsigned)(total < most ? total : most);
  if ((double)step * workers > (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 2) {
    fprintf(stderr, "tileiras: kernel '%s' needs %g bytes for %u tile blocks, more than half of the machine's memory; %s\n",
            kernel->symbol, (double)step * workers, workers, kernel->largest);
    return 2;
  }
  words = (int64_t *)calloc(10 + row->param_count + kernel->global_count, sizeof *words);
  faults = (int64_t *)calloc(1 + 6 * TILE_CPU_FAULTS, sizeof *faults);
  if (!words || !faults || posix_memalign(&arena, 64, step * workers)) {
    free(words);
    free(faults);
    return 2;
  }
  words[0] = 0;
  words[1] = (int64_t)(size_t)faults;
  words[2] = grid.x;
  words[3] = grid.y;
  words[4] = grid.z;
  words[5] = (int64_t)total;
  for (i = 0; i < row->param_count; ++i) memcpy(&words[10 + i], args[i], row->param_sizes[i]);
  for (i = 0; i < kernel->global_count; ++i) words[10 + row->param_count + i] = (int64_t)(size_t)kernel->globals[i];
  memcpy(&words[9], &kernel->print, sizeof kernel->print);
  pthread_mutex_lock(&p->launching);
  if (!p->round++) pthread_atfork(NULL, NULL, tile_cpu_forked);
  p->states = (int64_t *)calloc(workers, 8 * sizeof(int64_t));
  if (!p->states) status = 2;
  p->code = kernel->code[level];
  p->launch = words + 2;
  p->arena = (char *)arena;
  p->step = step;
  p->share = kernel->waits ? (int64_t)total + 1 : 4 * (int64_t)workers;
  if (!status && kernel->waits) {
    status = tile_cpu_together(p, kernel, workers, patience);
  } else if (!status) {
    pthread_mutex_lock(&p->mutex);
    while (p->threads + 1 < workers) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, tile_cpu_worker, NULL)) break;
      pthread_detach(thread);
      ++p->threads;
    }
    p->next = 1;
    p->wanted = workers <= p->threads + 1 ? workers : p->threads + 1;
    p->busy = p->wanted - 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
    tile_cpu_part(0);
    pthread_mutex_lock(&p->mutex);
    while (p->busy) pthread_cond_wait(&p->done, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
  }
  free(p->states);
  pthread_mutex_unlock(&p->launching);
  if (kernel->print) fflush(stdout);
  if (!status && faults[0]) {
    int64_t *first = faults + 1;
    fprintf(stderr, "tileiras: kernel '%s', tile block (%ld, %ld, %ld): %s (%ld faults)\n", kernel->symbol,
            (long)first[1], (long)first[2], (long)first[3], kernel->sites[first[0] & 0xFFFFFFFF],
            (long)faults[0]);
    status = 710;
  }
  free(arena);
  free(faults);
  free(words);
  return status;
}

/* TILEIRAS_DEVICE: 0 auto, 1 gpu, 2 cpu; -1, and a line on standard error, for any other word. */
static int tile_cpu_choice(void) {
  const char *text = getenv("TILEIRAS_DEVICE");
  if (!text || !*text || !strcmp(text, "auto")) return 0;
  if (!strcmp(text, "gpu")) return 1;
  if (!strcmp(text, "cpu")) return 2;
  fprintf(stderr, "tileiras: TILEIRAS_DEVICE=%s: expected auto, gpu or cpu\\n", text);
  return -1;
}
#undef TILE_WEAK
#undef TILE_CPU_RESIDENT
#undef TILE_CPU_FAULTS
#endif  /* TILEIRAS_CPU_POOL_1 */
"""

POOL = TYPES + PRINT + POOL

LAUNCH = """
CUresult @P@_launch(unsigned index, tileirasGrid grid, CUstream stream, void **args) {
  int where = tile_cpu_choice(), status;
  unsigned i;
  static int no_gpu; /* no driver, no device or no image: asked once */
  if (where < 0 || index >= @P@_kernel_count) return (CUresult)1;
  if (where == 0 && !no_gpu && (!@P@_image_size || tile_load(&@U@unit, NULL))) no_gpu = 1;
  if (where == 0 && no_gpu) where = 2;
  if (where != 2) {
    status = tile_launch(&@U@unit, index, grid, stream, args);
    if (where == 1 || status != 209) return (CUresult)status;
  }
  for (i = 0; i < sizeof @U@cpu / sizeof *@U@cpu; ++i) {
    if (!strcmp(@U@cpu[i].symbol, @P@_kernels[index].symbol)) {
      return (CUresult)tile_cpu_launch(&@U@cpu[i], &@P@_kernels[index], grid, args);
    }
  }
  return (CUresult)209;
}
"""


def memory(private: str, globals: list[Any]) -> list[str]:
    """The lines that define the memory of a module's globals, which lives as long as the program."""
    import base64

    lines = []
    for i, row in enumerate(globals):
        data = base64.b64decode(row["data"])
        const = "const " if row["constant"] else ""
        name = f"static {const}unsigned char {private}global_{i}[{row['size']}]"
        lines.append(f"{name} __attribute__((aligned({row['alignment']}))) = {{")
        lines += [f"  {','.join(map(str, data[at : at + 32]))}," for at in range(0, len(data), 32)] or ["  0"]
        lines.append("};")
    # The table has one type for all; code for the CPU writes to none that is constant.
    places = ", ".join(f"(void *)(size_t){private}global_{i}" for i in range(len(globals)))
    if globals:
        lines.append(f"static void *const {private}globals[] = {{{places}}};")
    return lines


def kernels(prefix: str, private: str, table: dict[str, Any]) -> str:
    """The assembly and the table of kernels of one source."""
    assembly = table["assembly"].replace("@P@", prefix)
    guard = {"x86_64": "__x86_64__", "aarch64": "__aarch64__"}[table["host_arch"]]
    lines = [
        f"#if !defined({guard})",
        f'#error "the kernels in this file were compiled for {table["host_arch"]}"',
        "#endif",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "__asm__(",
        '  ".pushsection .text\\n"',
    ]
    lines += [f'  {quote(line)[:-1]}\\n"' for line in assembly.splitlines()]
    lines += ['  ".popsection\\n");', ""]
    names: list[str] = []
    lines += memory(private, table["globals"])
    places = f"{private}globals, {len(table['globals'])}" if table["globals"] else "NULL, 0"
    for number, row in enumerate(table["cpu"]):
        codes = [f"{prefix}_cpu_{number}_{level}" for level in table["levels"]]
        for code in codes:
            lines.append(f"extern void {code}(int64_t *, void *, int64_t *, int64_t);")
        sites = ", ".join(quote(text) for text in row["sites"]) or '""'
        lines.append(f"static const char *const {private}sites_of_{number}[] = {{{sites}}};")
        padded = [*codes, *["NULL"] * 3][:3]
        sizes = [*map(str, row["bytes"]), *["0"] * 3][:3]
        prints = "NULL"
        if any(row["prints"]):
            lines += tables(number, private, row["prints"])
            prints = f"{private}print_{number}"
        names.append(
            f"  {{{quote(row['symbol'])}, {private}sites_of_{number}, {{{', '.join(padded)}}}, "
            f"{{{', '.join(sizes)}}}, {int(row['waits'])}, {prints}, {places}, {quote(row['largest'])}}},"
        )
    lines += ["#ifdef __cplusplus", "}", "#endif"]
    lines += [f"static const tileiras_loader_cpu_kernel {private}cpu[] = {{", *names, "};", ""]
    return "\n".join(lines)
