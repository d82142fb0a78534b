/*
 * T1, T2a and T6: included twice by database.h, with
 *
 *   OO7_PASS(name)      the name of a function in this pass
 *   OO7_VISIT(part)     what is done with an atomic part
 *   OO7_UPDATES         whether T2a changes anything
 *
 * T1: the assemblies, depth first; of each base assembly its three private composite parts; of each of
 * them all atomic parts, depth first from its root by connections, each once. T2a: the same, and the
 * root's x and y are exchanged. T6: of each composite part the root alone. No guard: it is a template.
 */

/* Bit i of `seen`: atomic part i of the composite part was visited. Returned by value, so that
 * it stays in a register over calls. */
static uint32_t OO7_PASS(graph)(struct oo7_atomic *part, uint32_t seen) {
  OO7_VISIT(part);
  seen |= UINT32_C(1) << part->id % OO7_ATOMIC;
  /* gcc unrolls the loop automatically without a check in it, and not with one: request it. */
  _Pragma("GCC unroll 3") for (unsigned k = 0; k < OO7_OUT; k++) {
    struct oo7_connection *connection = OO7_GET(part->to[k]);
    struct oo7_atomic *next = OO7_GET(connection->to);
    if ((seen >> next->id % OO7_ATOMIC & 1) == 0) seen = OO7_PASS(graph)(next, seen);
  }
  return seen;
}

static void OO7_PASS(composite)(struct oo7_composite *composite, oo7_traversal traversal) {
  struct oo7_atomic *root = OO7_GET(composite->root);
  if (traversal == OO7_T6) {
    OO7_VISIT(root);
    return;
  }
  if (OO7_UPDATES && traversal == OO7_T2A) {
    OO7_CHANGE(root);
    uint32_t x = root->x;
    root->x = root->y;
    root->y = x;
  }
  OO7_PASS(graph)(root, 0);
}

static void OO7_PASS(assembly)(struct oo7_assembly *assembly, oo7_traversal traversal) {
  for (unsigned k = 0; k < OO7_FAN; k++) {
    if (assembly->level > 1)
      OO7_PASS(assembly)(OO7_GET(assembly->sub[k]), traversal);
    else
      OO7_PASS(composite)(OO7_GET(assembly->own[k]), traversal);
  }
}
