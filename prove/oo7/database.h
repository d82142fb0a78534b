/*
 * The generator of the database, for both modes. A template: a mode defines, before it includes
 * this,
 *
 *   OO7_REF(T)              a slot that leads to a struct T (before schema.h)
 *   OO7_GET(slot)           the struct's address
 *   OO7_SET(slot, p)        the slot leads to p from now on
 *   OO7_CHANGE(p)           before fields of *p are changed, but right after OO7_NEW
 *   OO7_NEW(T, near)        a new one, zeroed, close to `near` (or NULL)
 *   OO7_COMMIT()            makes changes durable
 *
 * Objects are made in the order in which OO7 clusters them: a composite part with its document, its
 * atomic parts, each followed by its connections; then the assemblies, depth first.
 */
#include <string.h>

#include "mode.h"
#include "random.h"
#include "schema.h"

/* Objects under construction, as plain addresses: no object is evicted in this phase. */
static struct {
  oo1_random random;
  struct oo7_module *module;
  struct oo7_composite *composites[OO7_COMPOSITES];
  uint32_t assemblies;
} making;

static uint32_t draw(uint32_t limit) { return (uint32_t)oo1_below(&making.random, limit); }

static void draw_type(char *type) {
  memcpy(type, "type00", 6);
  type[6] = (char)('0' + draw(10));
}

static int32_t draw_build(void) { return (int32_t)(1000 + draw(1000)); }

static void connect(struct oo7_atomic *from, unsigned k, struct oo7_atomic *to) {
  struct oo7_connection *connection = OO7_NEW(oo7_connection, from);
  connection->length = 1 + draw(1000);
  draw_type(connection->type);
  OO7_SET(connection->from, from);
  OO7_SET(connection->to, to);
  OO7_SET(connection->next, OO7_GET(to->from));
  OO7_SET(to->from, connection);
  OO7_SET(from->to[k], connection);
}

static void make_composite(uint32_t id) {
  struct oo7_composite *composite = OO7_NEW(oo7_composite, NULL);
  making.composites[id] = composite;
  composite->id = id;
  composite->build = draw_build();
  draw_type(composite->type);

  struct oo7_document *document = OO7_NEW(oo7_document, composite);
  document->id = id;
  memcpy(document->title, "Composite part", 14);
  memset(document->text, 'd', sizeof document->text);
  OO7_SET(document->part, composite);
  OO7_SET(composite->document, document);

  struct oo7_atomic *parts[OO7_ATOMIC];
  for (uint32_t i = 0; i < OO7_ATOMIC; i++) {
    struct oo7_atomic *part = parts[i] = OO7_NEW(oo7_atomic, composite);
    part->id = id * OO7_ATOMIC + i;
    part->build = draw_build();
    part->x = draw(100000);
    part->y = draw(100000);
    part->document = id;
    draw_type(part->type);
    OO7_SET(part->part_of, composite);
    OO7_SET(composite->part[i], part);
  }
  OO7_SET(composite->root, parts[0]);
  /* The first connections form a ring, so that all parts can be reached from any. */
  for (uint32_t i = 0; i < OO7_ATOMIC; i++) {
    connect(parts[i], 0, parts[(i + 1) % OO7_ATOMIC]);
    for (unsigned k = 1; k < OO7_OUT; k++) connect(parts[i], k, parts[draw(OO7_ATOMIC)]);
  }
}

static struct oo7_use *make_use(struct oo7_assembly *by, struct oo7_use *next) {
  struct oo7_use *use = OO7_NEW(oo7_use, by);
  OO7_SET(use->by, by);
  OO7_SET(use->next, next);
  return use;
}

static struct oo7_assembly *make_assembly(struct oo7_assembly *up, uint32_t level) {
  struct oo7_assembly *assembly = OO7_NEW(oo7_assembly, up);
  assembly->id = making.assemblies++;
  assembly->build = draw_build();
  assembly->level = level;
  draw_type(assembly->type);
  OO7_SET(assembly->module, making.module);
  OO7_SET(assembly->up, up);
  for (unsigned k = 0; k < OO7_FAN; k++) {
    if (level > 1) {
      OO7_SET(assembly->sub[k], make_assembly(assembly, level - 1));
      continue;
    }
    struct oo7_composite *own = making.composites[draw(OO7_COMPOSITES)];
    OO7_SET(assembly->own[k], own);
    OO7_SET(own->used_privately, make_use(assembly, OO7_GET(own->used_privately)));
    struct oo7_composite *shared = making.composites[draw(OO7_COMPOSITES)];
    OO7_SET(assembly->shared[k], shared);
    OO7_SET(shared->shared_by, make_use(assembly, OO7_GET(shared->shared_by)));
  }
  return assembly;
}

/* Fills `module`, the first object of the store, within the current transaction. */
static void make_database(struct oo7_module *module, uint64_t seed) {
  making.random = oo1_stream(seed, 7);
  making.module = module;
  making.assemblies = 0;
  module->build = draw_build();
  draw_type(module->type);
  struct oo7_manual *manual = OO7_NEW(oo7_manual, module);
  memcpy(manual->title, "The manual", 10);
  for (unsigned i = 0; i < OO7_MANUAL_PAGES; i++) {
    struct oo7_manual_page *page = OO7_NEW(oo7_manual_page, NULL);
    memset(page->text, 'm', sizeof page->text);
    OO7_SET(manual->page[i], page);
  }
  OO7_SET(module->manual, manual);
  for (uint32_t id = 0; id < OO7_COMPOSITES; id++) make_composite(id);
  OO7_SET(module->root, make_assembly(NULL, OO7_LEVELS));
}

/* ---- the traversals, twice ---- */

#define OO7_PASS(name) timed_##name
#define OO7_VISIT(part) (visits++, oo7_null_proc((part)->x, (part)->y, (part)->type))
#define OO7_UPDATES 1
static uint64_t visits;
#include "operations.h"
#undef OO7_VISIT
#undef OO7_PASS
#undef OO7_UPDATES

#define OO7_PASS(name) looking_##name
#define OO7_VISIT(part) oo7_look((part)->id, (part)->x, (part)->y, (part)->type)
#define OO7_UPDATES 0
#include "operations.h"
#undef OO7_VISIT
#undef OO7_PASS
#undef OO7_UPDATES
