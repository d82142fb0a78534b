/*
 * The C++ interface: the operations of a pptr, the detected fields of a class, the reporting of
 * changes. Also compiled with clang++ if it is installed (examples/CMakeLists.txt).
 */
#include <unordered_set>
#include <vector>

#include "pptr_fixture.hpp"

namespace {

struct animal {
  std::uint32_t legs = 4;
  p3l::pptr<animal> mother = nullptr; /* a default initialiser is a constructor, too */
};
struct named {
  char name[16];
  p3l::pptr<char> text;
};
struct dog : named, animal {
  p3l::pptr<const dog> friends[3];
  struct {
    int unused;
    p3l::pptr<void> anything;
  } nested[2];
};

struct later; /* incomplete type here */
struct holder {
  p3l::pptr<later> it;
};
struct later {
  int x;
};

enum class colour : std::uint8_t { red, green };
struct counted {
  p3l::field<int> n;
  p3l::field<double> ratio;
  p3l::field<colour> shade;
  int plain;
};

struct throws_at_7 {
  int x;
  throws_at_7() : x(0) {}
  explicit throws_at_7(int n) : x(n) {
    if (n == 7) throw std::domain_error("seven");
  }
};

}  // namespace

P3L_CLASS(dog, dog, 3);
P3L_CLASS(holder, holder, 1);
P3L_CLASS(later, later, 1);
P3L_CLASS(counted, counted, 1);
P3L_CLASS(throws_at_7, throws_at_7, 1);
P3L_CLASS(text, char, 1);
P3L_CLASS(node_slot, p3l::pptr<node>, 1);

static_assert(sizeof(p3l::field<double>) == 8 && alignof(p3l::field<char>) == 1, "as a T");
static_assert(std::is_convertible<p3l::pptr<dog>, p3l::pptr<animal>>::value, "to a base");
static_assert(!std::is_convertible<p3l::pptr<animal>, p3l::pptr<dog>>::value, "not from one");
static_assert(std::is_convertible<p3l::pptr<dog>, p3l::pptr<const dog>>::value, "to const");
static_assert(!std::is_convertible<p3l::pptr<const dog>, p3l::pptr<dog>>::value, "not from const");
static_assert(std::is_convertible<p3l::pptr<dog>, p3l::pptr<void>>::value, "to void");
static_assert(!std::is_convertible<p3l::pptr<void>, p3l::pptr<dog>>::value, "not from void");

/* ---- classes ---- */

static void slots_are_found_wherever_they_lie(void **) {
  const p3l_type *type = p3l::class_of<dog>::type();
  assert_string_equal(type->name, "dog");
  assert_int_equal(type->version, 3);
  assert_int_equal(type->bytes, sizeof(dog));
  /* name 0..15, text 16, legs 24, mother 32, friends 40 48 56, nested: 64 (72), 80 (88) */
  const std::uint32_t expected[][2] = {{16, 1}, {32, 4}, {72, 1}, {88, 1}};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(type->pointers[i].offset, expected[i][0]);
    assert_int_equal(type->pointers[i].count, expected[i][1]);
  }
  assert_null(type->pointers[4].name);
  assert_string_equal(type->pointers[0].name, "pptr at byte 16");

  assert_null(p3l::class_of<char>::type()->pointers[0].name);
  assert_int_equal(p3l::class_of<p3l::pptr<node>>::type()->pointers[0].offset, 0);
}

/* ---- pointers in ordinary memory: as plain ones ---- */

