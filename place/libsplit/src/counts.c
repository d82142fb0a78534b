/* Counters for views inside the host. */
#include "process.h"

#include <string.h>

bool split_counts(struct split_counts *counts) {
  struct split_mapping *mapping = split_mapping_in_use();
  memset(counts, 0, sizeof *counts);
  if (!mapping) return false;
  struct split_header *header = mapping->header;
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
    counts->sections += atomic_load_explicit(&mapping->cpus[cpu].sections, memory_order_relaxed);
    counts->probes += atomic_load_explicit(&mapping->cpus[cpu].probes, memory_order_relaxed);
  }
  counts->kinds = atomic_load(&header->kinds_used);
  counts->moves = atomic_load(&header->moves);
  counts->dropped = atomic_load(&header->dropped);
  counts->contended = atomic_load(&header->contended);
  counts->without_room = atomic_load(&header->without_room);
  counts->bad_origins = atomic_load(&header->bad_origins);
  counts->refused = atomic_load(&header->refused);
  counts->backend = atomic_load(&header->backend);
  uint64_t heartbeat = atomic_load(&header->heartbeat_ns);
  uint64_t now = split_clock_ns(CLOCK_MONOTONIC);
  counts->analyzer = heartbeat != 0 && (now < heartbeat || now - heartbeat < SPLIT_STALE_NS);
  return true;
}

/*
 * Adds a record's present values. A reader of the seqlock may read a word while it is written, and
 * then reads again.
 */
__attribute__((no_sanitize("thread"))) static void add_record(const struct split_record *record,
                                                              struct split_kind_counts *sum) {
  for (int i = 0; i < 8; i++) {
    uint32_t before = atomic_load_explicit(&record->sequence, memory_order_acquire);
    uint64_t count = *(const volatile uint64_t *)&record->count;
    uint64_t exact = *(const volatile uint64_t *)&record->exact;
    uint64_t cycles = 0;
    for (int j = 0; j < SPLIT_AFTERS; j++)
      cycles += *(const volatile uint64_t *)&record->after[j].cycles;
    atomic_thread_fence(memory_order_acquire);
    /* The last try counts what it read: other threads repair a record whose writer died. */
    if (i == 7 || (!(before & 1) &&
                   atomic_load_explicit(&record->sequence, memory_order_relaxed) == before)) {
      sum->count += count;
      sum->exact += exact;
      sum->cycles += cycles;
      return;
    }
  }
}

bool split_kind_counts(split_code_id code, struct split_kind_counts *counts) {
  struct split_mapping *mapping = split_mapping_in_use();
  memset(counts, 0, sizeof *counts);
  if (!mapping || code >= mapping->kind_count) return false;
  const struct split_kind *kind = &mapping->kinds[code];
  if (atomic_load_explicit(&kind->state, memory_order_acquire) != SPLIT_KIND_READY) return false;
  counts->code = code;
  uint32_t length = kind->label_length;
  memcpy(counts->label, kind->label, length < SPLIT_LABEL_LENGTH ? length : SPLIT_LABEL_LENGTH);
  if (atomic_load_explicit(&kind->note_state, memory_order_acquire) == SPLIT_KIND_READY)
    memcpy(counts->note, kind->note, SPLIT_NOTE_LENGTH);
  counts->class_ = atomic_load_explicit(&mapping->decisions[code].class_, memory_order_relaxed);
  counts->related_app = atomic_load_explicit(&kind->related_app, memory_order_relaxed);
  counts->related_code = atomic_load_explicit(&kind->related_code, memory_order_relaxed);
  counts->statement = atomic_load_explicit(&kind->statement, memory_order_relaxed);
  for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++)
    add_record(split_record_of(mapping, cpu, code), counts);
  return true;
}
