// The program whose steps are in steps.txt: each function loads in another way. Freestanding, so that nothing else runs.
struct node {
  long key;
  struct node *next;
};

static struct node nodes[8];
static unsigned char bytes[64] = {3, 1, 4, 1, 5, 9, 2, 6};
static int words[64];
static struct row {
  char name[24];
  int value;
} rows[6];
static long counter;

#define APART __attribute__((noinline, noclone))

// The loaded register is the base: its value is overwritten.
static APART long follow(const struct node *node) {
  long sum = 0;
  for (; node; node = node->next) sum += node->key;
  return sum;
}

// An index that is extended and shifted.
static APART long indexed(const int *at, const unsigned char *index, int count) {
  long sum = 0;
  for (int i = 0; i < count; i++) sum += at[index[i]];
  return sum;
}

// A base that a multiplication computes.
static APART long by_row(const struct row *table, unsigned row) { return table[row].value; }

// Post-indexed loads and stores, of one register and of pairs.
static APART void copy(char *to, const char *from, long count) {
  for (; count >= 16; count -= 16)
    __asm__ volatile("ldp x9, x10, [%1], #16\n\tstp x9, x10, [%0], #16"
                     : "+r"(to), "+r"(from)
                     :
                     : "x9", "x10", "memory");
  while (count-- > 0) *to++ = *from++;
}

// Vectors: one, four that are interleaved, and one element, all post-indexed.
static APART void vectors(const unsigned char *from, long step) {
  __asm__ volatile(
      "ld1 {v0.16b}, [%0], #16\n\t"
      "ld4 {v0.8b-v3.8b}, [%0], %1\n\t"
      "ld1 {v4.s}[1], [%0], #4\n\t"
      "ldr q5, [%0, #16]\n\t"
      "nop"
      : "+r"(from)
      : "r"(step)
      : "v0", "v1", "v2", "v3", "v4", "v5", "memory");
}

// Exclusive, ordered and atomic.
static APART long atomic(long *at) {
  long old, seen;
  __asm__ volatile(
      ".arch_extension lse\n"
      "1:\tldaxr %0, [%2]\n\tadd %0, %0, #1\n\tstlxr w9, %0, [%2]\n\tcbnz w9, 1b\n\t"
      "ldadd %0, %1, [%2]\n\tswpal %0, %1, [%2]\n\tcas %0, %1, [%2]\n\tldar %1, [%2]\n\tnop"
      : "=&r"(old), "=&r"(seen)
      : "r"(at)
      : "x9", "memory");
  return seen;
}

// A jump table.
static APART long choose(int which, const long *at) {
  switch (which) {
    case 0: return at[1] * 3;
    case 1: return at[2] ^ at[0];
    case 2: return at[3] - 7;
    case 3: return at[4] << at[1];
    case 4: return at[0] / 5;
    case 5: return at[2] + at[6] * 9;
    default: return 0;
  }
}

// Literals, a prefetch, and a load below the stack pointer that moves.
static APART long rest(const long *at) {
  long value;
  __builtin_prefetch(at + 8);
  __asm__ volatile(
      "ldr %0, 1f\n\tstr %0, [sp, #-16]!\n\tldr %0, [sp], #16\n\tldrsw %0, [%1, #4]\n\tb 2f\n"
      "\t.balign 8\n1:\t.quad 0x1234\n2:"
      : "=&r"(value)
      : "r"(at)
      : "memory");
  return value + at[1];
}

void _start(void) {
  static long places[8] = {11, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < 8; i++) {
    nodes[i].key = i;
    nodes[i].next = i == 5 ? 0 : &nodes[(i + 3) % 8];
  }
  long sum = follow(nodes) + indexed(words, bytes, 6) + by_row(rows, 4) + by_row(rows, 1);
  copy((char *)words, (const char *)bytes, 37);
  vectors(bytes, 24);
  sum += atomic(&counter);
  for (int i = 0; i < 7; i++) sum += choose(i, places);
  sum += rest(places);
  register long status __asm__("x0") = sum & 1 ? 0 : 1;
  register long call __asm__("x8") = 93;
  __asm__ volatile("svc 0" : : "r"(status), "r"(call));
  __builtin_unreachable();
}
