/*
 * For programs inside Valgrind, by LD_PRELOAD: what the kernel does for rseq(2), which Valgrind does not know. Without it a section of libsplit
 * takes another way than in earnest, and more than twice the instructions.
 *
 * It says that every thread is on processor 0, and takes back what a thread has announced when that thread waits: then the kernel would
 * have taken the processor from it. Valgrind runs one thread at a time; what it interrupts otherwise is not told here.
 *
 * What it is not for: programs outside of Valgrind, which have the real thing.
 */
#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* As <linux/rseq.h> has it. */
struct area {
  uint32_t cpu_id_start, cpu_id;
  uint64_t announced;
  uint32_t flags, node_id, mm_cid;
} __attribute__((aligned(32)));
static _Thread_local struct area area __attribute__((tls_model("initial-exec")));

/* glibc's, by which others find the area: an offset from the thread pointer. */
ptrdiff_t __rseq_offset;
unsigned __rseq_size = sizeof(struct area);

static int (*real_nanosleep)(const struct timespec *, struct timespec *);
static int (*real_poll)(struct pollfd *, nfds_t, int);

__attribute__((constructor)) static void find(void) {
  __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
  *(void **)&real_nanosleep = dlsym(RTLD_NEXT, "nanosleep");
  *(void **)&real_poll = dlsym(RTLD_NEXT, "poll");
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
  area.announced = 0;
  return real_nanosleep(wanted, left);
}

int poll(struct pollfd *files, nfds_t count, int milliseconds) {
  area.announced = 0;
  return real_poll(files, count, milliseconds);
}
