/* The reserved range of addresses, and its segments. segment.h has the invariants. */
#include "segment.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guard.h"
#include "small_store.h"
#include "store.h"

/*
 * 64 GB of addresses cost nothing until they are used; a store larger than memory needs addresses
 * only for its resident part.
 */
#define WANTED_BYTES (UINT64_C(64) << 30)
#define LEAST_BYTES (UINT64_C(64) << 20)
/*
 * Memory is made accessible by two segments at a time, so that the kernel can use one huge page for
 * both.
 */
#define OPENED_BYTES (2 * P3L_SEGMENT_BYTES)

p3l_memory p3l_persistent_memory = {.base = UINT64_C(1) << 63};
p3l_segment **p3l_segment_table;

/* Guards the reservation and the table's entries, because each store has its own lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t segment_count;
static uint64_t lowest; /* segments below this index are taken */

/* ---- the reservation ---- */

static uint64_t wanted_bytes(void) {
  uint64_t bytes = WANTED_BYTES;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    while (bytes < 2 * (uint64_t)pages * (uint64_t)page) bytes *= 2;
  /* Where address space is limited (ulimit -v), the program needs part of it. */
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    while (bytes > limit.rlim_cur / 2) bytes /= 2;
  return bytes;
}

static void *reserve(size_t bytes, int protection) {
  void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

/*
 * Possible addresses of the range. Linux loads a program's own memory, wherever it is, with bit 46
 * of its addresses set: below that, the compiler plugin distinguishes the two by one instruction.
 * Random, as the kernel would choose. ThreadSanitizer allows only its own range.
 */
#if defined(__SANITIZE_THREAD__)
#define ANYWHERE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ANYWHERE 1
#endif
#endif
#if defined(__x86_64__) && !defined(ANYWHERE)
#define LOWEST_BASE UINT64_C(0x200000000000)
#define HIGHEST_END UINT64_C(0x400000000000)
#define TRIES 16

static void *reserve_range(uint64_t bytes) {
  for (int i = 0; i < TRIES; i++) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
      random = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t places = (HIGHEST_END - LOWEST_BASE - bytes) / OPENED_BYTES;
    /* A hint: if the range is in use, the kernel finds another place. The last try has no hint. */
    void *hint = i + 1 == TRIES ? NULL : (void *)(LOWEST_BASE + random % places * OPENED_BYTES);
    void *range = mmap(hint, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return NULL;
    if ((uint64_t)range + bytes <= HIGHEST_END) return range;
    munmap(range, bytes);
  }
  return NULL;
}
#else
static void *reserve_range(uint64_t bytes) { return reserve(bytes, PROT_NONE); }
#endif

static bool reserve_all(uint64_t bytes) {
  size_t cards = bytes >> P3L_CARD_SHIFT;
  size_t table = (bytes >> P3L_SEGMENT_SHIFT) * sizeof(*p3l_segment_table);
  void *range = reserve_range(bytes + OPENED_BYTES);
  void *card_memory = reserve(cards, PROT_READ | PROT_WRITE);
  void *table_memory = reserve(table, PROT_READ | PROT_WRITE);
  if (range == NULL || card_memory == NULL || table_memory == NULL) {
    if (range != NULL) munmap(range, bytes + OPENED_BYTES);
    if (card_memory != NULL) munmap(card_memory, cards);
    if (table_memory != NULL) munmap(table_memory, table);
    return false;
  }
  /* A core file then contains resident memory, not 64 GB of nothing. */
  madvise(range, bytes + OPENED_BYTES, MADV_DONTDUMP);
  madvise(card_memory, cards, MADV_DONTDUMP);
  uintptr_t base = ((uintptr_t)range + OPENED_BYTES - 1) & ~(uintptr_t)(OPENED_BYTES - 1);
  p3l_segment_table = table_memory;
  segment_count = (bytes >> P3L_SEGMENT_SHIFT) - 1; /* the last one is a gap before other memory */
  p3l_persistent_memory.cards = card_memory;
  /* In any order (p3l_access.h): a thread that has a store, or an address within, sees all of it. */
  p3l_persistent_memory.base = base;
  p3l_persistent_memory.bytes = bytes;
  return true;
}

p3l_code p3l_memory_reserve(p3l_error *error) {
  pthread_mutex_lock(&lock);
  bool reserved = p3l_persistent_memory.bytes != 0;
  for (uint64_t bytes = wanted_bytes(); !reserved && bytes >= LEAST_BYTES; bytes /= 2)
    if ((reserved = reserve_all(bytes))) p3l_guard_range(&p3l_persistent_memory);
  pthread_mutex_unlock(&lock);
  if (reserved) return P3L_OK;
  return p3l_fail(error, P3L_NO_MEMORY,
                  "no room for persistent objects: the kernel reserves not even %llu MB of "
                  "addresses; raise the limit of virtual memory (ulimit -v)",
                  (unsigned long long)(LEAST_BYTES >> 20));
}

/* ---- segments ---- */

static uint8_t *memory_of(uint64_t index) {
  return (uint8_t *)p3l_persistent_memory.base + index * P3L_SEGMENT_BYTES;
}

/* The lowest run of `count` free segments, or segment_count. `pairs`: it begins with a pair. */
static uint64_t find_run(uint64_t count, bool pairs) {
  uint64_t run = 0;
  while (lowest < segment_count && p3l_segment_table[lowest] != NULL) lowest++;
  for (uint64_t at = lowest; at < segment_count; at++) {
    run = p3l_segment_table[at] == NULL ? run + 1 : 0;
    if (pairs && run == 1 && at % 2 == 1) run = 0;
    if (run == count) return at + 1 - count;
  }
  return segment_count;
}

/*
 * Huge pages: a first touch costs 0.48 us for 4 KB instead of 1.28, and the TLB covers all of it.
 * Not for the first megabytes of a large store, of which little may be used; not for the last
 * frames of a small one, which would leave most of the page empty; and not under a memory limit:
 * the kernel would take 2 MB where the store counts less.
 */
static bool wants_huge_pages(const p3l_store *store, p3l_segment_kind kind) {
  uint64_t pages = store->page_count, had = store->births * P3L_SEGMENT_FRAMES;
  if (store->options.memory_bytes != 0 || (had == 0 && pages < P3L_SEGMENT_FRAMES)) return false;
  bool last = kind == P3L_FRAMES && p3l_adopts_all(store) && pages > had &&
              pages - had < P3L_SEGMENT_FRAMES;
  return !last;
}

/* Makes the pairs of segments that contain [first, first + count) accessible, with a neighbour
 * that is still free. */
static int open_memory(const p3l_store *store, p3l_segment_kind kind, uint64_t first,
                       uint64_t count) {
  if (P3L_GUARDED)
    return p3l_guard_segment(memory_of(first), count * P3L_SEGMENT_BYTES, kind != P3L_FRAMES);
  uint64_t from = first & ~UINT64_C(1), to = (first + count + 1) & ~UINT64_C(1);
  uint8_t *memory = memory_of(from);
  size_t bytes = (to - from) * P3L_SEGMENT_BYTES;
  if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) return errno;
  madvise(memory, bytes, MADV_DODUMP);
  if (wants_huge_pages(store, kind)) madvise(memory, bytes, MADV_HUGEPAGE);
  return 0;
}

