/*
 * For programs inside Valgrind, by LD_PRELOAD: what the kernel does for rseq(2), which Valgrind does not know. Without it a section of libsplit
 * takes another way than in earnest, and more than twice the instructions.
 *
 * It says that every thread is on processor 0, and takes back what a thread has announced when that thread sleeps or polls: then the kernel
 * would have taken the processor from it. Who waits by other calls (for a lock, in read) keeps its announcement here, and not in earnest.
 *
 * What it is not for: programs outside of Valgrind, which have the real thing.
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
