/*
 * weigh STORE: the next version of bom.hpp, in which a part has a weight. Stores of the version
 * before are read as they are; a part becomes one of version 2 when it is first come to.
 */
#include <cstdio>
#include <cstring>

#include <p3l.hpp>

struct use;

struct part {
  char name[24];
  p3l::field<std::int64_t> cents;
  p3l::field<std::int64_t> grams;
  p3l::pptr<use> uses;
};

struct use { /* unchanged */
  p3l::pptr<part> what;
  std::int64_t pieces;
  p3l::pptr<use> next;
};

struct part_1 { /* what version 1 was */
  char name[24];
  p3l::field<std::int64_t> cents;
  p3l::pptr<use> uses;
};

/* `after` is zeroed: it has no weight yet. */
static void add_weight(const part_1 &before, part &after) {
  memcpy(after.name, before.name, sizeof after.name);
  after.cents = before.cents;
  after.uses = before.uses; /* copied, not followed: nothing may be followed here */
}

P3L_CLASS_UPGRADED(part, part, 2, (p3l::upgrade<1, part_1, part, add_weight>));
P3L_CLASS(use, use, 1);

static std::int64_t grams(const part *whole) {
  std::int64_t sum = whole->grams;
  for (const use *u = whole->uses; u; u = u->next) sum += u->pieces * grams(u->what);
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  try {
    p3l::store store(argv[1]);
    part *bicycle = store.root<part>("bicycle");
    part *wheel = bicycle->uses->what; /* what was added last is first */
    if (wheel->grams == 0) store.transact([&] { wheel->grams = 1200; });
    printf("%s: %lld g, of which %s: 2 x %lld g\n", bicycle->name,
           static_cast<long long>(grams(bicycle)), wheel->name,
           static_cast<long long>(wheel->grams));
    printf("%llu objects upgraded\n",
           static_cast<unsigned long long>(store.statistics().objects_upgraded));
  } catch (const p3l::error &failure) {
    return fprintf(stderr, "weigh: %s\n", failure.what()), 1;
  }
}
