/* Sections: begin and end. What every section does is here; what only some need is in sample.c and affinity.c. */
#include "decided.h"
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

/* Has the compiler keep an address in a register rather than make it anew of its index at each use. */
#define SPLIT_KEEP(address) __asm__("" : "+r"(address))

/* split_last.who, without a class. */
static inline uint64_t who_is(const struct split_mapping *mapping, uint32_t code) {
  return (uint64_t)mapping->app_id << 32 | code;
}

static void count_one(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Forgets an open section that is out of the order already; nothing is counted. */
static inline void close_open(struct split_self *self, uint32_t slot, uint32_t flags) {
  if (flags & SPLIT_OPEN_HANDLE)
    atomic_store_explicit(&self->open[slot].serial, 0, memory_order_relaxed);
  else
    self->stacked--;
  self->free_slots |= 1u << slot;
  if (self->count == 0)
    split_preempt_disarm(&self->preempt);
  else
    split_preempt_arm(&self->preempt);
}

/* Takes an open section out of the order. */
static void remove_open(struct split_self *self, uint32_t position) {
  const uint32_t slot = self->order[position], flags = self->open[slot].flags;
  self->probed -= (flags & SPLIT_OPEN_PROBED) != 0;
  self->count--;
  for (uint32_t i = position; i < self->count; i++) self->order[i] = self->order[i + 1];
  close_open(self, slot, flags);
}

static void drop_open(struct split_self *self, uint32_t position) {
  split_preempt_look(&self->preempt); /* those that stay open must hear of it */
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
  /* Three bytes and the class, in one word. */
  const uint32_t special =
      atomic_load_explicit(&decision->wishes, memory_order_relaxed) & SPLIT_WISHES_SPECIAL;
  return special == 0 && !self->lazy && !self->pmu && self->preempt.area;
}

/* May the next section be opened without making room for it? */
static inline bool has_room(const struct split_self *self) {
  return self->count == 0 ||
         (self->free_slots != 0 && !abandoned(&self->open[self->order[self->count - 1]]));
}

static void make_room(struct split_self *self) {
  if (has_room(self)) return;
  drop_abandoned(self);
  if (self->free_slots == 0) drop_oldest_handle(self);
}

/* An open section that has not begun yet. There is room. */
static inline struct split_open *take_open(struct split_self *self, uint32_t code, uint32_t related,
                                           uint32_t flags) {
  if (self->count) split_preempt_look(&self->preempt);
  uint32_t slot = (uint32_t)__builtin_ctz(self->free_slots);
  self->free_slots &= self->free_slots - 1;
  self->order[self->count++] = slot;
  struct split_open *open = &self->open[slot];
  SPLIT_KEEP(open);
  open->code = code;
  open->flags = flags;
  open->excluded = 0;
  open->nested = 0;
  open->related_app = self->mapping->related_app_id; /* means something with a code only */
  open->related_code = related;
  if (flags & SPLIT_OPEN_HANDLE)
    atomic_store_explicit(&open->serial, ++self->last_serial, memory_order_relaxed);
  else
    self->stacked++;
  return open;
}

/* From here on it is the host's time. */
static inline void begin_open(struct split_self *self, struct split_open *open) {
  const struct split_mapping *mapping = self->mapping;
  split_preempt_arm(&self->preempt);
  open->seen = self->preempt.seen;
  const uint32_t cpu = split_preempt_cpu(&self->preempt);
  open->cpu = cpu;
  if (__builtin_expect(cpu < mapping->cpu_count, 1)) {
    open->previous = atomic_load_explicit(&mapping->last[cpu].who, memory_order_relaxed);
    open->record = split_record_of(mapping, cpu, open->code);
  } else {
    open->previous = 0;
    open->record = NULL;
  }
  open->started = split_cycles();
}

__attribute__((noinline)) static uint32_t begin_special(struct split_self *self,
                                                        struct split_open *open) {
  int before = errno;
  split_place_section(self, open);
  split_sample_begin(self, open);
  errno = before;
  begin_open(self, open);
  return open->code;
}

static inline uint32_t begin(struct split_self *self, struct split_open *open, uint32_t code) {
  struct split_mapping *mapping = self->mapping;
  if (__builtin_expect(code == SPLIT_CODE_OTHER, 0)) count_one(&mapping->header->without_room);
  if (__builtin_expect(!plain(self, &mapping->decisions[code]), 0))
    return begin_special(self, open);
  begin_open(self, open);
  return code;
}

/* `who`: as split_last has it, without a class. */
static inline uint32_t after_of(uint64_t previous, uint64_t who) {
  if (previous == 0) return SPLIT_AFTERS;
  uint32_t class = (uint32_t)(previous >> 24) & 0xff;
  if ((previous & ~(UINT64_C(0xff) << 24)) == who) return SPLIT_AFTER_SAME;
  return class < SPLIT_CLASSES ? class : SPLIT_AFTERS;
}

/* The record of a kind on a CPU, locked; NULL: another thread of the CPU is within, living. */
static struct split_record *lock_record(struct split_self *self, uint32_t cpu, uint32_t code) {
  struct split_record *record = split_record_of(self->mapping, cpu, code);
  if (split_record_lock(record, self->tid)) return record;
  return split_record_mend(record) && split_record_lock(record, self->tid) ? record : NULL;
}

static inline void write_record(const struct split_mapping *mapping, struct split_record *record,
                                const struct split_sample *sample) {
  struct split_average average;
  uint64_t bits = atomic_load_explicit(&mapping->header->weight_bits, memory_order_relaxed);
  memcpy(&average.weight, &bits, sizeof bits);
  average.threshold = atomic_load_explicit(&mapping->header->threshold, memory_order_relaxed);
  split_record_add(record, sample, &average);
  split_record_unlock(record);
}

/* How many sections ended on the CPU before this one. A thread that is preempted between load and store loses some: it is no
 * statistic, only a measure of how busy we are. */
static inline uint64_t sections_on(const struct split_mapping *mapping, uint32_t cpu) {
  return atomic_load_explicit(&mapping->cpus[cpu].sections, memory_order_relaxed);
}

static inline bool traces_next(const struct split_mapping *mapping, uint32_t cpu) {
  const uint32_t every = atomic_load_explicit(&mapping->header->trace_every, memory_order_relaxed);
  return __builtin_expect(every != 0, 0) && (sections_on(mapping, cpu) + 1) % every == 0;
}

/* It is the latest on its CPU. */
static inline void note_last(const struct split_mapping *mapping, uint32_t cpu,
                             const struct split_open *open, uint64_t who, uint64_t now) {
  struct split_last *last = &mapping->last[cpu];
  const uint64_t class =
      atomic_load_explicit(&mapping->decisions[open->code].class_, memory_order_relaxed);
  atomic_store_explicit(&last->who, who | class << 24, memory_order_relaxed);
  atomic_store_explicit(&last->ended_tsc, now, memory_order_relaxed);
  atomic_store_explicit(&mapping->cpus[cpu].sections, sections_on(mapping, cpu) + 1,
                        memory_order_relaxed);
  if (__builtin_expect(open->related_code != 0, 0))
    split_kind_related(mapping, open->code, open->related_app, open->related_code);
}

static inline uint64_t elapsed_of(const struct split_open *open, uint64_t now) {
  const uint64_t elapsed = now - open->started - open->excluded;
  return (int64_t)elapsed < 0 ? 0 : elapsed;
}

/* Any section at all: disturbed, placed, measured by more than its time, traced. */
__attribute__((noinline)) static void end_special(struct split_self *self, uint32_t position,
                                                  uint64_t now) {
  const int before = errno;
  struct split_mapping *mapping = self->mapping;
  struct split_open *open = &self->open[self->order[position]];
  split_preempt_look(&self->preempt);
  const uint32_t cpu = split_preempt_cpu(&self->preempt);
  struct split_sample sample = {
      .elapsed = elapsed_of(open, now),
      .nested = open->nested,
      .preempted = self->preempt.seen.interruptions != open->seen.interruptions,
      .migrated = cpu != open->cpu,
  };
  sample.cycles = sample.elapsed;
  sample.exact = self->preempt.area && self->preempt.seen.unknown == open->seen.unknown &&
                 !sample.preempted && !sample.migrated;
  if (open->flags & SPLIT_OPEN_SPECIAL) split_sample_end(self, open, &sample);
  const uint64_t who = who_is(mapping, open->code);
  sample.after = sample.migrated ? SPLIT_AFTERS : after_of(open->previous, who);
  if (position > 0) self->open[self->order[position - 1]].nested += sample.elapsed;
  if (cpu < mapping->cpu_count && split_collects(mapping)) {
    struct split_record *record = lock_record(self, cpu, open->code);
    if (record)
      write_record(mapping, record, &sample);
    else
      count_one(&mapping->header->contended);
    if (traces_next(mapping, cpu))
      split_trace_write(mapping, cpu, open, &sample, now, position > 0);
    note_last(mapping, cpu, open, who, now);
  }
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  remove_open(self, position);
  errno = before;
}

/* The section at `position` is over since `now`. Most sections are the innermost, plain and undisturbed: for them, what there is to
 * do is here, without a call, and nothing is changed before that is sure. */
__attribute__((always_inline)) static inline void end_section(struct split_self *self,
                                                              uint32_t position, uint64_t now,
                                                              uint32_t handle) {
  struct split_mapping *mapping = self->mapping;
  const uint32_t slot = self->order[position];
  struct split_open *open = &self->open[slot];
  SPLIT_KEEP(open);
  const uint32_t cpu = open->cpu;
  struct split_record *record = open->record;
  if (__builtin_expect(position != self->count - 1 || !record ||
                           (open->flags & (SPLIT_OPEN_SPECIAL | SPLIT_OPEN_PLACED)) != 0 ||
                           !split_preempt_same(&self->preempt.seen, &open->seen) ||
                           !split_preempt_undisturbed(&self->preempt, cpu) ||
                           !split_collects(mapping) || traces_next(mapping, cpu),
                       0)) {
    end_special(self, position, now);
    return;
  }
  if (__builtin_expect(!split_record_lock(record, self->tid), 0)) {
    end_special(self, position, now);
    return;
  }
  const uint64_t elapsed = elapsed_of(open, now), who = who_is(mapping, open->code);
  const struct split_sample sample = {
      .elapsed = elapsed,
      .cycles = elapsed,
      .nested = open->nested,
      .exact = true,
      .after = after_of(open->previous, who),
  };
  write_record(mapping, record, &sample);
  note_last(mapping, cpu, open, who, now);
  self->count = position;
  if (position > 0) self->open[self->order[position - 1]].nested += elapsed;
  close_open(self, slot, handle);
}

/* Is everything ready for a section, as it is for all but the first of a thread? */
static inline bool ready(const struct split_mapping *mapping, const struct split_self *self) {
  return mapping && self && self->mapping == mapping && split_collects(mapping) && has_room(self);
}

__attribute__((noinline)) static split_code_id start_unusual(split_code_id related, const void *key,
                                                             size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  if (self->unopened != 0 || self->stacked == SPLIT_DEPTH) {
    self->unopened++;
    return SPLIT_CODE_NONE;
  }
  if (!split_collects(mapping)) {
    if (self->stacked) self->unopened++; /* else split_end finds nothing open anyway */
    return SPLIT_CODE_NONE;
  }
  make_room(self);
  uint32_t code = split_kind_of_key(mapping, key, length);
  return begin(self, take_open(self, code, related, 0), code);
}

/* What most sections need, and no call: registers need not be saved for it. */
__attribute__((always_inline)) static inline split_code_id start(struct split_mapping *mapping,
                                                                 split_code_id related,
                                                                 const void *key, size_t length,
                                                                 uint64_t hash) {
  struct split_self *self = split_self_here;
  uint32_t code = SPLIT_CODE_NONE;
  if (__builtin_expect(!ready(mapping, self) || self->unopened != 0 ||
                           self->stacked == SPLIT_DEPTH ||
                           (key && !split_hash_at_home(mapping, hash, &code)),
                       0)) {
    return start_unusual(related, key, length);
  }
  return begin(self, take_open(self, code, related, 0), code);
}

__attribute__((noinline)) static split_code_id start_text(split_code_id related, const char *key) {
  size_t length = strnlen(key, SPLIT_KEY_LENGTH);
  return start(split_mapping_in_use(), related, key, length, split_hash_text(key, length));
}

split_code_id split_start(split_code_id related, const void *key) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (__builtin_expect(!mapping, 0)) return SPLIT_CODE_NONE;
  if (!key) return start(mapping, related, NULL, 0, 0);
  if (mapping->key_type != SPLIT_KEY_NUMBER) return start_text(related, key);
  uint64_t number;
  memcpy(&number, key, sizeof number);
  return start(mapping, related, key, sizeof number, split_hash_number(number));
}

