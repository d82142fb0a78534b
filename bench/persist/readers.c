/*
 * Processes that read a store beside one that writes it: how long a warm visit of all objects takes while
 * no process writes and while 1,000 small transactions a second are committed, and how long a refresh takes
 * after a commit that changed 100 objects. Prints one line of JSON.
 *
 *   readers STORE OBJECTS READERS BLOCKS VISITS REFRESHES
 *
 * Every object is visited once along a list in random order. Each transaction moves an amount from one
 * object to another, so the sum that a visit finds is always the same in one version; it is compared.
 * Time of visits is CPU time of the process that makes them: there are more processes than processors.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "p3l.h"

typedef struct item item;
struct item {
  item *next;
  uint64_t id;
  int64_t amount;
};
typedef struct table {
  item **items;
  item *first;
  uint64_t count;
} table;
typedef struct slot {
  item *to;
} slot;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));
P3L_TYPE(slot, slot, 1, P3L_POINTERS(slot, to));
P3L_TYPE(table, table, 1, P3L_POINTERS(table, items), P3L_POINTERS(table, first));

enum { AMOUNT = 100, CHANGED = 100, MOST_READERS = 64, PER_SECOND = 1000 };

static p3l_store *store;
static p3l_error error;
static uint64_t state = 42;

static void must(p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "readers: %s\n", error.message);
  exit(2);
}

static void must_be(bool so, const char *what) {
  if (so) return;
  perror(what);
  exit(2);
}

static int64_t now(clockid_t which) {
  struct timespec time;
  clock_gettime(which, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static uint64_t below(uint64_t limit) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % limit;
}

/* ---- the store ---- */

static void build(const char *path, uint64_t count) {
  uint64_t *order = malloc(count * sizeof(*order));
  must_be(order != NULL, "memory");
  for (uint64_t i = 0; i < count; i++) order[i] = i;
  for (uint64_t i = count - 1; i > 0; i--) {
    uint64_t other = below(i + 1), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  must(p3l_open(path, &(p3l_options){.create = true}, &store, &error));
  must(p3l_load_begin(store, &error));
  must(p3l_begin(store, &error));
  table *all = p3l_new(store, table);
  slot *slots = p3l_new_array(store, slot, count);
  all->items = (item **)slots;
  all->count = count;
  must(p3l_set_root(store, "items", all));
  must(p3l_commit(store, &error));
  must(p3l_begin(store, &error));
  all = p3l_root(store, "items");
  slots = (slot *)P3L_LD(all->items);
  for (uint64_t i = 0; i < count; i++) {
    item *made = p3l_new(store, item);
    if (made == NULL) must(p3l_failure(store)->code);
    made->id = i;
    made->amount = AMOUNT;
    P3L_SET(slots[i].to, made);
  }
  for (uint64_t i = 0; i < count; i++) {
    item *from = P3L_LD(slots[order[i]].to);
    item *to = i + 1 < count ? P3L_LD(slots[order[i + 1]].to) : NULL;
    P3L_SET(from->next, to);
    if (i == 0) P3L_SET(all->first, from);
  }
  must(p3l_commit(store, &error));
  must(p3l_load_end(store, &error));
  must(p3l_close(store, &error));
  free(order);
}

/* ---- processes ---- */

typedef struct process {
  pid_t pid;
  int ask, answer; /* the parent's ends */
} process;

/* A process's answer to a command: nanoseconds, and the sum of a visit or the number of commits. */
typedef struct answer {
  int64_t cpu, wall, sum;
} answer;

static process start(const char *path, void (*serve)(const char *, int, int)) {
  int ask[2], answers[2];
  must_be(pipe(ask) == 0 && pipe(answers) == 0, "pipe");
  fflush(NULL);
  process made = {fork(), ask[1], answers[0]};
  must_be(made.pid >= 0, "fork");
  if (made.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ask[1]);
    close(answers[0]);
    serve(path, ask[0], answers[1]);
    exit(0);
  }
  close(ask[0]);
  close(answers[1]);
  return made;
}

static void tell(const process *to, char command) {
  must_be(write(to->ask, &command, 1) == 1, "a process has ended");
}

static answer hear(const process *from) {
  answer heard;
  must_be(read(from->answer, &heard, sizeof(heard)) == sizeof(heard), "a process has ended");
  return heard;
}

static void say(int to, answer said) {
  must_be(write(to, &said, sizeof(said)) == sizeof(said), "the parent has ended");
}

static int64_t visit(void) {
  table *all = p3l_root(store, "items");
  int64_t sum = 0;
  for (item *at = P3L_LD(all->first); at != NULL; at = P3L_LD(at->next)) sum += at->amount;
  return sum;
}

/* 'v': refreshes to the last version, and times a visit. 'r': times a refresh. */
static void serve_reader(const char *path, int asked, int answers) {
  char command;
  must(p3l_open(path, &(p3l_options){.read_only = true}, &store, &error));
  while (read(asked, &command, 1) == 1 && command != 'q') {
    answer said = {0, 0, 0};
    if (command == 'v') must(p3l_refresh(store, &error));
    int64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
    if (command == 'v')
      said.sum = visit();
    else
      must(p3l_refresh(store, &error));
    said.wall = now(CLOCK_MONOTONIC) - wall;
    said.cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    say(answers, said);
  }
  must(p3l_close(store, &error));
}

static void move_amounts(uint64_t objects) {
  must(p3l_begin(store, &error));
  table *all = p3l_root(store, "items");
  slot *slots = (slot *)P3L_LD(all->items);
  for (uint64_t i = 0; i < objects; i += 2) {
    item *from = P3L_LD(slots[below(all->count)].to), *to = P3L_LD(slots[below(all->count)].to);
    P3L_SET(from->amount, from->amount - 1);
    P3L_SET(to->amount, to->amount + 1);
  }
  must(p3l_commit(store, &error));
}

