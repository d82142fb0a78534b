/* The order in which a run executes its units. A protocol is a list of steps. */
#ifndef OO1_PROTOCOL_H
#define OO1_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct oo1_step {
  int phase; /* index of its name; OO1_UNTIMED: only fills the caches */
  uint32_t pattern;
  uint32_t repeats; /* number of executions of the unit, timed together */
  bool fresh;       /* the pattern is new */
} oo1_step;
#define OO1_UNTIMED (-1)
#define OO1_PHASES 3

typedef struct oo1_plan {
  const char *phases[OO1_PHASES]; /* NULL: no more */
  oo1_step *steps;
  size_t count, capacity;
  uint32_t patterns; /* 0 .. patterns - 1 occur */
} oo1_plan;

typedef struct oo1_sizes {
  uint64_t units;   /* 0: the protocol's own */
  uint64_t rounds;  /* of `hot`; 0: 5 */
  uint64_t hot_set; /* of `hot-set`; 0: 60 */
  uint64_t seed;
} oo1_sizes;

/* Returns false if there is no such protocol. */
bool oo1_plan_make(const char *protocol, const oo1_sizes *sizes, oo1_plan *plan);
void oo1_plan_free(oo1_plan *plan);
/* "texas, oo1, ...": for messages. */
extern const char oo1_protocols[];

#endif
