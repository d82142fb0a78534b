/*
 * A way to keep the graph and to follow its pointers, as the driver sees it. Each mode has one of
 * these for each layout; a process has one store open at most. Whatever fails ends the program
 * (die.h).
 */
#ifndef OO1_MODE_H
#define OO1_MODE_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct oo1_how {
  bool writable;         /* insert() will be called */
  bool prefetch;         /* traverse() may be told to */
  uint64_t memory_limit; /* 0: none */
  bool discovery_order;  /* P3L: objects lie in memory in the order of their discovery */
} oo1_how;

/* What the mode knows better than the kernel; since open(). */
typedef struct oo1_counts {
  uint64_t faults_handled; /* by the mode's own handler */
  uint64_t bytes_logged;   /* written to make commits durable; 0: it cannot tell */
} oo1_counts;

typedef void (*oo1_add)(void *state, const char *name, double value);

/* The measured operations; a second set of the same source looks at what it visits (null_proc.h). */
typedef struct oo1_operations {
  void (*traverse)(uint32_t id, unsigned hops, bool prefetch);
  /* Ends after `limit` visits; true: it did. NULL: the layout has no way back. */
  bool (*reverse)(uint32_t id, unsigned hops, uint64_t limit);
  void (*lookup)(const uint32_t *ids, unsigned count);
} oo1_operations;

typedef struct oo1_mode {
  const char *compiler;
  bool keeps;        /* what insert() did is there after close() and open() */
  bool durable;      /* what insert() did survives a power failure when it returns */
  bool can_prefetch; /* and takes a memory limit, and discovery_order: P3L */
  bool can_limit;
  /* Into an empty folder. */
  void (*load)(const oo1_graph *graph, const char *folder);
  /* `room` parts may be inserted. */
  void (*open)(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room);
  void (*close)(void);
  oo1_operations timed, looking;
  /* New parts, whose connections lead to old ones and each other; visits and commits. */
  void (*insert)(const oo1_graph_part *parts, unsigned count);
  void (*counts)(oo1_counts *counts);
  void (*statistics)(oo1_add add, void *state); /* NULL: none of its own */
} oo1_mode;

#define OO1_HOPS 7

#if defined(__clang__)
#define OO1_COMPILER __VERSION__
#else
#define OO1_COMPILER "gcc " __VERSION__
#endif

#ifdef __cplusplus
}
#endif

#endif
