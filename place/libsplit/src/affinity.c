/*
 * Applies decisions: narrows the affinity of the thread that begins a section, and restores it.
 *
 *   wide ── narrow: announce ──> announced ── sched_setaffinity ──> narrowed ── go_back, split_affinity_widen ──> wide
 *                                                                      └ the service thread, another process: release.c ──> wide
 *
 * Invariants:
 *   1. A thread that narrows announces it first (split_thread.narrowed) and checks the word again
 *      afterwards; a thread that restores clears the word first and then sets the affinity. In any
 *      order, the wide affinity is set last.
 *   2. entry->original_mask has the thread's former CPUs before its affinity is narrowed.
 *   3. The outermost section that is placed decides where the thread runs; a binding
 *      (split_thread_narrow) holds between sections.
 */
#include "affinity.h"

#include "decided.h"
#include "fresh.h"
#include "release.h"
#include "slice.h"
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* After a refusal the thread is not moved for this long: cpusets do not change every
 * millisecond. */
#define REFUSAL_NS UINT64_C(1000000000)
/* Maximum age of a thread's knowledge that the analyzer is alive. */
#define FRESH_NS UINT64_C(100000000)

/* A direct system call: glibc's function needs a type with its own size. */
static bool set_affinity(const uint64_t *mask, uint32_t words) {
  return syscall(SYS_sched_setaffinity, 0, words * sizeof *mask, mask) == 0;
}

static bool get_affinity(uint64_t mask[SPLIT_MASK_WORDS]) {
  memset(mask, 0, SPLIT_MASK_WORDS * sizeof *mask);
  return syscall(SYS_sched_getaffinity, 0, SPLIT_MASK_WORDS * sizeof *mask, mask) > 0;
}

static uint32_t words_of(const struct split_mapping *mapping) {
  return (mapping->cpu_count + 63) / 64;
}

/* split_fresh() with the clock read ten times per second only. */
static bool fresh_here(struct split_self *self) {
  const struct split_header *header = self->mapping->header;
  uint64_t now = split_cycles();
  if (now < self->fresh_until)
    return split_collects(self->mapping) &&
           atomic_load_explicit(&header->place, memory_order_relaxed) &&
           atomic_load_explicit(&header->placement_on, memory_order_relaxed);
  if (!split_fresh(self->mapping, 0)) return false;
  self->fresh_until = now + (uint64_t)(self->mapping->cycles_per_ns * FRESH_NS);
  return true;
}

static bool narrowed_still(const struct split_affinity *affinity) {
  struct split_thread *entry = atomic_load_explicit(&affinity->entry, memory_order_relaxed);
  return entry && affinity->serial &&
         atomic_load_explicit(&entry->narrowed, memory_order_acquire) == affinity->serial;
}

static bool refuse(struct split_self *self) {
  atomic_fetch_add_explicit(&self->mapping->header->refused, 1, memory_order_relaxed);
  self->affinity.refused_until =
      split_cycles() + (uint64_t)(self->mapping->cycles_per_ns * REFUSAL_NS);
  return false;
}

/* Reads which CPUs the thread may use, and whether its host bound it to them. If not, the thread
 * gets "all CPUs" back: the kernel remembers the mask it was given and would keep the thread on
 * the old CPUs when the cpuset grows. */
static bool look_how_wide(struct split_affinity *affinity) {
  uint64_t now[SPLIT_MASK_WORDS], all[SPLIT_MASK_WORDS], most[SPLIT_MASK_WORDS];
  if (!get_affinity(now)) return false;
  if (memcmp(now, affinity->wide, sizeof now) == 0) return true;
  memset(all, 0xff, sizeof all);
  if (!set_affinity(all, SPLIT_MASK_WORDS) || !get_affinity(most)) return false;
  affinity->free = memcmp(now, most, sizeof now) == 0;
  if (!affinity->free && !set_affinity(now, SPLIT_MASK_WORDS)) return false;
  memcpy(affinity->wide, now, sizeof now);
  return true;
}

/* Records the CPUs that the thread may use in the shared table, before it is narrowed. */
static bool announce(struct split_self *self) {
  struct split_affinity *affinity = &self->affinity;
  struct split_thread *entry = split_thread_entry(self);
  if (!entry) return false;
  split_affinity_widen(self);
  if (!split_service_start(self->mapping) || !look_how_wide(affinity)) return false;
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    atomic_store_explicit(&entry->original_mask[i], affinity->free ? UINT64_MAX : affinity->wide[i],
                          memory_order_relaxed);
  if (++affinity->last_serial == 0) affinity->last_serial = 1;
  affinity->serial = affinity->last_serial;
  atomic_store(&entry->narrowed, affinity->serial);
  return true;
}

