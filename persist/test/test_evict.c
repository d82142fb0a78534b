/*
 * Sweeps: a graph of several types is the same before and after any eviction, memory stays near its
 * limit, and dangling pointers trap.
 */
#include "test_evict_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "segment.h"

typedef struct note {
  uint64_t id;
  char text[40];
} note;
P3L_PLAIN_TYPE(note, note, 1);

struct hub;
typedef struct node {
  uint64_t id;
  struct node *to[3];
  uint32_t value;
  uint64_t *inside; /* to the id of a node, in its middle */
  struct hub *hub;
  struct note *note;
} node;
P3L_TYPE(node, node, 1, P3L_POINTERS(node, to), P3L_POINTERS(node, inside), P3L_POINTERS(node, hub),
         P3L_POINTERS(node, note));

typedef struct hub {
  uint64_t id;
  struct node *members[30];
} hub;
P3L_TYPE(hub, hub, 1, P3L_POINTERS(hub, members));

/* All hubs. */
typedef struct hub_table {
  struct hub *hubs[200];
} hub_table;
P3L_TYPE(hub_table, hub_table, 1, P3L_POINTERS(hub_table, hubs));

/* One cell of an array that is a large object because it has many cells. */
typedef struct cell {
  struct node *node;
  uint64_t id;
} cell;
P3L_TYPE(cell, cell, 1, P3L_POINTERS(cell, node));

/* Tests with one thread are useless there and take minutes. */
#ifdef __SANITIZE_THREAD__
#define SKIP_IF_SLOW() skip()
#else
#define SKIP_IF_SLOW() (void)0
#endif

enum { NODES = 40000, HUBS = 200, MEMBERS = 30, NONE = 0xffffffff };

/* The same graph in ordinary memory, with numbers instead of pointers. */
typedef struct model_node {
  uint32_t to[3], inside, hub, value;
  uint64_t note; /* id of the note; 0: none */
} model_node;

typedef struct world {
  fixture f;
  model_node nodes[NODES];
  uint32_t members[HUBS][MEMBERS];
  uint64_t random, notes;
} world;

static uint32_t below(world *w, uint32_t limit) {
  w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((w->random >> 33) % limit);
}

/* ---- making and changing: the store and the model alike ---- */

/* The entry points of a program, valid until the next eviction. */
typedef struct view {
  cell *cells;
  hub_table *hubs;
} view;

static view view_of(world *w) {
  return (view){p3l_root(w->f.store, "cells"), p3l_root(w->f.store, "hubs")};
}

__attribute__((noinline)) static node *node_of(view view, uint32_t n) {
  return P3L_LD(view.cells[n].node);
}

static void give_note(world *w, node *at, model_node *model) {
  note *old = P3L_LD(at->note), *made = p3l_new_near(w->f.store, note, at);
  assert_non_null(made);
  made->id = model->note = ++w->notes;
  snprintf(made->text, sizeof(made->text), "note %llu", (unsigned long long)made->id);
  P3L_SET(at->note, made);
  if (old != NULL) p3l_delete(w->f.store, old);
}

static void change_node(world *w, view view, uint32_t n) {
  node *at = node_of(view, n);
  model_node *model = &w->nodes[n];
  uint32_t target = below(w, NODES), k = below(w, 6);
  if (k < 3) {
    P3L_SET(at->to[k], node_of(view, target));
    model->to[k] = target;
  } else if (k == 3) {
    P3L_SET(at->inside, &node_of(view, target)->id);
    model->inside = target;
  } else if (k == 4) {
    give_note(w, at, model);
  } else {
    hub *hub = P3L_LD(view.hubs->hubs[model->hub]);
    uint32_t member = below(w, MEMBERS);
    P3L_SET(hub->members[member], at);
    w->members[model->hub][member] = n;
  }
  P3L_SET(at->value, at->value + 1);
  model->value++;
}

