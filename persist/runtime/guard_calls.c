/*
 * Where the program was when an access trapped: the calls, by addr2line where it is installed.
 *
 * Runs in a signal handler, once, before the process ends: it starts a process and waits for it.
 */
#ifdef P3L_DEBUG

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard_calls.h"

extern char **environ;

void p3l_guard_print(const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if ((size_t)length >= sizeof(text)) length = sizeof(text) - 1;
  ssize_t put = write(STDERR_FILENO, text, (size_t)length);
  (void)put;
}

enum { MOST_CALLS = 16, MOST_FRAMES = 64 };

/* The instruction as addr2line takes it: of a program at a fixed address the address itself. */
static bool place_of(uintptr_t at, char *file, size_t bytes, uintptr_t *inside, const char **name) {
  Dl_info found;
  if (dladdr((void *)at, &found) == 0 || found.dli_fbase == NULL) return false;
  const Elf64_Ehdr *head = found.dli_fbase;
  *inside = head->e_type == ET_EXEC ? at : at - (uintptr_t)found.dli_fbase;
  *name = found.dli_sname;
  snprintf(file, bytes, "%s", found.dli_fname);
  if (access(file, R_OK) == 0) return true;
  ssize_t length = readlink("/proc/self/exe", file, bytes - 1);
  if (length <= 0) return false;
  file[length] = 0;
  return true;
}

/* What addr2line says: a line for each call that was inlined there, and the call. False: it is not
 * installed. */
static bool ask_addr2line(const char *file, uintptr_t inside, char *text, size_t bytes) {
  char address[32];
  int ends[2];
  pid_t child;
  snprintf(address, sizeof(address), "0x%lx", (unsigned long)inside);
  char *arguments[] = {(char *)"addr2line",     (char *)"-fCip", (char *)"-e",
                       (char *)(uintptr_t)file, address,         NULL};
  if (pipe(ends) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  bool started = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; started && length + 1 < bytes &&
                    (got = read(ends[0], text + length, bytes - 1 - length)) > 0;)
    length += (size_t)got;
  close(ends[0]);
  if (started) waitpid(child, NULL, 0);
  text[length] = 0;
  return length > 0;
}

/* A line of addr2line, without what only compilers care for. */
static void print_line(const char *word, char *line) {
  char *discriminator = strstr(line, " (discriminator");
  if (discriminator != NULL) *discriminator = 0;
  p3l_guard_print("%s%s\n", word, line);
}

/* @return whether it is the last that is of interest. */
static bool print_call(uintptr_t at, bool first) {
  char file[PATH_MAX], text[2048] = "";
  uintptr_t inside;
  const char *name;
  const char *word = first ? "  in " : "  called from ";
  if (!place_of(at, file, sizeof(file), &inside, &name)) {
    p3l_guard_print("%s%p\n", word, (void *)at);
    return false;
  }
  /* A call returns to the instruction behind it. */
  if (!first) inside--;
  bool asked = ask_addr2line(file, inside, text, sizeof(text));
  char *unknown = strstr(text, " at ??");
  bool is_main = strncmp(text, "main at ", 8) == 0;
  if (asked && unknown == NULL) {
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
      print_line(word, line);
      word = "  ";
    }
    return is_main;
  }
  /* Without debug information: what addr2line needs where there is some. */
  if (unknown != NULL) *unknown = 0;
  if (name == NULL && unknown != NULL && text[0] != '?') name = text;
  p3l_guard_print("%s%s (%s+0x%lx)\n", word, name == NULL ? "?" : name, file,
                  (unsigned long)inside);
  return name != NULL && strcmp(name, "main") == 0;
}

void p3l_guard_print_calls(uintptr_t at) {
  void *frames[MOST_FRAMES];
  int count = backtrace(frames, MOST_FRAMES), first = 0;
  while (first < count && (uintptr_t)frames[first] != at) first++;
  bool last = print_call(at, true);
  for (int n = first + 1; n < count && n <= first + MOST_CALLS && !last; n++)
    last = print_call((uintptr_t)frames[n], false);
}

#endif
