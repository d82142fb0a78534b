/*
 * Protection of objects' memory in the debug library. guard.h has the invariants.
 */
#include "guard.h"

#ifdef P3L_DEBUG

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guard_calls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const p3l_memory *all;
static uintptr_t page_bytes = 4096; /* the kernel's */

#define GIVEN_UP_BYTES (UINT64_C(1) << 20) /* a segment, so that no area is divided any more */

void p3l_guard_range(const p3l_memory *range) {
  long page = sysconf(_SC_PAGESIZE);
  if (page > 0) page_bytes = (uintptr_t)page;
  all = range;
}

static bool is_guarded(const void *memory) { return (uintptr_t)memory - all->base < all->bytes; }

uint64_t p3l_guard_stride(uint64_t bytes) {
  return (bytes + page_bytes - 1) & ~(uint64_t)(page_bytes - 1);
}

int p3l_guard_segment(uint8_t *memory, size_t bytes, bool objects) {
  int failed = mprotect(memory, bytes, objects ? PROT_READ : PROT_READ | PROT_WRITE);
  return failed == 0 ? 0 : errno;
}

/* Invariant 4. */
static void give_up(uintptr_t page) {
  static bool reported;
  void *around = (void *)(page - (page - all->base) % GIVEN_UP_BYTES);
  mprotect(around, GIVEN_UP_BYTES, PROT_READ | PROT_WRITE);
  if (!reported)
    p3l_guard_print(
        "p3l-debug: the kernel refuses to protect more areas of memory, so that not all objects "
        "are watched; raise vm.max_map_count\n");
  reported = true;
}

static void protect(const void *memory, size_t bytes, int protection) {
  uintptr_t from = (uintptr_t)memory & ~(page_bytes - 1);
  uintptr_t to = ((uintptr_t)memory + bytes + page_bytes - 1) & ~(page_bytes - 1);
  /* Upgrades have both layouts in ordinary memory. */
  if (bytes == 0 || !is_guarded(memory)) return;
  if (mprotect((void *)from, to - from, protection) == 0) return;
  for (uintptr_t at = from; at < to; at += GIVEN_UP_BYTES) give_up(at);
  if (from < to) give_up(to - 1);
}

/* Invariant 2. */
static bool is_marked(uintptr_t page) {
  uintptr_t first = (page - all->base) >> P3L_CARD_SHIFT;
  for (uintptr_t card = first; card < first + page_bytes / P3L_CARD_BYTES; card++)
    if (all->cards[card] != 0) return true;
  return false;
}

void p3l_guard_begin(const void *memory, size_t bytes) {
  pthread_mutex_lock(&lock);
  protect(memory, bytes, PROT_READ | PROT_WRITE);
}

static void protect_unmarked(const void *memory, size_t bytes) {
  uintptr_t from = (uintptr_t)memory & ~(page_bytes - 1), end = (uintptr_t)memory + bytes;
  if (!is_guarded(memory)) return;
  for (uintptr_t page = from; page < end;) {
    uintptr_t to = page;
    while (to < end && !is_marked(to)) to += page_bytes;
    protect((void *)page, to - page, PROT_READ);
    page = to + page_bytes;
  }
}

void p3l_guard_end(const void *memory, size_t bytes) {
  protect_unmarked(memory, bytes);
  pthread_mutex_unlock(&lock);
}

void p3l_guard_open(const void *memory, size_t bytes) {
  pthread_mutex_lock(&lock);
  protect(memory, bytes, PROT_READ | PROT_WRITE);
  pthread_mutex_unlock(&lock);
}

void p3l_guard_close(const void *memory, size_t bytes) {
  pthread_mutex_lock(&lock);
  protect_unmarked(memory, bytes);
  pthread_mutex_unlock(&lock);
}

void p3l_guard_dead(const void *memory, size_t bytes) {
  pthread_mutex_lock(&lock);
  protect(memory, bytes, PROT_NONE);
  pthread_mutex_unlock(&lock);
}

#endif