/* A thread that a host creates within a section inherits the narrow affinity and would keep it.
 * So the latest narrow masks of this process are remembered: a thread that has one of them at
 * its first section, and did not get it from the library, gets the affinity of the library's
 * first thread. */
static struct {
  _Atomic uint32_t used;
  _Atomic uint64_t wide[SPLIT_MASK_WORDS];
  _Atomic uint64_t narrow[8][SPLIT_MASK_WORDS];
} births;
#define MASKS (sizeof births.narrow / sizeof *births.narrow)

static bool same_mask(const _Atomic uint64_t *remembered, const uint64_t *mask) {
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    if (atomic_load_explicit(&remembered[i], memory_order_relaxed) != mask[i]) return false;
  return true;
}

static bool remembered(const uint64_t *mask) {
  uint32_t used = atomic_load(&births.used);
  for (uint32_t i = 0; i < MASKS && i < used; i++)
    if (same_mask(births.narrow[i], mask)) return true;
  return false;
}

static void remember(const uint64_t *mask) {
  if (remembered(mask)) return;
  uint32_t at = atomic_fetch_add(&births.used, 1) % MASKS;
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    atomic_store_explicit(&births.narrow[at][i], mask[i], memory_order_relaxed);
}

void split_affinity_note_wide(void) {
  uint64_t mask[SPLIT_MASK_WORDS];
  if (!get_affinity(mask)) return;
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    atomic_store_explicit(&births.wide[i], mask[i], memory_order_relaxed);
}

void split_affinity_born(void) {
  uint64_t mask[SPLIT_MASK_WORDS];
  if (atomic_load(&births.used) == 0 || !get_affinity(mask) || same_mask(births.wide, mask) ||
      !remembered(mask)) {
    return;
  }
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    mask[i] = atomic_load_explicit(&births.wide[i], memory_order_relaxed);
  set_affinity(mask, SPLIT_MASK_WORDS);
}

/* Restricts the thread to the CPUs of `wanted` that it may use. */
static bool narrow(struct split_self *self, const uint64_t wanted[SPLIT_MASK_WORDS]) {
  struct split_affinity *affinity = &self->affinity;
  uint64_t cut[SPLIT_MASK_WORDS], any = 0;
  bool already = narrowed_still(affinity);
  if (!already && !announce(self)) return refuse(self);
  affinity->words = words_of(self->mapping);
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++) {
    cut[i] = i < affinity->words ? wanted[i] & affinity->wide[i] : 0;
    any |= cut[i];
  }
  if (already && memcmp(cut, affinity->mask, sizeof cut) == 0) return true;
  if (!any || !set_affinity(cut, affinity->words)) {
    split_affinity_widen(self);
    return refuse(self);
  }
  memcpy(affinity->mask, cut, sizeof cut);
  remember(cut);
  atomic_fetch_add_explicit(&self->mapping->header->moves, 1, memory_order_relaxed);
  if (narrowed_still(affinity)) return true;
  /* The affinity was restored between the announcement and the call. */
  if (affinity->free || !set_affinity(affinity->wide, SPLIT_MASK_WORDS)) {
    memset(cut, 0xff, sizeof cut);
    set_affinity(cut, SPLIT_MASK_WORDS);
  }
  return false;
}

void split_affinity_widen(struct split_self *self) {
  struct split_affinity *affinity = &self->affinity;
  split_self_specialise(self, false);
  affinity->code = affinity->sequence = 0;
  if (!affinity->serial) return;
  affinity->serial = 0;
  struct split_thread *entry = atomic_load_explicit(&affinity->entry, memory_order_relaxed);
  if (!entry) return;
  if (split_entry_release(entry)) {
    atomic_fetch_add_explicit(&self->mapping->header->moves, 1, memory_order_relaxed);
    return;
  }
  /* Another thread restores it first, but may not have finished: the affinity that is read next
   * has to be the wide one. */
  uint64_t original[SPLIT_MASK_WORDS];
  for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
    original[i] = atomic_load_explicit(&entry->original_mask[i], memory_order_relaxed);
  set_affinity(original, SPLIT_MASK_WORDS);
}

/* Restores the affinity that the thread has between sections. */
static void go_back(struct split_self *self) {
  struct split_affinity *affinity = &self->affinity;
  split_self_specialise(self, false);
  affinity->code = affinity->sequence = 0;
  if (affinity->bound && narrowed_still(affinity))
    narrow(self, affinity->bound_mask);
  else
    split_affinity_widen(self);
}

