/*
 * The debug library's guard (p3l-debug): memory of objects is write-protected until a transaction reports
 * a change of it, and what was deleted is inaccessible. In the release library all of this is empty:
 * it has no instruction of it.
 *
 *   resident:  read only ── p3l_guard_open: a change was reported ──> writable
 *                 ^   ^───────────── p3l_guard_close: commit, abort ─────┘
 *                 │   p3l_guard_begin .. p3l_guard_end: the library itself writes
 *                 └── p3l_guard_dead: deleted, for ever inaccessible
 *
 * Invariants:
 *  1. An object has pages of its own (p3l_arena_stride()): it is copied, never used in place. So what is
 *     protected is one object, and an access that traps is an access to it.
 *  2. A page is writable if and only if one of its cards is marked, or the library writes to it.
 *  3. Between p3l_guard_begin() and p3l_guard_end() the guard's lock is held, the last of all, and
 *     nothing is raised: one thread's end does not take the page from another's write.
 *  4. Where the kernel refuses another area (vm.max_map_count), the megabyte around is left writable,
 *     and standard error says so once: no access traps that should not.
 */
#ifndef P3L_GUARD_H
#define P3L_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p3l_access.h"

#ifdef P3L_DEBUG

enum { P3L_GUARDED = 1 };
/* Once a process, when the range is reserved. `range` stays. */
void p3l_guard_range(const p3l_memory *range);
/* How the memory of a segment begins: objects protected, frames of the pool not. 0, or errno. */
int p3l_guard_segment(uint8_t *memory, size_t bytes, bool objects);
void p3l_guard_begin(const void *memory, size_t bytes);
void p3l_guard_end(const void *memory, size_t bytes);
void p3l_guard_open(const void *memory, size_t bytes);
void p3l_guard_close(const void *memory, size_t bytes);
void p3l_guard_dead(const void *memory, size_t bytes);
/* `bytes` rounded up to the pages that are protected. */
uint64_t p3l_guard_stride(uint64_t bytes);

#else

enum { P3L_GUARDED = 0 };
static inline void p3l_guard_range(const p3l_memory *range) { (void)range; }
static inline int p3l_guard_segment(uint8_t *memory, size_t bytes, bool objects) {
  (void)memory, (void)bytes, (void)objects;
  return 0;
}
static inline void p3l_guard_begin(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline void p3l_guard_end(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline void p3l_guard_open(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline void p3l_guard_close(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline void p3l_guard_dead(const void *memory, size_t bytes) { (void)memory, (void)bytes; }
static inline uint64_t p3l_guard_stride(uint64_t bytes) { return bytes; }

#endif

/* How far behind an object of an arena the next one begins. */
static inline uint64_t p3l_arena_stride(uint64_t bytes) { return p3l_guard_stride(bytes); }

#endif
