#include "kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *const names[SECTION_SHAPES] = {"chase", "gather", "stream", "write"};

const char *section_shape_name(enum section_shape shape) {
  return (unsigned)shape < SECTION_SHAPES ? names[shape] : NULL;
}

/* A permutation of 0 .. 2^bits - 1: each step is invertible (a shift by at least half the bits,
 * a product with an odd number). */
struct permutation {
  uint64_t mask, multiplier, start;
  unsigned shift;
};

/* A permutation of the largest power of two of lines that fits. */
static struct permutation permutation_of(uint64_t lines, uint64_t seed) {
  unsigned bits = 0;
  while (lines >> bits > 1) bits++;
  seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15); /* neighbouring seeds differ in all bits */
  return (struct permutation){.mask = (UINT64_C(1) << bits) - 1,
                              .multiplier = (seed ^ seed >> 29) | 1,
                              .start = seed >> 7,
                              .shift = (bits + 1) / 2};
}

static inline uint64_t permuted(const struct permutation *permutation, uint64_t i) {
  uint64_t x = (i + permutation->start) & permutation->mask;
  x ^= x >> permutation->shift;
  x = x * permutation->multiplier & permutation->mask;
  x ^= x >> permutation->shift;
  x = x * UINT64_C(0xd1342543de82ef95) & permutation->mask;
  return x ^ x >> permutation->shift;
}

/* Volatile, so that each line is loaded by a load of its own. */
static inline uint64_t load(const char *memory, uint64_t line) {
  return *(const volatile uint64_t *)(memory + line * SECTION_LINE);
}

/* In pieces of powers of two, the largest first: no number of the permutation has to be skipped by an unpredictable branch.
 * Inlined for each value of `chase`: else gathering would be computed as a chase that adds 0, and wait like one. */
static inline __attribute__((always_inline)) uint64_t pass_in_random_order(const char *memory,
                                                                           uint64_t lines,
                                                                           uint64_t seed,
                                                                           bool chase) {
  uint64_t sum = 0;
  while (lines > 0) {
    const struct permutation permutation = permutation_of(lines, seed);
    for (uint64_t i = 0; i <= permutation.mask; i++) {
      const uint64_t line = permuted(&permutation, i);
      /* `sum` is 0, but the address of a chase's load is known only when all loads before are
       * done. */
      if (chase)
        sum += load(memory + sum, line);
      else
        sum += load(memory, line);
    }
    memory += (permutation.mask + 1) * SECTION_LINE;
    lines -= permutation.mask + 1;
  }
  return sum;
}

uint64_t section_pass(enum section_shape shape, void *memory, size_t bytes, uint64_t seed) {
  const uint64_t lines = bytes / SECTION_LINE;
  uint64_t sum = 0;
  switch (shape) {
    case SECTION_CHASE: return pass_in_random_order(memory, lines, seed, true);
    case SECTION_GATHER: return pass_in_random_order(memory, lines, seed, false);
    case SECTION_STREAM:
      for (uint64_t line = 0; line < lines; line++) sum += load(memory, line);
      return sum;
    case SECTION_STREAM_WRITE:
      for (uint64_t line = 0; line < lines; line++)
        *(volatile uint64_t *)((char *)memory + line * SECTION_LINE + 8) = seed;
      return 0;
  }
  return 0;
}

bool section_arena_open(struct section_arena *arena, size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
  memset(memory, 0,
         bytes); /* else all pages that are only read would be one and the same page of zeros */
  *arena = (struct section_arena){.memory = memory, .bytes = bytes};
  return true;
}

void section_arena_close(struct section_arena *arena) {
  if (arena->memory != NULL) (void)munmap(arena->memory, arena->bytes);
  *arena = (struct section_arena){0};
}

void *section_arena_fresh(struct section_arena *arena, size_t bytes) {
  const size_t rounded = (bytes + 4095) & ~(size_t)4095;
  if (rounded < bytes || rounded > arena->bytes) return NULL;
  if (rounded > arena->bytes - arena->next) arena->next = 0;
  char *found = arena->memory + arena->next;
  arena->next += rounded;
  return found;
}

struct section_kernel {
  struct section_arena arena;
  enum section_shape shape;
  size_t bytes;
  uint64_t seed;
};

struct section_kernel *section_kernel_open(enum section_shape shape, size_t bytes, uint64_t seed) {
  struct section_kernel *kernel = calloc(1, sizeof(*kernel));
  if (kernel == NULL) return NULL;
  kernel->shape = shape;
  kernel->bytes = bytes;
  kernel->seed = seed;
  if (section_arena_open(&kernel->arena, bytes < SECTION_LINE ? SECTION_LINE : bytes))
    return kernel;
  free(kernel);
  return NULL;
}

uint64_t section_kernel_run(const struct section_kernel *kernel, unsigned passes) {
  uint64_t sum = 0;
  for (unsigned pass = 0; pass < passes; pass++)
    sum += section_pass(kernel->shape, kernel->arena.memory, kernel->bytes, kernel->seed);
  return sum;
}

void section_kernel_close(struct section_kernel *kernel) {
  if (kernel == NULL) return;
  section_arena_close(&kernel->arena);
  free(kernel);
}
