/*
 * A small server of synthetic sections: a class queue, workers, and clients that want requests of two kinds in a fixed order.
 *
 * A run has stages, each with the library's placement on or off, so that both are compared within one process: with the same
 * memory in the same sets of the cache. What happens in the first part of a stage is not counted.
 */
#ifndef SECTION_SERVER_H
#define SECTION_SERVER_H

#include "calm.h"
#include "latencies.h"
#include "mixes.h"

#include "split_queue.h"

enum { STAGES_MAX = 1024 };

struct server_options {
  struct mix mix;
  bool balance; /* measure the shares of a balanced mix again */
  unsigned workers;
  unsigned
      outstanding; /* closed loop: the number of requests that wait or are served at any time */
  double rate; /* > 0: open loop, the number of requests that arrive each second, at random times */
  uint64_t seed;
  unsigned stages;
  const char *placing; /* one character for each stage: '1' placement by the analyzer, '0' none */
  double stage_seconds, settle_seconds;
  uint64_t requests; /* > 0: one stage, which ends after this number of requests */
  bool bare;         /* no sections are begun, to measure the library's own cost */
  /* If not NULL, called before the first stage and after each, while all workers rest. Closed
   * loop only. */
  struct section_calm (*look)(void);
};

struct server_kind_result {
  uint64_t count;
  uint64_t cpu_ns; /* of the requests themselves */
  struct latencies latencies;
};

struct server_stage_result {
  bool placing;
  double seconds;
  uint64_t requests;
  uint64_t worker_cpu_ns;          /* of the workers, including their work between requests */
  struct split_queue_counts queue; /* the differences over the stage, what settles included */
  uint64_t affinity_moves;         /* as libsplit counts them */
  struct section_calm calm; /* the larger shares of what was seen before and after it; else 0 */
  uint64_t cpu_changes;     /* a worker's request ran on another processor than its last one */
  struct server_kind_result kind[MIX_KINDS];
};

/* Runs all stages. Returns NULL, or the reason of the failure. `affinity_moves` returns libsplit's count so far. */
const char *server_run(const struct server_options *options, uint64_t (*affinity_moves)(void),
                       struct server_stage_result *results);

#endif
