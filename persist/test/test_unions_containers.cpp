/*
 * Classes with unions as elements, keys and values of containers: what is a pointer is one in the next
 * run, for the tools and for a reader beside the writer; what only looks like one stays a number.
 */
#include "p3l_containers.hpp"
#include "pptr_fixture.hpp"

namespace {

struct place {
  std::uint64_t id;
};

/* A number, or a pointer to a place. */
struct tagged {
  p3l::field<std::uint64_t> follows;
  union value {
    p3l::field<std::int64_t> number;
    p3l::pptr<place> to;
    value() : number(0) {}
  } is;
  tagged() = default;
  explicit tagged(std::int64_t number) { is.number = number; }
  explicit tagged(place *to) {
    follows = 1;
    is.to = to;
  }
  tagged(const tagged &other) { *this = other; }
  tagged &operator=(const tagged &other) {
    follows = other.follows;
    if (follows)
      is.to = other.is.to;
    else
      is.number = other.is.number;
    return *this;
  }
  friend bool operator==(const tagged &a, const tagged &b) {
    if (a.follows != b.follows) return false;
    return a.follows ? a.is.to.get() == b.is.to.get() : a.is.number == b.is.number;
  }
};

std::uint32_t live(const void *object, std::size_t element) {
  return static_cast<std::uint32_t>(static_cast<const tagged *>(object)[element].follows);
}

}  // namespace

P3L_CLASS(place, place, 1);
P3L_CLASS_UNIONS(tagged, tagged, 1, nullptr,
                 P3L_UNION(tagged, is, live, P3L_PLAIN_ARM, P3L_ARM(tagged, is, is.to)));

/* By what a key leads to, not by an address. */
template <>
struct p3l::stored_hash<tagged> {
  using view = const tagged &;
  std::uint64_t operator()(const tagged &key) const {
    return key.follows ? key.is.to->id : static_cast<std::uint64_t>(key.is.number);
  }
};

namespace {

struct all {
  p3l::vector<tagged> listed;
  p3l::deque<tagged> queued;
  p3l::unordered_map<std::uint64_t, tagged> by_number;
  p3l::map<p3l::string, tagged> by_name;
  p3l::unordered_map<tagged, tagged> by_tag;
  p3l::pptr<place> target;
};

}  // namespace

P3L_CLASS(all, all, 1);

namespace {

enum : std::uint64_t { COUNT = 50 };

std::int64_t number_of(const place *to) {
  return static_cast<std::int64_t>(p3l::kept<const place>(to).number());
}

/* Every third element is a pointer, every third the number that such a pointer is stored as. */
tagged element(std::uint64_t at, place *target) {
  if (at % 3 == 0) return tagged(target);
  return tagged(at % 3 == 1 ? number_of(target) : static_cast<std::int64_t>(at));
}

void fill(p3l::store &store) {
  store.transact([&] {
    auto *made = store.make<all>();
    place *target = store.make<place>();
    p3l::edit(target)->id = 77;
    made->target = target;
    for (std::uint64_t at = 0; at < COUNT; at++) {
      made->listed.push_back(element(at, target));
      made->queued.push_back(element(at, target));
      made->by_number[at] = element(at, target);
      made->by_name[std::to_string(at)] = element(at, target);
    }
    made->by_tag[tagged(target)] = tagged(number_of(target));
    made->by_tag[tagged(number_of(target))] = tagged(target);
    store.set_root("all", made);
  });
}

void check_one(const tagged &found, std::uint64_t at, place *target) {
  assert_int_equal(found.follows, at % 3 == 0);
  if (at % 3 == 0)
    assert_int_equal(found.is.to->id, 77);
  else
    assert_int_equal(found.is.number,
                     at % 3 == 1 ? number_of(target) : static_cast<std::int64_t>(at));
}

void check(p3l::store &store) {
  auto *found = store.root<all>("all");
  place *target = found->target;
  for (std::uint64_t at = 0; at < COUNT; at++) {
    check_one(found->listed[at], at, target);
    check_one(found->queued[at], at, target);
    check_one(*found->by_number.find(at), at, target);
    check_one(*found->by_name.find(std::to_string(at)), at, target);
  }
  check_one(*found->by_tag.find(tagged(target)), 1, target);
  check_one(*found->by_tag.find(tagged(number_of(target))), 0, target);
}

void they_are_so_in_the_next_run(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    fill(store);
    check(store);
  }
  for (int run = 0; run < 2; run++) {
    p3l::store store(folder / "s");
    check(store);
    store.evict(0);
    check(store);
  }
  std::string verify = std::string(P3L_COMMAND " verify ") + (folder / "s") +
                       " | grep -q ': 0 faults, 0 dangling pointers'";
  assert_int_equal(system(verify.c_str()), 0);
}

/* The reader's memory has an address where the store, with the same bytes, has a number now. */
void a_reader_sees_a_pointer_become_its_number(void **) {
  folder folder;
  p3l::store writer(folder / "s", p3l::create());
  fill(writer);
  p3l::store reader(folder / "s", p3l::read_only());
  p3l_use(reader.get());
  check(reader);
  p3l_use(writer.get());
  auto *written = writer.root<all>("all");
  std::int64_t number = number_of(written->target);
  writer.transact([&] {
    written->listed.edit(3) = tagged(number);
    written->queued.edit(3) = tagged(number);
    *written->by_number.edit(3) = tagged(number);
    *written->by_name.edit("3") = tagged(number);
  });
  p3l_use(reader.get());
  reader.refresh();
  auto *read = reader.root<all>("all");
  const tagged *found[] = {&read->listed[3], &read->queued[3], read->by_number.find(3),
                           read->by_name.find("3")};
  for (const tagged *one : found) {
    assert_int_equal(one->follows, 0);
    assert_int_equal(one->is.number, number);
  }
  p3l_use(nullptr);
}

/* An arm that its union does not have: the container's entry is named. */
void a_wrong_arm_is_refused(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  fill(store);
  auto *found = store.root<all>("all");
  try {
    store.transact([&] { found->by_number[5].follows = 2; });
    fail();
  } catch (const p3l::error &failure) {
    assert_int_equal(failure.code(), P3L_MISUSE);
    assert_non_null(strstr(failure.what(), "arm 2 is live in element 0 of the p3l.entry<"));
  }
  check(store);
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_are_so_in_the_next_run),
      cmocka_unit_test(a_reader_sees_a_pointer_become_its_number),
      cmocka_unit_test(a_wrong_arm_is_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
