/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The followed processes.
 *
 *     unknown ── named, or a child of a member ──> member ── ended, refused ──> gone
 *                                                   │  ^
 *         its CPU clock moved, it does not rest     v  │ rests: its share of pauses is used up
 *                                                  next
 *
 * A process that does not run is left alone: its CPU clock shows it without a stop.
 *
 * Kinds.  Backends that serve clients do the same work and share the first simulated cores, one for
 * each lane, as they share a processor's; each stays on its core. A writer of the log or a
 * checkpointer has another working set, and one of the cores behind those to itself. PostgreSQL names
 * its processes in their titles ("postgres: walwriter"); other processes are all workers.
 *
 * Invariants:
 *  1. member[] has a process once, unless it has gone: numbers of processes are used again.
 *  2. `accounted` never exceeds the process's CPU clock.
 */
#define _GNU_SOURCE
#include "family.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ghost.h"
#include "segment.h"

#define LOOK_EVERY 200000000ull
#define LOOK_AGAIN 4000000ull     /* at CPU clocks, if no process ran */
#define LONGEST_WAIT 400000000ull /* for one that rests, to be followed together */
#define LEAST_RUN 20000ull        /* of CPU time: an idle process's housekeeping is below */

static struct hm_follower member[HM_MOST_FOLLOWED];
static uint32_t members, models, workers, roots, kinds;
static int descend, root[256];
static uint64_t looked_at;

static const char *kind[HM_MAX_CORES];                        /* of helpers */
static struct { uint64_t user, system; } spent[HM_MAX_CORES]; /* ticks, by core */

/* --- One process ------------------------------------------------------------------------ */

