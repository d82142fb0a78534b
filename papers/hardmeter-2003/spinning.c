/* The spin lock of the paper, alone: two processes that want one lock, on two CPUs in lockstep.
 *
 *   spinning LOOP look N W    one holds the lock and writes beside it N times; after each write the
 *                             other one looks at the lock once (W is not used)
 *   spinning LOOP take N W    each takes the lock N times, writes beside it W times while it has it, and
 *                             leaves it alone for two turns
 *
 * LOOP is tas, which tests and sets the lock in each round (PostgreSQL 7.3), or read, which in between
 * only reads it (the paper's improvement).  Lock and counter lie in one line, as in an LWLock of 7.3:
 *
 *     byte    0       8
 *           | lock  | counter |
 *
 * In lockstep each of the two makes one access to the line, then it is the other's turn: as two CPUs of
 * the same speed would.  So every run is the same, whatever else the machine does.  The turns go through
 * pipes: the kernel's memory is not simulated, and the line is all that the two have in common.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define TURNS_WITHOUT 2 /* with fewer the one that releases the lock may take it repeatedly */

struct lock {
  volatile unsigned char taken;
  volatile long counter __attribute__((aligned(8)));
  long spins_of_second __attribute__((aligned(PAGE / 2))); /* in another line; read at the end */
};

struct process {
  int turn, other; /* the ends of the pipes: to wait for the turn, to pass it */
  int alone;       /* the other one has ended */
  long spins;
};

static int reads;
static struct lock *lock;

/* --- Lockstep ----------------------------------------------------------------- */

static void wait_for_turn(struct process *me) {
  char turn;
  if (!me->alone && read(me->turn, &turn, 1) != 1) me->alone = 1;
}

static void pass_turn(struct process *me) {
  char turn = 1;
  if (!me->alone && write(me->other, &turn, 1) != 1) me->alone = 1;
}

/* --- Accesses to the line ----------------------------------------------------- */

static int test_and_set(struct process *me) {
  unsigned char was = 1;
  wait_for_turn(me);
  __asm__ __volatile__("lock xchgb %0, %1" : "+q"(was), "+m"(lock->taken) : : "memory");
  pass_turn(me);
  me->spins += was;
  return was;
}

static int is_taken(struct process *me) {
  wait_for_turn(me);
  int taken = lock->taken;
  pass_turn(me);
  me->spins += taken;
  return taken;
}

static void write_beside(struct process *me) {
  wait_for_turn(me);
  lock->counter++;
  pass_turn(me);
}

static void release(struct process *me) {
  wait_for_turn(me);
  lock->taken = 0;
  pass_turn(me);
}

/* --- What the two do ---------------------------------------------------------- */

static void look(struct process *me, int first, long times) {
  for (long i = 0; i < times; i++) {
    if (first)
      write_beside(me);
    else if (reads)
      is_taken(me);
    else
      test_and_set(me);
  }
}

static void take(struct process *me, long times, long writes) {
  for (long i = 0; i < times; i++) {
    while (test_and_set(me))
      while (reads && is_taken(me)) continue;
    for (long j = 0; j < writes; j++) write_beside(me);
    release(me);
    for (long j = 0; j < TURNS_WITHOUT; j++) {
      wait_for_turn(me);
      pass_turn(me);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  reads = strcmp(argv[1], "read") == 0;
  int takes = strcmp(argv[2], "take") == 0;
  long times = atol(argv[3]), writes = atol(argv[4]);
  int to_first[2], to_second[2];
  lock = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (lock == MAP_FAILED || pipe(to_first) != 0 || pipe(to_second) != 0) return 1;
  signal(SIGPIPE, SIG_IGN);
  pid_t child = fork();
  if (child < 0) return 1;
  int first = child != 0;
  struct process me = {first ? to_first[0] : to_second[0], first ? to_second[1] : to_first[1], 0,
                       0};
  /* The end of a process closes its pipes, if the other one has not kept their other ends. */
  close(first ? to_second[0] : to_first[0]);
  close(first ? to_first[1] : to_second[1]);
  if (first) {
    lock->taken = !takes;
    me.alone = times == 0;
  } else {
    pass_turn(&me);
  }
  if (takes)
    take(&me, times, writes);
  else
    look(&me, first, times);
  if (!first) {
    lock->spins_of_second = me.spins;
    _exit(0);
  }
  close(me.turn);
  close(me.other);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  printf("{\"spins\": %ld}\n", me.spins + lock->spins_of_second);
  return 0;
}
