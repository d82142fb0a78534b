/*
 * Time slices: a thread that begins a section gets the slice of its kind (sched_setattr, Linux 6.12
 * on), and long kinds run in the background (SCHED_IDLE) if background.c allows it.
 *
 *   own ── change: announce ──> announced ── sched_setattr ──> changed ── a kind without a slice begins: give_back ──> own
 *                                                   │  ^          │ the service thread, another process: release.c ──> own
 *                                                   └──┘ a kind with another slice begins, one in the background ends: one call
 *
 * A slice stays after its section: the kernel uses it when the thread wakes up for its next
 * request, which is before that section begins. It determines how soon a thread that wakes up may
 * run (its deadline is one slice away), and how long it may continue while others wait; the
 * thread's share of the processor does not depend on it. The background ends with its section: the
 * thread is then treated as one of a short kind, since its next request may be one.
 *
 * Invariants:
 *   1. A thread that changes a slice announces it first (split_thread.sliced) and checks the word
 *      again afterwards; a thread that restores clears the word first. In any order, the thread's
 *      own slice is set last.
 *   2. entry->original_slice_ns and original_policy have the thread's former values before they are
 *      changed.
 *   3. sched_setattr sets policy and nice, too: they are written with the values read at most
 *      REFRESH_NS ago.
 *   4. The outermost section decides. Sections whose key is set later leave the slice unchanged
 *      until then.
 */
#include "slice.h"

#include "attributes.h"
#include "background.h"
#include "fresh.h"
#include "release.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* After a refusal the thread is not changed for this long. */
#define REFUSAL_NS UINT64_C(1000000000)
/* How long a thread may use its last check of the analyzer's life and of its own nice value. */
#define REFRESH_NS UINT64_C(100000000)

/* A thread that a host creates within a section inherits that slice. So the slices set in this
 * process are remembered: a thread that has one of them at its first section, and did not get it
 * here, gets the first thread's slice. */
static struct {
  _Atomic uint64_t first_ns;
  _Atomic uint32_t first_policy;
  _Atomic bool any, yielded; /* a slice was set; a thread was moved to the background */
  _Atomic uint32_t given[8]; /* microseconds; 0: free */
} births;
#define GIVEN (sizeof births.given / sizeof *births.given)

bool split_slice_note_first(void) {
  struct split_attributes attributes;
  int before = errno;
  bool known = split_attributes_of(0, &attributes);
  errno = before;
  if (!known) return false;
  atomic_store(&births.first_ns, attributes.runtime);
  atomic_store(&births.first_policy, attributes.policy);
  return split_attributes_fair(&attributes) || attributes.policy == SCHED_FIFO ||
         attributes.policy == SCHED_RR;
}

static void remember(uint32_t us) {
  static _Atomic uint32_t next;
  atomic_store_explicit(&births.any, true, memory_order_relaxed);
  for (uint32_t i = 0; i < GIVEN; i++)
    if (atomic_load_explicit(&births.given[i], memory_order_relaxed) == us) return;
  atomic_store(&births.given[atomic_fetch_add(&next, 1) % GIVEN], us);
}

static bool was_given(uint64_t ns) {
  for (uint32_t i = 0; i < GIVEN; i++)
    if (ns != 0 && (uint64_t)atomic_load(&births.given[i]) * 1000 == ns) return true;
  return false;
}

void split_slice_born(void) {
  struct split_attributes attributes;
  const bool yielded = atomic_load(&births.yielded);
  if ((!atomic_load(&births.any) && !yielded) || !split_attributes_of(0, &attributes) ||
      !split_attributes_fair(&attributes)) {
    return;
  }
  if (!was_given(attributes.runtime) && !(yielded && attributes.policy == SCHED_IDLE)) return;
  const uint64_t first_ns = atomic_load(&births.first_ns);
  const uint32_t first_policy = atomic_load(&births.first_policy);
  if (split_slice_restore(0, 0, first_policy) && split_attributes_of(0, &attributes) &&
      attributes.runtime != first_ns)
    split_slice_restore(0, first_ns, first_policy);
}

static bool refuse(struct split_self *self, uint32_t without) {
  struct split_header *header = self->mapping->header;
  atomic_fetch_add_explicit(&header->refused, 1, memory_order_relaxed);
  if (without) atomic_fetch_or_explicit(&header->without, without, memory_order_relaxed);
  self->slice.refused_until =
      split_cycles() + (uint64_t)(self->mapping->cycles_per_ns * REFUSAL_NS);
  return false;
}

