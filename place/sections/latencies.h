/* A histogram of request times: counts in buckets of at most 1/32 of their value. Plain data;
 * not thread-safe. */
#ifndef SECTION_LATENCIES_H
#define SECTION_LATENCIES_H

#include <stdint.h>

enum { LATENCY_PARTS = 32, LATENCY_BUCKETS = LATENCY_PARTS * 30 };

/* Zeroed: empty. */
struct latencies {
  uint64_t count;
  uint32_t bucket[LATENCY_BUCKETS];
};

void latencies_add(struct latencies *latencies, uint64_t ns);
void latencies_merge(struct latencies *into, const struct latencies *from);
/* Returns the smallest value that `share` (0 to 1) of the requests did not exceed, rounded up to
 * its bucket's end; 0: there are no requests. */
uint64_t latencies_quantile(const struct latencies *latencies, double share);

#endif