/* For unread.c. Whole pairs: no neighbour opens a part of them. */
static int keep_closed(uint64_t first, uint64_t count) {
  return mprotect(memory_of(first), count * P3L_SEGMENT_BYTES, PROT_NONE) == 0 ? 0 : errno;
}

/*
 * Returns the memory to the kernel and makes it inaccessible: a new mapping does both. The other
 * half of a pair is included if it is free: the kernel can use a huge page there again only if the
 * whole old one was unmapped.
 */
static void close_memory(uint64_t first, uint64_t count) {
  uint64_t end = first + count;
  if (first % 2 == 1 && p3l_segment_table[first - 1] == NULL) first--;
  if (end % 2 == 1 && end < segment_count && p3l_segment_table[end] == NULL) end++;
  void *memory = memory_of(first);
  size_t bytes = (end - first) * P3L_SEGMENT_BYTES;
  mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(memory, bytes, MADV_DONTDUMP);
}

static void link_youngest(p3l_store *store, p3l_segment *segment) {
  segment->born = store->births++;
  segment->older = store->youngest;
  if (store->youngest != NULL)
    store->youngest->younger = segment;
  else
    store->oldest = segment;
  store->youngest = segment;
}

static void unlink_segment(p3l_segment *segment) {
  p3l_store *store = segment->store;
  if (segment->older != NULL)
    segment->older->younger = segment->younger;
  else
    store->oldest = segment->younger;
  if (segment->younger != NULL)
    segment->younger->older = segment->older;
  else
    store->youngest = segment->older;
}

