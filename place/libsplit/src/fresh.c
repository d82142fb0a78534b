/* Whether placement goes on. */
#include "fresh.h"

#include "cycles.h"

bool split_fresh(struct split_mapping *mapping, uint64_t now_ns) {
  const memory_order relaxed = memory_order_relaxed;
  const struct split_header *header = mapping->header;
  if (!split_collects(mapping) || !atomic_load_explicit(&header->place, relaxed) ||
      !atomic_load_explicit(&header->placement_on, relaxed)) {
    return false;
  }
  uint64_t heartbeat = atomic_load_explicit(&header->heartbeat_ns, relaxed);
  if (now_ns == 0) now_ns = split_clock_ns(CLOCK_MONOTONIC);
  /* One from the future is none; a little is only a reading that was interrupted. */
  return now_ns > heartbeat ? now_ns - heartbeat < SPLIT_STALE_NS
                            : heartbeat - now_ns < SPLIT_STALE_NS;
}
