/* Decisions for class queues and modules. decided.h describes the functions. */
#include "decided.h"

#include "fresh.h"
#include "process.h"

split_code_id split_kind_of(const void *key, size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  return mapping ? split_kind_of_key(mapping, key, length) : SPLIT_CODE_NONE;
}

bool split_collecting(void) {
  struct split_mapping *mapping = split_mapping_in_use();
  return mapping && split_collects(mapping);
}

bool split_placing(uint64_t now_ns) {
  struct split_mapping *mapping = split_mapping_in_use();
  return mapping && split_fresh(mapping, now_ns);
}

uint32_t split_decision_sequence(split_code_id code) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || code >= mapping->kind_count) return 0;
  return atomic_load_explicit(&mapping->decisions[code].sequence, memory_order_acquire);
}

bool split_decided(split_code_id code, struct split_decided *decided) {
  const memory_order relaxed = memory_order_relaxed;
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || code >= mapping->kind_count) return false;
  const struct split_decision *decision = &mapping->decisions[code];
  /* A few tries: a writer needs nanoseconds, unless it was preempted or died. */
  for (int i = 0; i < 4; i++) {
    uint32_t before = atomic_load_explicit(&decision->sequence, memory_order_acquire);
    decided->sequence = before;
    decided->class_ = atomic_load_explicit(&decision->class_, relaxed);
    decided->actuation = atomic_load_explicit(&decision->actuation, relaxed);
    decided->queue = atomic_load_explicit(&decision->queue, relaxed);
    for (uint32_t word = 0; word < SPLIT_MASK_WORDS; word++)
      decided->cpu_mask[word] = atomic_load_explicit(&decision->cpu_mask[word], relaxed);
    atomic_thread_fence(memory_order_acquire);
    if (!(before & 1) && atomic_load_explicit(&decision->sequence, relaxed) == before) return true;
  }
  return false;
}
