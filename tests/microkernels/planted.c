/* Server-like processes that share memory in a known way.
 *
 *   planted CASE together|apart [started]
 *
 * The parent forks the processes of the case and waits. Each serves requests until the parent ends: a read from a
 * file, work on its own memory, then the case's update of shared memory.
 *
 *     together   all processes have the case's words on one line
 *     apart      the same code, but each process has a line of its own
 *     started    each process is started as a program of its own, so that its code and the shared memory lie at other
 *                addresses than another's
 *
 * The parent prints what is true, one line for each process and line of memory:
 *
 *     KIND ADDRESS ROUTINE OFFSET...
 *
 * KIND is true or false (apart: none); ROUTINE is the only one that touches the line, at these offsets. Behind the last
 * one it prints "ready".
 *
 *     true    counter   two processes add to one word
 *             lock      two processes take a lock and add to the word beside it
 *             queue     one process fills a slot, one empties it
 *             flag      one process writes a word, one reads it
 *             pins      four processes add to one word and subtract from it
 *     false   beside    two processes, two words of 8 bytes side by side
 *             slots     four processes, four words of 4 bytes
 *             reader    one process reads a word, one writes another
 *             ends      two processes, the first 4 and the last 8 bytes
 *             records   two processes write 16 bytes each
 *     all     two processes, each with the first or second side of every case
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LINE 64
#define PAGE 4096
#define PROCESSES 4

typedef void update(char *line, long request);

static long word_at(const char *line, int offset) {
  return *(const volatile long *)(line + offset);
}
static void set_word(char *line, int offset, long value) {
  *(volatile long *)(line + offset) = value;
}

#define ROUTINE __attribute__((noinline)) static void
static volatile long sink; /* the process's own */

/* --- True sharing ----------------------------------------------------------------------------- */

ROUTINE add_counter(char *line, long request) {
  (void)request;
  __atomic_fetch_add((long *)(line + 16), 1, __ATOMIC_SEQ_CST);
}

/* A taken lock is skipped: the next request tries again. */
ROUTINE take_lock(char *line, long request) {
  long free_word = 0;
  if (!__atomic_compare_exchange_n((long *)(line + 8), &free_word, request | 1, 0, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED))
    return;
  set_word(line, 24, word_at(line, 24) + request);
  __atomic_store_n((long *)(line + 8), 0, __ATOMIC_RELEASE);
}

/* The slot is empty while both positions are equal. */
ROUTINE fill_slot(char *line, long request) {
  if (word_at(line, 0) != word_at(line, 8)) return;
  set_word(line, 32, request);
  set_word(line, 0, word_at(line, 0) + 1);
}

ROUTINE empty_slot(char *line, long request) {
  (void)request;
  if (word_at(line, 0) == word_at(line, 8)) return;
  sink = word_at(line, 32);
  set_word(line, 8, word_at(line, 8) + 1);
}

ROUTINE write_flag(char *line, long request) { set_word(line, 24, request); }

ROUTINE read_flag(char *line, long request) {
  (void)request;
  sink = word_at(line, 24);
}

ROUTINE pin(char *line, long request) {
  int *pins = (int *)(line + 40);
  __atomic_fetch_add(pins, 1, __ATOMIC_SEQ_CST);
  sink = request;
  __atomic_fetch_sub(pins, 1, __ATOMIC_SEQ_CST);
}

/* --- False sharing ---------------------------------------------------------------------------- */

ROUTINE count_left(char *line, long request) {
  (void)request;
  set_word(line, 16, word_at(line, 16) + 1);
}

ROUTINE count_right(char *line, long request) {
  (void)request;
  set_word(line, 24, word_at(line, 24) + 1);
}

static int slot; /* differs by process */

ROUTINE count_slot(char *line, long request) {
  (void)request;
  ++((volatile int *)line)[4 + slot];
}

ROUTINE read_setting(char *line, long request) {
  (void)request;
  sink = word_at(line, 0);
}

ROUTINE count_far(char *line, long request) {
  (void)request;
  set_word(line, 56, word_at(line, 56) + 1);
}

ROUTINE count_first(char *line, long request) {
  (void)request;
  ++*(volatile int *)line;
}

typedef struct {
  long key, value;
} record __attribute__((aligned(16)));

ROUTINE write_low(char *line, long request) {
  *(volatile record *)line = (record){request, -request};
}

ROUTINE write_high(char *line, long request) {
  *(volatile record *)(line + 32) = (record){request, -request};
}

/* --- Cases ------------------------------------------------------------------------------------ */