/* 'c': one commit of CHANGED objects. 'g': commits at an even pace until the next command; its answer is
 * the number of them in `sum`, and the time. */
static void serve_writer(const char *path, int asked, int answers) {
  char command;
  must(p3l_open(path, NULL, &store, &error));
  move_amounts(2);
  while (read(asked, &command, 1) == 1 && command != 'q') {
    answer said = {0, 0, 0};
    int64_t begin = now(CLOCK_MONOTONIC), next = begin;
    struct pollfd stop = {.fd = asked, .events = POLLIN};
    if (command == 'c') move_amounts(CHANGED);
    while (command == 'g' && poll(&stop, 1, 0) == 0) {
      move_amounts(2);
      said.sum++;
      next += 1000000000 / PER_SECOND;
      struct timespec at = {next / 1000000000, next % 1000000000};
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    said.wall = now(CLOCK_MONOTONIC) - begin;
    if (command == 'g') must_be(read(asked, &command, 1) == 1, "the parent has ended");
    say(answers, said);
  }
  must(p3l_close(store, &error));
}

/* ---- measuring ---- */

static process readers[MOST_READERS], writer;
static int reader_count;
static uint64_t wrong;
static int64_t expected;

static int ascending(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return left < right ? -1 : left > right;
}

static int64_t median(int64_t *values, size_t count) {
  qsort(values, count, sizeof(*values), ascending);
  return values[count / 2];
}

/* All readers visit at the same time, `visits` times; the median of all visits. */
static int64_t visit_all(int visits) {
  int64_t *cpu = malloc(sizeof(*cpu) * (size_t)visits * (size_t)reader_count);
  size_t count = 0;
  must_be(cpu != NULL, "memory");
  for (int i = 0; i < visits; i++) {
    for (int r = 0; r < reader_count; r++) tell(&readers[r], 'v');
    for (int r = 0; r < reader_count; r++) {
      answer heard = hear(&readers[r]);
      cpu[count++] = heard.cpu;
      wrong += heard.sum != expected;
    }
  }
  int64_t middle = median(cpu, count);
  free(cpu);
  return middle;
}

static void measure_blocks(int blocks, int visits) {
  printf("\"quiet_ns\": [");
  int64_t *beside = calloc((size_t)blocks, sizeof(*beside));
  double *rates = calloc((size_t)blocks, sizeof(*rates));
  must_be(beside != NULL && rates != NULL, "memory");
  visit_all(2);
  for (int block = 0; block < blocks; block++) {
    int64_t quiet = 0;
    for (int half = 0; half < 2; half++) { /* the writer's half comes first in each second block */
      if (half == block % 2) {
        quiet = visit_all(visits);
        continue;
      }
      tell(&writer, 'g');
      usleep(50000); /* so that the writer commits before the first visit begins */
      beside[block] = visit_all(visits);
      tell(&writer, 's');
      answer heard = hear(&writer);
      rates[block] = (double)heard.sum * 1e9 / (double)heard.wall;
    }
    printf("%s%" PRId64, block == 0 ? "" : ", ", quiet);
  }
  printf("], \"beside_ns\": [");
  for (int block = 0; block < blocks; block++)
    printf("%s%" PRId64, block == 0 ? "" : ", ", beside[block]);
  printf("], \"commits_per_second\": [");
  for (int block = 0; block < blocks; block++)
    printf("%s%.1f", block == 0 ? "" : ", ", rates[block]);
  free(beside);
  free(rates);
}

/* After each commit of CHANGED objects each reader refreshes, one after the other; the median over
 * readers of each commit. */
static void measure_refreshes(int refreshes, bool cpu) {
  for (int i = 0; i < refreshes; i++) {
    int64_t took[MOST_READERS];
    tell(&writer, 'c');
    hear(&writer);
    for (int r = 0; r < reader_count; r++) {
      tell(&readers[r], 'r');
      answer heard = hear(&readers[r]);
      took[r] = cpu ? heard.cpu : heard.wall;
    }
    printf("%s%" PRId64, i == 0 ? "" : ", ", median(took, (size_t)reader_count));
  }
}

static void end(const process *other) {
  int status;
  tell(other, 'q'); /* the other processes have copies of the pipe: closing it does not end it */
  must_be(waitpid(other->pid, &status, 0) == other->pid && status == 0, "a process failed");
}

int main(int argc, char **argv) {
  if (argc != 7 || atoi(argv[3]) < 1 || atoi(argv[3]) > MOST_READERS)
    return fprintf(stderr, "usage: readers STORE OBJECTS READERS BLOCKS VISITS REFRESHES\n"), 2;
  uint64_t count = strtoull(argv[2], NULL, 10);
  reader_count = atoi(argv[3]);
  expected = (int64_t)count * AMOUNT;
  build(argv[1], count);
  writer = start(argv[1], serve_writer);
  for (int r = 0; r < reader_count; r++) readers[r] = start(argv[1], serve_reader);
  tell(&writer, 'c'); /* answers when it has the store open */
  hear(&writer);
  printf("{\"readers\": %d, ", reader_count);
  measure_blocks(atoi(argv[4]), atoi(argv[5]));
  printf("], \"refresh_ns\": [");
  measure_refreshes(atoi(argv[6]), false);
  printf("], \"refresh_cpu_ns\": [");
  measure_refreshes(atoi(argv[6]), true);
  for (int r = 0; r < reader_count; r++) end(&readers[r]);
  end(&writer);
  printf("], \"wrong_sums\": %" PRIu64 "}\n", wrong);
  return wrong == 0 ? 0 : 1;
}
