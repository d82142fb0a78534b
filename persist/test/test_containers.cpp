/*
 * p3l::vector, string and unordered_map behave like those of the standard library, also in the next
 * run and after an aborted transaction. Removed elements leave no garbage, and every change is
 * reported.
 */
#include <map>
#include <random>
#include <set>

#include "p3l_containers.hpp"
#include "pptr_fixture.hpp"

namespace {

struct entry {
  p3l::field<std::uint64_t> count;
  p3l::vector<std::uint64_t> lines;
  void clear() { lines.clear(); }
};

struct shelf {
  p3l::string name;
  p3l::vector<p3l::pptr<node>> nodes;
  p3l::unordered_map<std::uint32_t, p3l::string> labels;
};

}  // namespace

P3L_CLASS(entry, entry, 1);
P3L_CLASS(shelf, shelf, 1);

using words = p3l::unordered_map<p3l::string, entry>;

namespace {

/* Makes each commit compare all memory, so that an unreported change is detected. */
p3l_options audited() {
  p3l_options options = p3l::create();
  options.audit_places = P3L_AUDIT_ALL;
  return options;
}

/* True if p3l gc finds garbage. */
bool has_garbage(const std::string &path) {
  std::string command =
      std::string(P3L_COMMAND) + " gc --dry-run " + path + " | tail -n 1 | grep -q ' 0 *0$'";
  return system(command.c_str()) != 0;
}

}  // namespace

static void a_vector_grows_and_shrinks(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", audited());
    auto *numbers = store.transact([&] {
      auto *made = store.make<p3l::vector<std::uint64_t>>();
      store.set_root("numbers", made);
      return made;
    });
    assert_true(numbers->empty());
    for (std::uint64_t i = 0; i < 3000; i += 100)
      store.transact([&] {
        for (std::uint64_t k = i; k < i + 100; k++) numbers->push_back(k * k);
      });
    store.transact([&] { numbers->edit(7) = 1; });
    store.transact([&] {
      for (int i = 0; i < 1000; i++) numbers->pop_back();
    });
    {
      p3l::transaction given_up(store);
      numbers->push_back(1);
      numbers->edit(0) = 5;
      numbers->reserve(10000);
    }
    assert_int_equal(numbers->size(), 2000);
  }
  p3l::store store(folder / "s");
  auto *numbers = store.root<p3l::vector<std::uint64_t>>("numbers");
  assert_int_equal(numbers->size(), 2000);
  std::uint64_t i = 0;
  for (std::uint64_t number : *numbers) {
    assert_int_equal(number, i == 7 ? 1 : i * i);
    i++;
  }
  assert_int_equal(i, 2000);
  assert_int_equal(numbers->back(), 1999 * 1999);
  try {
    numbers->at(2000);
    fail();
  } catch (const std::out_of_range &) {
  }
  store.close();
  assert_false(has_garbage(folder / "s"));
}

static void of_one_element_it_has_an_end(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", p3l::create());
    store.transact([&] {
      auto *shelves = store.make_array<shelf>(20);
      store.set_root("shelves", shelves);
      for (std::uint32_t i = 0; i < 20; i++)
        shelves[i].nodes.push_back(store.make<node>(node{i, nullptr}));
    });
  }
  p3l_options options = p3l::read_only();
  options.discovery_order = true;
  p3l::store store(folder / "s", options);
  auto *shelves = store.root<shelf>("shelves");
  for (std::uint32_t i = 20; i-- > 0;) {
    std::uint32_t count = 0;
    for (auto &at : shelves[i].nodes) {
      assert_int_equal(at->id, i);
      count++;
    }
    assert_int_equal(count, 1);
  }
}