/* Handles may lie over the latest that was started. */
__attribute__((noinline)) static void end_below(struct split_self *self, uint64_t now) {
  for (uint32_t i = self->count; i-- > 0;) {
    if (self->open[self->order[i]].flags & SPLIT_OPEN_HANDLE) continue;
    end_special(self, i, now);
    return;
  }
}

void split_end(void) {
  uint64_t now = split_cycles();
  struct split_self *self = split_self_here;
  if (!self || self->mapping != split_mapping_in_use()) return;
  if (__builtin_expect(self->unopened != 0, 0)) {
    self->unopened--;
    return;
  }
  if (self->count == 0) return;
  if (__builtin_expect(self->open[self->order[self->count - 1]].flags & SPLIT_OPEN_HANDLE, 0)) {
    end_below(self, now);
    return;
  }
  end_section(self, self->count - 1, now, 0);
}

/* The section is `self`'s, about to begin. */
static inline split_code_id begin_handle(struct split_handle *handle, struct split_self *self,
                                         uint32_t code, uint32_t related) {
  struct split_open *open = take_open(self, code, related, SPLIT_OPEN_HANDLE);
  handle->self = self;
  handle->serial = self->last_serial;
  handle->slot = (uint32_t)(open - self->open);
  handle->magic = HANDLE_MAGIC;
  return begin(self, open, code);
}

