/* Sections: begin and end. The steps of every section are here; steps that only some need are in
 * sample.c and affinity.c. */
#include "affinity.h"
#include "decided.h"
#include "process.h"
#include "record.h"
#include "release.h"
#include "sample.h"
#include "slice.h"
#include "thread.h"
#include "trace.h"

#include <errno.h>
#include <string.h>

struct split_handle { /* the content of split_section.private_ */
  uint64_t magic;
  struct split_self *self;
  uint64_t serial;
  uint32_t slot;
};
#define HANDLE_MAGIC UINT64_C(0x6e6f697463657331)
_Static_assert(sizeof(struct split_handle) <= sizeof(split_section), "a handle has room");

static void count_one(_Atomic uint64_t *counter) {
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Discards an open section that is already removed from the order; nothing is counted. */
static inline void close_open(struct split_self *self, struct split_open *open, uint32_t flags) {
  if (flags & SPLIT_OPEN_HANDLE)
    atomic_store_explicit(&open->serial, 0, memory_order_relaxed);
  else
    self->depth--;
  open->outer = self->unused;
  self->unused = open;
}

/* Removes an open section from the order. */
static void remove_open(struct split_self *self, struct split_open *open) {
  struct split_open **at = &self->innermost;
  while (*at != open) at = &(*at)->outer;
  *at = open->outer;
  self->probed -= (open->flags & SPLIT_OPEN_PROBED) != 0;
  close_open(self, open, open->flags);
  if (!self->innermost) split_preempt_disarm(&self->preempt);
}

static void drop_open(struct split_self *self, struct split_open *open) {
  split_preempt_look(&self->preempt); /* the sections that stay open must see it */
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  if (open->flags & SPLIT_OPEN_YIELDS) split_slice_section_ends(self, open);
  remove_open(self, open);
}

static bool abandoned(const struct split_open *open) {
  return (atomic_load_explicit(&open->serial, memory_order_relaxed) & SPLIT_ABANDONED) != 0;
}

/* Drops sections that other threads ended; they were counted there. */
static void drop_abandoned(struct split_self *self) {
  for (struct split_open *open = self->innermost, *outer; open; open = outer) {
    outer = open->outer;
    if (abandoned(open)) drop_open(self, open);
  }
}

/* All places are in use: the host forgot the oldest handle. */
static void drop_oldest_handle(struct split_self *self) {
  struct split_open *oldest = NULL;
  for (struct split_open *open = self->innermost; open; open = open->outer)
    if (open->flags & SPLIT_OPEN_HANDLE) oldest = open;
  if (!oldest) return;
  count_one(&self->mapping->header->dropped);
  drop_open(self, oldest);
}

/* True if the next section can be opened without freeing a place. */
static inline bool has_room(const struct split_self *self) {
  return !self->innermost || (self->unused && !abandoned(self->innermost));
}

static void make_room(struct split_self *self) {
  if (has_room(self)) return;
  drop_abandoned(self);
  if (!self->unused) drop_oldest_handle(self);
}

/* An open section that has not begun yet. There must be room. */
static inline struct split_open *take_open(struct split_self *self, uint32_t code, uint32_t related,
                                           uint32_t flags) {
  struct split_open *open = self->unused, *outer = self->innermost;
  if (outer) split_preempt_look(&self->preempt);
  self->unused = open->outer;
  self->innermost = open;
  open->outer = outer;
  open->code = code;
  open->flags = flags;
  open->nested = 0;
  open->related_code = related;
  if (flags & SPLIT_OPEN_HANDLE)
    atomic_store_explicit(&open->serial, ++self->last_serial, memory_order_relaxed);
  else
    self->depth++;
  return open;
}

/* The thread is on another CPU than at its last section: switches to that CPU's data and begins
 * there. */
__attribute__((noinline)) static uint32_t begin_elsewhere(struct split_self *self,
                                                          struct split_open *open, uint32_t cpu) {
  const struct split_mapping *mapping = self->mapping;
  if (cpu < mapping->cpu_count) {
    self->here = (struct split_here){
        .cpu = cpu,
        .records = split_record_of(mapping, cpu, 0),
        .last = &mapping->last[cpu],
        .line = &mapping->cpus[cpu],
    };
    open->previous = atomic_load_explicit(&mapping->last[cpu].who, memory_order_relaxed);
    open->record = split_record_of(mapping, cpu, open->code);
  } else {
    open->flags |= SPLIT_OPEN_BLIND;
    open->previous = 0;
    open->record = NULL;
  }
  open->started = split_cycles();
  return open->code;
}

/* Return as late as possible: time after this is charged to the request. */
static inline uint32_t begin_on(struct split_self *self, struct split_open *open, uint32_t code,
                                uint32_t cpu) {
  open->seen = self->preempt.seen;
  open->cpu = cpu;
  if (__builtin_expect(cpu != self->here.cpu, 0)) return begin_elsewhere(self, open, cpu);
  open->previous = atomic_load_explicit(&self->here.last->who, memory_order_relaxed);
  open->record = self->here.records + code;
  open->started = split_cycles();
  return code;
}

__attribute__((noinline)) static uint32_t begin_special(struct split_self *self,
                                                        struct split_open *open) {
  int before = errno;
  split_slice_section(self, open);
  split_place_section(self, open);
  split_sample_begin(self, open);
  errno = before;
  if (!self->preempt.area) open->flags |= SPLIT_OPEN_BLIND;
  if (open->outer)
    split_preempt_look(&self->preempt); /* placing may have interrupted the open sections */
  else
    split_preempt_arm(&self->preempt);
  return begin_on(self, open, open->code, split_preempt_cpu(&self->preempt));
}

/* `mapping` belongs to `self`. */
static inline uint32_t begin(const struct split_mapping *mapping, struct split_self *self,
                             struct split_open *open, uint32_t code) {
  const uint32_t wishes =
      atomic_load_explicit(&mapping->decisions[code].wishes, memory_order_relaxed);
  open->who = split_who(mapping, code, wishes & 0xff);
  if (__builtin_expect((wishes & SPLIT_WISHES_SPECIAL) != 0 || self->special, 0))
    return begin_special(self, open);
  /* Within an open section the announcement is set: take_open checked it. */
  const uint32_t cpu =
      open->outer ? self->preempt.area->cpu_id : split_preempt_announce(self->preempt.area);
  return begin_on(self, open, code, cpu);
}

/* The index for `who` after `previous`, both in the form of split_last. Classes reported by
 * other applications are not trusted. */
static inline uint32_t after_of(uint64_t previous, uint64_t who) {
  const uint64_t class_ = previous >> 56;
  if ((previous ^ who) << 8 == 0) return SPLIT_AFTER_SAME;
  return class_ < SPLIT_CLASSES ? (uint32_t)class_ : SPLIT_AFTER_ANY;
}

/* The record of a kind on a CPU, locked; NULL: another live thread of the CPU is writing it. */
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

/* Number of sections that ended on the CPU before this one. A thread that is preempted between
 * load and store loses some: this is not a statistic, only a measure of load. */
static inline uint64_t sections_on(const struct split_cpu *line) {
  return atomic_load_explicit(&line->sections, memory_order_relaxed);
}

static inline bool traces_next(const struct split_mapping *mapping, const struct split_cpu *line) {
  const uint32_t every = atomic_load_explicit(&mapping->header->trace_every, memory_order_relaxed);
  return __builtin_expect(every != 0, 0) && ((uint32_t)sections_on(line) + 1) % every == 0;
}

__attribute__((noinline)) static void note_cause(const struct split_mapping *mapping,
                                                 const struct split_open *open) {
  split_kind_related(mapping, open->code,
                     open->flags & SPLIT_OPEN_CAUSED ? open->related_app : mapping->related_app_id,
                     open->related_code);
}

/* Records the section as the latest on its CPU. */
static inline void note_last(struct split_last *last, struct split_cpu *line,
                             const struct split_open *open) {
  atomic_store_explicit(&last->who, open->who, memory_order_relaxed);
  atomic_store_explicit(&line->sections, sections_on(line) + 1, memory_order_relaxed);
}

static inline uint64_t elapsed_of(const struct split_open *open, uint64_t now) {
  const uint64_t elapsed = now - open->started;
  return (int64_t)elapsed < 0 ? 0 : elapsed;
}

/* Slow path: the section was preempted, migrated, placed, sampled or traced. */
__attribute__((noinline)) static void end_special(struct split_self *self, struct split_open *open,
                                                  uint64_t now) {
  const int before = errno;
  struct split_mapping *mapping = self->mapping;
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
  if (open->flags & SPLIT_OPEN_MEASURED) split_sample_end(self, open, &sample);
  sample.after = sample.migrated ? SPLIT_AFTER_ANY : after_of(open->previous, open->who);
  if (open->outer) open->outer->nested += sample.elapsed;
  if (cpu < mapping->cpu_count && split_collects(mapping)) {
    struct split_record *record = lock_record(self, cpu, open->code);
    if (record)
      write_record(mapping, record, &sample);
    else
      count_one(&mapping->header->contended);
    struct split_cpu *line = &mapping->cpus[cpu];
    if (traces_next(mapping, line))
      split_trace_write(mapping, cpu, open, &sample, now, open->outer != NULL);
    note_last(&mapping->last[cpu], line, open);
    if (open->related_code) note_cause(mapping, open);
  }
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  if (open->flags & SPLIT_OPEN_YIELDS) split_slice_section_ends(self, open);
  remove_open(self, open);
  errno = before;
}

/* The section ended at `now`. Most sections are the innermost, plain and undisturbed: their end
 * is handled here without a call, and nothing is changed before that is certain. */
__attribute__((always_inline)) static inline void end_section(struct split_self *self,
                                                              struct split_open *open, uint64_t now,
                                                              uint32_t handle) {
  struct split_mapping *mapping = self->mapping;
  struct split_record *record = open->record;
  if (__builtin_expect(open != self->innermost || (open->flags & SPLIT_OPEN_SPECIAL) != 0 ||
                           !split_preempt_same(&self->preempt.seen, &open->seen) ||
                           open->cpu != self->here.cpu ||
                           !split_preempt_undisturbed(self->preempt.area, open->cpu) ||
                           !split_collects(mapping) || traces_next(mapping, self->here.line),
                       0)) {
    end_special(self, open, now);
    return;
  }
  if (__builtin_expect(!split_record_lock(record, self->tid), 0)) {
    end_special(self, open, now);
    return;
  }
  const uint64_t elapsed = elapsed_of(open, now);
  const struct split_sample sample = {
      .elapsed = elapsed,
      .cycles = elapsed,
      .nested = open->nested,
      .exact = true,
      .after = after_of(open->previous, open->who),
  };
  write_record(mapping, record, &sample);
  note_last(self->here.last, self->here.line, open);
  struct split_open *outer = open->outer;
  self->innermost = outer;
  close_open(self, open, handle);
  if (__builtin_expect(outer != NULL, 0))
    outer->nested += elapsed; /* the announcement stands, or its loss is seen when that one ends */
  else
    self->preempt.area->announced = 0;
  if (__builtin_expect(open->related_code != 0, 0)) note_cause(mapping, open);
}

/* True if everything is ready for a section, as for all but a thread's first. */
static inline bool ready(const struct split_mapping *mapping, const struct split_self *self) {
  return mapping && self && self->mapping == mapping && split_collects(mapping) && has_room(self);
}

/* The kind, which may be new, or have no space in the table. */
static uint32_t settled(struct split_mapping *mapping, const void *key, size_t length) {
  const uint32_t code = split_kind_of_key(mapping, key, length);
  if (code == SPLIT_CODE_OTHER) count_one(&mapping->header->without_room);
  return code;
}

__attribute__((noinline)) static split_code_id start_unusual(split_code_id related, const void *key,
                                                             size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  if (self->depth >= SPLIT_DEPTH) {
    self->depth += SPLIT_UNOPENED;
    return SPLIT_CODE_NONE;
  }
  if (!split_collects(mapping)) {
    if (self->depth) self->depth += SPLIT_UNOPENED; /* otherwise split_end finds no open section */
    return SPLIT_CODE_NONE;
  }
  make_room(self);
  const uint32_t code = settled(mapping, key, length);
  return begin(mapping, self, take_open(self, code, related, 0), code);
}

/* The path of most sections, without a call: no registers need to be saved. */
__attribute__((always_inline)) static inline split_code_id start(struct split_mapping *mapping,
                                                                 split_code_id related,
                                                                 const void *key, size_t length,
                                                                 uint64_t hash) {
  struct split_self *self = split_self_here;
  uint32_t code = SPLIT_CODE_NONE;
  if (__builtin_expect(!ready(mapping, self) || self->depth >= SPLIT_DEPTH ||
                           (key && !split_hash_at_home(mapping, hash, &code)),
                       0)) {
    return start_unusual(related, key, length);
  }
  return begin(mapping, self, take_open(self, code, related, 0), code);
}

__attribute__((noinline)) static split_code_id start_new_text(split_code_id related,
                                                              const char *key) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_self *self = split_self_here;
  const size_t length = strnlen(key, SPLIT_KEY_LENGTH);
  const uint64_t hash = hm_hash_text(key, length);
  uint32_t code;
  if (mapping && self && self->mapping == mapping && length < SPLIT_KEY_LENGTH &&
      split_hash_at_home(mapping, hash, &code)) {
    split_text_meet(self->texts, key, length, hash, code);
  }
  return start(mapping, related, key, length, hash);
}

