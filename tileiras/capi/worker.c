/* libtileiras: worker processes. `tileiras --serve` at the other end of a socket pair; frames as in tileiras/serve.py.
 *
 * Idle workers wait in a pool. A call takes one out (or starts one), has it for itself, and puts it back; so calls run
 * in parallel and no lock is held while a worker works. A worker that dies is reaped and forgotten: when it died
 * before it said that it has read the request, the request goes to a fresh one, afterwards it ends with code 5.
 *
 * Server processes fork. The child has a pool of its own: it closes every socket of its parent's workers, and never
 * speaks through one or waits for one. A worker is told to end by shutdown(), which reaches it also where a copy of the
 * socket lives on in some process that was started without our knowledge.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tileiras_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The build writes the worker's command into this header: TILEIRAS_WORKER "word", "word", ... */
#if defined(__has_include)
#if __has_include("tileiras_worker.h")
#include "tileiras_worker.h"
#endif
#endif

extern char **environ;

#define HELLO "TILEIRAS1"
#define MAX_IDLE 8          /* workers kept for the next call */
#define MAX_REQUESTS 500    /* then a worker is replaced: caches of a long-lived host do not grow for ever */

struct worker {
  struct worker *next; /* in one of the two lists */
  pid_t pid;
  int fd; /* -1: the worker of another process, or none yet */
  unsigned requests;
};

/* Held for moments only, also while a worker is started: no child must be born with both ends of a socket. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle, *busy;
static unsigned idle_count;
static pid_t pool_owner;

/* In the child of the host: the workers are its parent's. Those in use belong to calls of threads that are no more, or
 * to a call around the callback that forked, which finds its worker gone. */
static void forget_workers(void) {
  struct worker *worker;
  while (idle) {
    worker = idle;
    idle = worker->next;
    close(worker->fd);
    free(worker);
  }
  idle_count = 0;
  for (worker = busy; worker; worker = worker->next) {
    if (worker->fd >= 0)
      close(worker->fd);
    worker->fd = -1;
    worker->pid = 0;
  }
  busy = NULL;
  pool_owner = getpid();
}

static void lock_pool(void) { pthread_mutex_lock(&pool_lock); }
static void unlock_pool(void) { pthread_mutex_unlock(&pool_lock); }
static void unlock_pool_in_child(void) {
  forget_workers();
  pthread_mutex_unlock(&pool_lock);
}
__attribute__((constructor)) static void prepare_for_fork(void) {
  pool_owner = getpid();
  pthread_atfork(lock_pool, unlock_pool, unlock_pool_in_child);
}

/* ---- bytes ---- */

static int send_all(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return 0;
    data += n;
    size -= (size_t)n;
  }
  return 1;
}

