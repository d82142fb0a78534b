/* Sections: begin and end. What every section does is here; what only some need is in sample.c and affinity.c. */
#include "process.h"
#include "record.h"

#include <errno.h>
#include <string.h>

struct split_handle { /* what lies in split_section.private_ */
  uint64_t magic;
  struct split_self *self;
  uint64_t serial;
  uint32_t slot;
};
#define HANDLE_MAGIC UINT64_C(0x6e6f697463657331)
_Static_assert(sizeof(struct split_handle) <= sizeof(split_section), "a handle has room");

static uint64_t app_part(const struct split_mapping *mapping) {
  return (uint64_t)mapping->app_id << 32;
}

static void count_one(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Takes an open section out of the order; nothing is counted. */
static inline void remove_open(struct split_self *self, uint32_t position) {
  uint32_t slot = self->order[position];
  struct split_open *open = &self->open[slot];
  uint32_t flags = open->flags;
  atomic_store_explicit(&open->serial, 0, memory_order_relaxed);
  self->free_slots |= 1u << slot;
  self->stacked -= !(flags & SPLIT_OPEN_HANDLE);
  self->probed -= (flags & SPLIT_OPEN_PROBED) != 0;
  if (--self->count == 0) {
    split_preempt_disarm(&self->preempt);
  } else {
    for (uint32_t i = position; i < self->count; i++) self->order[i] = self->order[i + 1];
  }
}

static void drop_open(struct split_self *self, uint32_t position) {
  struct split_open *open = &self->open[self->order[position]];
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  remove_open(self, position);
}

static bool abandoned(const struct split_open *open) {
  return (atomic_load_explicit(&open->serial, memory_order_relaxed) & SPLIT_ABANDONED) != 0;
}

/* Sections that other threads ended; they were counted there. */
static void drop_abandoned(struct split_self *self) {
  for (uint32_t i = self->count; i-- > 0;)
    if (abandoned(&self->open[self->order[i]])) drop_open(self, i);
}

/* All places are taken: the oldest handle was forgotten by its host. */
static void drop_oldest_handle(struct split_self *self) {
  for (uint32_t i = 0; i < self->count; i++) {
    if (!(self->open[self->order[i]].flags & SPLIT_OPEN_HANDLE)) continue;
    count_one(&self->mapping->header->dropped);
    drop_open(self, i);
    return;
  }
}

/* Whether sections of this kind need more than a time stamp. */
static inline bool plain(const struct split_self *self, const struct split_decision *decision) {
  uint32_t special = atomic_load_explicit(&decision->actuation, memory_order_relaxed) |
                     atomic_load_explicit(&decision->wants_probes, memory_order_relaxed) |
                     atomic_load_explicit(&decision->uses_cpu_clock, memory_order_relaxed);
  return special == 0 && !self->lazy && !self->pmu && self->preempt.area;
}

__attribute__((always_inline)) static inline struct split_open *open_section(
    struct split_self *self, uint32_t code, uint32_t related, uint32_t flags) {
  struct split_mapping *mapping = self->mapping;
  if (self->count) {
    split_preempt_look(&self->preempt);
    if (abandoned(&self->open[self->order[self->count - 1]])) drop_abandoned(self);
    if (self->free_slots == 0) drop_abandoned(self);
    if (self->free_slots == 0) drop_oldest_handle(self);
  }
  uint32_t slot = (uint32_t)__builtin_ctz(self->free_slots);
  self->free_slots &= self->free_slots - 1;
  self->order[self->count++] = slot;
  struct split_open *open = &self->open[slot];
  open->code = code;
  open->flags = flags;
  open->excluded = 0;
  open->nested = 0;
  open->related_app = related ? mapping->related_app_id : 0;
  open->related_code = related;
  atomic_store_explicit(&open->serial, ++self->last_serial, memory_order_relaxed);
  if (code == SPLIT_CODE_OTHER) count_one(&mapping->header->without_room);
  if (!plain(self, &mapping->decisions[code])) {
    int before = errno;
    split_place_section(self, open);
    split_sample_begin(self, open);
    errno = before;
  }
  split_preempt_arm(&self->preempt);
  open->interruptions = self->preempt.interruptions;
  open->unknown = self->preempt.unknown;
  uint32_t cpu = split_preempt_cpu(&self->preempt);
  open->cpu = cpu;
  open->previous = cpu < mapping->cpu_count
                       ? atomic_load_explicit(&mapping->last[cpu].who, memory_order_relaxed)
                       : 0;
  open->started = split_cycles();
  return open;
}

static uint32_t after_of(const struct split_mapping *mapping, uint64_t previous, uint32_t code) {
  if (previous == 0) return SPLIT_AFTERS;
  uint32_t class = (uint32_t)(previous >> 24) & 0xff;
  if ((previous & ~(UINT64_C(0xff) << 24)) == (app_part(mapping) | code)) return SPLIT_AFTER_SAME;
  return class < SPLIT_CLASSES ? class : SPLIT_AFTERS;
}

static uint32_t sixteenths(uint64_t cycles) {
  return cycles / 16 > UINT32_MAX ? UINT32_MAX : (uint32_t)(cycles / 16);
}

static void write_trace(struct split_mapping *mapping, uint32_t cpu, const struct split_open *open,
                        const struct split_sample *sample, uint64_t now, bool nested) {
  struct split_cpu *line = &mapping->cpus[cpu];
  uint64_t index = atomic_fetch_add_explicit(&line->traced, 1, memory_order_relaxed);
  struct split_trace *entry =
      &mapping->traces[(uint64_t)cpu * mapping->trace_count + index % mapping->trace_count];
  const memory_order relaxed = memory_order_relaxed;
  atomic_store_explicit(&entry->ended_tsc, 0, relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&entry->elapsed_cycles_16, sixteenths(sample->elapsed), relaxed);
  atomic_store_explicit(&entry->cycles_16, sample->exact ? sixteenths(sample->cycles) : 0, relaxed);
  atomic_store_explicit(&entry->code, open->code, relaxed);
  atomic_store_explicit(&entry->previous_code, (uint32_t)open->previous & 0xffffff, relaxed);
  atomic_store_explicit(&entry->previous_app, (uint32_t)(open->previous >> 32), relaxed);
  atomic_store_explicit(&entry->displaced,
                        sample->probed ? (uint16_t)(sample->displaced * 1000 + 0.5) : UINT16_MAX,
                        relaxed);
  uint32_t flags = (sample->preempted ? 1u : 0) | (sample->migrated ? 2u : 0) |
                   (open->flags & SPLIT_OPEN_MOVED ? 4u : 0) | (nested ? 8u : 0);
  atomic_store_explicit(&entry->flags, (uint16_t)flags, relaxed);
  atomic_store_explicit(&entry->ended_tsc, now, memory_order_release);
}

/* Into the statistics of the CPU on which it ended. */
static inline void write_record(struct split_self *self, uint32_t cpu, uint32_t code,
                                const struct split_sample *sample) {
  struct split_mapping *mapping = self->mapping;
  struct split_record *record = split_record_of(mapping, cpu, code);
  if (__builtin_expect(!split_record_lock(record, self->tid), 0)) {
    if (!split_record_mend(record) || !split_record_lock(record, self->tid)) {
      count_one(&mapping->header->contended);
      return;
    }
  }
  struct split_average average;
  uint64_t bits = atomic_load_explicit(&mapping->header->weight_bits, memory_order_relaxed);
  memcpy(&average.weight, &bits, sizeof bits);
  average.threshold = atomic_load_explicit(&mapping->header->threshold, memory_order_relaxed);
  split_record_add(record, sample, &average);
  split_record_unlock(record);
}

/* The section at `position` is over since `now`. */
__attribute__((always_inline)) static inline void end_section(struct split_self *self,
                                                              uint32_t position, uint64_t now) {
  struct split_mapping *mapping = self->mapping;
  struct split_open *open = &self->open[self->order[position]];
  split_preempt_look(&self->preempt);
  uint32_t cpu = split_preempt_cpu(&self->preempt);
  bool known = self->preempt.area && self->preempt.unknown == open->unknown;
  uint64_t elapsed = now - open->started - open->excluded;
  struct split_sample sample = {
      .elapsed = (int64_t)elapsed < 0 ? 0 : elapsed,
      .nested = open->nested,
      .preempted = self->preempt.interruptions != open->interruptions,
      .migrated = cpu != open->cpu,
  };
  sample.cycles = sample.elapsed;
  sample.exact = known && !sample.preempted && !sample.migrated;
  if (__builtin_expect(open->flags & SPLIT_OPEN_SPECIAL, 0)) {
    int before = errno;
    struct split_sample special = sample; /* a copy, so that the plain one stays in registers */
    split_sample_end(self, open, &special);
    sample = special;
    errno = before;
  }
  sample.after = sample.migrated ? SPLIT_AFTERS : after_of(mapping, open->previous, open->code);
  bool nested = position > 0;
  if (nested) self->open[self->order[position - 1]].nested += sample.elapsed;
  if (cpu < mapping->cpu_count &&
      atomic_load_explicit(&mapping->header->collect, memory_order_relaxed)) {
    write_record(self, cpu, open->code, &sample);
    struct split_last *last = &mapping->last[cpu];
    uint64_t class =
        atomic_load_explicit(&mapping->decisions[open->code].class_, memory_order_relaxed);
    atomic_store_explicit(&last->who, app_part(mapping) | class << 24 | open->code,
                          memory_order_relaxed);
    atomic_store_explicit(&last->ended_tsc, now, memory_order_relaxed);
    struct split_cpu *line = &mapping->cpus[cpu];
    /* A thread that is preempted between the two loses some: it is no statistic, only a measure of how busy we are. */
    uint64_t sections = atomic_load_explicit(&line->sections, memory_order_relaxed) + 1;
    atomic_store_explicit(&line->sections, sections, memory_order_relaxed);
    uint32_t every = atomic_load_explicit(&mapping->header->trace_every, memory_order_relaxed);
    if (every && sections % every == 0) write_trace(mapping, cpu, open, &sample, now, nested);
    if (open->related_code)
      split_kind_related(mapping, open->code, open->related_app, open->related_code);
  }
  if (open->flags & SPLIT_OPEN_PLACED) {
    int before = errno;
    split_unplace_section(self, open);
    errno = before;
  }
  remove_open(self, position);
  if (self->count) split_preempt_arm(&self->preempt);
}

static bool collecting(const struct split_mapping *mapping) {
  return atomic_load_explicit(&mapping->header->collect, memory_order_relaxed) != 0;
}

split_code_id split_start(split_code_id related, const void *key) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (__builtin_expect(!mapping, 0)) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  if (__builtin_expect(self->unopened != 0 || self->stacked == SPLIT_DEPTH, 0)) {
    self->unopened++;
    return SPLIT_CODE_NONE;
  }
  if (__builtin_expect(!collecting(mapping), 0)) {
    if (self->stacked) self->unopened++; /* else split_end finds nothing open anyway */
    return SPLIT_CODE_NONE;
  }
  size_t length = 0;
  if (key)
    length =
        mapping->key_type == SPLIT_KEY_NUMBER ? sizeof(uint64_t) : strnlen(key, SPLIT_KEY_LENGTH);
  uint32_t code = split_kind_of_key(mapping, key, length);
  self->stacked++;
  open_section(self, code, related, 0);
  return code;
}