static void make_world(world *w, uint64_t seed, uint64_t memory_bytes) {
  w->random = seed;
  fixture_make(&w->f, 0);
  p3l_store *store = w->f.store;
  MUST(&w->f, p3l_begin(store, &w->f.error));
  cell *cells = p3l_new_array(store, cell, NODES);
  MUST(&w->f, p3l_set_root(store, "cells", cells));
  for (uint32_t n = 0; n < NODES; n++) {
    cells[n].id = n;
    cells[n].node = p3l_new(store, node);
    cells[n].node->id = n;
    w->nodes[n] = (model_node){{NONE, NONE, NONE}, NONE, n % HUBS, 0, 0};
  }
  hub_table *table = p3l_new(store, hub_table);
  MUST(&w->f, p3l_set_root(store, "hubs", table));
  for (uint32_t h = 0; h < HUBS; h++) {
    hub *made = p3l_new(store, hub);
    table->hubs[h] = made;
    made->id = h;
    for (uint32_t m = 0; m < MEMBERS; m++) w->members[h][m] = NONE;
    for (uint32_t n = h; n < NODES; n += HUBS) cells[n].node->hub = made;
  }
  for (uint32_t n = 0; n < NODES; n++)
    for (int i = 0; i < 3; i++) change_node(w, (view){cells, table}, n);
  MUST(&w->f, p3l_commit(store, &w->f.error));
  fixture_reopen(&w->f, memory_bytes);
}

/* ---- comparing ---- */

static uint32_t id_of(const node *at) { return at == NULL ? NONE : (uint32_t)at->id; }

/* Returns the number of the first difference of a node; 0: none. */
static int differs(const world *w, view view, uint32_t n) {
  const model_node *model = &w->nodes[n];
  node *at = node_of(view, n);
  if (at->id != n || at->value != model->value) return 1;
  for (int k = 0; k < 3; k++)
    if (id_of(P3L_LD(at->to[k])) != model->to[k]) return 2;
  uint64_t *inside = P3L_LD(at->inside);
  if ((inside == NULL ? NONE : *inside) != model->inside) return 3;
  hub *hub = P3L_LD(at->hub);
  if (hub->id != model->hub) return 4;
  for (uint32_t m = 0; m < MEMBERS; m++)
    if (id_of(P3L_LD(hub->members[m])) != w->members[model->hub][m]) return 5;
  note *note = P3L_LD(at->note);
  if ((note == NULL ? 0 : note->id) != model->note) return 6;
  char text[40];
  snprintf(text, sizeof(text), "note %llu", (unsigned long long)model->note);
  return note != NULL && strcmp(note->text, text) != 0 ? 7 : 0;
}

static void compare(world *w, uint32_t first, uint32_t step) {
  view view = view_of(w);
  for (uint32_t n = first; n < NODES; n += step) {
    int difference = differs(w, view, n);
    if (difference != 0) fail_msg("node %u differs: %d", n, difference);
  }
}

/* ---- tests ---- */

static void readers_see_the_same_graph(void **state) {
  (void)state;
  SKIP_IF_SLOW();
  world *w = calloc(1, sizeof(*w));
  make_world(w, 1, 0);
  compare(w, 0, 1);
  for (int round = 0; round < 40; round++) {
    uint64_t held = fixture_statistics(&w->f).memory_bytes;
    MUST(&w->f, p3l_evict(w->f.store, held * below(w, 11) / 10, &w->f.error));
    uint32_t step = 1 + below(w, 300);
    compare(w, below(w, step), step);
  }
  compare(w, 0, 1);
  assert_true(fixture_statistics(&w->f).evictions > 20);
  assert_true(fixture_statistics(&w->f).objects_evicted > NODES);
  fixture_drop(&w->f);
  free(w);
}

static void undo(world *w, uint32_t n, const model_node *model, const uint32_t *members) {
  memcpy(w->members[model->hub], members, sizeof(w->members[0]));
  w->nodes[n] = *model;
}