static int receive_all(int fd, char *data, size_t size) {
  while (size) {
    ssize_t n = recv(fd, data, size, 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return 0;
    data += n;
    size -= (size_t)n;
  }
  return 1;
}

static void put_u32(char *at, uint32_t value) {
  at[0] = (char)value;
  at[1] = (char)(value >> 8);
  at[2] = (char)(value >> 16);
  at[3] = (char)(value >> 24);
}

static uint32_t get_u32(const char *at) {
  const unsigned char *b = (const unsigned char *)at;
  return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t get_u64(const char *at) { return get_u32(at) | (uint64_t)get_u32(at + 4) << 32; }

/* A frame's kind, 0 when the worker is gone. *payload is NUL-terminated and belongs to the caller. */
static char receive_frame(int fd, char **payload, size_t *size) {
  char head[5];
  *payload = NULL;
  if (!receive_all(fd, head, sizeof head))
    return 0;
  *size = get_u32(head);
  *payload = (char *)malloc(*size + 1);
  if (!*payload || !receive_all(fd, *payload, *size)) {
    free(*payload);
    *payload = NULL;
    return 0;
  }
  (*payload)[*size] = 0;
  return head[4];
}

/* ---- requests ---- */

int tileiras_request_make(struct tileiras_request *into, const tileirasOptions *options, const void *input, size_t size) {
  const char *texts[3];
  size_t lengths[3], total = 8 + size;
  char *at;
  int i;
  texts[0] = options->gpu_name;
  texts[1] = options->host_arch;
  texts[2] = options->host_os;
  for (i = 0; i < 3; i++) {
    lengths[i] = texts[i] ? strlen(texts[i]) : 0;
    total += 4 + lengths[i];
  }
  at = into->payload = (char *)malloc(total);
  into->size = total;
  if (!at)
    return 0;
  put_u32(at, (uint32_t)options->opt_level);
  put_u32(at + 4, options->flags);
  at += 8;
  for (i = 0; i < 3; i++) {
    put_u32(at, texts[i] ? (uint32_t)lengths[i] : 0xffffffffu);
    at += 4;
    if (lengths[i])
      memcpy(at, texts[i], lengths[i]);
    at += lengths[i];
  }
  if (size)
    memcpy(at, input, size);
  return 1;
}

void tileiras_request_clear(struct tileiras_request *request) {
  free(request->payload);
  request->payload = NULL;
}

/* ---- processes ---- */

/* A socket pair above the standard streams: what a host without them prints must not reach a worker. */
static int connect_pair(int ends[2]) {
  int i, moved;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    return 0;
  for (i = 0; i < 2; i++) {
    if (ends[i] > 2)
      continue;
    moved = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
    if (moved < 0) {
      close(ends[0]);
      close(ends[1]);
      return 0;
    }
    close(ends[i]);
    ends[i] = moved;
  }
  return 1;
}

/* The command of a worker, in `words`. */
static void find_command(const char *words[8]) {
#ifdef TILEIRAS_WORKER
  static const char *const built_for[] = {TILEIRAS_WORKER, NULL};
#endif
  const char *given = getenv("TILEIRAS_COMMAND");
  int i = 0;
  words[i++] = "tileiras";
#ifdef TILEIRAS_WORKER
  if (access(built_for[0], X_OK) == 0)
    for (i = 0; built_for[i] && i < 6; i++)
      words[i] = built_for[i];
#endif
  if (given && *given) {
    i = 0;
    words[i++] = given;
  }
  words[i++] = "--serve";
  words[i] = NULL;
}

/* Starts a process with `end` as its standard input and output. */
static int spawn(pid_t *pid, int end) {
  const char *argv[8];
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, defaults;
  int failed;
  find_command(argv);
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end, 0);
  posix_spawn_file_actions_adddup2(&actions, end, 1);
  posix_spawnattr_init(&attributes);
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGCHLD); /* a host that ignores it would take ptxas's status from the worker */
  sigaddset(&defaults, SIGTERM);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  failed = posix_spawnp(pid, argv[0], &actions, &attributes, (char *const *)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return !failed;
}

/* Takes a worker out of the list of those in use. Under pool_lock. */
static void unlink_busy(struct worker *worker) {
  struct worker **place;
  for (place = &busy; *place && *place != worker; place = &(*place)->next) {
  }
  if (*place)
    *place = worker->next;
}

/* Ends a worker and says how it ended. */
static void end_worker(struct worker *worker, char *how, size_t size) {
  int status = 0, fd;
  pid_t pid, reaped = -1;
  pthread_mutex_lock(&pool_lock);
  unlink_busy(worker);
  fd = worker->fd;
  pid = worker->pid;
  if (fd >= 0) {
    shutdown(fd, SHUT_RDWR); /* it ends when its input does, whoever else holds a copy of this end */
    close(fd);
  }
  pthread_mutex_unlock(&pool_lock);
  free(worker);
  if (pid > 0)
    do
      reaped = waitpid(pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
  if (!how)
    return;
  if (pid <= 0)
    snprintf(how, size, "it belongs to the process that forked");
  else if (reaped == pid && WIFSIGNALED(status))
    snprintf(how, size, "killed by signal %d", WTERMSIG(status));
  else if (reaped == pid)
    snprintf(how, size, "exit status %d", WEXITSTATUS(status));
  else
    snprintf(how, size, "status unknown");
}

static struct worker *start_worker(void) {
  struct worker *worker = (struct worker *)calloc(1, sizeof *worker);
  char *hello;
  size_t size;
  int ends[2], started;
  char kind;
  if (!worker)
    return NULL;
  pthread_mutex_lock(&pool_lock);
  if (!connect_pair(ends)) {
    pthread_mutex_unlock(&pool_lock);
    free(worker);
    return NULL;
  }
  started = spawn(&worker->pid, ends[1]);
  close(ends[1]);
  worker->fd = ends[0];
  if (!started)
    worker->pid = 0;
  worker->next = busy;
  busy = worker;
  pthread_mutex_unlock(&pool_lock);
  if (!started) {
    end_worker(worker, NULL, 0);
    return NULL;
  }
  kind = receive_frame(worker->fd, &hello, &size);
  if (kind != 'H' || strcmp(hello, HELLO) != 0) {
    free(hello);
    end_worker(worker, NULL, 0);
    return NULL;
  }
  free(hello);
  return worker;
}

static struct worker *take_worker(void) {
  struct worker *worker;
  pthread_mutex_lock(&pool_lock);
  if (pool_owner != getpid()) /* forked in a way that tells nobody */
    forget_workers();
  worker = idle;
  if (worker) {
    idle = worker->next;
    idle_count--;
    worker->next = busy;
    busy = worker;
  }
  pthread_mutex_unlock(&pool_lock);
  return worker;
}

static void put_back(struct worker *worker) {
  int keep;
  pthread_mutex_lock(&pool_lock);
  keep = worker->fd >= 0 && idle_count < MAX_IDLE && worker->requests < MAX_REQUESTS;
  if (keep) {
    unlink_busy(worker);
    worker->next = idle;
    idle = worker;
    idle_count++;
  }
  pthread_mutex_unlock(&pool_lock);
  if (!keep)
    end_worker(worker, NULL, 0);
}

/* Idle workers end with the host, and leave no zombie when the library is unloaded. */
__attribute__((destructor)) static void close_pool(void) {
  struct worker *worker;
  if (pool_owner != getpid())
    return;
  while (idle) {
    worker = idle;
    idle = worker->next;
    end_worker(worker, NULL, 0);
  }
}

/* ---- one request ---- */

/* Places a worker's record at its address in this process and hands it on. */
static void deliver(const struct tileiras_sink *sink, const char *payload, size_t size) {
  uint32_t text_size, pointers, i;
  const char *places, *text, *arena;
  size_t arena_size;
  char *record, *rendered;
  if (size < 8)
    return;
  text_size = get_u32(payload);
  pointers = get_u32(payload + 4);
  if (8 + 4 * (uint64_t)pointers + text_size + TILEIRAS_RECORD_SIZE > size)
    return;
  places = payload + 8;
  text = places + 4 * (size_t)pointers;
  arena = text + text_size;
  arena_size = size - (size_t)(arena - payload);
  record = (char *)malloc(arena_size);
  rendered = (char *)malloc((size_t)text_size + 1);
  if (record && rendered) {
    memcpy(record, arena, arena_size);
    memcpy(rendered, text, text_size);
    rendered[text_size] = 0;
    for (i = 0; i < pointers; i++) {
      uint32_t place = get_u32(places + 4 * (size_t)i);
      if ((uint64_t)place + 8 <= arena_size) {
        const char *target = record + get_u64(record + place);
        memcpy(record + place, &target, sizeof target);
      }
    }
    tileiras_deliver(sink, record, rendered);
  }
  free(record);
  free(rendered);
}

int tileiras_ask(char kind, const struct tileiras_request *request, char **output, size_t *output_size) {
  char head[5], how[64], line[256], *payload;
  size_t size;
  struct worker *worker;
  int fresh, acknowledged, code;
  put_u32(head, (uint32_t)request->size);
  head[4] = kind;
  for (;;) {
    worker = take_worker();
    fresh = !worker;
    if (!worker)
      worker = start_worker();
    if (!worker) {
      tileiras_say(&request->sink, 0x503,
                   "cannot start the compiler: no `tileiras --serve` at $TILEIRAS_COMMAND, where the library was built "
                   "for, or on PATH");
      return TILEIRAS_ERROR_CONFIGURATION;
    }
    worker->requests++;
    acknowledged = 0;
    if (send_all(worker->fd, head, sizeof head) && send_all(worker->fd, request->payload, request->size)) {
      for (;;) {
        char frame = receive_frame(worker->fd, &payload, &size);
        if (frame == 'A')
          acknowledged = 1;
        else if (frame == 'D')
          deliver(&request->sink, payload, size);
        else if (frame == 'R' && size >= 4) {
          code = (int)get_u32(payload);
          if (code == TILEIRAS_SUCCESS && output) {
            *output_size = size - 4;
            memmove(payload, payload + 4, size - 4);
            *output = payload;
            payload = NULL;
          }
          free(payload);
          put_back(worker);
          return code;
        } else {
          free(payload);
          break;
        }
        free(payload);
      }
    }
    end_worker(worker, how, sizeof how);
    if (acknowledged || fresh)
      break;
  }
  snprintf(line, sizeof line, "the compiler process died (%s)", how);
  tileiras_say(&request->sink, 0x103, line);
  tileiras_say(&request->sink, 0x103, "failed to compile Tile IR program");
  return TILEIRAS_ERROR_COMPILE;
}
