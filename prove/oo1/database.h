/*
 * The benchmark on structures linked by pointers: index, operations, load and insert, for all such
 * modes. A template: a mode defines, before it includes this,
 *
 *   OO1_REF(T)                a slot that leads to a struct T
 *   OO1_PTR(T)                what leads to one in a local variable
 *   OO1_AT(T, p)              the struct's address, to take fields of it
 *   OO1_GET(T, slot)          OO1_PTR(T) from a slot; OO1_GET_OR_NULL where it may be empty
 *   OO1_DROP(p)               the pointer is not used any more
 *   OO1_SET(slot, p)          the slot leads to p from now on
 *   OO1_COPY(slot, other)     what the other slot holds; a mode may leave it out: assignment
 *   OO1_EMPTY(slot)           does it lead nowhere?
 *   OO1_DIRTY(T, p)           before fields of it are changed, but right after OO1_NEW
 *   OO1_NEW(T, near, from)    a new one, zeroed, close to `near` (OO1_PTR(from) or NULL)
 *   OO1_ROOT()                OO1_PTR(oo1_root) of the open store; OO1_SET_ROOT(p) when it is made
 *   OO1_BEGIN(), OO1_COMMIT() around changes; OO1_ENTER(), OO1_LEAVE() around reading
 *   OO1_PREFETCH(part, hops)
 *   OO1_SYMBOL                of the mode as others see it
 *   OO1_FLAGS                 its keeps, durable, can_prefetch, can_limit
 *
 * and, after schema.h, the functions mode_load, mode_open, mode_close, mode_counts and
 * OO1_STATISTICS. A mode that has a better index than a tree (plain) defines OO1_OWN_INDEX, and
 * oo1_find and oo1_enter itself.
 */
#include <string.h>

#include "die.h"
#include "mode.h"
#include "null_proc.h"
#include "schema.h"

#ifndef OO1_COPY
#define OO1_COPY(slot, other) ((slot) = (other))
#endif

#ifndef OO1_OWN_INDEX
static inline OO1_PTR(oo1_part) oo1_find(uint32_t id) {
  OO1_PTR(oo1_root) root = OO1_ROOT();
  OO1_PTR(oo1_branch)
  branch = OO1_GET(oo1_branch, OO1_AT(oo1_root, root)->branch[id / (OO1_FAN * OO1_FAN)]);
  OO1_PTR(oo1_leaf)
  leaf = OO1_GET(oo1_leaf, OO1_AT(oo1_branch, branch)->leaf[id / OO1_FAN % OO1_FAN]);
  OO1_DROP(branch);
  OO1_PTR(oo1_part) part = OO1_GET(oo1_part, OO1_AT(oo1_leaf, leaf)->part[id % OO1_FAN]);
  OO1_DROP(leaf);
  return part;
}

static void oo1_enter(uint32_t id, OO1_PTR(oo1_part) part) {
  OO1_PTR(oo1_root) root = OO1_ROOT();
  unsigned at = id / (OO1_FAN * OO1_FAN);
  if (OO1_EMPTY(OO1_AT(oo1_root, root)->branch[at])) {
    OO1_PTR(oo1_branch) fresh = OO1_NEW(oo1_branch, root, oo1_root);
    OO1_DIRTY(oo1_root, root);
    OO1_SET(OO1_AT(oo1_root, root)->branch[at], fresh);
    OO1_DROP(fresh);
  }
  OO1_PTR(oo1_branch) branch = OO1_GET(oo1_branch, OO1_AT(oo1_root, root)->branch[at]);
  at = id / OO1_FAN % OO1_FAN;
  if (OO1_EMPTY(OO1_AT(oo1_branch, branch)->leaf[at])) {
    OO1_PTR(oo1_leaf) fresh = OO1_NEW(oo1_leaf, part, oo1_part);
    OO1_DIRTY(oo1_branch, branch);
    OO1_SET(OO1_AT(oo1_branch, branch)->leaf[at], fresh);
    OO1_DROP(fresh);
  }
  OO1_PTR(oo1_leaf) leaf = OO1_GET(oo1_leaf, OO1_AT(oo1_branch, branch)->leaf[at]);
  OO1_DROP(branch);
  OO1_DIRTY(oo1_leaf, leaf);
  OO1_SET(OO1_AT(oo1_leaf, leaf)->part[id % OO1_FAN], part);
  OO1_DROP(leaf);
}
#endif

/* ---- changes ---- */

