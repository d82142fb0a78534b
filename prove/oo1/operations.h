/*
 * The measured operations: included twice by database.h, with
 *
 *   OO1_PASS(name)      the name of a function in this pass
 *   OO1_VISIT(part)     the operation on a part
 *
 * and otherwise in the terms of database.h. No guard: it is a template.
 */

static void OO1_PASS(forward)(OO1_PTR(oo1_part) part, unsigned hops);

__attribute__((always_inline)) static inline void OO1_PASS(follow)(OO1_PTR(oo1_part) part, int k,
                                                                   unsigned hops) {
#ifdef OO1_PAPER
  OO1_PTR(oo1_part) next = OO1_GET(oo1_part, OO1_AT(oo1_part, part)->to[k]);
#else
  OO1_PTR(oo1_connection) connection = OO1_GET(oo1_connection, OO1_AT(oo1_part, part)->to[k]);
  OO1_PTR(oo1_part) next = OO1_GET(oo1_part, OO1_AT(oo1_connection, connection)->to);
  OO1_DROP(connection);
#endif
  OO1_PASS(forward)(next, hops);
  OO1_DROP(next);
}

/*
 * One call per visit, three calls and no loop, in every mode. Otherwise gcc 12 inlines the
 * recursion into itself, once, thirty times or not at all, and may unroll the loop, depending on
 * the function's size: a check then changes that, and two modes differ by a factor of 1.7 for an
 * unrelated reason. (With `GCC unroll 3` on the loop it does not terminate.) Mode plain-inline
 * is plain without this.
 */
OO1_ONE_CALL static void OO1_PASS(forward)(OO1_PTR(oo1_part) part, unsigned hops) {
  OO1_VISIT(part);
  if (hops == 0) return;
  OO1_PASS(follow)(part, 0, hops - 1);
  OO1_PASS(follow)(part, 1, hops - 1);
  OO1_PASS(follow)(part, 2, hops - 1);
}

static void OO1_PASS(traverse)(uint32_t id, unsigned hops, bool prefetch) {
  OO1_ENTER();
  OO1_PTR(oo1_part) part = oo1_find(id);
  if (prefetch) OO1_PREFETCH(part, hops);
  OO1_PASS(forward)(part, hops);
  OO1_DROP(part);
  OO1_LEAVE();
}

#ifndef OO1_PAPER
OO1_ONE_CALL static void OO1_PASS(backward)(OO1_PTR(oo1_part) part, unsigned hops, uint64_t *left) {
  if (*left == 0) return;
  --*left;
  OO1_VISIT(part);
  if (hops == 0) return;
  OO1_PTR(oo1_connection)
  connection = OO1_GET_OR_NULL(oo1_connection, OO1_AT(oo1_part, part)->from);
  while (connection != NULL) {
    OO1_PTR(oo1_part) next = OO1_GET(oo1_part, OO1_AT(oo1_connection, connection)->from);
    OO1_PASS(backward)(next, hops - 1, left);
    OO1_DROP(next);
    OO1_PTR(oo1_connection)
    other = OO1_GET_OR_NULL(oo1_connection, OO1_AT(oo1_connection, connection)->next);
    OO1_DROP(connection);
    connection = other;
  }
}

static bool OO1_PASS(reverse)(uint32_t id, unsigned hops, uint64_t limit) {
  OO1_ENTER();
  uint64_t left = limit;
  OO1_PTR(oo1_part) part = oo1_find(id);
  OO1_PASS(backward)(part, hops, &left);
  OO1_DROP(part);
  OO1_LEAVE();
  return left == 0;
}
#endif

static void OO1_PASS(lookup)(const uint32_t *ids, unsigned count) {
  OO1_ENTER();
  for (unsigned i = 0; i < count; i++) {
    OO1_PTR(oo1_part) part = oo1_find(ids[i]);
    OO1_VISIT(part);
    OO1_DROP(part);
  }
  OO1_LEAVE();
}
