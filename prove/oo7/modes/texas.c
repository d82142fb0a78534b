/* Plain C pointers, swizzled a page at a time at its first access: ../oo1/texas.c. */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "die.h"
#include "files.h"
#include "texas.h"

#define OO7_REF(T) struct T *
#define OO7_GET(slot) (slot)
#define OO7_SET(slot, p) ((slot) = (p))
#define OO7_CHANGE(p) ((void)(p)) /* the page fault marks it */
#define OO7_NEW(T, near) ((void)(near), (struct T *)texas_new(sizeof(struct T), slots_of_##T))
#define OO7_COMMIT() texas_commit()

#include "schema.h"

#define SLOTS(T, field)                                               \
  {                                                                   \
    (uint32_t) offsetof(struct T, field),                             \
        (uint32_t)(sizeof(((struct T *)0)->field) / sizeof(uint64_t)) \
  }
#define DESCRIBE(T, ...) static const image_field slots_of_##T[] = {__VA_ARGS__, {0, 0}}
DESCRIBE(oo7_atomic, SLOTS(oo7_atomic, to), SLOTS(oo7_atomic, from), SLOTS(oo7_atomic, part_of));
DESCRIBE(oo7_connection, SLOTS(oo7_connection, from), SLOTS(oo7_connection, to),
         SLOTS(oo7_connection, next));
DESCRIBE(oo7_document, SLOTS(oo7_document, part));
DESCRIBE(oo7_use, SLOTS(oo7_use, by), SLOTS(oo7_use, next));
DESCRIBE(oo7_composite, SLOTS(oo7_composite, document), SLOTS(oo7_composite, root),
         SLOTS(oo7_composite, part), SLOTS(oo7_composite, used_privately),
         SLOTS(oo7_composite, shared_by));
DESCRIBE(oo7_assembly, SLOTS(oo7_assembly, module), SLOTS(oo7_assembly, up),
         SLOTS(oo7_assembly, sub), SLOTS(oo7_assembly, own), SLOTS(oo7_assembly, shared));
static const image_field slots_of_oo7_manual_page[] = {{0, 0}};
DESCRIBE(oo7_manual, SLOTS(oo7_manual, page));
DESCRIBE(oo7_module, SLOTS(oo7_module, manual), SLOTS(oo7_module, root));

#include "database.h"

static struct oo7_module *module;

static void mode_open(const char *folder, bool writable) {
  char *path = oo1_format("%s/image", folder);
  texas_open(path, TEXAS_MPROTECT, writable);
  module = texas_root();
  free(path);
}

static void mode_load(const char *folder, uint64_t seed) {
  char *path = oo1_format("%s/image", folder);
  int file = image_create(path);
  /* The root is the first object, at a known place. */
  image_header header;
  oo1_read_all(file, path, &header, sizeof header, 0);
  uint64_t end = header.end;
  header.root = image_place(&end, sizeof(struct oo7_module));
  oo1_write_all(file, path, &header, sizeof header, 0);
  if (ftruncate(file, IMAGE_PAGE) != 0) oo1_die_errno("%s cannot be made a page long", path);
  close(file);
  free(path);
  mode_open(folder, true);
  struct oo7_module *made = OO7_NEW(oo7_module, NULL);
  if (made != module) oo1_die("the module is not the first object of the image");
  make_database(made, seed);
  OO7_COMMIT();
  texas_close();
}

static uint64_t run(oo7_traversal traversal, bool prefetch) {
  (void)prefetch;
  visits = 0;
  timed_assembly(module->root, traversal);
  if (traversal == OO7_T2A) OO7_COMMIT();
  return visits;
}

static void look(oo7_traversal traversal) { looking_assembly(module->root, traversal); }

static uint64_t faults_handled(void) { return texas_look().faults; }
static uint64_t bytes_logged(void) { return texas_look().bytes_logged; }
static void statistics(oo7_add add, void *state) {
  texas_figures figures = texas_look();
  add(state, "faults", (double)figures.faults);
  add(state, "pages_read", (double)figures.pages_read);
  add(state, "swizzled", (double)figures.swizzled);
  add(state, "bytes_logged", (double)figures.bytes_logged);
}

const oo7_mode oo7_this_mode = {"texas",        OO7_COMPILER, false,     mode_load,
                                mode_open,      texas_close,  run,       look,
                                faults_handled, bytes_logged, statistics};
