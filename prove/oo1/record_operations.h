/* operations.h for records: included twice by records.h. No guard: it is a template. */

static void OO1_PASS(forward)(uint32_t id, unsigned hops) {
  oo1_record part;
  mode_fetch(id, &part, hops != 0);
  OO1_VISIT(&part);
  if (hops == 0) return;
  for (int k = 0; k < OO1_OUT; k++) OO1_PASS(forward)(part.to[k], hops - 1);
}

static void OO1_PASS(traverse)(uint32_t id, unsigned hops, bool prefetch) {
  (void)prefetch;
  mode_enter();
  OO1_PASS(forward)(id, hops);
  mode_leave();
}

#ifndef OO1_PAPER
static void OO1_PASS(backward)(uint32_t id, unsigned hops, uint64_t *left) {
  if (*left == 0) return;
  --*left;
  oo1_record part;
  mode_fetch(id, &part, false);
  OO1_VISIT(&part);
  if (hops == 0) return;
  /* Read all of them before the next hop, which uses the statement or cursor again. */
  uint32_t few[16], *from = few;
  uint32_t count = mode_from(id, &from, 16);
  for (uint32_t i = 0; i < count; i++) OO1_PASS(backward)(from[i], hops - 1, left);
  if (from != few) free(from);
}

static bool OO1_PASS(reverse)(uint32_t id, unsigned hops, uint64_t limit) {
  uint64_t left = limit;
  mode_enter();
  OO1_PASS(backward)(id, hops, &left);
  mode_leave();
  return left == 0;
}
#endif

static void OO1_PASS(lookup)(const uint32_t *ids, unsigned count) {
  mode_enter();
  for (unsigned i = 0; i < count; i++) {
    oo1_record part;
    mode_fetch(ids[i], &part, false);
    OO1_VISIT(&part);
  }
  mode_leave();
}
