/*
 * split-migration: measures the cost of sched_setaffinity and of access to data after a migration:
 * table 10 and figure 5 of the paper (papers/split-2010). Prints JSON.
 *
 *   split-migration [--calls 1000000] [--repeats 1000] [--rounds 9] [--largest KB]
 *
 * Both let a thread alternate between two processors, or "alternate" between one and itself, which makes the same calls and moves
 * nothing. Rounds of both are interleaved.
 */
#include "kernels.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STAY, MOVE, WAYS, ROUNDS_MAX = 101 };

static const char *const ways[WAYS] = {"stay", "move"};
static int processor[2];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void go_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return;
  perror("split-migration: sched_setaffinity");
  exit(1);
}

static int ascending(const void *a, const void *b) {
  const double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

static void print_rounds(const char *name, double *values, int rounds) {
  qsort(values, (size_t)rounds, sizeof(*values), ascending);
  printf("\"%s\":{\"median\":%.6g,\"least\":%.6g,\"most\":%.6g,\"n\":%d}", name, values[rounds / 2],
         values[0], values[rounds - 1], rounds);
}

/* Table 10: calls without any access to data. Returns seconds per million calls. */
static double calls(int way, long count) {
  go_to(processor[0]);
  const double started = seconds();
  for (long i = 0; i < count; i++) go_to(processor[way == MOVE ? i & 1 : 0]);
  return (seconds() - started) * 1e6 / (double)count;
}

/* ---- figure 5 ---- */

enum access { BYTES, LINES, CHASE, ACCESSES };
static const char *const accesses[ACCESSES] = {"bytes", "lines", "chase"};

static void touch(enum access access, volatile char *memory, size_t bytes) {
  switch (access) {
    case BYTES: /* the paper's: each char is incremented */
      for (size_t i = 0; i < bytes; i++) memory[i]++;
      break;
    case LINES: (void)section_pass(SECTION_STREAM_WRITE, (char *)memory, bytes, 1); break;
    case CHASE: (void)section_pass(SECTION_CHASE, (char *)memory, bytes, 1); break;
    default: break;
  }
}

struct cost {
  double whole; /* the call and the access, as the paper took it: us for each KB */
  double access;
};

static struct cost access_cost(int way, enum access access, char *memory, size_t bytes,
                               long repeats) {
  double in_access = 0;
  go_to(processor[0]);
  touch(access, memory, bytes);
  const double started = seconds();
  for (long i = 1; i <= repeats; i++) {
    go_to(processor[way == MOVE ? i & 1 : 0]);
    const double arrived = seconds();
    touch(access, memory, bytes);
    in_access += seconds() - arrived;
  }
  const double per_kilobyte = 1e6 / (double)repeats / ((double)bytes / 1024);
  return (struct cost){(seconds() - started) * per_kilobyte, in_access * per_kilobyte};
}

static void figure5(enum access access, size_t kilobytes, long repeats, int rounds) {
  struct section_arena arena;
  double whole[WAYS][ROUNDS_MAX], alone[WAYS][ROUNDS_MAX];
  if (!section_arena_open(&arena, kilobytes * 1024)) {
    fprintf(stderr, "split-migration: no memory for %zu KB\n", kilobytes);
    exit(1);
  }
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < WAYS; i++) {
      const int way = (i + round) % WAYS;
      const struct cost cost = access_cost(way, access, arena.memory, kilobytes * 1024, repeats);
      whole[way][round] = cost.whole;
      alone[way][round] = cost.access;
    }
  printf("{\"access\":\"%s\",\"kilobytes\":%zu", accesses[access], kilobytes);
  for (int way = 0; way < WAYS; way++) {
    printf(",\"%s\":{", ways[way]);
    print_rounds("whole", whole[way], rounds);
    printf(",");
    print_rounds("access", alone[way], rounds);
    printf("}");
  }
  printf("}");
  section_arena_close(&arena);
}

static bool find_processors(void) {
  cpu_set_t allowed;
  int found = 0;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
    if (CPU_ISSET(cpu, &allowed)) processor[found++] = cpu;
  return found == 2;
}

int main(int argc, char **argv) {
  long count = 1000000, repeats = 1000, rounds = 9, largest = 16384;
  static const struct option names[] = {{"calls", 1, NULL, 'c'},
                                        {"repeats", 1, NULL, 'r'},
                                        {"rounds", 1, NULL, 'n'},
                                        {"largest", 1, NULL, 'l'},
                                        {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    const long value = optarg == NULL ? 0 : strtol(optarg, NULL, 10);
    switch (option) {
      case 'c': count = value; break;
      case 'r': repeats = value; break;
      case 'n': rounds = value; break;
      case 'l': largest = value; break;
      default: return 2;
    }
  }
  if (optind < argc || count < 1 || repeats < 1 || rounds < 1 || rounds > ROUNDS_MAX ||
      largest < 1 || largest > 1 << 20) {
    fprintf(stderr,
            "split-migration: wrong arguments\n  split-migration [--calls N] [--repeats N] "
            "[--rounds 1..%d] [--largest KB]\n",
            ROUNDS_MAX);
    return 2;
  }
  if (!find_processors()) {
    fprintf(stderr, "split-migration: two processors are needed, to move between them\n");
    return 1;
  }
  double million[WAYS][ROUNDS_MAX];
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < WAYS; i++)
      million[(i + round) % WAYS][round] = calls((i + round) % WAYS, count);
  printf("{\"format\":\"split-migration\",\"version\":1,\"processors\":[%d,%d],", processor[0],
         processor[1]);
  printf("\"calls\":%ld,\"repeats\":%ld,\"seconds_a_million\":{", count, repeats);
  print_rounds("stay", million[STAY], (int)rounds);
  printf(",");
  print_rounds("move", million[MOVE], (int)rounds);
  printf("},\"figure5\":[");
  for (int access = 0; access < ACCESSES; access++)
    for (long kilobytes = 1; kilobytes <= largest; kilobytes *= 2) {
      if (access > 0 || kilobytes > 1) printf(",");
      /* Large data needs fewer repeats for the same precision: at least 64 MB of accesses. */
      long enough = 65536 / kilobytes;
      if (enough < 10) enough = 10;
      figure5((enum access)access, (size_t)kilobytes, enough < repeats ? enough : repeats,
              (int)rounds);
    }
  printf("]}\n");
  return 0;
}
