/*
 * A mode: the driver's interface to a way of storing the graph. Each mode has one for each
 * layout; a process has at most one open store. Any error ends the program (die.h).
 */
#ifndef OO1_MODE_H
#define OO1_MODE_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct oo1_how {
  bool writable;         /* insert() will be called */
  bool prefetch;         /* whether traverse() prefetches */
  uint64_t memory_limit; /* 0: none */
  bool discovery_order;  /* P3L: objects are in memory in the order of their discovery */
} oo1_how;

/* The mode's own counters since open(). */
typedef struct oo1_counts {
  uint64_t faults_handled; /* by the mode's own handler */
  uint64_t bytes_logged;   /* bytes written to make commits durable; 0: unknown */
} oo1_counts;

typedef void (*oo1_add)(void *state, const char *name, double value);

/* The measured operations; a second version of the same source adds up what it visits
 * (null_proc.h). */
typedef struct oo1_operations {
  void (*traverse)(uint32_t id, unsigned hops, bool prefetch);
  /* Ends after `limit` visits and then returns true. NULL: the layout has no reverse direction. */
  bool (*reverse)(uint32_t id, unsigned hops, uint64_t limit);
  void (*lookup)(const uint32_t *ids, unsigned count);
} oo1_operations;

typedef struct oo1_mode {
  const char *compiler;
  bool keeps;        /* the effect of insert() persists over close() and open() */
  bool durable;      /* the effect of insert() survives a power failure once it returns */
  bool can_prefetch; /* supports a memory limit and discovery_order, too: P3L */
  bool can_limit;
  /* Loads the graph into an empty folder. */
  void (*load)(const oo1_graph *graph, const char *folder);
  /* `room` is the number of parts that may be inserted. */
  void (*open)(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room);
  void (*close)(void);
  oo1_operations timed, looking;
  /* Inserts new parts, whose connections lead to old ones and each other; visits and commits. */
  void (*insert)(const oo1_graph_part *parts, unsigned count);
  void (*counts)(oo1_counts *counts);
  void (*statistics)(oo1_add add, void *state); /* NULL: no statistics of its own */
} oo1_mode;

#define OO1_HOPS 7

/* The paper's layout has no connections backwards. */
#ifdef OO1_PAPER
#define OO1_REVERSE(pass) NULL
#else
#define OO1_REVERSE(pass) oo1_##pass##_reverse
#endif

#if defined(__clang__)
#define OO1_COMPILER __VERSION__
#else
#define OO1_COMPILER "gcc " __VERSION__
#endif

#ifdef __cplusplus
}
#endif

#endif