struct side {
  update *run;
  const char *routine, *offsets;
};
#define SIDE(routine, offsets) \
  { routine, #routine, offsets }

static const struct planted {
  const char *name, *kind;
  struct side side[PROCESSES];
} planted[] = {
    {"counter", "true", {SIDE(add_counter, "16"), SIDE(add_counter, "16")}},
    {"lock", "true", {SIDE(take_lock, "8 24"), SIDE(take_lock, "8 24")}},
    {"queue", "true", {SIDE(fill_slot, "0 8 32"), SIDE(empty_slot, "0 8 32")}},
    {"flag", "true", {SIDE(write_flag, "24"), SIDE(read_flag, "24")}},
    {"pins", "true", {SIDE(pin, "40"), SIDE(pin, "40"), SIDE(pin, "40"), SIDE(pin, "40")}},
    {"beside", "false", {SIDE(count_left, "16"), SIDE(count_right, "24")}},
    {"slots",
     "false",
     {SIDE(count_slot, "16"), SIDE(count_slot, "20"), SIDE(count_slot, "24"),
      SIDE(count_slot, "28")}},
    {"reader", "false", {SIDE(read_setting, "0"), SIDE(count_far, "56")}},
    {"ends", "false", {SIDE(count_first, "0"), SIDE(count_far, "56")}},
    {"records", "false", {SIDE(write_low, "0 8"), SIDE(write_high, "32 40")}},
};

/* --- Serving ---------------------------------------------------------------------------------- */

enum { CASES = sizeof planted / sizeof planted[0] };

/* The work of each process in a request. */
static struct {
  update *run;
  char *line;
} step[CASES];

/* The part of a request in memory that no other process uses. */
static unsigned long work(const unsigned char *request, long length) {
  unsigned long sum = 0;
  for (long i = 0; i < length; i++) sum = sum * 31 + request[i];
  return sum;
}

static _Noreturn void serve(int steps) {
  static unsigned char request[512];
  int source = open("/dev/zero", O_RDONLY);
  for (long number = 1;; number++) {
    if (read(source, request, sizeof request) != sizeof request) _exit(1);
    sink = (long)work(request, sizeof request);
    for (int i = 0; i < steps; i++) step[i].run(step[i].line, number);
  }
}

/* Each case has a page; nothing else uses the middle of it. */
static int plan(int process, const char *name, int apart, char *pages) {
  int steps = 0, all = strcmp(name, "all") == 0;
  for (int i = 0; i < CASES; i++) {
    const struct side *side = &planted[i].side[process];
    if (side->run == NULL || (all ? process > 1 : strcmp(planted[i].name, name) != 0)) continue;
    char *line = pages + PAGE * i + PAGE / 2 + (apart ? 2 * LINE * process : 0);
    printf("%s %p %s %s\n", apart ? "none" : planted[i].kind, (void *)line, side->routine,
           side->offsets);
    step[steps].run = side->run;
    step[steps++].line = line;
  }
  return steps;
}

static char *map(int file) {
  char *pages = mmap(NULL, PAGE * CASES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pages == MAP_FAILED) _exit(1);
  return pages;
}

/* The main function of a process that was started as a separate program. */
static _Noreturn void serve_alone(char **argv) {
  slot = atoi(argv[3]);
  int out = dup(1), silent = open("/dev/null", O_WRONLY);
  dup2(silent, 1); /* the parent has printed it */
  int steps = plan(slot, argv[1], strcmp(argv[2], "apart") == 0, map(atoi(argv[4])));
  fflush(stdout);
  dup2(out, 1);
  serve(steps);
}

/* Becomes the process with this number. */
static _Noreturn void become(int process, int steps, int file, char **argv, int started) {
  char number[16], descriptor[16];
  slot = process;
  if (!started) serve(steps);
  snprintf(number, sizeof number, "%d", process);
  snprintf(descriptor, sizeof descriptor, "%d", file);
  execl("/proc/self/exe", argv[0], argv[1], argv[2], number, descriptor, (char *)NULL);
  _exit(1);
}

int main(int argc, char **argv) {
  if (argc == 5) serve_alone(argv);
  int started = argc == 4 && strcmp(argv[3], "started") == 0;
  if (argc != 3 && !started) return 2;
  int apart = strcmp(argv[2], "apart") == 0, file = memfd_create("planted", 0);
  if (file < 0 || ftruncate(file, PAGE * CASES) != 0) return 1;
  char *pages = map(file);
  pid_t parent = getpid();
  for (int process = 0; process < PROCESSES; process++) {
    int steps = plan(process, argv[1], apart, pages);
    if (steps == 0 && process == 0) return 2;
    if (steps == 0) break;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 1;
    if (child > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    become(process, steps, file, argv, started);
  }
  puts("ready");
  fflush(stdout);
  for (;;) pause();
}
