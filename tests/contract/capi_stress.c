/* Four threads create, compile and release programs, good and bad; the sanitizers watch. capi_stress GOOD BAD */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tileiras.h>

struct input {
  char data[1 << 16];
  size_t size;
};
static struct input good, bad;
static int failures;

static void diagnostic(const void *record, const char *rendered, void *user) {
  size_t count, i;
  volatile size_t read = strlen(rendered) + strlen(tileirasRecordLocation(record)->file);
  const tileirasArgument *arguments = tileirasRecordArguments(record, &count);
  const void *const *notes;
  for (i = 0; i < count; i++)
    if (arguments[i].kind == TILEIRAS_ARG_STRING || arguments[i].kind == TILEIRAS_ARG_TYPE)
      read += strlen(arguments[i].value.text) == arguments[i].length ? 1 : 1000000;
  notes = tileirasRecordNotes(record, &count);
  for (i = 0; i < count; i++)
    read += tileirasRecordClass(notes[i]);
  if (read < 1000000)
    ++*(int *)user;
}

static void read_input(const char *path, struct input *into) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return;
  into->size = fread(into->data, 1, sizeof into->data, file);
  fclose(file);
}

static void *work(void *start) {
  int turn = *(int *)start, end = turn + 4;
  for (; turn < end; turn++) {
    const struct input *input = turn % 2 ? &good : &bad;
    int seen = 0, created, compiled, got;
    tileirasOptions options;
    tileirasProgram program, stale;
    const void *data;
    size_t size = 0;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.gpu_name = "sm_90";
    options.opt_level = 3;
    options.diagnostic = diagnostic;
    options.user = &seen;
    created = tileirasProgramCreate(&program, input->data, input->size, &options);
    compiled = tileirasProgramCompile(program);
    got = tileirasProgramGetOutput(program, &data, &size);
    stale = program;
    tileirasProgramRelease(&program);
    if (created || program || (turn % 2 ? compiled || got || !size : compiled != 5 || got != 4 || seen < 2) ||
        tileirasProgramCompile(stale) != 4)
      __sync_fetch_and_add(&failures, 1);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[4];
  int starts[4] = {0, 1, 2, 3}, i;
  if (argc < 3)
    return 2;
  read_input(argv[1], &good);
  read_input(argv[2], &bad);
  for (i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, work, &starts[i]);
  for (i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  return failures != 0;
}