static bool still(const struct split_self *self) {
  const struct split_thread *entry =
      atomic_load_explicit(&self->affinity.entry, memory_order_relaxed);
  return entry && self->slice.serial &&
         atomic_load_explicit(&entry->sliced, memory_order_acquire) == self->slice.serial;
}

/* Reads the other values that sched_setattr sets, and whether the slice in force is the one set
 * by this library: an administrator's renice, or a late release, is detected here. */
static bool refresh(struct split_self *self) {
  struct split_slice *slice = &self->slice;
  struct split_attributes now;
  if (!split_attributes_of(0, &now) || !split_attributes_fair(&now)) return false;
  if (!slice->background || now.policy != SCHED_IDLE) {
    slice->policy = now.policy;
    slice->background = false;
  }
  slice->nice = now.nice;
  slice->flags = now.flags;
  struct split_thread *entry = atomic_load_explicit(&self->affinity.entry, memory_order_relaxed);
  if (entry) atomic_store_explicit(&entry->original_policy, slice->policy, memory_order_relaxed);
  if (slice->us && now.runtime != (uint64_t)slice->us * 1000) slice->us = 0;
  return true;
}

/* split_fresh_for_slices with the clock read only ten times a second. */
static bool fresh_here(struct split_self *self) {
  struct split_slice *slice = &self->slice;
  const struct split_header *header = self->mapping->header;
  uint64_t now = split_cycles();
  if (now < slice->fresh_until)
    return split_collects(self->mapping) &&
           atomic_load_explicit(&header->place, memory_order_relaxed) &&
           atomic_load_explicit(&header->placement_on, memory_order_relaxed);
  if (!split_fresh_for_slices(self->mapping)) return false;
  slice->fresh_until = now + (uint64_t)(self->mapping->cycles_per_ns * REFRESH_NS);
  if (slice->learnt && !refresh(self)) slice->learnt = false;
  return true;
}

static bool apply(struct split_self *self, uint64_t ns, bool background) {
  const struct split_slice *slice = &self->slice;
  struct split_attributes wanted = {.policy = background ? SCHED_IDLE : slice->policy,
                                    .flags = slice->flags,
                                    .nice = slice->nice,
                                    .runtime = ns};
  return split_attributes_set(0, &wanted);
}

/* Views show what the latest thread found: a server's threads have the same rights. */
static void learn_background(struct split_self *self, const struct split_attributes *own) {
  const uint32_t all = SPLIT_WITHOUT_BACKGROUND_RIGHTS | SPLIT_WITHOUT_BACKGROUND_EFFECT;
  const uint32_t lacks = split_background_lacks(own);
  self->slice.may_yield = lacks == 0;
  atomic_fetch_and_explicit(&self->mapping->header->without, ~(all & ~lacks), memory_order_relaxed);
  atomic_fetch_or_explicit(&self->mapping->header->without, lacks, memory_order_relaxed);
}

/* Reads the thread's own slice: a value of its own, or the kernel's default, which may change
 * and is written as 0. */
static bool learn(struct split_self *self) {
  struct split_slice *slice = &self->slice;
  struct split_attributes before, after;
  if (!split_attributes_of(0, &before) || !split_attributes_fair(&before)) return refuse(self, 0);
  slice->policy = before.policy;
  slice->nice = before.nice;
  slice->flags = before.flags;
  slice->original_ns = before.runtime;
  if (!apply(self, 0, false) || !split_attributes_of(0, &after))
    return refuse(self, errno == EPERM ? SPLIT_WITHOUT_SLICE_RIGHTS : 0);
  if (after.runtime == slice->original_ns) slice->original_ns = 0;
  learn_background(self, &before);
  slice->learnt = true;
  return true;
}

static bool announce(struct split_self *self) {
  struct split_slice *slice = &self->slice;
  struct split_thread *entry = split_thread_entry(self);
  if (!entry || !split_service_start(self->mapping)) return refuse(self, 0);
  if (!slice->learnt && !learn(self)) return false;
  atomic_store_explicit(&entry->original_slice_ns, slice->original_ns, memory_order_relaxed);
  atomic_store_explicit(&entry->original_policy, slice->policy, memory_order_relaxed);
  if (++slice->last_serial == 0) slice->last_serial = 1;
  slice->serial = slice->last_serial;
  atomic_store(&entry->sliced, slice->serial);
  return true;
}

