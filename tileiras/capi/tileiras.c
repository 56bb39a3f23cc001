/* libtileiras: programs and their states. The compiler itself is a worker process, see worker.c.
 *
 * A handle is looked up in a table before it is touched, so that a released or foreign handle is code 4 and not a
 * crash. A program belongs to one thread at a time: two threads may use one program, and a callback may use any. That is
 * a mark in the program and not a mutex, for a compile takes long: fork() in another thread must neither wait for it nor
 * leave the child with a lock that nobody opens.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tileiras_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tests replace the allocator of the handle. */
#ifndef TILEIRAS_ALLOCATE
#define TILEIRAS_ALLOCATE(size) calloc(1, size)
#else
void *TILEIRAS_ALLOCATE(size_t size);
#endif

enum state { CREATED, COMPILED };

struct tileirasProgram_st {
  struct tileirasProgram_st *next; /* in the table */
  /* under table_lock: */
  unsigned references; /* the table's and those of calls under way */
  unsigned depth;      /* calls of the owner, one inside the other's callback; 0: no owner */
  pthread_t owner;
  /* the owner's: */
  enum state state;
  struct tileiras_request request;
  char *output;
  size_t output_size;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t disowned = PTHREAD_COND_INITIALIZER;
static struct tileirasProgram_st *table;

/* fork() while another thread has the table would leave the child's table locked for ever. In the child the other
 * threads are gone, and with them their calls: what they own is free again. */
static void lock_table(void) { pthread_mutex_lock(&table_lock); }
static void unlock_table(void) { pthread_mutex_unlock(&table_lock); }
static void unlock_table_in_child(void) {
  static const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
  struct tileirasProgram_st *program;
  for (program = table; program; program = program->next) {
    if (program->depth && !pthread_equal(program->owner, pthread_self()))
      program->depth = 0;
    program->references = 1 + program->depth;
  }
  disowned = fresh;
  pthread_mutex_unlock(&table_lock);
}
__attribute__((constructor)) static void prepare_for_fork(void) {
  pthread_atfork(lock_table, unlock_table, unlock_table_in_child);
}

void tileiras_say(const struct tileiras_sink *sink, unsigned word, const char *text) {
  /* A record with one literal argument, for what happens on this side of the border. */
  static const tileirasLocation unknown = {"", 0, 0, NULL};
  unsigned char record[TILEIRAS_RECORD_SIZE];
  const tileirasLocation *location = &unknown;
  const void *begin = record + TILEIRAS_RECORD_INLINE;
  uint16_t severity = (uint16_t)word;
  uint32_t header[2] = {1, 4}; /* count, capacity */
  tileirasArgument argument;
  char line[1024];
  memset(record, 0, sizeof record);
  memset(&argument, 0, sizeof argument);
  argument.kind = TILEIRAS_ARG_STRING;
  argument.value.text = text;
  argument.length = strlen(text);
  memcpy(record + TILEIRAS_RECORD_LOCATION, &location, sizeof location);
  memcpy(record + TILEIRAS_RECORD_SEVERITY, &severity, sizeof severity);
  memcpy(record + TILEIRAS_RECORD_ARGS_BEGIN, &begin, sizeof begin);
  memcpy(record + TILEIRAS_RECORD_ARG_COUNT, header, sizeof header);
  memcpy(record + TILEIRAS_RECORD_INLINE, &argument, sizeof argument);
  record[TILEIRAS_RECORD_GUARD] = 1;
  snprintf(line, sizeof line, "error: %s", text);
  tileiras_deliver(sink, record, line);
}

void tileiras_deliver(const struct tileiras_sink *sink, const void *record, const char *rendered) {
  if (sink && sink->diagnostic)
    sink->diagnostic(record, rendered, sink->user);
  else
    fprintf(stderr, "%s\n", rendered);
}

static void destroy(struct tileirasProgram_st *program) {
  tileiras_request_clear(&program->request);
  free(program->output);
  free(program);
}

static void drop(struct tileirasProgram_st *program) {
  unsigned left;
  pthread_mutex_lock(&table_lock);
  left = --program->references;
  pthread_mutex_unlock(&table_lock);
  if (!left)
    destroy(program);
}

/* The program behind a handle, referenced and owned; NULL when there is none. */
static struct tileirasProgram_st *hold(tileirasProgram handle) {
  struct tileirasProgram_st *program;
  pthread_mutex_lock(&table_lock);
  for (program = table; program && program != handle; program = program->next) {
  }
  if (program) {
    program->references++;
    while (program->depth && !pthread_equal(program->owner, pthread_self()))
      pthread_cond_wait(&disowned, &table_lock);
    program->owner = pthread_self();
    program->depth++;
  }
  pthread_mutex_unlock(&table_lock);
  return program;
}

static void let_go(struct tileirasProgram_st *program) {
  pthread_mutex_lock(&table_lock);
  if (!--program->depth)
    pthread_cond_broadcast(&disowned);
  pthread_mutex_unlock(&table_lock);
  drop(program);
}

/* The caller's options in today's layout: fields that an older caller does not have are zero; fields that a newer
 * caller has, and we do not know, must be zero. */
static int copy_options(tileirasOptions *into, const tileirasOptions *from) {
  const unsigned char *bytes = (const unsigned char *)from;
  size_t size = from->struct_size, i;
  memset(into, 0, sizeof *into);
  if (size < offsetof(tileirasOptions, diagnostic) || size > 4096)
    return 0;
  for (i = sizeof *into; i < size; i++)
    if (bytes[i])
      return 0;
  memcpy(into, from, size < sizeof *into ? size : sizeof *into);
  return 1;
}

tileirasResult tileirasProgramCreate(tileirasProgram *out, const void *input, size_t size,
                                     const tileirasOptions *options) {
  struct tileirasProgram_st *program;
  struct tileiras_request request;
  struct tileiras_sink sink = {NULL, NULL};
  tileirasOptions known;
  int code;
  if (out)
    *out = NULL;
  if (options && copy_options(&known, options)) {
    sink.diagnostic = known.diagnostic;
    sink.user = known.user;
  } else {
    tileiras_say(NULL, 0x503, options ? "struct_size of the options is not known to this library" : "null options pointer");
    return TILEIRAS_ERROR_CONFIGURATION;
  }
  if (!out || !input) {
    tileiras_say(&sink, 0x503, input ? "null program pointer" : "null input pointer");
    return TILEIRAS_ERROR_CONFIGURATION;
  }
  if (size > 0xf0000000u) {
    tileiras_say(&sink, 0x503, "the input is larger than 3.75 GiB");
    return TILEIRAS_ERROR_CONFIGURATION;
  }
  if (known.flags & ~(TILEIRAS_LINEINFO | TILEIRAS_DEVICE_DEBUG | TILEIRAS_SANITIZE_MEMCHECK | TILEIRAS_ABI_SIMT)) {
    tileiras_say(&sink, 0x503, "unknown bits in the flags of the options");
    return TILEIRAS_ERROR_CONFIGURATION;
  }
  if (!tileiras_request_make(&request, &known, input, size)) {
    tileiras_say(&sink, 0x103, "out of memory for the copy of the input");
    return TILEIRAS_ERROR_ALLOCATION;
  }
  request.sink = sink;
  code = tileiras_ask('K', &request, NULL, NULL);
  if (code != TILEIRAS_SUCCESS) {
    tileiras_request_clear(&request);
    return (tileirasResult)code;
  }
  program = (struct tileirasProgram_st *)TILEIRAS_ALLOCATE(sizeof *program);
  if (!program) {
    tileiras_request_clear(&request);
    tileiras_say(&sink, 0x103, "allocation of the program handle failed");
    return TILEIRAS_ERROR_ALLOCATION;
  }
  memset(program, 0, sizeof *program);
  program->request = request;
  program->references = 1;
  pthread_mutex_lock(&table_lock);
  program->next = table;
  table = program;
  pthread_mutex_unlock(&table_lock);
  *out = program;
  return TILEIRAS_SUCCESS;
}

tileirasResult tileirasProgramCompile(tileirasProgram handle) {
  struct tileirasProgram_st *program = hold(handle);
  int code = TILEIRAS_SUCCESS;
  if (!program) {
    tileiras_say(NULL, 0x103, handle ? "unknown program handle" : "null program handle");
    return TILEIRAS_ERROR_HANDLE_STATE;
  }
  if (program->state != COMPILED) {
    code = tileiras_ask('C', &program->request, &program->output, &program->output_size);
    if (code == TILEIRAS_SUCCESS)
      program->state = COMPILED;
  }
  let_go(program);
  return (tileirasResult)code;
}

tileirasResult tileirasProgramGetOutput(tileirasProgram handle, const void **data, size_t *size) {
  struct tileirasProgram_st *program;
  tileirasResult code = TILEIRAS_ERROR_HANDLE_STATE;
  if (data)
    *data = NULL;
  if (size)
    *size = 0;
  program = hold(handle);
  if (!program) {
    tileiras_say(NULL, 0x103, handle ? "unknown program handle" : "null program handle");
    return code;
  }
  if (!data || !size)
    tileiras_say(&program->request.sink, 0x103, "null pointer for the output");
  else if (program->state != COMPILED)
    tileiras_say(&program->request.sink, 0x103, "the program is not compiled");
  else {
    *data = program->output;
    *size = program->output_size;
    code = TILEIRAS_SUCCESS;
  }
  let_go(program);
  return code;
}

tileirasResult tileirasProgramRelease(tileirasProgram *handle) {
  struct tileirasProgram_st **place, *program = NULL;
  if (handle && *handle) {
    pthread_mutex_lock(&table_lock);
    for (place = &table; *place && *place != *handle; place = &(*place)->next) {
    }
    program = *place;
    if (program)
      *place = program->next;
    pthread_mutex_unlock(&table_lock);
  }
  if (!program) {
    tileiras_say(NULL, 0x103, handle && *handle ? "unknown program handle" : "null program handle");
    return TILEIRAS_ERROR_HANDLE_STATE;
  }
  *handle = NULL;
  drop(program); /* a call under way in another thread, or around this callback, keeps it until it returns */
  return TILEIRAS_SUCCESS;
}
