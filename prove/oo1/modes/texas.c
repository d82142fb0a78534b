/* Plain C pointers, swizzled a page at a time by texas.c. TEXAS_MEANS is the build's. */
#include <stdlib.h>

#include "die.h"
#include "loader.h"
#include "texas.h"

#include "plain_pointers.h"
#define OO1_DIRTY(T, p) ((void)(p)) /* the page fault marks it */
#define OO1_NEW(T, near, from) ((struct T *)texas_new(sizeof(struct T), fields_of_##T))
#define OO1_ROOT() mode_root
#define OO1_SET_ROOT(p) ((void)(p)) /* the loader did */
#define OO1_BEGIN() ((void)0)
#define OO1_COMMIT() texas_commit()
#define OO1_ENTER() ((void)0)
#define OO1_LEAVE() ((void)0)
#define OO1_PREFETCH(part, hops) ((void)(part))
#define OO1_FLAGS true, true, false, false
#define OO1_STATISTICS mode_statistics

#include "fields.h"

static struct oo1_root *mode_root;

static void mode_load(const oo1_graph *graph, const char *folder) {
  OO1_LOADER.load(graph, folder);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t parts, uint32_t room) {
  (void)parts, (void)room;
  char *path = oo1_format("%s/image", folder);
  texas_open(path, TEXAS_MEANS, how->writable);
  mode_root = texas_root();
  free(path);
}

static void mode_close(void) { texas_close(); }

static void mode_counts(oo1_counts *counts) {
  texas_figures figures = texas_look();
  counts->faults_handled = figures.faults;
  counts->bytes_logged = figures.bytes_logged;
}

static void mode_statistics(oo1_add add, void *state) {
  texas_figures figures = texas_look();
  add(state, "faults", (double)figures.faults);
  add(state, "pages_read", (double)figures.pages_read);
  add(state, "swizzled", (double)figures.swizzled);
  add(state, "bytes_logged", (double)figures.bytes_logged);
}

#include "database.h"
