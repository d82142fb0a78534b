/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Explains why a process may not be followed, and what to do about it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ghost.h"

/* The number behind `name` in /proc/PID/status; -1: not found. */
static long status_field(int process, const char *name) {
  char path[40], line[256];
  long value = -1;
  snprintf(path, sizeof path, "/proc/%d/status", process);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), " %ld", &value);
  if (file != NULL) fclose(file);
  return value;
}

static int yama(void) {
  int scope = 0;
  FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
  if (file == NULL) return 0;
  if (fscanf(file, "%d", &scope) != 1) scope = 0;
  fclose(file);
  return scope;
}

void hm_explain_refusal(int process, int error, FILE *out) {
  long tracer = status_field(process, "TracerPid:"), user = status_field(process, "Uid:");
  int scope = yama();
  fprintf(out, "hardmeter-ghost: process %d cannot be followed: ", process);
  if (error == ESRCH)
    fprintf(out, "it has ended\n");
  else if (tracer > 0)
    fprintf(out,
            "process %ld traces it (a debugger, strace, another recorder)\n"
            "  remedy: detach that one\n",
            tracer);
  else if (user < 0)
    fprintf(out,
            "there is no such process, or /proc hides it\n"
            "  remedy: check the number; run as root where /proc is mounted with hidepid\n");
  else if (geteuid() != 0 && (uid_t)user != geteuid())
    fprintf(out, "it belongs to user %ld\n  remedy: sudo, or run as that user\n", user);
  else if (scope >= 3)
    fprintf(out,
            "Yama forbids ptrace on this machine until it is restarted (ptrace_scope is 3)\n"
            "  remedy: none while it runs; --no-stop sources: record --source live\n");
  else if (scope > 0 && geteuid() != 0)
    fprintf(out,
            "Yama lets a process trace its own children only (ptrace_scope is %d)\n"
            "  remedy: sudo, or sysctl kernel.yama.ptrace_scope=0\n",
            scope);
  else
    fprintf(out,
            "%s\n  remedy: CAP_SYS_PTRACE, which containers lack (docker run --cap-add "
            "SYS_PTRACE), and a\n"
            "  seccomp profile and security module that allow ptrace\n",
            strerror(error));
}