static void a_pptr_does_what_a_pointer_does(void **) {
  node nodes[3] = {{0, nullptr}, {1, &nodes[0]}, {2, &nodes[1]}};
  const p3l::pptr<node> p = &nodes[1];
  assert_int_equal(p->id, 1);
  assert_int_equal((*p).id, 1);
  assert_int_equal(p[1].id, 2);
  assert_int_equal((p + 1)->id, 2);
  assert_int_equal((p - 1)->id, 0);
  assert_int_equal((&nodes[2]) - p, 1);
  assert_true(p == &nodes[1] && &nodes[1] == p && p != &nodes[2]);
  assert_true(p == p3l::pptr<node>(&nodes[1]) && p < &nodes[2] && p >= nodes);
  assert_true(p && p != nullptr && nullptr != p && !(p == nullptr) && !(nullptr == p));
  p3l::pptr<node> none, also_none = nullptr;
  assert_true(!none && none == nullptr && none == also_none);

  p3l::pptr<node> moving = nodes;
  ++moving;
  moving += 1;
  assert_int_equal(moving->id, 2);
  moving -= 2;
  --++moving;
  assert_int_equal(moving->id, 0);
  std::swap(none, moving);
  assert_true(!moving && none == nodes);
  moving = p;
  moving = p->next;
  assert_true(moving == nodes);
  assert_int_equal((moving ? moving.get() : &nodes[2])->id, 0);

  std::vector<node *> plain{p, nodes[2].next};
  assert_true(plain[0] == plain[1]);
  auto copy = nodes[2].next;
  static_assert(std::is_same<decltype(copy), p3l::pptr<node>>::value, "auto is a pptr");

  dog rex = {};
  p3l::pptr<dog> d = &rex;
  p3l::pptr<animal> a = d;
  p3l::pptr<void> v = d;
  assert_true(a.get() == static_cast<animal *>(&rex)); /* a base that is not at offset 0 */
  assert_true(static_cast<void *>(a.get()) != v.get());
  a = d;
  v = d;
  rex.friends[0] = d;
  assert_true(static_cast<dog *>(v.get()) == rex.friends[0]);
  static constexpr p3l::pptr<node> constant;
  assert_true(!constant);
}

static void a_minus_one_is_no_surrogate_to_null_tests(void **) {
  p3l::pptr<char> p = reinterpret_cast<char *>(-1);
  assert_true(p && p != nullptr);
}

/* ---- pointers in a store ---- */

static void a_slot_is_swizzled_once(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    assert_int_equal(walk(store), NODES);
    assert_int_equal(store.statistics().swizzled, 0); /* they were addresses before */
  }
  p3l::store store(folder / "s");
  assert_int_equal(walk(store), NODES);
  assert_int_equal(store.statistics().swizzled, NODES - 1); /* last: null, first: a root */
  assert_int_equal(walk(store), NODES);
  assert_int_equal(store.statistics().swizzled, NODES - 1);
}

static void a_test_for_null_fetches_nothing(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
  }
  p3l::store store(folder / "s");
  node *first = store.root<node>("list");
  assert_true(first->next && first->next != nullptr && !!first->next);
  assert_int_equal(store.statistics().swizzled, 0);
  p3l::pptr<node> copy = first->next; /* this reads: the slot is healed, the copy has the address */
  assert_int_equal(store.statistics().swizzled, 1);
  assert_true(copy == first->next && copy->id == 1);
  assert_int_equal(store.statistics().swizzled, 1);
}

static void a_surrogate_is_kept_and_followed(void **) {
  folder folder;
  std::uint64_t number;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    p3l::kept<node> third(store.root<node>("list")->next->next);
    assert_int_equal(third->id, 2);
    number = third.number();
    assert_true(number >> 63 == 1);
  }
  p3l::store store(folder / "s");
  node *second = store.root<node>("list")->next;
  p3l::kept<node> third(second->next);
  assert_int_equal(third.number(), number); /* the same in another run, at another address */
  assert_int_equal((*third).id, 2);
  assert_true(third == p3l::kept<node>(second->next) && third && !p3l::kept<node>());

  std::unordered_set<p3l::kept<node>> seen;
  for (node *n = store.root<node>("list"); n; n = n->next) seen.insert(p3l::kept<node>(n));
  assert_int_equal(seen.size(), NODES);
  assert_int_equal(std::hash<p3l::pptr<node>>()(second->next), std::hash<p3l::kept<node>>()(third));
}

static void assigning_slot_to_slot_fetches_nothing(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
  }
  {
    p3l::store store(folder / "s");
    node *first = store.root<node>("list");
    store.transact([&] {
      node *head = store.make<node>();
      head->id = 1000;
      head->next = first->next; /* added before the first node, which does not move */
      first->next = head;
      assert_int_equal(store.statistics().swizzled, 0);
    });
    assert_int_equal(first->next->next->id, 1);
    assert_int_equal(store.statistics().swizzled, 1);
  }
  p3l::store again(folder / "s");
  node *first = again.root<node>("list");
  assert_int_equal(first->next->id, 1000);
  assert_int_equal(first->next->next->id, 1);
}

