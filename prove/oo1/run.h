/* One run: the plan's steps, timed; then the same again with the checking pass. */
#ifndef OO1_RUN_H
#define OO1_RUN_H

#include "folder.h"
#include "mode.h"
#include "null_proc.h"
#include "protocol.h"
#include "usage.h"

typedef enum oo1_measure { OO1_TRAVERSAL, OO1_REVERSE, OO1_LOOKUP, OO1_INSERT } oo1_measure;
extern const char *const oo1_measures[4];

#define OO1_LOOKUPS 1000u
#define OO1_INSERTED 100u
#define OO1_REVERSE_LIMIT 1000000u

typedef struct oo1_request {
  oo1_measure measure;
  const char *protocol;
  oo1_sizes sizes;
  oo1_how how;
  bool drop_cache;
} oo1_request;

typedef struct oo1_times {
  uint64_t *wall, *cpu; /* [count] */
  uint32_t *repeats;
  size_t count;
} oo1_times;

typedef struct oo1_result {
  oo1_plan plan;
  oo1_times phases[OO1_PHASES];
  uint64_t resident_after_drop;
  uint64_t open_ns, store_bytes;
  oo1_usage usage; /* differences */
  oo1_counts counts;
  uint64_t rss, rss_peak;
  uint64_t *visited; /* [patterns_seen] */
  size_t patterns_seen;
  uint64_t checksum, capped;
  uint64_t *raw; /* wall time; [count of units] of insert */
  size_t raw_count;
  uint64_t raw_bytes; /* of one append */
} oo1_result;

/* `add` is called with the mode's own statistics. */
void oo1_run(const oo1_mode *mode, const char *folder, const oo1_description *description,
             const oo1_request *request, oo1_add add, void *state, oo1_result *result);

#endif
