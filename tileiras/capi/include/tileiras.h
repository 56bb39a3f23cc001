/* tileiras.h: compile CUDA Tile IR (bytecode or text) to a cubin from C and C++.
 *
 * Link with -ltileiras (pkg-config tileiras, CMake target Tileiras::capi). The library starts a worker process,
 * `tileiras --serve`, and talks to it; no interpreter lives in your process, and a crash of the compiler is code 5.
 * The worker's command: $TILEIRAS_COMMAND, else what the library was built for, else `tileiras` on PATH.
 *
 * Every function may be called from any thread. Compilations of different programs run in parallel.
 */
#ifndef TILEIRAS_H
#define TILEIRAS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILEIRAS_API __attribute__((visibility("default")))
#else
#define TILEIRAS_API
#endif

typedef struct tileirasProgram_st *tileirasProgram;

/* The exit codes of the command `tileiras`, too. */
typedef enum {
  TILEIRAS_SUCCESS = 0,
  TILEIRAS_ERROR_ALLOCATION = 1,    /* the handle could not be allocated */
  TILEIRAS_ERROR_CONFIGURATION = 2, /* null pointer, option out of range, unsupported GPU */
  TILEIRAS_ERROR_BYTECODE = 3,      /* the input is no Tile IR, or damaged */
  TILEIRAS_ERROR_HANDLE_STATE = 4,  /* null, released or uncompiled program */
  TILEIRAS_ERROR_COMPILE = 5        /* the program was refused, or the compiler failed */
} tileirasResult;

/* tileirasOptions.flags */
#define TILEIRAS_LINEINFO 1u
#define TILEIRAS_DEVICE_DEBUG 2u /* needs opt_level 0 */
#define TILEIRAS_SANITIZE_MEMCHECK 4u
#define TILEIRAS_ABI_SIMT 8u /* explicit block dimensions instead of block 1 */

typedef struct {
  size_t struct_size;             /* sizeof(tileirasOptions) */
  const char *gpu_name;           /* "sm_90" */
  int opt_level;                  /* 0..3 */
  const char *host_arch, *host_os; /* NULL: this machine's */
  unsigned flags;
  /* Called in the calling thread for every diagnostic, before the function returns; record208 lives as long as the
   * call. NULL: the text goes to stderr. */
  void (*diagnostic)(const void *record208, const char *rendered, void *user);
  void *user;
} tileirasOptions;

/* Creates a program; the input is copied. Magic, version and options are checked here. */
TILEIRAS_API tileirasResult tileirasProgramCreate(tileirasProgram *out, const void *input, size_t size,
                                                  const tileirasOptions *options);
TILEIRAS_API tileirasResult tileirasProgramCompile(tileirasProgram program);
/* The cubin, owned by the program until release. */
TILEIRAS_API tileirasResult tileirasProgramGetOutput(tileirasProgram program, const void **data, size_t *size);
/* Releases the program and sets *program to NULL. */
TILEIRAS_API tileirasResult tileirasProgramRelease(tileirasProgram *program);

/* ---- the diagnostic record: 208 bytes at fixed offsets ---- */

#define TILEIRAS_RECORD_SIZE 208
#define TILEIRAS_RECORD_LOCATION 0x00   /* const tileirasLocation *, never NULL */
#define TILEIRAS_RECORD_SEVERITY 0x10   /* uint16_t: class | 0x100 op prefix | 0x200 trace child | 0x400 driver */
#define TILEIRAS_RECORD_ARGS_BEGIN 0x18 /* const tileirasArgument * */
#define TILEIRAS_RECORD_ARG_COUNT 0x20  /* uint32_t */
#define TILEIRAS_RECORD_INLINE 0x28     /* four inline arguments; with more, args_begin is elsewhere */
#define TILEIRAS_RECORD_NOTES 0x88      /* const void *const *, records of the notes */
#define TILEIRAS_RECORD_NOTE_COUNT 0x90 /* uint32_t */
#define TILEIRAS_RECORD_OP_NAME 0x98    /* const char *, NULL without an operation */
#define TILEIRAS_RECORD_GUARD 0xcf      /* uint8_t, nonzero: the engine has had this body */

enum { TILEIRAS_NOTE = 1, TILEIRAS_WARNING = 2, TILEIRAS_ERROR = 3, TILEIRAS_REMARK = 4 };
enum { TILEIRAS_ARG_STRING = 1, TILEIRAS_ARG_INTEGER = 2, TILEIRAS_ARG_DOUBLE = 3, TILEIRAS_ARG_TYPE = 4 };

typedef struct { /* 24 bytes */
  uint64_t kind;
  union {
    const char *text; /* string and type; NUL-terminated UTF-8 */
    int64_t integer;
    double real;
  } value;
  uint64_t length; /* of the text in bytes */
} tileirasArgument;

typedef struct tileirasLocation_st {
  const char *file; /* "" when unknown */
  uint32_t line, column;
  const struct tileirasLocation_st *caller; /* the call site it was inlined through, or NULL */
} tileirasLocation;

static inline unsigned tileirasRecordWord(const void *record208) {
  uint16_t word;
  memcpy(&word, (const char *)record208 + TILEIRAS_RECORD_SEVERITY, sizeof word);
  return word;
}
static inline unsigned tileirasRecordClass(const void *record208) { return tileirasRecordWord(record208) & 0xffu; }
static inline const tileirasLocation *tileirasRecordLocation(const void *record208) {
  const tileirasLocation *location;
  memcpy(&location, (const char *)record208 + TILEIRAS_RECORD_LOCATION, sizeof location);
  return location;
}
static inline const tileirasArgument *tileirasRecordArguments(const void *record208, size_t *count) {
  const tileirasArgument *begin;
  uint32_t n;
  memcpy(&begin, (const char *)record208 + TILEIRAS_RECORD_ARGS_BEGIN, sizeof begin);
  memcpy(&n, (const char *)record208 + TILEIRAS_RECORD_ARG_COUNT, sizeof n);
  *count = n;
  return begin;
}
static inline const void *const *tileirasRecordNotes(const void *record208, size_t *count) {
  const void *const *notes;
  uint32_t n;
  memcpy(&notes, (const char *)record208 + TILEIRAS_RECORD_NOTES, sizeof notes);
  memcpy(&n, (const char *)record208 + TILEIRAS_RECORD_NOTE_COUNT, sizeof n);
  *count = n;
  return notes;
}

#ifdef __cplusplus
}
#endif
#endif