/* ---- changes ---- */

static void changes_are_told_and_taken_back(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  counted *c = store.transact([&] {
    counted *made = store.make<counted>();
    made->n = 1;
    made->plain = 10;
    store.set_root("counted", made);
    return made;
  });
  try {
    store.transact([&] {
      c->n += 41;
      c->ratio = c->n / 4.0;
      c->shade = colour::green;
      p3l::edit(c)->plain = 11;
      assert_true(c->n == 42 && c->ratio == 10.5 && c->n++ == 42 && --c->n == 42);
      throw std::runtime_error("changed my mind");
    });
    fail();
  } catch (const std::runtime_error &changed) {
    assert_string_equal(changed.what(), "changed my mind");
  }
  assert_true(c->n == 1 && c->ratio == 0.0 && c->shade == colour::red && c->plain == 10);
  {
    p3l::transaction changes(store);
    c->n = 2;
    auto &edited = p3l::edit(*c);
    edited.plain = 20;
    changes.commit();
  }
  {
    p3l::transaction forgotten(store);
    c->n = 3;
  }
  assert_true(c->n == 2 && c->plain == 20);
  store.close();
  p3l::store again(folder / "s");
  c = again.root<counted>("counted");
  assert_true(c->n == 2 && c->plain == 20);
}

static void assigning_to_slots_is_a_change(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  make_list(store);
  node *first = store.root<node>("list");
  node *second = first->next;
  {
    p3l::transaction changes(store);
    first->next = second->next;
    second->next = nullptr;
    assert_int_equal(first->next->id, 2);
  } /* aborted */
  assert_true(first->next == second && second->next->id == 2);
  store.transact([&] {
    first->next = second->next; /* unlinked */
    store.erase(second);
  });
  store.close();
  p3l::store again(folder / "s");
  assert_int_equal(again.root<node>("list")->next->id, 2);
}

static void arrays_are_constructed_and_grow_by_the_thousand(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  enum { COUNT = 5000 }; /* 40 KB: a large object, with pages of its own */
  store.transact([&] {
    auto *index = store.make_array<p3l::pptr<node>>(COUNT);
    for (std::uint32_t i = 0; i < COUNT; i++) {
      assert_true(!index[i]);
      index[i] = store.make_near<node>(i ? index[i - 1].get() : nullptr, node{i, nullptr});
    }
    store.set_root("index", index);
    char *text = store.make_array<char>(6);
    memcpy(text, "hello", 6);
    store.set_root("text", text);
  });
  store.close();
  p3l::store again(folder / "s");
  auto *index = again.root<p3l::pptr<node>>("index");
  for (std::uint32_t i = 0; i < COUNT; i += 7) assert_int_equal(index[i]->id, i);
  assert_string_equal(again.root<char>("text"), "hello");
  again.transact([&] { p3l::edit(again.root<char>("text"), 2)[1] = 'a'; });
  assert_string_equal(again.root<char>("text"), "hallo");
}

static void a_throwing_constructor_leaves_no_object(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  store.transact([&] {
    store.set_root("six", store.make<throws_at_7>(6));
    try {
      store.make<throws_at_7>(7);
      fail();
    } catch (const std::domain_error &) {
    }
  });
  assert_int_equal(store.root<throws_at_7>("six")->x, 6);
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_are_found_wherever_they_lie),
      cmocka_unit_test(a_pptr_does_what_a_pointer_does),
      cmocka_unit_test(a_minus_one_is_no_surrogate_to_null_tests),
      cmocka_unit_test(a_slot_is_swizzled_once),
      cmocka_unit_test(a_test_for_null_fetches_nothing),
      cmocka_unit_test(a_surrogate_is_kept_and_followed),
      cmocka_unit_test(assigning_slot_to_slot_fetches_nothing),
      cmocka_unit_test(changes_are_told_and_taken_back),
      cmocka_unit_test(assigning_to_slots_is_a_change),
      cmocka_unit_test(arrays_are_constructed_and_grow_by_the_thousand),
      cmocka_unit_test(a_throwing_constructor_leaves_no_object),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
