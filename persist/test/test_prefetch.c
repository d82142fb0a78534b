/* Prefetching: the number of objects, on graphs small enough to count by hand. Prefetched
 * objects are walked without reading a page. */
#include "test_evict_fixture.h"

#include <pthread.h>

typedef struct node {
  uint64_t id;
  struct node *to[3];
  uint64_t *inside; /* a byte within a node */
  uint8_t filler[200];
} node;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, to), P3L_POINTERS(node, inside));

typedef struct wide {
  struct node *nodes[2000]; /* 16 KB: a large object */
} wide;
P3L_TYPE(wide, wide, 1, P3L_POINTERS(wide, nodes));

__attribute__((noinline)) static node *new_node(fixture *f, uint64_t id) {
  node *made = p3l_new(f->store, node);
  assert_non_null(made);
  made->id = id;
  return made;
}

static uint64_t pages_read(const fixture *f) { return fixture_statistics(f).pages_read; }

/*
 *   0 ──> 1 ──> 3 ──> 5 ──> 6
 *   │     └───> 4 ──> 0          a cycle
 *   └───> 2 ──> 4                met twice
 *         └┄┄┄> 5 + 8            by a pointer to its middle
 */
static void make_graph(fixture *f) {
  MUST(f, p3l_begin(f->store, &f->error));
  node *n[7];
  for (uint64_t i = 0; i < 7; i++) n[i] = new_node(f, i);
  n[0]->to[0] = n[1], n[0]->to[1] = n[2];
  n[1]->to[0] = n[3], n[1]->to[2] = n[4];
  n[2]->to[1] = n[4], n[2]->inside = &n[5]->id + 1;
  n[3]->to[0] = n[5];
  n[4]->to[0] = n[0];
  n[5]->to[0] = n[6];
  MUST(f, p3l_set_root(f->store, "graph", n[0]));
  MUST(f, p3l_commit(f->store, &f->error));
}

static void it_counts_what_is_there(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  make_graph(&f);
  const size_t reached[] = {1, 3, 6, 7, 7, 7};
  for (unsigned depth = 0; depth < 6; depth++) {
    fixture_reopen(&f, 0);
    node *root = p3l_root(f.store, "graph");
    assert_int_equal(p3l_prefetch(f.store, root, depth), reached[depth]);
    assert_int_equal(p3l_prefetch(f.store, root, depth), reached[depth]); /* now all swizzled */
    assert_int_equal(p3l_is_surrogate(root->to[0]), depth == 0);
  }
  node *root = p3l_root(f.store, "graph");
  uint64_t *inside = P3L_LD(P3L_LD(root->to[1])->inside);
  assert_int_equal(inside[-1], 5);
  assert_int_equal(p3l_prefetch(f.store, NULL, 3), 0);
  int local = 0;
  EXPECT_FAULT(P3L_MISUSE, "p3l_prefetch()", p3l_prefetch(f.store, &local, 1));
  fixture_drop(&f);
}

/* ---- a graph that has more pages than the pool ---- */

enum { NODES = 30000 }; /* 7 MB */