/* The part and its connections, adjacent, without targets yet. */
static void oo1_add_part(const oo1_graph_part *from) {
  OO1_PTR(oo1_part) part = OO1_NEW(oo1_part, NULL, oo1_part);
  OO1_AT(oo1_part, part)->build = from->build;
  OO1_AT(oo1_part, part)->id = from->id;
  OO1_AT(oo1_part, part)->x = from->x;
  OO1_AT(oo1_part, part)->y = from->y;
  for (int i = 0; i < OO1_TYPE_BYTES; i++) OO1_AT(oo1_part, part)->type[i] = from->type[i];
#ifndef OO1_PAPER
  for (int k = 0; k < OO1_OUT; k++) {
    OO1_PTR(oo1_connection) connection = OO1_NEW(oo1_connection, part, oo1_part);
    OO1_AT(oo1_connection, connection)->length = from->out[k].length;
    for (int i = 0; i < OO1_TYPE_BYTES; i++)
      OO1_AT(oo1_connection, connection)->type[i] = from->out[k].type[i];
    OO1_SET(OO1_AT(oo1_connection, connection)->from, part);
    OO1_SET(OO1_AT(oo1_part, part)->to[k], connection);
    OO1_DROP(connection);
  }
#endif
  oo1_enter(from->id, part);
  OO1_DROP(part);
}

/* Sets the targets of its connections; all parts exist. */
static void oo1_link_part(const oo1_graph_part *from) {
  OO1_PTR(oo1_part) part = oo1_find(from->id);
#ifdef OO1_PAPER
  OO1_DIRTY(oo1_part, part);
#endif
  for (int k = 0; k < OO1_OUT; k++) {
    OO1_PTR(oo1_part) to = oo1_find(from->out[k].to);
#ifdef OO1_PAPER
    OO1_SET(OO1_AT(oo1_part, part)->to[k], to);
#else
    OO1_PTR(oo1_connection) connection = OO1_GET(oo1_connection, OO1_AT(oo1_part, part)->to[k]);
    OO1_DIRTY(oo1_connection, connection);
    OO1_DIRTY(oo1_part, to);
    OO1_SET(OO1_AT(oo1_connection, connection)->to, to);
    OO1_COPY(OO1_AT(oo1_connection, connection)->next, OO1_AT(oo1_part, to)->from);
    OO1_SET(OO1_AT(oo1_part, to)->from, connection);
    OO1_DROP(connection);
#endif
    OO1_DROP(to);
  }
  OO1_DROP(part);
}

/* Parts per transaction of the load; with this number the cost of commits is negligible. */
#define OO1_BATCH 100000u

/* The whole load except opening and closing. Unused in modes that load another's file. */
__attribute__((unused)) static void oo1_fill(const oo1_graph *graph) {
  OO1_BEGIN();
  OO1_PTR(oo1_root) root = OO1_NEW(oo1_root, NULL, oo1_root);
  OO1_SET_ROOT(root);
  OO1_DROP(root);
  OO1_COMMIT();
  for (int linking = 0; linking < 2; linking++) {
    for (uint32_t i = 0; i < graph->header.parts; i++) {
      if (i % OO1_BATCH == 0) OO1_BEGIN();
      if (linking)
        oo1_link_part(&graph->parts[i]);
      else
        oo1_add_part(&graph->parts[i]);
      if ((i + 1) % OO1_BATCH == 0 || i + 1 == graph->header.parts) OO1_COMMIT();
    }
  }
}

/* ---- reading, twice ---- */

#ifdef OO1_INLINE
#define OO1_ONE_CALL
#else
#define OO1_ONE_CALL __attribute__((noinline))
#endif

#define OO1_TYPE_OF(part) ((const char *)OO1_AT(oo1_part, part)->type)

#define OO1_PASS(name) oo1_timed_##name
#define OO1_VISIT(part) \
  oo1_null_proc(OO1_AT(oo1_part, part)->x, OO1_AT(oo1_part, part)->y, OO1_TYPE_OF(part))
#include "operations.h"
#undef OO1_VISIT
#undef OO1_PASS

static void oo1_insert(const oo1_graph_part *parts, unsigned count) {
  OO1_BEGIN();
  for (unsigned i = 0; i < count; i++) {
    oo1_add_part(&parts[i]);
    oo1_null_proc(parts[i].x, parts[i].y, parts[i].type);
  }
  for (unsigned i = 0; i < count; i++) oo1_link_part(&parts[i]);
  OO1_COMMIT();
}

#define OO1_PASS(name) oo1_looking_##name
#define OO1_VISIT(part)                                                                      \
  oo1_look(OO1_AT(oo1_part, part)->id, OO1_AT(oo1_part, part)->x, OO1_AT(oo1_part, part)->y, \
           OO1_TYPE_OF(part))
#include "operations.h"
#undef OO1_VISIT
#undef OO1_PASS

/* ---- the mode as others see it ---- */

#ifdef __cplusplus
extern "C" {
#endif
extern const oo1_mode OO1_SYMBOL;
const oo1_mode OO1_SYMBOL = {
    OO1_COMPILER,
    OO1_FLAGS,
    mode_load,
    mode_open,
    mode_close,
    {oo1_timed_traverse, OO1_REVERSE(timed), oo1_timed_lookup},
    {oo1_looking_traverse, OO1_REVERSE(looking), oo1_looking_lookup},
    oo1_insert,
    mode_counts,
    OO1_STATISTICS,
};
#ifdef __cplusplus
}
#endif
