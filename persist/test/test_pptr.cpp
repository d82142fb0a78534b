/*
 * The C++ door: what a pptr is and does, what is found of a class, what exceptions leave behind.
 * Compiled with clang++ as well, where there is one (examples/CMakeLists.txt).
 */
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "p3l.hpp"

extern "C" { /* cmocka's header wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
}

namespace {

struct node {
  std::uint32_t id;
  p3l::pptr<node> next;
};

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

struct later; /* incomplete here */
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

/* A folder that is gone at the end of its block, also by an exception. */
class folder {
 public:
  folder() {
    if (!mkdtemp(name_)) throw std::runtime_error("mkdtemp");
  }
  ~folder() {
    std::string command = std::string("rm -rf ") + name_;
    if (system(command.c_str()) != 0) perror("rm");
  }
  std::string operator/(const char *file) const { return std::string(name_) + "/" + file; }

 private:
  char name_[32] = "/tmp/p3l-pptr-XXXXXX";
};

}  // namespace

P3L_CLASS(node, node, 1);
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
  assert_true(a.get() == static_cast<animal *>(&rex)); /* a base that lies behind the first */
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

enum { NODES = 1000 };

static void make_list(p3l::store &store) {
  store.transact([&] {
    node *first = nullptr;
    for (std::uint32_t i = NODES; i-- > 0;) first = store.make<node>(node{i, first});
    store.set_root("list", first);
  });
}

/* The ids in order, by plain pointers taken out of the slots. */
static std::uint64_t walk(p3l::store &store) {
  std::uint64_t count = 0;
  for (node *n = store.root<node>("list"); n; n = n->next) {
    if (n->id != count) throw std::logic_error("the list is out of order");
    count++;
  }
  return count;
}

static void a_slot_is_swizzled_once(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    assert_int_equal(walk(store), NODES);
    assert_int_equal(store.statistics().swizzled, 0); /* they were addresses all the time */
  }
  p3l::store store(folder / "s");
  assert_int_equal(walk(store), NODES);
  assert_int_equal(store.statistics().swizzled, NODES - 1); /* the last is null, the first a root */
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
  p3l::pptr<node> copy = first->next; /* reads: the slot is healed, the copy has the address */
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
  assert_int_equal(third.number(), number); /* the same in another life, at another address */
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
      head->next = first->next; /* pushed before what first leads to, which stays where it is */
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

/* ---- failures ---- */

template <class F>
static p3l_code code_of(F &&body) {
  try {
    body();
  } catch (const p3l::error &failure) {
    assert_true(strlen(failure.what()) > 10);
    return failure.code();
  }
  return P3L_OK;
}

static void failures_are_exceptions_and_leave_the_store_usable(void **) {
  folder folder;
  assert_int_equal(code_of([&] { p3l::store(folder / "none"); }), P3L_IO);
  p3l::store store(folder / "s", p3l::create());
  make_list(store);
  assert_int_equal(code_of([&] { p3l::store(folder / "s"); }), P3L_BUSY);
  assert_int_equal(code_of([&] { store.make<node>(); }), P3L_MISUSE);
  node *first = store.root<node>("list");
  assert_int_equal(code_of([&] { first->next = nullptr; }), P3L_MISUSE); /* no transaction */
  assert_int_equal(walk(store), NODES);

  node elsewhere = {7, nullptr}; /* not in the store: the commit finds it */
  assert_int_equal(code_of([&] { store.transact([&] { first->next = &elsewhere; }); }), P3L_MISUSE);
  assert_int_equal(walk(store), NODES);
}

static void a_pointer_that_cannot_be_followed_throws(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    store.transact([&] { store.erase(store.root<node>("list")->next->next); });
  }
  p3l::store store(folder / "s");
  node *second = store.root<node>("list")->next;
  for (int i = 0; i < 3; i++)
    assert_int_equal(code_of([&] { assert_null(second->next.get()); }), P3L_DANGLING);
  store.transact([&] { second->next = nullptr; });
  std::uint64_t count = 0;
  for (node *n = store.root<node>("list"); n; n = n->next) count++;
  assert_int_equal(count, 2);
}

static void a_corrupt_page_throws(void **) {
  folder folder;
  std::uint64_t page;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    node *last = store.root<node>("list");
    while (last->next) last = last->next;
    page = (p3l::kept<node>(last).number() & ~P3L_SURROGATE_BIT) >> 12;
    p3l::kept<node> first(store.root<node>("list"));
    assert_true((first.number() & ~P3L_SURROGATE_BIT) >> 12 != page);
  }
  int file = open((folder / "s").c_str(), O_RDWR);
  char byte;
  assert_int_equal(pread(file, &byte, 1, static_cast<off_t>(page * 4096 + 2000)), 1);
  byte = static_cast<char>(byte ^ 4);
  assert_int_equal(pwrite(file, &byte, 1, static_cast<off_t>(page * 4096 + 2000)), 1);
  close(file);
  p3l::store store(folder / "s");
  assert_int_equal(code_of([&] { walk(store); }), P3L_CORRUPT);
  assert_int_equal(code_of([&] { walk(store); }), P3L_CORRUPT);
  assert_int_equal(store.root<node>("list")->next->next->id, 2);
}

