/* bom STORE make | cost PART | price PART CENTS: what a bicycle costs, from what it is made of. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bom.hpp"

static part *make_part(p3l::store &store, const char *name, std::int64_t cents) {
  part *made = store.make<part>();
  strncpy(made->name, name, sizeof made->name - 1);
  made->cents = cents;
  return made;
}

static void add(p3l::store &store, part *whole, std::int64_t pieces, part *what) {
  whole->uses = store.make_near<use>(whole, use{what, pieces, whole->uses});
}

static void make(p3l::store &store) {
  store.transact([&] {
    part *spoke = make_part(store, "spoke", 35), *hub = make_part(store, "hub", 1900);
    part *wheel = make_part(store, "wheel", 1500);
    add(store, wheel, 32, spoke);
    add(store, wheel, 1, hub);
    part *bicycle = make_part(store, "bicycle", 9000);
    add(store, bicycle, 1, make_part(store, "frame", 21000));
    add(store, bicycle, 2, wheel);
    store.set_root("bicycle", bicycle);
  });
}

static std::int64_t cost(const part *whole) {
  std::int64_t sum = whole->cents;
  for (const use *u = whole->uses; u; u = u->next) sum += u->pieces * cost(u->what);
  return sum;
}

static part *find(part *whole, const char *name) {
  if (strcmp(whole->name, name) == 0) return whole;
  for (use *u = whole->uses; u; u = u->next)
    if (part *found = find(u->what, name)) return found;
  return nullptr;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "bom STORE make | cost PART | price PART CENTS\n"), 2;
  try {
    p3l::store store(argv[1], p3l::create());
    if (strcmp(argv[2], "make") == 0) {
      make(store);
    } else {
      part *bicycle = store.root<part>("bicycle");
      part *named = bicycle && argc > 3 ? find(bicycle, argv[3]) : nullptr;
      if (!named) return fprintf(stderr, "there is no such part\n"), 1;
      if (strcmp(argv[2], "price") == 0 && argc > 4)
        store.transact([&] { named->cents = atoll(argv[4]); });
      printf("%s: %lld cents\n", named->name, static_cast<long long>(cost(named)));
      printf("%llu pointers swizzled\n",
             static_cast<unsigned long long>(store.statistics().swizzled));
    }
  } catch (const p3l::error &failure) {
    return fprintf(stderr, "bom: %s\n", failure.what()), 1;
  }
}
