/*
 * Opening, transactions and figures of a P3L store, for P3L's modes in C and C++, included before
 * database.h. The mode has defined OO1_PTR.
 */
#include <stddef.h>
#include <stdlib.h>

#include "die.h"
#include "mode.h"

#define OO1_BEGIN() begin()
#define OO1_COMMIT() commit()
#define OO1_ENTER() p3l_enter(the_store)
#define OO1_LEAVE() p3l_leave(the_store)
#define OO1_PREFETCH(part, hops) prefetch_forward((const void *)(part), hops)
#define OO1_ROOT() the_root
#define OO1_SET_ROOT(p) set_root(p)
#define OO1_FLAGS true, true, true, true
#define OO1_STATISTICS mode_statistics

static p3l_store *the_store;
static OO1_PTR(oo1_root) the_root; /* pinned */

static void check(p3l_code code, const p3l_error *error) {
  if (code != P3L_OK) oo1_die("%s", error->message);
}

static void begin(void) {
  p3l_error error;
  check(p3l_begin(the_store, &error), &error);
}

static void commit(void) {
  p3l_error error;
  check(p3l_commit(the_store, &error), &error);
}

static void *made(void *object) {
  if (object == NULL) oo1_die("%s", p3l_failure(the_store)->message);
  return object;
}

#ifdef OO1_PAPER
static void prefetch_forward(const void *part, unsigned hops) {
  p3l_prefetch(the_store, part, hops);
}
#else
/* The pointers of a forward traversal: from a part to its connections, from these to their
 * targets; not the reverse pointers, which would include the whole database, nor the index. */
static bool leads_forward(void *state, const p3l_type *type, const p3l_field *slot) {
  (void)state;
  if (strcmp(type->name, "oo1_part") == 0) return slot->offset < offsetof(struct oo1_part, from);
  return strcmp(type->name, "oo1_connection") == 0 &&
         slot->offset == offsetof(struct oo1_connection, to);
}

/* Two pointers lead to the next part, since connections are objects. */
static void prefetch_forward(const void *part, unsigned hops) {
  p3l_prefetch_by(the_store, part, 2 * hops, leads_forward, NULL);
}
#endif

static void set_root(OO1_PTR(oo1_root) root) {
  if (p3l_set_root(the_store, "oo1", root) != P3L_OK)
    oo1_die("%s", p3l_failure(the_store)->message);
  the_root = root;
}

static void open_store(const char *folder, const p3l_options *options) {
  p3l_error error;
  char *path = oo1_format("%s/parts.p3l", folder);
  check(p3l_open(path, options, &the_store, &error), &error);
  free(path);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room) {
  (void)parts, (void)room;
  p3l_options options;
  memset(&options, 0, sizeof options);
  options.read_only = !how->writable;
  options.memory_bytes = how->memory_limit;
  options.discovery_order = how->discovery_order;
  open_store(folder, &options);
  p3l_enter(the_store);
  the_root = (OO1_PTR(oo1_root))p3l_root(the_store, "oo1");
  if (the_root == NULL) oo1_die("the store in %s has no root oo1", folder);
  p3l_pin(the_root);
  p3l_leave(the_store);
}

static void mode_close(void) {
  p3l_error error;
  p3l_enter(the_store);
  p3l_unpin(the_root);
  p3l_leave(the_store);
  check(p3l_close(the_store, &error), &error);
}

static void mode_counts(oo1_counts *counts) {
  p3l_statistics statistics;
  p3l_get_statistics(the_store, &statistics);
  counts->bytes_logged = statistics.bytes_logged;
}

static void mode_statistics(oo1_add add, void *state) {
  p3l_statistics s;
  p3l_get_statistics(the_store, &s);
  add(state, "swizzled", (double)s.swizzled);
  add(state, "objects_copied", (double)s.objects_copied);
  add(state, "pages_adopted", (double)s.pages_adopted);
  add(state, "pages_read", (double)s.pages_read);
  add(state, "reads", (double)s.reads);
  add(state, "objects_upgraded", (double)s.objects_upgraded);
  add(state, "evictions", (double)s.evictions);
  add(state, "objects_evicted", (double)s.objects_evicted);
  add(state, "memory_bytes", (double)s.memory_bytes);
  add(state, "memory_peak", (double)s.memory_peak);
  add(state, "cards_written", (double)s.cards_written);
  add(state, "commits", (double)s.commits);
  add(state, "bytes_logged", (double)s.bytes_logged);
}

static void oo1_fill(const oo1_graph *graph);
static void mode_load(const oo1_graph *graph, const char *folder) {
  p3l_error error;
  p3l_options options;
  memset(&options, 0, sizeof options);
  options.create = true;
  /* No checkpoint during the load: pages changed after one are logged again, and linking changes
   * all parts. */
  options.checkpoint_bytes = (UINT64_C(64) << 20) + graph->header.parts * UINT64_C(1024);
  open_store(folder, &options);
  oo1_fill(graph);
  check(p3l_close(the_store, &error), &error);
}
