/* Follows a ring of pointers, one per line, in a shuffled order.
 *
 *   chase LINES ROUNDS
 */
#include <stdint.h>
#include <stdlib.h>

struct line {
  struct line *next;
  char rest[56];
};

#define MAX_LINES (1 << 16)
static struct line region[MAX_LINES] __attribute__((aligned(1 << 20)));
static uint32_t order[MAX_LINES];

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  long lines = atol(argv[1]), rounds = atol(argv[2]);
  if (lines < 2 || lines > MAX_LINES) return 2;
  for (long i = 0; i < lines; i++) order[i] = (uint32_t)i;
  uint64_t random = 88172645463325252ull; /* xorshift64 */
  for (long i = lines - 1; i > 0; i--) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    long j = (long)(random % (uint64_t)(i + 1));
    uint32_t swapped = order[i];
    order[i] = order[j];
    order[j] = swapped;
  }
  for (long i = 0; i < lines; i++) region[order[i]].next = &region[order[(i + 1) % lines]];
  struct line *at = region;
  for (long left = lines * rounds; left > 0; left--)
    __asm__ volatile("movq (%0), %0" : "+r"(at) : : "memory");
  return at == NULL;
}
