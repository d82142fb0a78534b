/* Object ids, looked up and pinned by a call at each dereference: e.c. */
#include <stdlib.h>

#include "die.h"
#include "e.h"
#include "loader.h"

#define OO1_REF(T) uint64_t
#define OO1_PTR(T) e_object *
#define OO1_AT(T, p) ((struct T *)(p)->address)
#define OO1_GET(T, slot) e_pin(slot)
#define OO1_GET_OR_NULL(T, slot) ((slot) == 0 ? NULL : e_pin(slot))
#define OO1_DROP(p) e_unpin(p)
#define OO1_SET(slot, p) ((slot) = (p)->id)
#define OO1_EMPTY(slot) ((slot) == 0)
#define OO1_DIRTY(T, p) e_dirty(p, sizeof(struct T))
#define OO1_NEW(T, near, from) e_new(sizeof(struct T), fields_of_##T)
#define OO1_ROOT() mode_root
#define OO1_SET_ROOT(p) ((void)(p)) /* the loader did */
#define OO1_BEGIN() ((void)0)
#define OO1_COMMIT() e_commit()
#define OO1_ENTER() ((void)0)
#define OO1_LEAVE() ((void)0)
#define OO1_PREFETCH(part, hops) ((void)(part))
#define OO1_FLAGS true, true, false, false
#define OO1_STATISTICS mode_statistics

#include "fields.h"

static e_object *mode_root;

static void mode_load(const oo1_graph *graph, const char *folder) {
  OO1_LOADER.load(graph, folder);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room) {
  (void)parts, (void)room;
  char *path = oo1_format("%s/image", folder);
  e_open(path, how->writable);
  mode_root = e_root();
  free(path);
}

static void mode_close(void) { e_close(); }

static void mode_counts(oo1_counts *counts) { counts->bytes_logged = e_look().bytes_logged; }

static void mode_statistics(oo1_add add, void *state) {
  e_figures figures = e_look();
  add(state, "objects", (double)figures.objects);
  add(state, "pages_read", (double)figures.pages_read);
  add(state, "bytes_logged", (double)figures.bytes_logged);
}

#include "database.h"