uint64_t hm_cpu_time(int process) {
  struct timespec time;
  clockid_t clock = (clockid_t)(~(unsigned)process << 3 | 2); /* man 3 clock_getcpuclockid */
  if (clock_gettime(clock, &time) != 0) return 0;
  return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* Reads /proc/PID/stat into `text`; the fields from the state on, NULL if the process has ended. */
static const char *stat_fields(int process, char *text, size_t bytes) {
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  ssize_t length = read(file, text, bytes - 1);
  close(file);
  if (length <= 0) return NULL;
  text[length] = 0;
  const char *name_ends = strrchr(text, ')'); /* a name may contain spaces and parentheses */
  return name_ends != NULL && name_ends[1] == ' ' ? name_ends + 2 : NULL;
}

char hm_process_state(int process) {
  char text[1024];
  const char *fields = stat_fields(process, text, sizeof text);
  return fields != NULL ? fields[0] : 0;
}

/* The ticks that it spent in its own code and in the kernel; 0 if it has ended, or is a zombie. */
static int ticks(int process, uint64_t *user, uint64_t *system) {
  char text[1024], state;
  const char *fields = stat_fields(process, text, sizeof text);
  unsigned long in_user, in_system;
  if (fields == NULL ||
      sscanf(fields, "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &in_user,
             &in_system) != 3 ||
      state == 'Z' || state == 'X')
    return 0;
  *user = in_user;
  *system = in_system;
  return 1;
}

/* What PostgreSQL's helpers call themselves; other titles are of backends, which parallel workers
 * help. */
static const char *const helper[] = {"checkpointer",      "background writer",
                                     "walwriter",         "autovacuum launcher",
                                     "archiver",          "stats collector",
                                     "walsender",         "walreceiver",
                                     "logical rep",       "io worker",
                                     "syslogger",         "logger",
                                     "autovacuum worker", "startup"};

/* The name of a helper's kind; NULL: it is a worker. */
static const char *helper_of(int process) {
  char path[40], title[256];
  snprintf(path, sizeof path, "/proc/%d/cmdline", process);
  FILE *file = fopen(path, "re");
  size_t length = file != NULL ? fread(title, 1, sizeof title - 1, file) : 0;
  if (file != NULL) fclose(file);
  title[length] = 0;
  if (strncmp(title, "postgres: ", 10) != 0) return NULL;
  for (size_t i = 0; i < sizeof helper / sizeof helper[0]; i++)
    if (strstr(title + 10, helper[i]) != NULL) return helper[i];
  return NULL;
}

/* The core with the fewest workers. */
static uint32_t least_crowded(void) {
  uint32_t on[HM_MAX_CORES] = {0}, least = 0;
  for (uint32_t i = 0; i < members; i++)
    if (!member[i].gone) on[member[i].core]++;
  for (uint32_t core = 1; core < workers; core++)
    if (on[core] < on[least]) least = core;
  return least;
}

/* The simulated core that a new process is followed on. */
static uint32_t core_of(int process) {
  const char *name = helper_of(process);
  if (name == NULL || workers == models) return least_crowded();
  uint32_t index = 0;
  while (index < kinds && kind[index] != name) index++;
  if (index == kinds) {
    /* The last core takes all for whom none is left. */
    if (workers + kinds == models) return models - 1;
    kind[kinds++] = name;
  }
  return workers + index;
}

/* --- The family ---------------------------------------------------------------------------- */

static int is_member(int process) {
  for (uint32_t i = 0; i < members; i++)
    if (member[i].process == process && !member[i].gone) return 1;
  return 0;
}

static void admit(int process) {
  uint32_t place = 0;
  while (place < members && !member[place].gone) place++;
  if (place == HM_MOST_FOLLOWED) return;
  struct hm_follower *new = &member[place];
  *new = (struct hm_follower){.process = process, .next_stretches = 1, .gone = 1};
  new->ran = new->accounted = hm_cpu_time(process);
  if (ticks(process, &new->user_ticks, &new->system_ticks)) {
    new->core = core_of(process);
    new->gone = 0;
    spent[new->core].user += new->user_ticks;
    spent[new->core].system += new->system_ticks;
  }
  if (place == members) members++;
}

static uint32_t admit_children(int process) {
  char path[64];
  int child;
  uint32_t found = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", process, process);
  FILE *file = fopen(path, "re");
  while (file != NULL && fscanf(file, "%d", &child) == 1) {
    if (is_member(child)) continue;
    admit(child);
    found++;
  }
  if (file != NULL) fclose(file);
  return found;
}

uint32_t hm_family_look(void) {
  uint64_t now = hm_now();
  uint32_t found = 0;
  if (!descend || now - looked_at < LOOK_EVERY) return 0;
  looked_at = now;
  for (uint32_t i = 0; i < members; i++)
    if (!member[i].gone) found += admit_children(member[i].process);
  return found;
}

void hm_family_begin(const int *process, uint32_t count, int descendants, uint32_t cores,
                     uint32_t lanes) {
  descend = descendants;
  models = cores;
  workers = lanes < cores ? lanes : cores;
  for (uint32_t i = 0; i < count && i < sizeof root / sizeof root[0]; i++) {
    root[roots++] = process[i];
    admit(process[i]);
  }
  hm_family_look();
}

int hm_family_is_gone(void) {
  for (uint32_t i = 0; i < members; i++)
    if (!member[i].gone) return 0;
  return 1;
}

uint32_t hm_family_size(void) { return members; }
struct hm_follower *hm_family_member(uint32_t index) {
  return &member[index];
}

struct hm_follower *hm_family_next(uint64_t cores_taken, uint64_t layout, uint64_t *wakes) {
  static uint32_t turn;
  static uint64_t checked_at;
  uint64_t now = hm_now();
  int check = now - checked_at > LOOK_EVERY;
  if (check) checked_at = now;
  *wakes = now + LOOK_AGAIN;
  for (uint32_t i = 0; i < members; i++) {
    struct hm_follower *candidate = &member[(turn + i) % members];
    if (candidate->gone || (cores_taken >> candidate->core & 1) != 0) continue;
    if (layout != 0 && candidate->layout != layout) continue;
    if (candidate->rests_until > now) {
      if (candidate->rests_until < *wakes) *wakes = candidate->rests_until;
      continue;
    }
    uint64_t ran = hm_cpu_time(candidate->process);
    uint64_t user, system;
    /* A zombie's clock has stopped; a process that has just begun may still have 0. */
    if ((ran == 0 || check) && !ticks(candidate->process, &user, &system)) candidate->gone = 1;
    if (candidate->gone || ran < candidate->ran + LEAST_RUN) continue;
    candidate->ran = ran;
    turn = (turn + i + 1) % members;
    return candidate;
  }
  return NULL;
}

uint64_t hm_family_partner(uint64_t cores_taken, uint64_t layout) {
  uint64_t now = hm_now(), earliest = now + LONGEST_WAIT;
  for (uint32_t i = 0; i < members; i++) {
    const struct hm_follower *of = &member[i];
    if (of->gone || (cores_taken >> of->core & 1) != 0) continue;
    if (layout != 0 && of->layout != layout) continue;
    if (of->core >= workers) continue; /* a helper runs too seldom to wait for */
    if (of->rests_until > now && of->rests_until < earliest) earliest = of->rests_until;
  }
  return earliest < now + LONGEST_WAIT ? earliest : 0;
}

double hm_user_part(struct hm_follower *of) {
  uint64_t user, system;
  if (ticks(of->process, &user, &system)) {
    spent[of->core].user += user - of->user_ticks;
    spent[of->core].system += system - of->system_ticks;
    of->user_ticks = user;
    of->system_ticks = system;
  }
  double in_user = (double)spent[of->core].user, in_system = (double)spent[of->core].system;
  return (in_user + 1) / (in_user + in_system + 2);
}
