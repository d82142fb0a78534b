/*
 * A reader beside the writer, and words of unions whose stored bytes stay while their meaning changes:
 * a pointer that becomes a number equal to its surrogate, and back. The tag, the word and the bits
 * behind the elements lie in units, cards and pages of their own.
 */
#include "test_evict_fixture.h"

struct far {
  uint64_t tag; /* 0: number, 1: pointer */
  uint64_t before[15];
  union {
    int64_t number;
    struct far *to;
  } is;
  uint64_t behind[15];
};

static uint32_t live(const void *object, size_t element) {
  return (uint32_t)((const struct far *)object)[element].tag;
}
P3L_TYPE_UNIONS(far, struct far, 1, NULL,
                P3L_UNIONS(P3L_UNION(struct far, is, live, P3L_PLAIN_ARM,
                                     P3L_ARM(struct far, is, is.to))),
                P3L_NO_POINTERS);

typedef struct pair {
  fixture f;
  p3l_store *reader;
  size_t count;
  int64_t surrogate; /* of the target */
} pair;

static struct far *of(p3l_store *store) {
  p3l_use(store);
  return p3l_root(store, "all");
}
static struct far *target_of(p3l_store *store) {
  p3l_use(store);
  return p3l_root(store, "target");
}

static void become(pair *p, size_t at, uint64_t tag) {
  struct far *all = of(p->f.store), *target = target_of(p->f.store);
  MUST(&p->f, p3l_begin(p->f.store, &p->f.error));
  P3L_SET(all[at].tag, tag);
  if (tag == 1)
    P3L_SET(all[at].is.to, target);
  else
    P3L_SET(all[at].is.number, p->surrogate);
  MUST(&p->f, p3l_commit(p->f.store, &p->f.error));
}

/* Pointers to a target, by a writer and a reader that has swizzled them. */
static pair make(size_t count, bool discovery) {
  pair p = {.count = count};
  fixture_make(&p.f, 0);
  MUST(&p.f, p3l_begin(p.f.store, &p.f.error));
  struct far *target = p3l_new(p.f.store, far);
  struct far *all = p3l_new_array(p.f.store, far, count);
  for (size_t at = 0; at < count; at++) {
    all[at].tag = 1;
    all[at].is.to = target;
  }
  p.surrogate = (int64_t)(intptr_t)p3l_surrogate(target);
  p3l_set_root(p.f.store, "all", all);
  p3l_set_root(p.f.store, "target", target);
  MUST(&p.f, p3l_commit(p.f.store, &p.f.error));
  p3l_options reading = {.read_only = true, .discovery_order = discovery};
  MUST(&p.f, p3l_open(p.f.path, &reading, &p.reader, &p.f.error));
  all = of(p.reader);
  target = target_of(p.reader);
  for (size_t at = 0; at < count; at++) {
    assert_ptr_equal(P3L_LD(all[at].is.to), target);
    assert_true(all[at].is.number > 0); /* an address */
  }
  return p;
}

static void drop(pair *p) {
  p3l_use(NULL);
  MUST(&p->f, p3l_close(p->reader, &p->f.error));
  fixture_drop(&p->f);
}

/* The reader, at the last version, has a number in `changed`, and pointers elsewhere. */
static void is_a_number(pair *p, size_t changed) {
  MUST(&p->f, p3l_refresh(p->reader, &p->f.error));
  struct far *all = of(p->reader), *target = target_of(p->reader);
  for (size_t at = 0; at < p->count; at++) {
    assert_int_equal(all[at].tag, at != changed);
    if (at == changed)
      assert_int_equal(all[at].is.number, p->surrogate);
    else
      assert_ptr_equal(P3L_LD(all[at].is.to), target);
  }
}

static void change_and_look(size_t count, size_t at, bool discovery) {
  pair p = make(count, discovery);
  become(&p, at, 0);
  is_a_number(&p, at);
  become(&p, at, 1);
  is_a_number(&p, count); /* none is */
  become(&p, at, 0);      /* in one version, both ways */
  become(&p, at, 1);
  is_a_number(&p, count);
  become(&p, at, 1);
  become(&p, at, 0);
  is_a_number(&p, at);
  drop(&p);
}

static void in_one_object(void **state) {
  (void)state;
  change_and_look(1, 0, false);
  change_and_look(1, 0, true);
}

static void in_an_array_within_a_page(void **state) {
  (void)state;
  for (size_t at = 0; at < 14; at++) {
    change_and_look(14, at, false);
    change_and_look(14, at, true);
  }
}

/* The word is in another page than its bit, and in another than its tag where a page ends between. */
static void in_an_array_with_pages_of_its_own(void **state) {
  (void)state;
  for (size_t at = 0; at < 40; at++) change_and_look(40, at, at % 2 == 0);
  change_and_look(40000, 0, false); /* whose bits are on two pages */
  change_and_look(40000, 7, false);
  change_and_look(40000, 39999, false);
}

/* The reader's memory has what the store has, also after the writer's checkpoint, when all pages that
 * changed are looked up. */
static void after_a_checkpoint(void **state) {
  (void)state;
  pair p = make(40, false);
  become(&p, 3, 0);
  fixture_reopen(&p.f, 0);
  is_a_number(&p, 3);
  become(&p, 3, 1);
  fixture_reopen(&p.f, 0);
  is_a_number(&p, 40);
  drop(&p);
}

/* The number is one in a copy of the bytes, too, and after the object was evicted and read again. */
static void the_writer_agrees(void **state) {
  (void)state;
  pair p = make(40, false);
  become(&p, 5, 0);
  assert_int_equal(of(p.f.store)[5].is.number, p.surrogate);
  MUST(&p.f, p3l_evict(p.f.store, 0, &p.f.error));
  assert_int_equal(of(p.f.store)[5].is.number, p.surrogate);
  fixture_reopen(&p.f, 0);
  assert_int_equal(of(p.f.store)[5].is.number, p.surrogate);
  drop(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_one_object),
      cmocka_unit_test(in_an_array_within_a_page),
      cmocka_unit_test(in_an_array_with_pages_of_its_own),
      cmocka_unit_test(after_a_checkpoint),
      cmocka_unit_test(the_writer_agrees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
