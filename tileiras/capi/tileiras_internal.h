/* What the two halves of the library share: handles (tileiras.c) and the worker process (worker.c). */
#ifndef TILEIRAS_INTERNAL_H
#define TILEIRAS_INTERNAL_H

#include "tileiras.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Where the diagnostics of a program go. */
struct tileiras_sink {
  void (*diagnostic)(const void *record208, const char *rendered, void *user);
  void *user;
};

/* A request as it travels: the frame's payload, made once when the program is created. */
struct tileiras_request {
  char *payload;
  size_t size;
  struct tileiras_sink sink;
};

int tileiras_request_make(struct tileiras_request *into, const tileirasOptions *options, const void *input, size_t size);
void tileiras_request_clear(struct tileiras_request *request);

/* Sends a request ('K' check, 'C' compile) to a worker, delivers its diagnostics, and returns its code. *output is
 * allocated on success. */
int tileiras_ask(char kind, const struct tileiras_request *request, char **output, size_t *output_size);

void tileiras_deliver(const struct tileiras_sink *sink, const void *record, const char *rendered);
void tileiras_say(const struct tileiras_sink *sink, unsigned word, const char *text);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
