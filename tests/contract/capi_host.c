/* A host program in a strange state compiles one file: capi_host STATE INPUT. Status 0 when all went as it should.
 *
 * It knows nothing of Python. Each state is one that daemons, launchers and test runners leave a library in.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tileiras.h>
#include <unistd.h>

static char input[1 << 16];
static size_t input_size;
static int closed_from = 3; /* the first standard stream that this host has closed */
static volatile sig_atomic_t reaped;

static void quiet(const void *record, const char *rendered, void *user) {
  (void)record;
  (void)rendered;
  ++*(int *)user;
}

/* 0, or where it went wrong. */
static int compile(const char *gpu) {
  tileirasOptions options;
  tileirasProgram program;
  const void *data;
  size_t size = 0;
  int seen = 0, stream;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.gpu_name = gpu;
  options.opt_level = 3;
  options.diagnostic = quiet;
  options.user = &seen;
  if (tileirasProgramCreate(&program, input, input_size, &options))
    return 10;
  for (stream = closed_from; stream < 3; stream++)
    if (fcntl(stream, F_GETFD) >= 0) /* the host's printf would speak to the worker */
      return 11;
  if (tileirasProgramCompile(program))
    return 12;
  if (tileirasProgramGetOutput(program, &data, &size) || size < 4 || memcmp(data, "\177ELF", 4))
    return 13;
  if (tileirasProgramRelease(&program) || program)
    return 14;
  return seen ? 15 : 0;
}

static void *compile_in_thread(void *result) {
  *(int *)result = compile("sm_90");
  return NULL;
}

static void reap_all(int number) {
  int status;
  (void)number;
  while (waitpid(-1, &status, WNOHANG) > 0)
    reaped++;
}

static int descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  if (!folder)
    return -1;
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

static int forks(void) {
  pthread_t threads[2];
  int results[2] = {0, 0}, i, status, failed = 0;
  pid_t children[3];
  for (i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, compile_in_thread, &results[i]);
  for (i = 0; i < 3; i++) {
    usleep(20000);
    children[i] = fork();
    if (children[i] == 0)
      _exit(compile("sm_80"));
  }
  for (i = 0; i < 3; i++)
    if (waitpid(children[i], &status, 0) != children[i] || !WIFEXITED(status) || WEXITSTATUS(status))
      failed = 20;
  for (i = 0; i < 2; i++) {
    pthread_join(threads[i], NULL);
    if (results[i])
      failed = results[i];
  }
  return failed ? failed : compile("sm_90");
}

int main(int argc, char **argv) {
  const char *state = argc > 2 ? argv[1] : "";
  FILE *file = argc > 2 ? fopen(argv[2], "rb") : NULL;
  if (!file)
    return 2;
  input_size = fread(input, 1, sizeof input, file);
  fclose(file);
  if (!strcmp(state, "closed")) {
    close(0);
    close(1);
    close(2);
    closed_from = 0;
  } else if (!strcmp(state, "no-stderr")) {
    close(2);
    closed_from = 2;
  } else if (!strcmp(state, "no-stdin"))
    close(0);
  else if (!strcmp(state, "sigchld-ignored"))
    signal(SIGCHLD, SIG_IGN);
  else if (!strcmp(state, "sigchld-reaped"))
    signal(SIGCHLD, reap_all);
  else if (!strcmp(state, "signals-blocked")) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
  } else if (!strcmp(state, "folder-removed")) {
    char folder[] = "/tmp/tileiras-host-XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) || rmdir(folder))
      return 3;
  } else if (!strcmp(state, "no-environment"))
    clearenv();
  else if (!strcmp(state, "few-descriptors")) {
    struct rlimit limit = {16, 16};
    setrlimit(RLIMIT_NOFILE, &limit);
  } else if (!strcmp(state, "forks"))
    return forks();
  else if (!strcmp(state, "no-leak")) {
    int before, i, wrong = compile("sm_90");
    before = descriptors();
    for (i = 0; i < 5 && !wrong; i++)
      wrong = compile("sm_90");
    return wrong ? wrong : descriptors() != before ? 21 : 0;
  } else if (strcmp(state, "plain"))
    return 4;
  return compile("sm_90");
}
