#include "latencies.h"

#include <math.h>

/* Values below 2^10 ns share the first buckets of 32 ns; above, each power of two has 32
 * buckets. */
enum { FIRST_BITS = 10, PART_BITS = 5 };

static unsigned bucket_of(uint64_t ns) {
  if (ns < UINT64_C(1) << FIRST_BITS) return (unsigned)(ns >> (FIRST_BITS - PART_BITS));
  const unsigned octave = 63 - (unsigned)__builtin_clzll(ns);
  const unsigned part = (unsigned)(ns >> (octave - PART_BITS)) % LATENCY_PARTS;
  const unsigned bucket = (octave - FIRST_BITS + 1) * LATENCY_PARTS + part;
  return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

static uint64_t end_of(unsigned bucket) {
  if (bucket < LATENCY_PARTS) return (uint64_t)(bucket + 1) << (FIRST_BITS - PART_BITS);
  const unsigned octave = bucket / LATENCY_PARTS + FIRST_BITS - 1;
  return (uint64_t)(LATENCY_PARTS + bucket % LATENCY_PARTS + 1) << (octave - PART_BITS);
}

void latencies_add(struct latencies *latencies, uint64_t ns) {
  latencies->bucket[bucket_of(ns)]++;
  latencies->count++;
}

void latencies_merge(struct latencies *into, const struct latencies *from) {
  for (unsigned i = 0; i < LATENCY_BUCKETS; i++) into->bucket[i] += from->bucket[i];
  into->count += from->count;
}

uint64_t latencies_quantile(const struct latencies *latencies, double share) {
  if (latencies->count == 0) return 0;
  const uint64_t wanted = (uint64_t)ceil(share * (double)latencies->count);
  uint64_t seen = 0;
  for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
    seen += latencies->bucket[i];
    if (seen >= wanted && seen > 0) return end_of(i);
  }
  return end_of(LATENCY_BUCKETS - 1);
}
