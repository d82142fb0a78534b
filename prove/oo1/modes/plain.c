/*
 * Plain C structures linked by C pointers, in arrays in the order of ids: a limit that
 * persistence schemes can beat only by placing objects differently. Built from the graph when
 * opened; inserts do not persist.
 */
#include <stdlib.h>

#include "plain_pointers.h"
#define OO1_DIRTY(T, p) ((void)(p))
#define OO1_NEW(T, near, from) plain_new_##T()
#define OO1_SET_ROOT(p) ((void)(p))
#define OO1_BEGIN() ((void)0)
#define OO1_COMMIT() ((void)0)
#define OO1_ENTER() ((void)0)
#define OO1_LEAVE() ((void)0)
#define OO1_PREFETCH(part, hops) ((void)(part))
#define OO1_FLAGS false, false, false, false
#define OO1_STATISTICS NULL
#define OO1_OWN_INDEX

#include "schema.h"

/* Array `name` of T with space for inserts; it begins at a cache line. */
#define ARRAY(T, name)                          \
  static struct T *name;                        \
  static uint32_t name##_used, name##_capacity; \
  static struct T *plain_new_##T(void) { return &name[name##_used++]; }
ARRAY(oo1_part, parts)
#ifndef OO1_PAPER
ARRAY(oo1_connection, connections)
#endif

static struct oo1_root no_root;
__attribute__((unused)) static struct oo1_root *plain_new_oo1_root(void) { return &no_root; }

static inline struct oo1_part *oo1_find(uint32_t id) { return &parts[id - 1]; }
static void oo1_enter(uint32_t id, struct oo1_part *part) { (void)id, (void)part; }

#include "files.h"
#include "mode.h"

static void mode_load(const oo1_graph *graph, const char *folder);
static void mode_open(const char *folder, const oo1_how *how, uint32_t count, uint32_t room);
static void mode_close(void);
static void mode_counts(oo1_counts *counts) { (void)counts; }

#include "database.h"

static void mode_load(const oo1_graph *graph, const char *folder) {
  char *path = oo1_format("%s/graph", folder);
  oo1_file_write(path, graph->mapping, graph->mapped_bytes);
  free(path);
}

static void *lines(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (memory == NULL) oo1_die("no memory for %lu bytes of parts", bytes);
  return memset(memory, 0, bytes);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t count, uint32_t room) {
  (void)how;
  char *path = oo1_format("%s/graph", folder);
  oo1_graph graph = oo1_graph_open(path);
  parts_capacity = count + room;
  parts_used = 0;
  parts = lines(parts_capacity * sizeof *parts);
#ifndef OO1_PAPER
  connections_capacity = OO1_OUT * parts_capacity;
  connections_used = 0;
  connections = lines(connections_capacity * sizeof *connections);
#endif
  oo1_fill(&graph);
  oo1_graph_close(&graph);
  free(path);
}

static void mode_close(void) {
  free(parts);
#ifndef OO1_PAPER
  free(connections);
#endif
}