void split_end(void) {
  uint64_t now = split_cycles();
  struct split_self *self = split_self_here;
  if (!self || self->mapping != split_mapping_in_use()) return;
  if (self->unopened) {
    self->unopened--;
    return;
  }
  for (uint32_t i = self->count; i-- > 0;) {
    if (self->open[self->order[i]].flags & SPLIT_OPEN_HANDLE) continue;
    end_section(self, i, now);
    return;
  }
}

split_code_id split_begin(split_section *section, split_code_id related, const void *key,
                          size_t length) {
  struct split_handle *handle = (struct split_handle *)section->private_;
  handle->magic = 0;
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || !collecting(mapping)) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  uint32_t code = split_kind_of_key(mapping, key, length);
  struct split_open *open = open_section(self, code, related, SPLIT_OPEN_HANDLE);
  handle->self = self;
  handle->serial = self->last_serial;
  handle->slot = (uint32_t)(open - self->open);
  handle->magic = HANDLE_MAGIC;
  return code;
}

/* The handle's open section, if it is this thread's and still open: its position; else -1. */
static int position_of(const struct split_handle *handle) {
  struct split_self *self = split_self_here;
  if (handle->magic != HANDLE_MAGIC || handle->self != self || !self ||
      self->mapping != split_mapping_in_use() || handle->slot >= SPLIT_OPEN ||
      atomic_load_explicit(&self->open[handle->slot].serial, memory_order_relaxed) !=
          handle->serial) {
    return -1;
  }
  for (uint32_t i = self->count; i-- > 0;)
    if (self->order[i] == handle->slot) return (int)i;
  return -1;
}

