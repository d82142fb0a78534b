/* Walks through memory at a fixed stride, in a loop that touches nothing else.
 *
 *   walk MODE STRIDE COUNT OFFSET ROUNDS
 *
 * MODE is load, store or modify; each round makes COUNT accesses of eight bytes,
 * at OFFSET, OFFSET + STRIDE, ...  The region begins at a multiple of 1 MiB.
 */
#include <stdlib.h>
#include <string.h>

static char region[8 << 20] __attribute__((aligned(1 << 20)));

#define WALK(instruction)                                                \
  for (long round = 0; round < rounds; round++) {                        \
    char *at = region + offset;                                          \
    for (long i = 0; i < count; i++, at += stride)                       \
      __asm__ volatile(instruction : : "r"(at) : "rax", "memory", "cc"); \
  }

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  long stride = atol(argv[2]), count = atol(argv[3]), offset = atol(argv[4]);
  long rounds = atol(argv[5]);
  if (offset + stride * count + 8 > (long)sizeof region) return 2;
  if (strcmp(argv[1], "load") == 0) {
    WALK("movq (%0), %%rax")
  } else if (strcmp(argv[1], "store") == 0) {
    WALK("movq %%rax, (%0)")
  } else if (strcmp(argv[1], "modify") == 0) {
    WALK("lock incq (%0)")
  } else {
    return 2;
  }
  return 0;
}
