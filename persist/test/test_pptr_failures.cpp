/* The C++ interface: effects of exceptions, several stores, eviction, scopes and pins. */
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>

#include "pptr_fixture.hpp"

namespace {

struct named {
  char name[16];
};
struct dog : named {
  std::uint32_t legs = 4;
};

}  // namespace

P3L_CLASS(dog, dog, 1);

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

  node elsewhere = {7, nullptr}; /* not in the store: the commit refuses it */
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

enum { ARRAY = 500000 }; /* 8 MB: read by stretches */

__attribute__((noinline)) static std::uint32_t id_of(const node *n) {
  return *const_cast<const volatile std::uint32_t *>(&n->id);
}

/* A load does not throw, says the compiler: nothing catches it, and the process ends with the sentence. */
static void a_corrupt_part_of_an_array_ends_the_program(void **) {
  folder folder;
  std::uint64_t page = 0;
  {
    p3l::store store(folder / "s", p3l::create());
    store.transact([&] {
      node *all = store.make_array<node>(ARRAY);
      for (std::uint32_t at = 0; at < ARRAY; at++) all[at].id = at;
      store.set_root("all", all);
      page = (p3l::kept<node>(all).number() & ~P3L_SURROGATE_BIT) >> 12;
    });
  }
  int file = open((folder / "s").c_str(), O_RDWR | O_CLOEXEC), ends[2], status;
  const std::uint64_t damaged = 1000; /* page of the array */
  assert_int_equal(pwrite(file, "damage", 6, static_cast<off_t>((page + damaged) * 4096 + 100)), 6);
  close(file);
  p3l_options reads = {};
  reads.read_only = true;
  p3l::store store(folder / "s", reads);
  const node *all = store.root<node>("all"), *there = all + damaged * 4032 / sizeof(node);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL); /* cmocka's */
    try {
      _exit(id_of(there) == 0 ? 1 : 2);
    } catch (const p3l::error &) {
      _exit(3);
    }
  }
  close(ends[1]);
  char said[1000] = "";
  std::size_t length = 0;
  for (ssize_t got; (got = read(ends[0], said + length, sizeof(said) - 1 - length)) > 0;)
    length += static_cast<std::size_t>(got);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  assert_non_null(strstr(said, "does not have the checksum"));
  assert_int_equal(id_of(all + 7), 7);
  assert_int_equal(id_of(all + ARRAY - 1), ARRAY - 1);
  /* Read whole, it is an exception as any other. */
  p3l_options whole = {};
  whole.read_only = whole.whole_arrays = true;
  p3l::store again(folder / "s", whole);
  assert_int_equal(code_of([&] { again.root<node>("all"); }), P3L_CORRUPT);
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
                       second->next->id = 98; /* there is no transaction */
                     });
                   }),
                   P3L_DANGLING);
  assert_int_equal(second->id, 1); /* aborted */
  assert_int_equal(code_of([&] {
                     p3l::scope reading(store);
                     assert_int_equal(second->next->id, 2);
                   }),
                   P3L_DANGLING);
  store.transact([&] { second->next = nullptr; }); /* would wait for a scope that is still open */
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
  /* An unchanged copy of the slot's surrogate would lead to an object of the other store. */
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
  assert_int_equal(code_of([&] { third.get(); }), P3L_MISUSE); /* no store is selected */
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
  assert_non_null(store.root<named>("dog")); /* its base class, which has no P3L_CLASS */
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
  assert_int_equal(second->id, 1);                        /* pinned, so still present, */
  assert_true(store.root<node>("list")->next == address); /* and not copied a second time */
  assert_int_equal(walk(store), NODES);
  assert_true(store.prefetch(store.root<node>("list"), 10) >= 10);
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failures_are_exceptions_and_leave_the_store_usable),
      cmocka_unit_test(a_pointer_that_cannot_be_followed_throws),
      cmocka_unit_test(a_corrupt_page_throws),
      cmocka_unit_test(a_corrupt_part_of_an_array_ends_the_program),
      cmocka_unit_test(exceptions_end_scopes_and_transactions),
      cmocka_unit_test(stores_are_kept_apart),
      cmocka_unit_test(an_evicted_slot_is_a_surrogate_again),
      cmocka_unit_test(a_root_is_what_it_is),
      cmocka_unit_test(scopes_and_pins_follow_their_blocks),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
