/* A parent goes over 256 lines, then its child over the first LINES of them.
 *
 *   family MEMORY ACCESS LINES
 *
 * MEMORY is shared (MAP_SHARED) or private, ACCESS is what the child does: read
 * or write.
 *
 *     parent   fill, fork, ........ wait, sweep, read 256 lines, go, ..........  sweep, exit
 *     child                ready, wait .........................  LINES, sweep, exit
 *
 * The sweeps go over 64 KiB of one's own: what lies in L1 and L2 before and after
 * does not depend on who ran first after the fork, nor on LINES.  For the same
 * reason they fork and talk by bare system calls, which touch no memory.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILLED 256
#define LINE 64
#define MIB (1ul << 20)

static char swept[64 << 10] __attribute__((aligned(1 << 20)));
static char message[LINE] __attribute__((aligned(LINE)));

static inline long call(long number, long a, long b, long c, long d) {
  long result;
  register long fourth __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
}

/* Ends of the two pipes, as constants: a variable could be spilled to memory. */
enum { READY_IN = 10, READY_OUT, GO_IN, GO_OUT };

static int make_pipe(int in, int out) {
  int ends[2];
  return pipe(ends) == 0 && dup2(ends[0], in) == in && dup2(ends[1], out) == out;
}

static inline void tell(int fd) { call(SYS_write, fd, (long)message, 1, 0); }
static inline void hear(int fd) { call(SYS_read, fd, (long)message, 1, 0); }

static inline void over(char *region, long lines, int write) {
  for (long i = 0; i < lines; i++) {
    if (write)
      __asm__ volatile("movq %%rax, (%0)" : : "r"(region + i * LINE) : "memory");
    else
      __asm__ volatile("movq (%0), %%rax" : : "r"(region + i * LINE) : "rax", "memory");
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int shared = strcmp(argv[1], "shared") == 0, write = strcmp(argv[2], "write") == 0;
  long lines = atol(argv[3]);
  if (lines > FILLED) return 2;
  char *mapped = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE,
                      (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || !make_pipe(READY_IN, READY_OUT) || !make_pipe(GO_IN, GO_OUT))
    return 1;
  char *region = (char *)(((unsigned long)mapped + MIB - 1) & ~(MIB - 1));
  over(swept, sizeof swept / LINE, 1); /* its pages exist before the fork */
  over(region, FILLED, 1);
  long child = call(SYS_clone, SIGCHLD, 0, 0, 0); /* fork(), and none of libc's handlers */
  if (child < 0) return 1;
  if (child == 0) {
    tell(READY_OUT);
    hear(GO_IN);
    over(region, lines, write);
    over(swept, sizeof swept / LINE, 0);
    call(SYS_exit_group, 0, 0, 0, 0);
  }
  hear(READY_IN);
  over(swept, sizeof swept / LINE, 0);
  over(region, FILLED, 0);
  tell(GO_OUT);
  if (call(SYS_wait4, child, 0, 0, 0) != child) return 1;
  over(swept, sizeof swept / LINE, 0);
  /* Not by libc: what it writes would be copied to frames that the child left warm. */
  call(SYS_exit_group, 0, 0, 0, 0);
  return 0;
}