void split_place_section(struct split_self *self, struct split_open *open) {
  struct split_affinity *affinity = &self->affinity;
  const struct split_decision *decision = &self->mapping->decisions[open->code];
  uint32_t actuation = atomic_load_explicit(&decision->actuation, memory_order_relaxed);
  /* The outermost section that is placed decides: sections within it run where it runs. */
  if (self->placed && !(open->flags & SPLIT_OPEN_PLACED)) return;
  bool wanted = (actuation == SPLIT_ACT_PAPER || actuation == SPLIT_ACT_LAZY) && fresh_here(self);
  if (!wanted) {
    if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
    if (self->lazy) go_back(self);
    return;
  }
  if (split_cycles() < affinity->refused_until) return;
  uint32_t sequence = atomic_load_explicit(&decision->sequence, memory_order_acquire);
  struct split_decided decided;
  bool there = self->lazy && affinity->code == open->code && affinity->sequence == sequence &&
               narrowed_still(affinity);
  if (!there) {
    uint64_t any = 0;
    if (!split_decided(open->code, &decided)) return;
    for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++) any |= decided.cpu_mask[i];
    if (!any) { /* anywhere */
      if (self->lazy) go_back(self);
      return;
    }
    if (!narrow(self, decided.cpu_mask)) return;
    affinity->code = open->code;
    affinity->sequence = decided.sequence;
  }
  if (!(open->flags & SPLIT_OPEN_PLACED)) self->placed++;
  open->flags &= ~(uint32_t)SPLIT_OPEN_PAPER;
  open->flags |= SPLIT_OPEN_PLACED | SPLIT_OPEN_MOVED;
  if (actuation == SPLIT_ACT_PAPER) open->flags |= SPLIT_OPEN_PAPER;
  split_self_specialise(self, actuation == SPLIT_ACT_LAZY);
}

void split_unplace_section(struct split_self *self, struct split_open *open) {
  open->flags &= ~(uint32_t)SPLIT_OPEN_PLACED;
  self->placed--;
  if (open->flags & SPLIT_OPEN_PAPER) go_back(self);
}

void split_affinity_forget(struct split_self *self) {
  struct split_affinity *affinity = &self->affinity;
  struct split_thread *entry = atomic_load_explicit(&affinity->entry, memory_order_relaxed);
  split_affinity_widen(self);
  split_slice_forget(self);
  atomic_store(&affinity->entry, NULL);
  affinity->bound = false;
  if (entry) atomic_store(&entry->tid, 0);
}

void split_affinity_child(struct split_self *self) {
  split_slice_child(self);
  struct split_affinity *affinity = &self->affinity;
  struct split_thread *entry = atomic_load_explicit(&affinity->entry, memory_order_relaxed);
  if (entry && affinity->serial) { /* the parent's entry; the narrow affinity is inherited */
    uint64_t original[SPLIT_MASK_WORDS];
    for (uint32_t i = 0; i < SPLIT_MASK_WORDS; i++)
      original[i] = atomic_load_explicit(&entry->original_mask[i], memory_order_relaxed);
    set_affinity(original, SPLIT_MASK_WORDS);
  }
  memset(affinity, 0, sizeof *affinity);
  split_self_specialise(self, false);
}

/* ---- decided.h: for queues and modules ---- */

bool split_thread_narrow(const uint64_t mask[SPLIT_MASK_WORDS]) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_self *self = mapping ? split_self_ready(mapping) : NULL;
  if (!self || !split_fresh(mapping, 0) || split_cycles() < self->affinity.refused_until)
    return false;
  int before = errno;
  struct split_affinity *affinity = &self->affinity;
  memcpy(affinity->bound_mask, mask, sizeof affinity->bound_mask);
  /* A placed section stays where it is, and returns to this binding at its end. */
  affinity->bound = (self->placed && narrowed_still(affinity)) || narrow(self, mask);
  errno = before;
  return affinity->bound;
}

void split_thread_widen(void) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_self *self = split_self_here;
  if (!mapping || !self || self->mapping != mapping || !self->affinity.bound) return;
  int before = errno;
  self->affinity.bound = false;
  if (!self->placed) split_affinity_widen(self);
  errno = before;
}

bool split_thread_is_narrowed(void) {
  struct split_self *self = split_self_here;
  return self && self->mapping == split_mapping_in_use() && narrowed_still(&self->affinity);
}
