/*
 * Replaces the kernel's rseq(2) for programs inside Valgrind, which does not support it; loaded by LD_PRELOAD. Without it a section of
 * libsplit uses its fallback, which executes more than twice the instructions.
 *
 * It reports that every thread is on processor 0, and clears a thread's critical section when that thread sleeps or polls, because the
 * kernel would then have switched threads. A thread that waits in other calls (for a lock, in read) keeps its critical section here, which
 * the kernel would have cleared. Not for programs outside of Valgrind.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* The layout of <linux/rseq.h>. */
struct area {
  uint32_t cpu_id_start, cpu_id;
  uint64_t announced;
  uint32_t flags, node_id, mm_cid;
} __attribute__((aligned(32)));
static _Thread_local struct area area __attribute__((tls_model("initial-exec")));

/* glibc's symbols, with which other code finds the area: an offset from the thread pointer. */
ptrdiff_t __rseq_offset;
unsigned __rseq_size = sizeof(struct area);

__attribute__((constructor)) static void find(void) {
  __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
  static int (*real)(const struct timespec *, struct timespec *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "nanosleep");
  area.announced = 0;
  return real(wanted, left);
}

int poll(struct pollfd *files, nfds_t count, int milliseconds) {
  static int (*real)(struct pollfd *, nfds_t, int);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "poll");
  area.announced = 0;
  return real(files, count, milliseconds);
}