static inline split_code_id start_text(struct split_mapping *mapping, split_code_id related,
                                       const char *key) {
  struct split_self *self = split_self_here;
  uint32_t code;
  if (__builtin_expect(ready(mapping, self) && self->depth < SPLIT_DEPTH &&
                           split_text_known(self->texts, key, &code),
                       1)) {
    return begin(mapping, self, take_open(self, code, related, 0), code);
  }
  return start_new_text(related, key);
}

split_code_id split_start(split_code_id related, const void *key) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (__builtin_expect(!mapping, 0)) return SPLIT_CODE_NONE;
  if (!key) return start(mapping, related, NULL, 0, 0);
  if (mapping->key_type != SPLIT_KEY_NUMBER) return start_text(mapping, related, key);
  uint64_t number;
  memcpy(&number, key, sizeof number);
  return start(mapping, related, key, sizeof number, split_hash_number(number));
}

/* Handles may be above the latest section that was started. */
__attribute__((noinline)) static void end_below(struct split_self *self, uint64_t now) {
  for (struct split_open *open = self->innermost; open; open = open->outer) {
    if (open->flags & SPLIT_OPEN_HANDLE) continue;
    end_special(self, open, now);
    return;
  }
}

void split_end(void) {
  uint64_t now = split_cycles();
  struct split_self *self = split_self_here;
  if (!self || self->mapping != split_mapping_in_use()) return;
  if (__builtin_expect(self->depth >= SPLIT_UNOPENED, 0)) {
    self->depth -= SPLIT_UNOPENED;
    return;
  }
  struct split_open *open = self->innermost;
  if (!open) return;
  if (__builtin_expect(open->flags & SPLIT_OPEN_HANDLE, 0)) {
    end_below(self, now);
    return;
  }
  end_section(self, open, now, 0);
}

