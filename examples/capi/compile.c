/* Compiles a Tile IR file to a cubin from C: compile INPUT OUTPUT [GPU]
 *
 * Every diagnostic arrives as text and as a 208-byte record; this program prints the text and, for errors, what the
 * record knows beyond it. The exit status is the library's code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tileiras.h>

static void diagnostic(const void *record, const char *rendered, void *user) {
  unsigned *errors = user;
  size_t count, i;
  const tileirasArgument *arguments = tileirasRecordArguments(record, &count);
  fprintf(stderr, "%s\n", rendered);
  if (tileirasRecordClass(record) != TILEIRAS_ERROR)
    return;
  ++*errors;
  fprintf(stderr, "  word 0x%03x, line %u, arguments:", tileirasRecordWord(record), tileirasRecordLocation(record)->line);
  for (i = 0; i < count; i++)
    if (arguments[i].kind == TILEIRAS_ARG_INTEGER)
      fprintf(stderr, " %lld", (long long)arguments[i].value.integer);
    else if (arguments[i].kind == TILEIRAS_ARG_DOUBLE)
      fprintf(stderr, " %g", arguments[i].value.real);
    else
      fprintf(stderr, " \"%s\"", arguments[i].value.text);
  fprintf(stderr, "\n");
}

/* The file's bytes; exits with 1 when it cannot be read. */
static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  size_t capacity = 0, n;
  *size = 0;
  if (!file) {
    perror(path);
    exit(1);
  }
  do {
    capacity = capacity ? 2 * capacity : 65536;
    data = realloc(data, capacity);
    if (!data)
      exit(1);
    n = fread(data + *size, 1, capacity - *size, file);
    *size += n;
  } while (*size == capacity);
  fclose(file);
  return data;
}

int main(int argc, char **argv) {
  tileirasOptions options = {0};
  tileirasProgram program;
  tileirasResult result;
  const void *cubin;
  size_t size;
  unsigned errors = 0;
  char *input;
  if (argc < 3) {
    fprintf(stderr, "usage: %s INPUT OUTPUT [GPU]\n", argv[0]);
    return 1;
  }
  input = read_file(argv[1], &size);
  options.struct_size = sizeof options;
  options.gpu_name = argc > 3 ? argv[3] : "sm_90";
  options.opt_level = 3;
  options.flags = TILEIRAS_ABI_SIMT;
  options.diagnostic = diagnostic;
  options.user = &errors;

  result = tileirasProgramCreate(&program, input, size, &options);
  free(input); /* the program has its copy */
  if (result != TILEIRAS_SUCCESS)
    return (int)result;
  result = tileirasProgramCompile(program);
  if (result == TILEIRAS_SUCCESS)
    result = tileirasProgramGetOutput(program, &cubin, &size);
  if (result == TILEIRAS_SUCCESS) {
    FILE *file = fopen(argv[2], "wb");
    if (!file || fwrite(cubin, 1, size, file) != size || fclose(file)) {
      perror(argv[2]);
      result = TILEIRAS_ERROR_CONFIGURATION;
    } else
      printf("%s: %zu bytes\n", argv[2], size);
  } else
    fprintf(stderr, "%u errors, code %d\n", errors, (int)result);
  tileirasProgramRelease(&program);
  return (int)result;
}