/* Commits, aborts and sweeps in random order. The model is changed and restored accordingly. */
static void changes_survive(world *w, int rounds) {
  for (int round = 0; round < rounds; round++) {
    MUST(&w->f, p3l_begin(w->f.store, &w->f.error));
    uint32_t count = 1 + below(w, 30), changed[30];
    model_node before[30];
    uint32_t members[30][MEMBERS];
    view view = view_of(w);
    for (uint32_t i = 0; i < count; i++) {
      uint32_t n = changed[i] = below(w, NODES);
      before[i] = w->nodes[n];
      memcpy(members[i], w->members[before[i].hub], sizeof(members[i]));
      change_node(w, view, n);
    }
    if (below(w, 4) == 0) {
      p3l_abort(w->f.store);
      while (count-- > 0) undo(w, changed[count], &before[count], members[count]);
    } else {
      MUST(&w->f, p3l_commit(w->f.store, &w->f.error));
    }
    uint32_t what = below(w, 8);
    uint64_t held = fixture_statistics(&w->f).memory_bytes;
    if (what < 2) MUST(&w->f, p3l_evict(w->f.store, held * what / 2, &w->f.error));
    if (what == 2) compare(w, below(w, 100), 100);
  }
}

static void changes_between_sweeps_survive(void **state) {
  (void)state;
  SKIP_IF_SLOW();
  for (uint64_t limit = 0; limit <= 4 << 20; limit += 4 << 20) {
    world *w = calloc(1, sizeof(*w));
    make_world(w, 2 + limit, limit);
    changes_survive(w, 150);
    compare(w, 0, 1);
    fixture_reopen(&w->f, limit); /* the file has the contents of memory */
    compare(w, 0, 1);
    fixture_drop(&w->f);
    free(w);
  }
}

static void a_store_larger_than_its_limit_is_walked_whole(void **state) {
  (void)state;
  SKIP_IF_SLOW();
  enum { LIMIT = 4 << 20, SCOPE = 500 };
  world *w = calloc(1, sizeof(*w));
  make_world(w, 3, LIMIT);
  uint64_t most = 0;
  for (int round = 0; round < 3; round++)
    for (uint32_t n = 0; n < NODES; n += SCOPE) {
      p3l_enter(w->f.store);
      view view = view_of(w);
      for (uint32_t i = n; i < n + SCOPE; i++)
        if (differs(w, view, i) != 0) fail_msg("node %u differs", i);
      uint64_t held = fixture_statistics(&w->f).memory_bytes;
      if (held > most) most = held;
      p3l_leave(w->f.store);
      assert_true(fixture_statistics(&w->f).memory_bytes <= LIMIT);
    }
  /* A scope reads at most 500 x (1 + 3 + 1 + 1 + 30 + 1) objects, most of them repeatedly. It
   * exceeds the limit only by a part of that. */
  assert_true(most < LIMIT + LIMIT / 2);
  assert_true(fixture_statistics(&w->f).memory_peak < LIMIT + LIMIT / 2);
  assert_true(fixture_statistics(&w->f).evictions >= 6);
  fixture_drop(&w->f);
  free(w);
}

static void all_goes_and_all_comes_back(void **state) {
  (void)state;
  world *w = calloc(1, sizeof(*w));
  make_world(w, 4, 0);
  compare(w, 0, 1);
  p3l_statistics full = fixture_statistics(&w->f);
  assert_true(full.memory_bytes > NODES * sizeof(node));
  MUST(&w->f, p3l_evict(w->f.store, 0, &w->f.error));
  p3l_statistics empty = fixture_statistics(&w->f);
  assert_true(empty.memory_bytes < 100 << 10);
  assert_true(empty.memory_peak >= full.memory_bytes);
  /* Every node, every hub, the cells and the notes in use; at least two of three nodes have
   * at most one note. */
  assert_true(empty.objects_evicted >= NODES + HUBS + 1);
  MUST(&w->f, p3l_evict(w->f.store, 0, &w->f.error)); /* nothing is left to evict */
  compare(w, 0, 1);
  fixture_drop(&w->f);
  free(w);
}

/* Swizzled slots whose object was deleted dangle before and after a sweep. They do not lead to
 * objects placed there later. */