static uint64_t target_of(uint64_t id, uint64_t which) {
  uint64_t mixed = (id * 3 + which + 1) * UINT64_C(0x9e3779b97f4a7c15);
  mixed = (mixed ^ mixed >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
  return (mixed >> 20) % NODES;
}

static void make_random_graph(fixture *f) {
  fixture_make(f, 0);
  MUST(f, p3l_begin(f->store, &f->error));
  node **n = calloc(NODES, sizeof(*n));
  for (uint64_t i = 0; i < NODES; i++) n[i] = new_node(f, i);
  for (uint64_t i = 0; i < NODES; i++)
    for (uint64_t k = 0; k < 3; k++) n[i]->to[k] = n[target_of(i, k)];
  MUST(f, p3l_set_root(f->store, "graph", n[17]));
  MUST(f, p3l_commit(f->store, &f->error));
  free(n);
}

/* Number of nodes within `depth` of one, computed from the rule that made the graph. */
static size_t count_reachable(uint64_t from, unsigned depth) {
  uint8_t *seen = calloc(NODES, 1), *next = calloc(NODES, 1);
  size_t count = 1;
  seen[from] = 1;
  for (unsigned level = 0; level < depth; level++) {
    memcpy(next, seen, NODES);
    for (uint64_t i = 0; i < NODES; i++)
      for (uint64_t k = 0; seen[i] && k < 3; k++) next[target_of(i, k)] = 1;
    memcpy(seen, next, NODES);
  }
  for (uint64_t i = 0; i < NODES; i++) count += seen[i] && i != from;
  free(seen);
  free(next);
  return count;
}

static uint64_t walk(node *at, unsigned depth, uint64_t *faults) {
  uint64_t visits = 1;
  for (uint64_t k = 0; depth > 0 && k < 3; k++) {
    node *to = P3L_LD(at->to[k]);
    *faults += to->id != target_of(at->id, k);
    visits += walk(to, depth - 1, faults);
  }
  return visits;
}

static void what_was_prefetched_is_walked_without_reading(void **state) {
  (void)state;
  fixture f;
  make_random_graph(&f);
  for (unsigned depth = 1; depth <= 7; depth += 2) {
    fixture_reopen(&f, 0);
    node *root = p3l_root(f.store, "graph");
    assert_int_equal(p3l_prefetch(f.store, root, depth), count_reachable(17, depth));
    p3l_statistics before = fixture_statistics(&f);
    uint64_t faults = 0, visits = 1, level = 1;
    for (unsigned d = 0; d < depth; d++) visits += level *= 3;
    assert_int_equal(walk(root, depth, &faults), visits);
    assert_int_equal(faults, 0);
    p3l_statistics after = fixture_statistics(&f);
    assert_int_equal(after.pages_read, before.pages_read);
    assert_int_equal(after.reads, before.reads);
    /* No slow path is taken, because the slots are healed. */
    assert_int_equal(after.swizzled, before.swizzled);
  }
  fixture_drop(&f);
}

static void each_page_is_read_once(void **state) {
  (void)state;
  fixture f;
  make_random_graph(&f);
  fixture_reopen(&f, 0);
  node *root = p3l_root(f.store, "graph");
  size_t count = p3l_prefetch(f.store, root, 30);
  assert_int_equal(count, count_reachable(17, 30));
  assert_true(count > NODES / 2);
  /* 16 nodes of 240 bytes per page: 1875 pages, plus a few for the catalog and roots. */
  assert_true(pages_read(&f) <= 1875 + 40);
  assert_true(fixture_statistics(&f).reads < pages_read(&f));
  fixture_drop(&f);
}

/* Threads that prefetch the same graph, and walk it while others still prefetch. */
typedef struct walker {
  fixture *f;
  size_t count;
  uint64_t faults;
} walker;

static void *prefetch_and_walk(void *state) {
  walker *walker = state;
  p3l_enter(walker->f->store);
  node *root = p3l_root(walker->f->store, "graph");
  walker->count = p3l_prefetch(walker->f->store, root, 6);
  walk(root, 6, &walker->faults);
  p3l_leave(walker->f->store);
  return NULL;
}

static void threads_prefetch_side_by_side(void **state) {
  (void)state;
  enum { WALKERS = 4 };
  fixture f;
  make_random_graph(&f);
  for (uint64_t limit = 0; limit <= 4 << 20; limit += 4 << 20) {
    fixture_reopen(&f, limit); /* in place, and copied */
    pthread_t threads[WALKERS];
    walker walkers[WALKERS];
    for (int i = 0; i < WALKERS; i++) {
      walkers[i] = (walker){&f, 0, 0};
      assert_int_equal(pthread_create(&threads[i], NULL, prefetch_and_walk, &walkers[i]), 0);
    }
    for (int i = 0; i < WALKERS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < WALKERS; i++) {
      assert_int_equal(walkers[i].count, count_reachable(17, 6));
      assert_int_equal(walkers[i].faults, 0);
    }
  }
  fixture_drop(&f);
}

static void it_ends_at_the_memory_limit(void **state) {
  (void)state;
  enum { LIMIT = 4 << 20 };
  fixture f;
  make_random_graph(&f);
  fixture_reopen(&f, LIMIT);
  p3l_enter(f.store);
  node *root = p3l_root(f.store, "graph");
  size_t count = p3l_prefetch(f.store, root, 30);
  assert_true(count > 1000);
  assert_true(count < count_reachable(17, 30));
  assert_true(fixture_statistics(&f).memory_bytes < LIMIT + (1 << 20));
  uint64_t faults = 0;
  walk(root, 7, &faults); /* other objects are loaded on demand */
  assert_int_equal(faults, 0);
  p3l_leave(f.store);
  fixture_drop(&f);
}

static void large_objects_are_on_the_way(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  MUST(&f, p3l_begin(f.store, &f.error));
  wide *table = p3l_new(f.store, wide);
  for (uint64_t i = 0; i < 2000; i++) table->nodes[i] = i % 2 == 0 ? new_node(&f, i) : NULL;
  node *first = table->nodes[0];
  first->inside = (uint64_t *)&table->nodes[1999]; /* back into the large object */
  MUST(&f, p3l_set_root(f.store, "table", table));
  MUST(&f, p3l_set_root(f.store, "first", first));
  MUST(&f, p3l_commit(f.store, &f.error));
  fixture_reopen(&f, 0);
  assert_int_equal(p3l_prefetch(f.store, p3l_root(f.store, "first"), 1), 2);
  assert_int_equal(p3l_prefetch(f.store, p3l_root(f.store, "first"), 2), 1001);
  fixture_reopen(&f, 0);
  table = p3l_root(f.store, "table");
  assert_int_equal(p3l_prefetch(f.store, table, 1), 1001);
  uint64_t before = pages_read(&f);
  for (uint64_t i = 0; i < 2000; i += 2) assert_int_equal(P3L_LD(table->nodes[i])->id, i);
  assert_int_equal(pages_read(&f), before);
  fixture_drop(&f);
}

static void dangling_slots_are_left_to_whoever_follows_them(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  MUST(&f, p3l_begin(f.store, &f.error));
  node *root = new_node(&f, 1), *good = new_node(&f, 2), *gone = new_node(&f, 3);
  root->to[0] = gone;
  root->to[1] = good;
  MUST(&f, p3l_set_root(f.store, "graph", root));
  MUST(&f, p3l_commit(f.store, &f.error));
  MUST(&f, p3l_begin(f.store, &f.error));
  p3l_delete(f.store, gone);
  MUST(&f, p3l_commit(f.store, &f.error));
  fixture_reopen(&f, 0);
  root = p3l_root(f.store, "graph");
  assert_int_equal(p3l_prefetch(f.store, root, 3), 2);
  assert_true(p3l_is_surrogate(root->to[0]));
  assert_int_equal(P3L_LD(root->to[1])->id, 2);
  EXPECT_FAULT(P3L_DANGLING, "", p3l_swizzle(&root->to[0], root->to[0]));
  fixture_drop(&f);
}

/* ---- chosen pointers ---- */

typedef struct chooser {
  const char *field; /* NULL: any */
  uint32_t slot;     /* of the field; 3: any */
  unsigned asked;
} chooser;

static bool choose(void *state, const p3l_type *type, const p3l_field *field) {
  chooser *chooser = state;
  chooser->asked++;
  assert_string_equal(type->name, "node");
  assert_int_equal(field->count, 1);
  if (chooser->field != NULL && strcmp(field->name, chooser->field) != 0) return false;
  return chooser->slot == 3 || field->offset == offsetof(node, to) + chooser->slot * sizeof(node *);
}

static void only_chosen_pointers_are_followed(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  make_graph(&f);
  const struct {
    chooser chooser;
    size_t reached[5]; /* by depth */
    bool second;       /* true: to[1] is followed */
  } cases[] = {
      {{NULL, 3, 0}, {1, 3, 6, 7, 7}, true},
      {{"to", 3, 0}, {1, 3, 5, 6, 7}, true},      /* without 2 -> 5 */
      {{NULL, 0, 0}, {1, 2, 3, 4, 5}, false},     /* 0 1 3 5 6 */
      {{NULL, 1, 0}, {1, 2, 3, 3, 3}, true},      /* 0 2 4 */
      {{"inside", 3, 0}, {1, 1, 1, 1, 1}, false}, /* 0 has no such field */
      {{"nobody", 3, 0}, {1, 1, 1, 1, 1}, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    for (unsigned depth = 0; depth < 5; depth++) {
      fixture_reopen(&f, 0);
      node *root = p3l_root(f.store, "graph");
      chooser chooser = cases[i].chooser;
      assert_int_equal(p3l_prefetch_by(f.store, root, depth, choose, &chooser),
                       cases[i].reached[depth]);
      assert_int_equal(chooser.asked, depth == 0 ? 0 : 4); /* a node's slots, no object */
      /* A slot that is not followed stays unchanged. */
      assert_int_equal(p3l_is_surrogate(root->to[1]), depth == 0 || !cases[i].second);
    }
  fixture_drop(&f);
}

/* Copied objects are counted one by one: only those of the chain. */
static void nothing_else_becomes_resident(void **state) {
  (void)state;
  enum {
    LIMIT = 4 << 20,
    DEPTH = 20
  }; /* the store has 7 MB: nothing is adopted. No cycle is shorter */
  fixture f;
  make_random_graph(&f);
  for (uint32_t slot = 0; slot < 3; slot++) {
    fixture_reopen(&f, LIMIT);
    p3l_enter(f.store);
    node *at = p3l_root(f.store, "graph");
    chooser chooser = {NULL, slot, 0};
    assert_int_equal(fixture_statistics(&f).objects_copied, 1);
    assert_int_equal(p3l_prefetch_by(f.store, at, DEPTH, choose, &chooser), DEPTH + 1);
    p3l_statistics after = fixture_statistics(&f);
    assert_int_equal(after.objects_copied, DEPTH + 1);
    assert_int_equal(after.pages_adopted, 0);
    for (int step = 0; step < DEPTH; step++) {
      for (uint32_t other = 0; other < 3; other++)
        assert_int_equal(p3l_is_surrogate(at->to[other]), other != slot);
      assert_int_equal(at->to[slot]->id, target_of(at->id, slot));
      at = at->to[slot];
    }
    assert_int_equal(fixture_statistics(&f).swizzled, after.swizzled);
    p3l_leave(f.store);
  }
  fixture_drop(&f);
}

/* Never registered, so it is unknown after the store is reopened. */
typedef struct stranger {
  node *left, *right;
} stranger;
static const p3l_field stranger_fields[] = {{"left", 0, 1}, {"right", 8, 1}, {NULL, 0, 0}};
static const p3l_type stranger_type = {"stranger", 1, sizeof(stranger), stranger_fields, NULL};

static void unknown_types_are_followed_wholly(void **state) {
  (void)state;
  fixture f;
  fixture_make(&f, 0);
  MUST(&f, p3l_begin(f.store, &f.error));
  stranger *made = p3l_allocate(f.store, &stranger_type, 1, NULL);
  made->left = new_node(&f, 1), made->right = new_node(&f, 2);
  made->left->to[0] = new_node(&f, 3);
  MUST(&f, p3l_set_root(f.store, "stranger", made));
  MUST(&f, p3l_commit(f.store, &f.error));
  fixture_reopen(&f, 0);
  chooser chooser = {"nobody", 3, 0};
  stranger *there = p3l_root(f.store, "stranger");
  assert_null(p3l_type_of(there));
  assert_int_equal(p3l_prefetch_by(f.store, there, 5, choose, &chooser), 3);
  assert_int_equal(chooser.asked, 4);
  assert_true(p3l_is_surrogate(there->left->to[0]));
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_chosen_pointers_are_followed),
      cmocka_unit_test(nothing_else_becomes_resident),
      cmocka_unit_test(unknown_types_are_followed_wholly),
      cmocka_unit_test(it_counts_what_is_there),
      cmocka_unit_test(what_was_prefetched_is_walked_without_reading),
      cmocka_unit_test(each_page_is_read_once),
      cmocka_unit_test(threads_prefetch_side_by_side),
      cmocka_unit_test(it_ends_at_the_memory_limit),
      cmocka_unit_test(large_objects_are_on_the_way),
      cmocka_unit_test(dangling_slots_are_left_to_whoever_follows_them)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