/* A section that began on another thread: that one takes it away when it next comes by; its affinity is given back now. */
static void abandon(const struct split_handle *handle) {
  struct split_self *owner = handle->self;
  if (handle->magic != HANDLE_MAGIC || owner == split_self_here || handle->slot >= SPLIT_OPEN)
    return;
  uint64_t serial = handle->serial;
  /* States of threads are never freed, and serials never used again: another section cannot be hit. */
  if (!atomic_compare_exchange_strong(&owner->open[handle->slot].serial, &serial,
                                      serial | SPLIT_ABANDONED)) {
    return;
  }
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping) return;
  count_one(&mapping->header->dropped);
  struct split_thread *entry = atomic_load(&owner->affinity.entry);
  if (entry) {
    int before = errno;
    split_entry_release(entry);
    errno = before;
  }
}

void split_finish(split_section *section) {
  uint64_t now = split_cycles();
  struct split_handle *handle = (struct split_handle *)section->private_;
  int position = position_of(handle);
  if (position >= 0)
    end_section(split_self_here, (uint32_t)position, now);
  else
    abandon(handle);
  handle->magic = 0;
}

void split_cancel(split_section *section) {
  struct split_handle *handle = (struct split_handle *)section->private_;
  int position = position_of(handle);
  if (position >= 0) {
    int before = errno;
    drop_open(split_self_here, (uint32_t)position);
    errno = before;
  } else {
    abandon(handle);
  }
  handle->magic = 0;
}

void split_pause(split_section *section) {
  int position = position_of((struct split_handle *)section->private_);
  if (position < 0) return;
  struct split_self *self = split_self_here;
  int before = errno;
  struct split_open *open = &self->open[self->order[position]];
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  if (self->lazy) split_affinity_widen(self);
  errno = before;
}

/* note.c */
struct split_open *split_open_of(const split_section *section);
struct split_open *split_open_of(const split_section *section) {
  struct split_self *self = split_self_here;
  if (section) {
    int position = position_of((const struct split_handle *)section->private_);
    return position < 0 ? NULL : &self->open[self->order[position]];
  }
  if (!self || self->count == 0 || self->unopened || self->mapping != split_mapping_in_use())
    return NULL;
  struct split_open *open = &self->open[self->order[self->count - 1]];
  return abandoned(open) ? NULL : open;
}