static p3l_code take(p3l_store *store, p3l_segment_kind kind, uint32_t segments, bool unread,
                     p3l_segment **taken, p3l_error *error) {
  size_t mapped = sizeof(p3l_segment) + (unread ? segments / 2 : 0);
  if (kind == P3L_ARENA) mapped += P3L_SEGMENT_GRANULES * sizeof(p3l_resident);
  p3l_segment *segment = reserve(mapped, PROT_READ | PROT_WRITE);
  if (segment == NULL)
    return p3l_fail_errno(error, ENOMEM, "%s: reserving memory for objects", store->path);
  segment->store = store;
  segment->kind = kind;
  segment->segments = segments;
  segment->mapped = mapped;
  if (kind == P3L_ARENA) segment->arena.objects = (p3l_resident *)(segment + 1);
  if (unread) segment->large.unread = memset(segment + 1, 1, segments / 2);

  pthread_mutex_lock(&lock);
  uint64_t first = find_run(segments, unread);
  int failed = first == segment_count ? ENOMEM
               : unread               ? keep_closed(first, segments)
                                      : open_memory(store, kind, first, segments);
  if (failed == 0) {
    segment->index = (uint32_t)first;
    segment->memory = memory_of(first);
    for (uint64_t at = first; at < first + segments; at++)
      __atomic_store_n(&p3l_segment_table[at], segment, __ATOMIC_RELEASE);
#ifdef P3L_DEBUG
    lowest = first + segments; /* lower ones are never used again: dangling pointers trap */
#endif
  }
  pthread_mutex_unlock(&lock);
  if (failed != 0) {
    munmap(segment, mapped);
    if (first != segment_count)
      return p3l_fail_errno(error, failed, "%s: memory for objects", store->path);
    return p3l_fail(error, P3L_NO_MEMORY,
                    "%s: all %llu MB of addresses for persistent objects are in use; give "
                    "p3l_options.memory_bytes, so that objects are evicted, or raise the limit of "
                    "virtual memory (ulimit -v) before the first store is opened",
                    store->path, (unsigned long long)(p3l_persistent_memory.bytes >> 20));
  }
  link_youngest(store, segment);
  p3l_segment_grew(segment, sizeof(*segment));
  *taken = segment;
  return P3L_OK;
}

p3l_code p3l_segment_take(p3l_store *store, p3l_segment_kind kind, uint32_t segments,
                          p3l_segment **segment, p3l_error *error) {
  return take(store, kind, segments, false, segment, error);
}

p3l_code p3l_segment_take_unread(p3l_store *store, uint32_t segments, p3l_segment **segment,
                                 p3l_error *error) {
  return take(store, P3L_LARGE, segments + segments % 2, true, segment, error);
}

void p3l_segment_release(p3l_segment *segment) {
  p3l_store *store = segment->store;
  unlink_segment(segment);
  if (store->filling == segment) store->filling = NULL;
  store->statistics.memory_bytes -= segment->held;

  pthread_mutex_lock(&lock);
  for (uint64_t at = segment->index; at < (uint64_t)segment->index + segment->segments; at++)
    __atomic_store_n(&p3l_segment_table[at], NULL, __ATOMIC_RELEASE);
#ifndef P3L_DEBUG
  if (lowest > segment->index) lowest = segment->index;
#endif
  close_memory(segment->index, segment->segments);
  pthread_mutex_unlock(&lock);
  munmap(segment, segment->mapped);
}

void p3l_segment_grew(p3l_segment *segment, uint64_t bytes) {
  segment->held += bytes;
  p3l_memory_grew(segment->store, bytes);
}
