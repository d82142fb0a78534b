#include "die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, va_list arguments) {
  fprintf(stderr, "%s: ", program_invocation_short_name);
  vfprintf(stderr, format, arguments);
}

void oo1_die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  fputc('\n', stderr);
  exit(1);
}

void oo1_die_errno(const char *format, ...) {
  int code = errno;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  fprintf(stderr, ": %s\n", strerror(code));
  exit(1);
}

void oo1_not_here(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  fputc('\n', stderr);
  exit(OO1_NOT_HERE);
}

void *oo1_allocate(size_t bytes) {
  void *memory = malloc(bytes);
  if (memory == NULL) oo1_die("no memory for %zu bytes", bytes);
  return memory;
}

void *oo1_allocate_zeroed(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (memory == NULL) oo1_die("no memory for %zu bytes", bytes);
  return memory;
}

char *oo1_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text;
  if (vasprintf(&text, format, arguments) < 0) oo1_die("no memory for a name");
  va_end(arguments);
  return text;
}
