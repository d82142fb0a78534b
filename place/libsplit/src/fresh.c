/* Checks whether placement is active. */
#include "fresh.h"

#include "cycles.h"

static bool fresh_within(struct split_mapping *mapping, uint64_t now_ns, uint64_t limit_ns) {
  const memory_order relaxed = memory_order_relaxed;
  const struct split_header *header = mapping->header;
  if (!split_collects(mapping) || !atomic_load_explicit(&header->place, relaxed) ||
      !atomic_load_explicit(&header->placement_on, relaxed)) {
    return false;
  }
  uint64_t heartbeat = atomic_load_explicit(&header->heartbeat_ns, relaxed);
  if (now_ns == 0) now_ns = split_clock_ns(CLOCK_MONOTONIC);
  /*
   * A heartbeat from the future does not count; a small difference only means that a reading was
   * interrupted.
   */
  return (now_ns > heartbeat ? now_ns - heartbeat : heartbeat - now_ns) < limit_ns;
}

bool split_fresh(struct split_mapping *mapping, uint64_t now_ns) {
  return fresh_within(mapping, now_ns, SPLIT_STALE_NS);
}

bool split_fresh_for_slices(struct split_mapping *mapping) {
  return fresh_within(mapping, 0, SPLIT_SLICE_STALE_NS);
}
