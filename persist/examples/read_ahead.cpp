/* read_ahead STORE: how many requests it takes to come to all that a tree of 3,280 nodes has. */
#include <cstdio>

#include <p3l.hpp>

struct node {
  std::uint64_t depth;
  char payload[2000]; /* two to a page */
  p3l::pptr<node> to[3];
};
P3L_CLASS(node, node, 1);

static node *make(p3l::store &store, std::uint64_t depth) {
  node *made = store.make<node>();
  made->depth = depth;
  if (depth > 0)
    for (auto &slot : made->to) slot = make(store, depth - 1);
  return made;
}

static std::uint64_t count(const node *n) {
  if (!n) return 0;
  std::uint64_t sum = 1;
  for (auto &slot : n->to) sum += count(slot);
  return sum;
}

static void run(const char *path, bool ahead) {
  p3l::store store(path);
  node *root = store.root<node>("root");
  std::size_t made_resident = ahead ? store.prefetch(root, 7) : 0;
  p3l_statistics before = store.statistics();
  std::uint64_t nodes = count(root);
  p3l_statistics after = store.statistics();
  printf("%s: %zu nodes ahead; then %llu nodes, reading %s\n", ahead ? "prefetch" : "plain   ",
         made_resident, static_cast<unsigned long long>(nodes),
         after.pages_read == before.pages_read ? "nothing" : "pages");
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  {
    p3l::store store(argv[1], p3l::create());
    store.transact([&] { store.set_root("root", make(store, 7)); });
  }
  run(argv[1], false);
  run(argv[1], true);
}