__attribute__((noinline)) static split_code_id begin_unusual(struct split_handle *handle,
                                                             split_code_id related, const void *key,
                                                             size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || !split_collects(mapping)) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  make_room(self);
  return begin_handle(handle, self, split_kind_of_key(mapping, key, length), related);
}

/* `hash`: the key's, or NULL if that is to be found out. Which of them, each caller says as a constant. */
__attribute__((always_inline)) static inline split_code_id begin_of_key(split_section *section,
                                                                        split_code_id related,
                                                                        const uint64_t *hash,
                                                                        const void *key,
                                                                        size_t length) {
  struct split_handle *handle = (struct split_handle *)section->private_;
  handle->magic = 0;
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_self *self = split_self_here;
  uint32_t code;
  if (__builtin_expect(
          !ready(mapping, self) || !(hash ? split_hash_at_home(mapping, *hash, &code)
                                          : split_kind_at_home(mapping, key, length, &code)),
          0)) {
    return begin_unusual(handle, related, key, length);
  }
  return begin_handle(handle, self, code, related);
}

split_code_id split_begin(split_section *section, split_code_id related, const void *key,
                          size_t length) {
  return begin_of_key(section, related, NULL, key, length);
}

split_code_id split_begin_hashed(split_section *section, uint64_t hash, const void *key,
                                 size_t length) {
  return begin_of_key(section, 0, &hash, key, length);
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
    end_section(split_self_here, (uint32_t)position, now, SPLIT_OPEN_HANDLE);
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
