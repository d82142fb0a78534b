/*
 * Threads: their state is created at their first section and handed on when they end. process.h has
 * the invariants.
 */
#include "thread.h"

#include "affinity.h"
#include "pmu.h"
#include "slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All states ever created. They are reused but never freed: a handle may still refer to one. */
static struct {
  pthread_mutex_t lock;
  struct split_self *all;
  pthread_key_t key;
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Drops all open sections. */
static void forget_sections(struct split_self *self) {
  self->innermost = self->unused = NULL;
  for (uint32_t i = SPLIT_OPEN; i-- > 0;) {
    atomic_store_explicit(&self->open[i].serial, 0, memory_order_relaxed);
    self->open[i].outer = self->unused;
    self->unused = &self->open[i];
  }
  self->depth = self->placed = self->probed = 0;
  self->here.cpu = SPLIT_NOWHERE;
  split_preempt_disarm(&self->preempt);
}

static void thread_ends(void *argument) {
  struct split_self *self = argument;
  int before = errno;
  if (self->mapping) {
    for (const struct split_open *open = self->innermost; open; open = open->outer)
      atomic_fetch_add_explicit(&self->mapping->header->dropped, 1, memory_order_relaxed);
    forget_sections(self);
    split_affinity_forget(self);
  }
  split_pmu_close(self->pmu);
  self->pmu = NULL;
  split_self_here = NULL;
  pthread_mutex_lock(&threads.lock);
  atomic_store(&self->living, false);
  pthread_mutex_unlock(&threads.lock);
  errno = before;
}

static struct split_self *take_state(void) {
  struct split_self *self;
  pthread_mutex_lock(&threads.lock);
  for (self = threads.all; self && atomic_load(&self->living); self = self->next) continue;
  if (!self && (self = aligned_alloc(alignof(struct split_self), sizeof *self)) != NULL) {
    memset(self, 0, sizeof *self);
    self->next = threads.all;
    threads.all = self;
  }
  if (self) atomic_store(&self->living, true);
  pthread_mutex_unlock(&threads.lock);
  return self;
}

struct split_self *split_self_for(struct split_mapping *mapping) {
  int before = errno;
  struct split_self *self = split_self_here;
  if (!self) {
    self = take_state();
    if (!self) return NULL;
    self->mapping = NULL;
    self->tid = (uint32_t)gettid();
    self->random = split_cycles() ^ (uint64_t)self->tid << 32 ^ (uintptr_t)self;
    split_self_here = self;
    split_affinity_born();
    split_slice_born();
    pthread_setspecific(threads.key, self);
  }
  if (self->mapping != mapping) {
    if (self->mapping) { /* the library was ended and started again */
      forget_sections(self);
      split_affinity_forget(self);
    }
    self->mapping = mapping;
    self->fresh_until = 0;
    memset(self->texts, 0, sizeof self->texts); /* codes have changed */
    if (split_process.rseq_works)
      split_preempt_open(&self->preempt);
    else
      self->preempt.area = NULL;
    forget_sections(self);
    memset(&self->affinity, 0, sizeof self->affinity);
    memset(&self->slice, 0, sizeof self->slice);
    if (split_process.pmu_works && !self->pmu) self->pmu = split_pmu_open();
    split_self_specialise(self, false);
  }
  errno = before;
  return self;
}

void split_threads_each(void (*visit)(struct split_self *)) {
  pthread_mutex_lock(&threads.lock);
  for (struct split_self *self = threads.all; self; self = self->next)
    if (atomic_load(&self->living)) visit(self);
  pthread_mutex_unlock(&threads.lock);
}

void split_threads_hold(void) { pthread_mutex_lock(&threads.lock); }
void split_threads_let_go(void) { pthread_mutex_unlock(&threads.lock); }

void split_threads_child(void) {
  for (struct split_self *self = threads.all; self; self = self->next) {
    split_pmu_forget(self->pmu);
    self->pmu = NULL;
    if (self == split_self_here) {
      self->tid = (uint32_t)gettid();
      split_affinity_child(self);
      forget_sections(self);
      self->mapping = NULL; /* must be made ready again, including counters */
    } else {
      self->preempt.area = NULL; /* belongs to a thread that does not exist here */
      forget_sections(self);
      memset(&self->affinity, 0, sizeof self->affinity);
      memset(&self->slice, 0, sizeof self->slice);
      self->mapping = NULL;
      atomic_store(&self->living, false);
    }
  }
}

bool split_threads_open(void) {
  static bool open;
  if (!open) open = pthread_key_create(&threads.key, thread_ends) == 0;
  return open;
}