/* Begins a section of `self`. */
static inline split_code_id begin_handle(struct split_handle *handle,
                                         const struct split_mapping *mapping,
                                         struct split_self *self, uint32_t code, uint32_t related) {
  struct split_open *open = take_open(self, code, related, SPLIT_OPEN_HANDLE);
  handle->self = self;
  handle->serial = self->last_serial;
  handle->slot = (uint32_t)(open - self->open);
  handle->magic = HANDLE_MAGIC;
  return begin(mapping, self, open, code);
}

__attribute__((noinline)) static split_code_id begin_unusual(struct split_handle *handle,
                                                             split_code_id related, const void *key,
                                                             size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || !split_collects(mapping)) return SPLIT_CODE_NONE;
  struct split_self *self = split_self_ready(mapping);
  if (!self) return SPLIT_CODE_NONE;
  make_room(self);
  return begin_handle(handle, mapping, self, settled(mapping, key, length), related);
}

/* `hash`: the key's hash, or NULL if it must be computed. Each caller passes this as a constant. */
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
  return begin_handle(handle, mapping, self, code, related);
}

split_code_id split_begin(split_section *section, split_code_id related, const void *key,
                          size_t length) {
  return begin_of_key(section, related, NULL, key, length);
}

split_code_id split_begin_hashed(split_section *section, uint64_t hash, const void *key,
                                 size_t length) {
  return begin_of_key(section, 0, &hash, key, length);
}