static void give_back(struct split_self *self) {
  struct split_slice *slice = &self->slice;
  struct split_thread *entry = atomic_load_explicit(&self->affinity.entry, memory_order_relaxed);
  if (!slice->serial || !entry) return;
  slice->serial = 0;
  slice->us = 0;
  slice->background = false;
  split_self_specialise(self, self->lazy);
  uint32_t sliced = atomic_load(&entry->sliced);
  if (sliced) atomic_compare_exchange_strong(&entry->sliced, &sliced, 0);
  /* Restore even if another thread began to: it may not have finished. */
  if (slice->learnt ? apply(self, slice->original_ns, false)
                    : split_slice_restore(0, slice->original_ns, slice->policy))
    atomic_fetch_add_explicit(&self->mapping->header->slices, 1, memory_order_relaxed);
}

static bool change(struct split_self *self, uint32_t us, bool background) {
  struct split_slice *slice = &self->slice;
  if (split_cycles() < slice->refused_until) return false;
  if (slice->serial && !slice->learnt) give_back(self); /* no longer the library's: real-time */
  if (!still(self) && !announce(self)) return false;
  background = background && slice->may_yield;
  if (!apply(self, (uint64_t)us * 1000, background)) {
    refuse(self, errno == EPERM ? SPLIT_WITHOUT_SLICE_RIGHTS : 0);
    give_back(self);
    return false;
  }
  slice->background = background;
  if (!background) slice->us = us; /* the kernel keeps its slice in the background */
  if (background)
    atomic_store_explicit(&births.yielded, true, memory_order_relaxed);
  else
    remember(us);
  split_self_specialise(self, self->lazy);
  atomic_fetch_add_explicit(&self->mapping->header->slices, 1, memory_order_relaxed);
  if (still(self)) return true;
  give_back(self); /* it was restored between the announcement and the call */
  return false;
}

/* The decision's slice for a kind, within the kernel's limits. */
static uint32_t slice_of(const struct split_mapping *mapping, uint32_t code) {
  uint32_t us = atomic_load_explicit(&mapping->decisions[code].slice_us, memory_order_relaxed);
  if (us == 0) return 0;
  if (us < SPLIT_SLICE_MIN_US) return SPLIT_SLICE_MIN_US;
  return us < SPLIT_SLICE_MAX_US ? us : SPLIT_SLICE_MAX_US;
}

/* True if the kind runs in the background. */
static bool yields(const struct split_mapping *mapping, uint32_t code) {
  return atomic_load_explicit(&mapping->decisions[code].background, memory_order_relaxed) != 0;
}

/* True if the kind belongs to a plan that orders requests, with a slice or without. */
static bool is_timed(const struct split_mapping *mapping, uint32_t code) {
  return atomic_load_explicit(&mapping->decisions[code].actuation, memory_order_relaxed) ==
         SPLIT_ACT_TIME;
}

/* The analyzer reads in the table how long threads of each kind waited for a processor, with and
 * without slices. */
static void note_code(struct split_self *self, uint32_t code) {
  struct split_thread *entry = split_thread_entry(self);
  self->slice.code = code;
  if (entry) atomic_store_explicit(&entry->code, code, memory_order_relaxed);
}

bool split_slice_for(struct split_self *self, uint32_t code) {
  struct split_slice *slice = &self->slice;
  const uint32_t wanted = slice_of(self->mapping, code);
  if (wanted == 0) {
    if (slice->serial) give_back(self);
    if (is_timed(self->mapping, code) && code != slice->code) note_code(self, code);
    return false;
  }
  if (code != slice->code) note_code(self, code);
  if (!fresh_here(self)) {
    if (slice->serial) give_back(self);
    return false;
  }
  const bool background = yields(self->mapping, code) && (!slice->learnt || slice->may_yield);
  const bool same = background == slice->background && (background || wanted == slice->us);
  if (same && still(self)) return true;
  return change(self, wanted, background);
}

void split_slice_section(struct split_self *self, struct split_open *open) {
  if (open->outer || open->code == SPLIT_CODE_NONE) return;
  if (!split_slice_for(self, open->code) || !yields(self->mapping, open->code)) return;
  open->flags |= SPLIT_OPEN_YIELDS;
}

void split_slice_section_ends(struct split_self *self, struct split_open *open) {
  open->flags &= ~(uint32_t)SPLIT_OPEN_YIELDS;
  if (self->slice.serial && still(self)) change(self, SPLIT_SLICE_MIN_US, false);
}

void split_slice_forget(struct split_self *self) {
  /* A slice that was restored at the library's end may since have been set by its host. */
  if (still(self)) give_back(self);
  memset(&self->slice, 0, sizeof self->slice);
}

/* The entry is the parent's; the child has the slice, too. */
void split_slice_child(struct split_self *self) {
  if (self->slice.serial) split_slice_restore(0, self->slice.original_ns, self->slice.policy);
  memset(&self->slice, 0, sizeof self->slice);
}