static void strings_are_strings(void **) {
  folder folder;
  {
    p3l::store store(folder / "s", audited());
    store.transact([&] {
      auto *made = store.make<shelf>();
      store.set_root("shelf", made);
      made->name = "a name";
      made->labels[5] = "five";
      made->labels[6] = made->name;
    });
    auto *made = store.root<shelf>("shelf");
    store.transact([&] { made->name = std::string(5000, 'x'); }); /* a large object */
    store.transact([&] { made->name = std::string_view(made->name).substr(0, 3); });
  }
  p3l::store store(folder / "s");
  auto *made = store.root<shelf>("shelf");
  assert_true(made->name == "xxx");
  assert_string_equal(made->name.c_str(), "xxx");
  assert_true(*made->labels.find(5) == "five");
  assert_true(*made->labels.find(6) == "a name");
  assert_null(made->labels.find(7));
  store.transact([&] { made->name.clear(); });
  assert_string_equal(made->name.c_str(), "");
  store.close();
  assert_false(has_garbage(folder / "s"));
}

/* Compares with std::map, in any order of steps, over several runs. */
static void a_map_is_as_the_standards(void **) {
  folder folder;
  std::map<std::string, std::vector<std::uint64_t>> model;
  std::mt19937 random(7);
  {
    p3l::store store(folder / "s", p3l::create());
    store.transact([&] { store.set_root("words", store.make<words>()); });
  }
  for (int run = 0; run < 4; run++) {
    p3l::store store(folder / "s", audited());
    auto *all = store.root<words>("words");
    for (int t = 0; t < 20; t++) {
      auto before = model;
      p3l::transaction changes(store);
      for (int step = 0; step < 50; step++) {
        std::string key = "word " + std::to_string(random() % 300);
        if (random() % 3 == 0) {
          assert_int_equal(all->erase(key), model.erase(key));
        } else {
          std::uint64_t line = random() % 1000;
          entry &found = (*all)[key];
          found.count += 1;
          found.lines.push_back(line);
          model[key].push_back(line);
        }
      }
      if (t % 5 == 4)
        model = before;
      else
        changes.commit();
    }
    assert_int_equal(all->size(), model.size());
    std::set<std::string> seen;
    for (auto &at : *all) {
      seen.insert(at.key.str());
      auto &lines = model.at(at.key.str());
      assert_int_equal(at.value.count, lines.size());
      assert_true(
          std::equal(lines.begin(), lines.end(), at.value.lines.begin(), at.value.lines.end()));
    }
    assert_int_equal(seen.size(), model.size());
    for (auto &at : model) assert_true(all->contains(at.first));
    assert_false(all->contains("no word"));
    store.close();
    assert_false(has_garbage(folder / "s"));
  }
  p3l::store store(folder / "s", audited());
  auto *all = store.root<words>("words");
  store.transact([&] { all->clear(); });
  assert_true(all->empty());
  assert_true(all->begin() == all->end());
  store.close();
  assert_false(has_garbage(folder / "s"));
}

static void outside_of_a_store_nothing_is_held(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  p3l::vector<std::uint64_t> local;
  p3l::string text;
  words map;
  assert_int_equal(code_of([&] { store.transact([&] { local.push_back(1); }); }), P3L_MISUSE);
  assert_int_equal(code_of([&] { store.transact([&] { text = "x"; }); }), P3L_MISUSE);
  assert_int_equal(code_of([&] { store.transact([&] { map["x"].count = 1; }); }), P3L_MISUSE);
  assert_true(text.empty() && local.empty() && map.empty() && !map.contains("x"));
  store.transact([&] { store.set_root("numbers", store.make<p3l::vector<std::uint64_t>>()); });
  auto *numbers = store.root<p3l::vector<std::uint64_t>>("numbers");
  assert_int_equal(code_of([&] { numbers->push_back(1); }), P3L_MISUSE); /* no transaction */
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_vector_grows_and_shrinks),
      cmocka_unit_test(of_one_element_it_has_an_end),
      cmocka_unit_test(strings_are_strings),
      cmocka_unit_test(a_map_is_as_the_standards),
      cmocka_unit_test(outside_of_a_store_nothing_is_held),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
