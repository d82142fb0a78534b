/* The program for the test of p3l.py: gdb stops it at look_here(). */
#include <cstdio>

#include "p3l.hpp"

struct part {
  p3l::field<int> id;
  char payload[3000]; /* one object on each page */
  p3l::pptr<part> to[3];
};
P3L_CLASS(part, part, 1);
struct c_part { /* the same type as in the C program */
  int id;
  char payload[3000];
  c_part *to[3];
};
struct block {
  char bytes[10000];
};
P3L_CLASS(block, block, 1);

extern "C" __attribute__((noinline)) void look_here(part *first, c_part *as_c, block *large) {
  asm volatile("" ::"r"(first), "r"(as_c), "r"(large) : "memory");
}

/* The address of an object in the store, for the test to compare. */
template <class T>
static void tell(const char *name, T *object) {
  std::uint64_t address = p3l::kept<T>(object).number() & ~P3L_SURROGATE_BIT;
  printf("%s %llu:%llu\n", name, static_cast<unsigned long long>(address / 4096),
         static_cast<unsigned long long>(address % 4096));
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  {
    p3l::store store(argv[1], p3l::create());
    store.transact([&] {
      part *first = store.make<part>();
      first->id = 1;
      for (int k = 0; k < 2; k++) {
        part *next = store.make<part>();
        next->id = 2 + k;
        first->to[k] = next;
        next->to[0] = first;
      }
      first->to[2] = first->to[1]; /* two slots with the same object */
      store.set_root("first", first);
      store.set_root("large", store.make<block>());
      tell("first", first);
      tell("second", first->to[0].get());
      tell("third", first->to[1].get());
      tell("large", store.root<block>("large"));
    });
  }
  fflush(stdout);
  p3l::store store(argv[1]);
  part *first = store.root<part>("first");
  block *large = store.root<block>("large");
  if (first->to[1]->id != 3) return 1; /* that slot is now swizzled, the others are not */
  look_here(first, reinterpret_cast<c_part *>(first), large);
  printf("%d\n", first->to[0]->id.get());
}
