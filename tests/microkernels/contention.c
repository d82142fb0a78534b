/* Threads that use one line at the same time, without system calls.
 *
 *   contention WHAT WORDS THREADS ROUNDS
 *
 * WHAT is flag (two threads pass a word to and fro, each waiting until the other wrote it), paused (the same
 * with a pause between two looks, as in `hardmeter latency`), locked or plain (each thread increments a counter
 * ROUNDS times).  WORDS is same (one counter), different (each its own, of
 * one line) or apart (each its own line).  The line is in the middle of a page that nothing else is on.
 *
 * Prints how much CPU time a round took a thread, in nanoseconds; and the part of the processors that the
 * threads used from the first one's start to the last one's end: if it is near 1, they ran together.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define PAGE 4096
#define MOST_THREADS 16

static _Alignas(PAGE) char page[PAGE];
static _Alignas(PAGE) atomic_int ready;
static _Alignas(PAGE) struct { double began, ended, cpu; } took[MOST_THREADS];
static long rounds;
static int threads, distance;
static const char *what;

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) static void pass_flag(volatile long *flag, long me, long count) {
  for (long i = 0; i < count; i++) {
    while (*flag != 2 * i + me) {
    }
    *flag = 2 * i + me + 1;
  }
}

__attribute__((noinline)) static void pass_flag_with_pauses(volatile long *flag, long me,
                                                            long count) {
  for (long i = 0; i < count; i++) {
    while (*flag != 2 * i + me) __builtin_ia32_pause();
    *flag = 2 * i + me + 1;
  }
}

__attribute__((noinline)) static void add_locked(volatile long *word, long count) {
  for (long i = 0; i < count; i++) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
}

__attribute__((noinline)) static void add_plainly(volatile long *word, long count) {
  for (long i = 0; i < count; i++) *word = *word + 1;
}

/* Waits, without the kernel, until all have come. */
static void meet(int all) {
  ready++;
  while (ready < all) {
  }
}

static void *run(void *argument) {
  long me = (long)argument, count = rounds;
  volatile long *word = (volatile long *)(page + PAGE / 2 + me * distance);
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET((int)me, &here);
  sched_setaffinity(0, sizeof here, &here); /* if there is such a processor */
  meet(threads);
  double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  took[me].began = seconds(CLOCK_MONOTONIC);
  meet(2 * threads); /* simulated threads return from the kernel at different times */
  if (what[0] == 'f') pass_flag(word, me, count);
  if (what[0] == 'p' && what[1] == 'a') pass_flag_with_pauses(word, me, count);
  if (what[0] == 'l') add_locked(word, count);
  if (what[0] == 'p' && what[1] == 'l') add_plainly(word, count);
  took[me].ended = seconds(CLOCK_MONOTONIC);
  took[me].cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  pthread_t thread[MOST_THREADS];
  what = argv[1];
  distance = strcmp(argv[2], "different") == 0 ? 8 : strcmp(argv[2], "apart") == 0 ? 2 * LINE : 0;
  threads = atoi(argv[3]);
  rounds = atol(argv[4]);
  if (threads < 1 || threads > MOST_THREADS) return 2;
  for (long i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, run, (void *)i) != 0) return 1;
  double began = 0, ended = 0, cpu = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(thread[i], NULL);
    if (i == 0 || took[i].began < began) began = took[i].began;
    if (took[i].ended > ended) ended = took[i].ended;
    cpu += took[i].cpu;
  }
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  double possible = (ended - began) * (double)(processors < threads ? processors : threads);
  printf("%.3f %.3f\n", cpu / threads / (double)rounds * 1e9, cpu / possible);
  return 0;
}