static void a_dangling_slot_dangles_after_a_sweep(void **state) {
  (void)state;
  world *w = calloc(1, sizeof(*w));
  make_world(w, 5, 0);
  node *holder = node_of(view_of(w), 7);
  p3l_pin(holder);
  MUST(&w->f, p3l_begin(w->f.store, &w->f.error));
  note *made = p3l_new(w->f.store, note);
  P3L_SET(holder->note, made);
  MUST(&w->f, p3l_commit(w->f.store, &w->f.error));
  MUST(&w->f, p3l_begin(w->f.store, &w->f.error));
  p3l_delete(w->f.store, made);
  MUST(&w->f, p3l_commit(w->f.store, &w->f.error));
  MUST(&w->f, p3l_evict(w->f.store, 0, &w->f.error));
  compare(w, 8, 1); /* other objects use the memory */
  if (p3l_is_surrogate(holder->note))
    EXPECT_FAULT(P3L_DANGLING, "", p3l_swizzle(&holder->note, holder->note));
  else
    assert_ptr_equal(p3l_segment_of(holder->note), p3l_segment_of(holder)); /* pinned with it */
  p3l_unpin(holder);
  MUST(&w->f, p3l_evict(w->f.store, 0, &w->f.error));
  holder = node_of(view_of(w), 7);
  EXPECT_FAULT(P3L_DANGLING, "", p3l_swizzle(&holder->note, holder->note));
  fixture_drop(&w->f);
  free(w);
}

/* Several readers in short scopes with a memory limit sweep for each other. */
typedef struct reader {
  world *w;
  uint64_t random;
  int difference;
} reader;

static void *read_at_random(void *state) {
  reader *reader = state;
  for (int round = 0; round < 60 && reader->difference == 0; round++) {
    p3l_enter(reader->w->f.store);
    view view = view_of(reader->w);
    for (int i = 0; i < 100 && reader->difference == 0; i++) {
      reader->random = reader->random * UINT64_C(6364136223846793005) + 1;
      reader->difference = differs(reader->w, view, (uint32_t)(reader->random >> 33) % NODES);
    }
    p3l_leave(reader->w->f.store);
  }
  return NULL;
}

static void threads_sweep_for_each_other(void **state) {
  (void)state;
  enum { READERS = 4 };
  world *w = calloc(1, sizeof(*w));
  make_world(w, 6, 4 << 20);
  pthread_t threads[READERS];
  reader readers[READERS];
  for (uint64_t i = 0; i < READERS; i++) {
    readers[i] = (reader){w, 77 + i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, read_at_random, &readers[i]), 0);
  }
  for (int i = 0; i < READERS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < READERS; i++) assert_int_equal(readers[i].difference, 0);
  assert_true(fixture_statistics(&w->f).evictions > 0);
  assert_true(fixture_statistics(&w->f).memory_bytes <= 6 << 20);
  fixture_drop(&w->f);
  free(w);
}

/* ---- dangling pointers trap ---- */

static void use_after_eviction(world *w, bool others_come) {
  signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit instead */
  volatile node *kept = node_of(view_of(w), 123);
  if (kept->id != 123) _exit(1);
  if (p3l_evict(w->f.store, 0, NULL) != P3L_OK) _exit(2);
  if (others_come) compare(w, 200, 1);
  uint64_t id = kept->id;
  _exit(id == 123 ? 4 : 5);
}

static void a_dangling_use_traps(void **state) {
  (void)state;
  world *w = calloc(1, sizeof(*w));
  make_world(w, 8, 0);
#ifdef P3L_DEBUG
  const int variants = 2; /* memory that was evicted is never used again */
#else
  const int variants = 1; /* it traps until other objects are placed there */
#endif
  for (int others_come = 0; others_come < variants; others_come++) {
    /* The child opens the store, because an open store does not survive a fork. */
    fixture_close(&w->f);
    pid_t child = fork();
    if (child == 0) {
      fixture_open(&w->f, 0);
      use_after_eviction(w, others_come);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    fixture_open(&w->f, 0);
    if (!WIFSIGNALED(status)) fail_msg("the child ended with %d", WEXITSTATUS(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
  }
  fixture_drop(&w->f);
  free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(readers_see_the_same_graph),
      cmocka_unit_test(changes_between_sweeps_survive),
      cmocka_unit_test(a_store_larger_than_its_limit_is_walked_whole),
      cmocka_unit_test(all_goes_and_all_comes_back),
      cmocka_unit_test(a_dangling_slot_dangles_after_a_sweep),
      cmocka_unit_test(threads_sweep_for_each_other),
      cmocka_unit_test(a_dangling_use_traps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
