/* orders STORE add NAME COST | run | list: a queue of jobs, and what each has cost, by name. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <p3l_containers.hpp>

struct job {
  p3l::string name;
  p3l::field<std::int64_t> cost;
  void clear() { name.clear(); }
};
P3L_CLASS(job, job, 1);

struct office {
  p3l::deque<p3l::unique_ptr<job>> waiting;
  p3l::map<p3l::string, std::int64_t> done; /* name -> cost in all */
  p3l::optional<p3l::string> last;
};
P3L_CLASS(office, office, 1);

static void run_first(office &all) {
  if (all.waiting.empty()) return;
  const job &first = *all.waiting.front();
  all.done[first.name] += first.cost;
  all.last.emplace() = first.name;
  all.waiting.pop_front(); /* and erases the job */
}

int main(int argc, char **argv) {
  p3l::store store(argv[1], p3l::create());
  auto *all = store.root<office>("office");
  store.transact([&] {
    if (!all) store.set_root("office", all = store.make<office>());
    if (argc == 5) {
      job *added = all->waiting.emplace_back().emplace();
      added->name = argv[3];
      added->cost = atoll(argv[4]);
    }
    if (!strcmp(argv[2], "run")) run_first(*all);
  });
  std::printf("%zu waiting", all->waiting.size());
  if (all->last) std::printf(", last %s", all->last->c_str());
  for (auto &at : all->done)
    std::printf(", %s %lld", at.key.c_str(), static_cast<long long>(at.value));
  std::printf("\n");
}
