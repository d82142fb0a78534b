/*
 * p3l::deque, map, optional and unique_ptr behave like the standard's: the same random steps on both, over
 * several runs, aborted transactions, and killed processes; removed elements leave no garbage, and
 * every change is reported.
 */
#include <algorithm>
#include <csignal>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include <sys/wait.h>

#include "p3l_containers.hpp"
#include "pptr_fixture.hpp"

namespace {

struct page {
  p3l::string text;
  p3l::optional<std::uint32_t> number;
  p3l::unique_ptr<page> next;
  void clear() {
    text.clear();
    number.reset();
    next.reset();
  }
};

struct library {
  p3l::field<std::uint64_t> steps;
  p3l::deque<std::uint64_t> queue;
  p3l::map<p3l::string, p3l::vector<std::uint64_t>> lines;
  p3l::map<std::int32_t, p3l::unique_ptr<page>> pages;
  p3l::deque<p3l::optional<p3l::string>> notes;
};

}  // namespace

P3L_CLASS(page, page, 1);
P3L_CLASS(library, library, 1);

namespace {

/* The model: the same data in the standard's containers. */
struct model {
  std::uint64_t steps = 0;
  std::deque<std::uint64_t> queue;
  std::map<std::string, std::vector<std::uint64_t>> lines;
  std::map<std::int32_t, std::vector<std::string>> pages;
  std::deque<std::optional<std::string>> notes;
};

std::string word(std::uint64_t n) { return "word " + std::to_string(n % 97); }

/* A step depends on its number alone, so that the steps of a killed process can be repeated on the
 * model. */
void step_queue(library *l, model &m, std::mt19937_64 &random) {
  std::uint64_t value = random();
  switch (random() % 6) {
    case 0:
    case 1:
      if (l) l->queue.push_back(value);
      m.queue.push_back(value);
      break;
    case 2:
      if (l) l->queue.push_front(value);
      m.queue.push_front(value);
      break;
    case 3:
      if (m.queue.empty()) break;
      if (l) l->queue.pop_front();
      m.queue.pop_front();
      break;
    case 4:
      if (m.queue.empty()) break;
      if (l) l->queue.pop_back();
      m.queue.pop_back();
      break;
    default:
      if (m.queue.empty()) break;
      if (l) l->queue.edit(value % m.queue.size()) = value;
      m.queue[value % m.queue.size()] = value;
  }
}

void step_lines(library *l, model &m, std::mt19937_64 &random) {
  std::string key = word(random());
  std::uint64_t value = random();
  switch (random() % 5) {
    case 0:
    case 1:
      if (l) l->lines[key].push_back(value);
      m.lines[key].push_back(value);
      break;
    case 2:
      if (l) assert_int_equal(l->lines.erase(key), m.lines.count(key));
      m.lines.erase(key);
      break;
    case 3: {
      auto behind = m.lines.lower_bound(key);
      if (l) {
        auto mine = l->lines.lower_bound(key);
        assert_int_equal(mine == l->lines.end(), behind == m.lines.end());
        if (behind != m.lines.end()) {
          auto after = l->lines.erase(mine);
          assert_int_equal(after == l->lines.end(), std::next(behind) == m.lines.end());
        }
      }
      if (behind != m.lines.end()) m.lines.erase(behind);
      break;
    }
    default: {
      auto found = m.lines.find(key);
      if (found == m.lines.end() || found->second.empty()) break;
      std::size_t at = value % found->second.size();
      if (l) l->lines.edit(key)->erase(at);
      found->second.erase(found->second.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

void step_pages(library *l, model &m, std::mt19937_64 &random) {
  auto key = static_cast<std::int32_t>(random() % 60) - 30;
  std::string text = word(random());
  if (random() % 3 == 0) {
    if (l) assert_int_equal(l->pages.erase(key), m.pages.count(key));
    m.pages.erase(key);
    return;
  }
  /* A new page before the others of that key, which it owns. */
  if (l) {
    auto &owner = l->pages[key];
    page *rest = owner.release();
    page *made = owner.emplace();
    made->text = text;
    made->next.reset(rest);
    if (text.size() % 2 == 0) made->number = static_cast<std::uint32_t>(text.size());
  }
  auto &texts = m.pages[key];
  texts.insert(texts.begin(), text);
}

void step_notes(library *l, model &m, std::mt19937_64 &random) {
  std::string text = word(random());
  std::uint64_t at = m.notes.empty() ? 0 : random() % m.notes.size();
  switch (random() % 4) {
    case 0:
      if (l) l->notes.emplace_back();
      m.notes.emplace_back();
      break;
    case 1:
      if (m.notes.empty()) break;
      if (l) l->notes.edit(at).emplace() = text;
      m.notes[at] = text;
      break;
    case 2:
      if (m.notes.empty()) break;
      if (l) l->notes.edit(at).reset();
      m.notes[at].reset();
      break;
    default:
      if (m.notes.size() < 20) break;
      if (l) l->notes.pop_front();
      m.notes.pop_front();
  }
}

enum { STEPS = 20 };

/* Transaction number `n` of a library; `l` nullptr: of the model alone. */
void transact(library *l, model &m, std::uint64_t n) {
  std::mt19937_64 random(n);
  for (int step = 0; step < STEPS; step++) {
    step_queue(l, m, random);
    step_lines(l, m, random);
    step_pages(l, m, random);
    step_notes(l, m, random);
  }
  m.steps++;
  if (l) l->steps += 1u;
}

void compare(const library *l, const model &m) {
  assert_int_equal(l->steps, m.steps);
  assert_int_equal(l->queue.size(), m.queue.size());
  assert_true(std::equal(l->queue.begin(), l->queue.end(), m.queue.begin(), m.queue.end()));
  assert_true(std::equal(l->queue.rbegin(), l->queue.rend(), m.queue.rbegin(), m.queue.rend()));

  assert_int_equal(l->lines.size(), m.lines.size());
  auto mine = l->lines.begin();
  for (auto &at : m.lines) {
    assert_true(mine != l->lines.end() && mine->key == at.first);
    auto &values = mine->value;
    assert_true(std::equal(values.begin(), values.end(), at.second.begin(), at.second.end()));
    assert_ptr_equal(l->lines.find(at.first), &values);
    ++mine;
  }
  assert_true(mine == l->lines.end());
  for (auto at = m.lines.rbegin(); at != m.lines.rend(); ++at)
    assert_true((--mine)->key == at->first);
  for (std::uint64_t n = 0; n < 97; n++) {
    auto theirs = m.lines.upper_bound(word(n));
    auto found = l->lines.upper_bound(word(n));
    assert_int_equal(found == l->lines.end(), theirs == m.lines.end());
    if (theirs != m.lines.end()) assert_true(found->key == theirs->first);
    assert_int_equal(l->lines.contains(word(n)), m.lines.count(word(n)));
  }

  assert_int_equal(l->pages.size(), m.pages.size());
  auto owner = l->pages.begin();
  for (auto &at : m.pages) {
    assert_int_equal(owner->key, at.first);
    const page *p = owner->value.get();
    for (auto &text : at.second) {
      assert_true(p && p->text == text);
      assert_int_equal(p->number.has_value(), text.size() % 2 == 0);
      assert_int_equal(p->number.value_or(7u), text.size() % 2 == 0 ? text.size() : 7);
      p = p->next.get();
    }
    assert_null(p);
    ++owner;
  }

  assert_int_equal(l->notes.size(), m.notes.size());
  for (std::size_t i = 0; i < m.notes.size(); i++) {
    assert_int_equal(l->notes[i].has_value(), m.notes[i].has_value());
    if (m.notes[i]) assert_true(*l->notes[i] == *m.notes[i]);
  }
}

p3l_options audited() {
  p3l_options options = p3l::create();
  options.audit_places = P3L_AUDIT_ALL;
  return options;
}

library *library_in(p3l::store &store) {
  if (auto *found = store.root<library>("library")) return found;
  return store.transact([&] {
    auto *made = store.make<library>();
    store.set_root("library", made);
    return made;
  });
}

/* p3l verify finds no dangling pointer, p3l gc no garbage. */
void is_tidy(const std::string &path) {
  std::string verify =
      std::string(P3L_COMMAND) + " verify " + path + " | grep -q ' 0 faults, 0 dangling'";
  assert_int_equal(system(verify.c_str()), 0);
  std::string gc =
      std::string(P3L_COMMAND) + " gc --dry-run " + path + " | tail -n 1 | grep -q ' 0 *0$'";
  assert_int_equal(system(gc.c_str()), 0);
}

}  // namespace

static void they_are_as_the_standards(void **) {
  folder folder;
  model m;
  std::uint64_t n = 0;
  for (int run = 0; run < 4; run++) {
    p3l::store store(folder / "s", audited());
    library *l = library_in(store);
    compare(l, m);
    for (int t = 0; t < 25; t++) {
      model before = m;
      p3l::transaction changes(store);
      transact(l, m, n++);
      if (t % 5 == 4)
        m = before;
      else
        changes.commit();
      if (t % 5 == 4) {
        changes.abort();
        compare(l, m);
      }
    }
    compare(l, m);
    store.close();
    is_tidy(folder / "s");
  }
  p3l::store store(folder / "s", audited());
  library *l = library_in(store);
  store.transact([&] {
    l->queue.clear();
    l->lines.clear();
    l->pages.clear();
    l->notes.clear();
  });
  model none;
  none.steps = m.steps;
  compare(l, none);
  store.close();
  is_tidy(folder / "s");
}

/* The child's transactions until it is killed, each acknowledged by a byte. */
[[noreturn]] static void work(const std::string &path, int acknowledged) {
  p3l_options options = p3l::create();
  options.checkpoint_bytes = 256 << 10;
  p3l::store store(path, options);
  library *l = library_in(store);
  model m;
  for (std::uint64_t n = 0; n < l->steps; n++) transact(nullptr, m, n);
  for (;;) {
    store.transact([&] { transact(l, m, l->steps); });
    if (write(acknowledged, "!", 1) != 1) _exit(1);
  }
}

static void killed_processes_lose_nothing(void **) {
  folder folder;
  std::uint64_t acknowledged = 0;
  for (int run = 0; run < 8; run++) {
    int ends[2];
    char bytes[4096];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      close(ends[0]);
      work(folder / "s", ends[1]);
    }
    close(ends[1]);
    std::uint64_t wanted = acknowledged + 5 + static_cast<unsigned>(run) * 7;
    while (acknowledged < wanted) {
      ssize_t got = read(ends[0], bytes, sizeof bytes);
      assert_true(got > 0);
      acknowledged += static_cast<std::uint64_t>(got);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0;)
      acknowledged += static_cast<std::uint64_t>(got);
    close(ends[0]);
    is_tidy(folder / "s");
    p3l::store store(folder / "s", audited());
    library *l = library_in(store);
    /* One more may have been committed, and not acknowledged. */
    assert_in_range(l->steps, acknowledged, acknowledged + 1);
    acknowledged = l->steps;
    model m;
    for (std::uint64_t n = 0; n < l->steps; n++) transact(nullptr, m, n);
    compare(l, m);
  }
}

static void algorithms_take_their_iterators(void **) {
  folder folder;
  p3l::store store(folder / "s", audited());
  library *l = library_in(store);
  store.transact([&] {
    for (std::uint64_t i = 0; i < 100; i++) {
      if (i % 2 == 0)
        l->queue.push_back(i);
      else
        l->queue.push_front(i);
      l->lines[word(i)].resize(i % 3);
    }
  });
  /* 99 97 ... 1 0 2 ... 98 */
  auto zero = std::find(l->queue.begin(), l->queue.end(), 0u);
  assert_int_equal(zero - l->queue.begin(), 50);
  assert_int_equal(*std::lower_bound(zero, l->queue.end(), 41u), 42);
  assert_int_equal(std::accumulate(l->queue.begin(), l->queue.end(), std::uint64_t{0}), 4950);
  assert_int_equal(*std::max_element(l->queue.begin(), l->queue.end()), 99);
  assert_int_equal(l->queue.rbegin()[0], 98);
  assert_int_equal(std::distance(l->lines.begin(), l->lines.end()), 97);
  auto twos = std::count_if(l->lines.begin(), l->lines.end(),
                            [](auto &entry) { return entry.value.size() == 2; });
  assert_int_equal(twos, 32);
  try {
    l->queue.at(100);
    fail();
  } catch (const std::out_of_range &) {
  }
  p3l::optional<std::uint32_t> none;
  try {
    (void)none.value();
    fail();
  } catch (const std::bad_optional_access &) {
  }
}

static void keys_in_order_make_no_list(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  enum { KEYS = 20000 };
  auto *numbers = store.transact([&] {
    auto *made = store.make<p3l::map<std::uint64_t, std::uint64_t>>();
    store.set_root("numbers", made);
    for (std::uint64_t i = 0; i < KEYS; i++) (*made)[i] = i * i;
    return made;
  });
  /* The deepest of 20,000 nodes: 14.3 at best, 20,000 in a list; priorities are the same in every run. */
  std::size_t deepest = 0;
  for (auto &at : *numbers) {
    std::size_t depth = 1;
    for (auto *above = at.parent.get(); above; above = above->parent) depth++;
    deepest = std::max(deepest, depth);
  }
  assert_in_range(deepest, 15, 50);
  assert_int_equal(*numbers->find(KEYS - 1), static_cast<std::uint64_t>(KEYS - 1) * (KEYS - 1));
  assert_int_equal(numbers->lower_bound(777)->value, 777 * 777);
  assert_int_equal((--numbers->end())->key, KEYS - 1);
}

static void outside_of_a_store_nothing_is_held(void **) {
  folder folder;
  p3l::store store(folder / "s", p3l::create());
  p3l::deque<std::uint64_t> queue;
  p3l::map<std::uint32_t, std::uint32_t> map;
  p3l::unique_ptr<page> owner;
  assert_int_equal(code_of([&] { store.transact([&] { queue.push_back(1); }); }), P3L_MISUSE);
  assert_int_equal(code_of([&] { store.transact([&] { map[1] = 1; }); }), P3L_MISUSE);
  assert_int_equal(code_of([&] { store.transact([&] { owner.emplace(); }); }), P3L_MISUSE);
  assert_true(queue.empty() && map.empty() && !owner && queue.begin() == queue.end() &&
              map.begin() == map.end());
}

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_are_as_the_standards),
      cmocka_unit_test(killed_processes_lose_nothing),
      cmocka_unit_test(algorithms_take_their_iterators),
      cmocka_unit_test(keys_in_order_make_no_list),
      cmocka_unit_test(outside_of_a_store_nothing_is_held),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
