/*
 * Reads stretches of large objects when they are touched; unread.h has the invariants.
 */
#include "unread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "fault.h"
#include "guard.h"
#include "residency_load.h"
#include "store.h"

/* Invariant 4. Held while a stretch is read, so that it is read once. */
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

/* The kernel ends a process that traps in a thread which blocks the signal. */
static bool blocks_signal(void) {
  sigset_t blocked;
  return pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0 || sigismember(&blocked, SIGSEGV) == 1;
}

bool p3l_unread_wanted(const p3l_store *store, const p3l_stored_type *type, uint64_t bytes) {
  return !P3L_GUARDED && store->options.memory_bytes == 0 && !store->options.whole_arrays &&
         bytes >= P3L_UNREAD_LEAST && type->field_count > 0 && type->union_count == 0 &&
         !blocks_signal();
}

/* ---- reading ---- */

/* Moves a stretch that was read to its place. */
static int put_in_place(uint8_t *stretch, uint8_t *place) {
  const int how = MREMAP_MAYMOVE | MREMAP_FIXED;
  if (mremap(stretch, P3L_STRETCH_BYTES, P3L_STRETCH_BYTES, how, place) != MAP_FAILED) return 0;
  int failed = errno;
  /* The kernel may have unmapped the place before it failed: nothing else may get there. */
  mmap(place, P3L_STRETCH_BYTES, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return failed;
}

static p3l_code read_stretch(p3l_segment *segment, uint64_t index, p3l_error *error) {
  p3l_store *store = segment->store;
  const size_t buffer_bytes = P3L_LARGE_RUN * sizeof(p3l_page);
  const size_t mapped = 2 * P3L_STRETCH_BYTES + buffer_bytes;
  uint64_t from = index * P3L_STRETCH_BYTES, to = from + P3L_STRETCH_BYTES;
  if (to > segment->large.bytes) to = segment->large.bytes;
  /* No malloc(): this may be a signal handler. Aligned, so that a huge page can be moved. */
  uint8_t *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return p3l_fail_errno(error, errno, "%s: memory for objects", store->path);
  uint8_t *stretch = (uint8_t *)(((uintptr_t)memory + P3L_STRETCH_BYTES - 1) &
                                 ~(uintptr_t)(P3L_STRETCH_BYTES - 1));
  uint8_t *buffer = memory + 2 * P3L_STRETCH_BYTES, *behind = stretch + P3L_STRETCH_BYTES;
  madvise(stretch, P3L_STRETCH_BYTES, MADV_HUGEPAGE);
  p3l_large_part part = {.first = segment->large.object.address / P3L_PAGE_SIZE,
                         .bytes = segment->large.bytes,
                         .from = from,
                         .to = to};
  p3l_code code = p3l_large_read(store, &part, (p3l_page *)(void *)buffer, stretch, error);
  int failed = code == P3L_OK ? put_in_place(stretch, segment->memory + from) : 0;
  if (failed != 0) code = p3l_fail_errno(error, failed, "%s: memory for objects", store->path);
  if (code == P3L_OK) {
    __atomic_store_n(&segment->large.unread[index], 0, __ATOMIC_RELEASE);
    __atomic_fetch_add(&store->unread_reads, part.reads, __ATOMIC_RELAXED);
    __atomic_fetch_add(&store->unread_pages, part.pages, __ATOMIC_RELAXED);
  } else {
    munmap(stretch, P3L_STRETCH_BYTES);
  }
  if (stretch > memory) munmap(memory, (size_t)(stretch - memory));
  munmap(behind, (size_t)(memory + mapped - behind));
  return code;
}

static p3l_code read_if_unread(p3l_segment *segment, uint64_t index, p3l_error *error) {
  pthread_mutex_lock(&reading);
  p3l_code code = segment->large.unread[index] != 0 ? read_stretch(segment, index, error) : P3L_OK;
  pthread_mutex_unlock(&reading);
  return code;
}

p3l_code p3l_unread_read_all(p3l_segment *segment, p3l_error *error) {
  p3l_code code = P3L_OK;
  if (segment->kind != P3L_LARGE || segment->large.unread == NULL) return P3L_OK;
  for (uint64_t at = 0; at < segment->large.bytes && code == P3L_OK; at += P3L_STRETCH_BYTES)
    code = read_if_unread(segment, at / P3L_STRETCH_BYTES, error);
  return code;
}

/* ---- the signal ---- */

/*
 * True if this signal came here before: a handler passes on in turn, to this one, since it was set after
 * it, and this one again. The mark is where the kernel writes zeros for each signal. A variable of the thread
 * would stay set when a handler leaves by siglongjmp(), and the next signal may have the same address.
 */
static bool came_before(siginfo_t *information) {
  static const uint32_t mark = 0x70336c21;
  uint8_t *place = (uint8_t *)information + sizeof(*information) - sizeof(mark);
  bool before = memcmp(place, &mark, sizeof(mark)) == 0;
  memcpy(place, &mark, sizeof(mark));
  return before;
}

/* To the handler of before; without one the instruction traps again, and ends the process. */
static void pass_on(int signal, siginfo_t *information, void *state) {
  const struct sigaction none = {.sa_handler = SIG_DFL};
  bool circle = came_before(information);
  if (!circle && (before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, information, state);
  } else if (!circle && before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(signal, &none, NULL);
    if (information->si_code <= 0) raise(signal); /* a process sent it: nothing traps again */
  }
}

static void touched(int signal, siginfo_t *information, void *state) {
  const uint8_t *address = information->si_addr;
  p3l_segment *segment = information->si_code > 0 ? p3l_segment_of(address) : NULL;
  if (segment == NULL || segment->kind != P3L_LARGE || segment->large.unread == NULL) {
    pass_on(signal, information, state);
    return;
  }
  int kept = errno;
  p3l_error error;
  uint64_t index = (uint64_t)(address - segment->memory) / P3L_STRETCH_BYTES;
  p3l_code code = read_if_unread(segment, index, &error);
  errno = kept;
  if (code != P3L_OK) p3l_raise(&error);
}

/* In a child: the thread that held it is not there. What it was reading is unread, and read again. */
static void forked(void) { reading = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

void p3l_unread_catch(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  /* Another access may trap while a fault handler leaves this one by longjmp() or throw. */
  struct sigaction now,
      action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&reading);
  sigaction(SIGSEGV, NULL, &now);
  if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != touched) {
    before = now;
    sigaction(SIGSEGV, &action, NULL);
  }
  pthread_mutex_unlock(&reading);
}