/* The handle's open section, if it is this thread's and still open; otherwise NULL. */
static inline struct split_open *open_of(const struct split_handle *handle) {
  struct split_self *self = split_self_here;
  if (handle->magic != HANDLE_MAGIC || handle->self != self || !self ||
      self->mapping != split_mapping_in_use() || handle->slot >= SPLIT_OPEN) {
    return NULL;
  }
  struct split_open *open = &self->open[handle->slot];
  /* A closed section has no serial, and serials are never reused. */
  return atomic_load_explicit(&open->serial, memory_order_relaxed) == handle->serial ? open : NULL;
}

/* Ends a section that began on another thread: that thread removes it at its next call; its
 * affinity and slice are restored now. */
static void abandon(const struct split_handle *handle) {
  struct split_self *owner = handle->self;
  if (handle->magic != HANDLE_MAGIC || owner == split_self_here || handle->slot >= SPLIT_OPEN)
    return;
  uint64_t serial = handle->serial;
  /* States of threads are never freed, and serials never reused: this cannot hit another
   * section. */
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
    split_entry_release_slice(entry);
    errno = before;
  }
}

void split_finish(split_section *section) {
  uint64_t now = split_cycles();
  struct split_handle *handle = (struct split_handle *)section->private_;
  struct split_open *open = open_of(handle);
  if (open)
    end_section(split_self_here, open, now, SPLIT_OPEN_HANDLE);
  else
    abandon(handle);
  handle->magic = 0;
}

void split_cancel(split_section *section) {
  struct split_handle *handle = (struct split_handle *)section->private_;
  struct split_open *open = open_of(handle);
  if (open) {
    int before = errno;
    drop_open(split_self_here, open);
    errno = before;
  } else {
    abandon(handle);
  }
  handle->magic = 0;
}

void split_pause(split_section *section) {
  struct split_open *open = open_of((struct split_handle *)section->private_);
  if (!open) return;
  struct split_self *self = split_self_here;
  int before = errno;
  if (open->flags & SPLIT_OPEN_PLACED) split_unplace_section(self, open);
  if (self->lazy) split_affinity_widen(self);
  errno = before;
}

/* note.c */
struct split_open *split_open_of(const split_section *section);
struct split_open *split_open_of(const split_section *section) {
  struct split_self *self = split_self_here;
  if (section) return open_of((const struct split_handle *)section->private_);
  if (!self || !self->innermost || self->depth >= SPLIT_UNOPENED ||
      self->mapping != split_mapping_in_use()) {
    return NULL;
  }
  return abandoned(self->innermost) ? NULL : self->innermost;
}