static void exceptions_end_scopes_and_transactions(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    make_list(store);
    store.transact([&] { store.erase(store.root<node>("list")->next->next); });
  }
  p3l::store store(folder / "s");
  node *second = store.root<node>("list")->next;
  assert_int_equal(code_of([&] {
                     store.transact([&] {
                       p3l::edit(second)->id = 99;
                       second->next->id = 98; /* there is none */
                     });
                   }),
                   P3L_DANGLING);
  assert_int_equal(second->id, 1); /* aborted */
  assert_int_equal(code_of([&] {
                     p3l::scope reading(store);
                     assert_int_equal(second->next->id, 2);
                   }),
                   P3L_DANGLING);
  store.transact([&] { second->next = nullptr; }); /* would wait for a scope that was not left */
  assert_true(second->next == nullptr);
}

static void stores_are_kept_apart(void **) {
  folder folder;
  {
    p3l::store one(folder / "one", p3l::create()), two(folder / "two", p3l::create());
    make_list(one);
    make_list(two);
  }
  p3l::store one(folder / "one"), two(folder / "two");
  node *first_of_one = one.root<node>("list"), *first_of_two = two.root<node>("list");
  /* Copied as it is, the slot's surrogate would lead to an object of the other store. */
  assert_int_equal(
      code_of([&] { two.transact([&] { first_of_two->next = first_of_one->next->next; }); }),
      P3L_MISUSE);
  assert_int_equal(first_of_two->next->id, 1);

  p3l_use(one.get());
  p3l::kept<node> third(first_of_one->next->next);
  assert_ptr_equal(third.get(), first_of_one->next->next.get());
  p3l_use(two.get()); /* the same surrogate, another object */
  assert_ptr_equal(third.get(), first_of_two->next->next.get());
  p3l_use(nullptr);
  assert_int_equal(code_of([&] { third.get(); }), P3L_MISUSE); /* of which store? */
}

static void an_evicted_slot_is_a_surrogate_again(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  make_list(store);
  assert_int_equal(walk(store), NODES);
  p3l::kept<node> last(store.root<node>("list"));
  while (last->next) last = p3l::kept<node>(last->next);
  store.evict(0);
  assert_true(store.statistics().objects_evicted > 0);
  std::uint64_t before = store.statistics().swizzled;
  assert_int_equal(walk(store), NODES);
  assert_int_equal(store.statistics().swizzled - before, NODES - 1);
  assert_int_equal(last->id, NODES - 1);
}

static void a_root_is_what_it_is(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  store.transact([&] { store.set_root("dog", store.make<dog>()); });
  assert_int_equal(code_of([&] { store.root<node>("dog"); }), P3L_WRONG_TYPE);
  assert_non_null(store.root<const dog>("dog"));
  assert_non_null(store.root<named>("dog")); /* its base, which has no P3L_CLASS */
  assert_null(store.root<node>("cat"));
  store.transact([&] { store.set_root("dog", nullptr); });
  assert_null(store.root<dog>("dog"));
  assert_int_equal(code_of([&] { store.set_root("cat", nullptr); }), P3L_MISUSE);
}

/* ---- scopes, pins ---- */

static void scopes_and_pins_follow_their_blocks(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  make_list(store);
  {
    p3l::scope reading(store);
    p3l::scope nested(store);
    assert_int_equal(walk(store), NODES);
    assert_int_equal(code_of([&] { store.evict(0); }), P3L_MISUSE);
  }
  p3l::pin<node> second(store.root<node>("list")->next.get());
  p3l::pin<node> copy = second, moved = std::move(copy);
  assert_true(!copy && moved.get() == second.get());
  const node *address = second.get();
  store.evict(0);
  assert_int_equal(second->id, 1);                        /* pinned: still there, */
  assert_true(store.root<node>("list")->next == address); /* and not a second time */
  assert_int_equal(walk(store), NODES);
  assert_true(store.prefetch(store.root<node>("list"), 10) >= 10);
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
      cmocka_unit_test(failures_are_exceptions_and_leave_the_store_usable),
      cmocka_unit_test(a_pointer_that_cannot_be_followed_throws),
      cmocka_unit_test(a_corrupt_page_throws),
      cmocka_unit_test(exceptions_end_scopes_and_transactions),
      cmocka_unit_test(stores_are_kept_apart),
      cmocka_unit_test(an_evicted_slot_is_a_surrogate_again),
      cmocka_unit_test(a_root_is_what_it_is),
      cmocka_unit_test(scopes_and_pins_follow_their_blocks),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
