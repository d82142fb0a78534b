/* Two cores that use one line in turn.
 *
 *   sharing WHO WORDS TURNS
 *
 * WHO is processes (of one shared mapping), threads, or racers: processes that wait
 * for each other in the first round only.  WORDS is same (both write one word), different
 * (each its own, of one line), apart (each its own line) or read (both only read).  In
 * each of TURNS rounds both sides access the line once:
 *
 *     first    wait, access, pass .................. wait, access, pass
 *     second   ..................  wait, access, pass ..................
 *
 * The turns are passed through pipes: the kernel's memory is not simulated, so that the
 * line is all they have in common.  Processes begin with no stack or data of their own
 * in common but what fork copies.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE 64
#define PAGE 4096

static int to_first[2], to_second[2];
static long turns, offset;
static int writes, racers;
static volatile char *region;

/* One access that misses if the other side wrote the line. */
__attribute__((noinline)) void access_line(volatile long *word) {
  if (writes)
    *word = *word + 1;
  else
    (void)*word;
}

static void pass(int fd, long round) {
  char turn = 1;
  if (racers && round > 0) return;
  if (write(fd, &turn, 1) != 1) _exit(1);
}

static void wait_for(int fd, long round) {
  char turn;
  if (racers && round > 0) return;
  if (read(fd, &turn, 1) != 1) _exit(1);
}

static void *second(void *unused) {
  for (long i = 0; i < turns; i++) {
    wait_for(to_second[0], i);
    access_line((volatile long *)(region + offset));
    pass(to_first[1], i);
  }
  return unused;
}

static void first(void) {
  for (long i = 0; i < turns; i++) {
    access_line((volatile long *)region);
    pass(to_second[1], i);
    wait_for(to_first[0], i);
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int threads = strcmp(argv[1], "threads") == 0;
  racers = strcmp(argv[1], "racers") == 0;
  writes = strcmp(argv[2], "read") != 0;
  offset = strcmp(argv[2], "different") == 0 ? LINE / 2 : strcmp(argv[2], "apart") == 0 ? LINE : 0;
  turns = atol(argv[3]);
  /* The line lies in the middle of a page that nothing else is on. */
  char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                    (threads ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || pipe(to_first) != 0 || pipe(to_second) != 0) return 1;
  region = page + PAGE / 2;
  if (threads) {
    pthread_t other;
    if (pthread_create(&other, NULL, second, NULL) != 0) return 1;
    first();
    pthread_join(other, NULL);
  } else {
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      second(NULL);
      _exit(0);
    }
    first();
    if (waitpid(child, NULL, 0) != child) return 1;
  }
  return 0;
}
