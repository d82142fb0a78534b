/* The ring of the latest sections of a CPU. */
#include "trace.h"

static uint32_t sixteenths(uint64_t cycles) {
  return cycles / 16 > UINT32_MAX ? UINT32_MAX : (uint32_t)(cycles / 16);
}

void split_trace_write(struct split_mapping *mapping, uint32_t cpu, const struct split_open *open,
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
  atomic_store_explicit(&entry->previous_app, (uint32_t)(open->previous >> 32) & 0xffffff, relaxed);
  atomic_store_explicit(&entry->displaced,
                        sample->probed ? (uint16_t)(sample->displaced * 1000 + 0.5) : UINT16_MAX,
                        relaxed);
  uint32_t flags = (sample->preempted ? 1u : 0) | (sample->migrated ? 2u : 0) |
                   (open->flags & SPLIT_OPEN_MOVED ? 4u : 0) | (nested ? 8u : 0);
  atomic_store_explicit(&entry->flags, (uint16_t)flags, relaxed);
  atomic_store_explicit(&entry->ended_tsc, now, memory_order_release);
}
