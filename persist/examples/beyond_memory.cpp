/*
 * beyond_memory STORE: a store of 64 MB under a limit of 8 MB, and the three ways to come back to
 * an object after an eviction: from a root, by its surrogate, pinned.
 */
#include <cstdio>

#include <p3l.hpp>

struct leaf {
  std::uint64_t number;
  char payload[1000];
  p3l::pptr<leaf> next;
};
P3L_CLASS(leaf, leaf, 1);

enum : std::uint64_t { LEAVES = 65536, LIMIT = 8 << 20 };

static void make(const char *path) {
  p3l::store store(path, p3l::create());
  leaf *previous = nullptr;
  for (std::uint64_t number = LEAVES; number > 0;) {
    p3l::transaction batch(store);
    for (int i = 0; i < 4096; i++) {
      leaf *made = store.make<leaf>();
      made->number = --number;
      made->next = previous;
      previous = made;
    }
    store.set_root("first", previous);
    batch.commit();
  }
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  make(argv[1]);
  p3l::store store(argv[1], p3l::within(LIMIT));

  leaf *first = store.root<leaf>("first");
  p3l::pin<leaf> pinned(first->next.get());
  p3l::kept<leaf> kept(pinned->next.get());

  /* The end of each scope is a safe point: what is not pinned may go. So no plain pointer is
   * carried from one to the next, but a surrogate. */
  std::uint64_t sum = 0;
  p3l::kept<leaf> position(first);
  while (position) {
    p3l::scope reading(store);
    leaf *l = position.get();
    for (int i = 0; i < 1000 && l; i++, l = l->next) sum += l->number;
    position = p3l::kept<leaf>(l);
  }

  p3l_statistics statistics = store.statistics();
  printf("sum of 0 .. %llu: %llu\n", static_cast<unsigned long long>(LEAVES - 1),
         static_cast<unsigned long long>(sum));
  /* The limit is enforced when a scope ends: what one scope touches, here 1000 leaves, comes on
   * top of it. */
  printf("memory stayed below limit + 2 MB: %s; objects were evicted: %s\n",
         statistics.memory_peak <= LIMIT + (2 << 20) ? "yes" : "no",
         statistics.objects_evicted > 0 ? "yes" : "no");
  printf("by root %llu, pinned %llu, by surrogate %llu\n",
         static_cast<unsigned long long>(store.root<leaf>("first")->number),
         static_cast<unsigned long long>(pinned->number),
         static_cast<unsigned long long>(kept->number));
}
