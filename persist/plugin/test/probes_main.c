/*
 * Runs each probe as the plugin compiled it on a graph in which every slot holds a surrogate, and
 * as a plain compiler did on one in which every slot holds an address. Both must return the same
 * and leave the same graph. The runtime is replaced by a library that counts the calls and records
 * the marks. It detects:
 *
 *  - a missing check: the surrogate is used as an address, which traps;
 *  - a missing mark: a card changed that was not marked.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "p3l_access.h"
#include "probes.h" /* as the plugin compiled them */
#define DECLARE_PLAIN(name) int64_t plain_##name(link part, long n);
EACH_PROBE(DECLARE_PLAIN)

#define REGION_BYTES (UINT64_C(1) << 16)
#define CARDS (REGION_BYTES / P3L_CARD_BYTES)

p3l_memory p3l_persistent_memory;
static uint8_t cards[CARDS];
static long swizzled, marked;

static uint64_t surrogate_of(uint64_t address) {
  uint64_t offset = address - p3l_persistent_memory.base;
  return offset < REGION_BYTES ? P3L_SURROGATE_BIT | (offset + 4096) : address;
}

void *p3l_swizzle(void *slot, const void *surrogate) {
  uint64_t value = (uint64_t)(uintptr_t)surrogate;
  uint64_t offset = (value & ~P3L_SURROGATE_BIT) - 4096;
  if ((value & P3L_SURROGATE_ZEROS) != 0 || offset >= REGION_BYTES)
    return (void *)(uintptr_t)surrogate;
  swizzled++;
  void *address = (void *)(p3l_persistent_memory.base + offset);
  if (p3l_is_persistent(slot) && *(uint64_t *)slot == value) *(void **)slot = address;
  return address;
}

void p3l_will_write(void *address, size_t bytes) {
  uint64_t offset = (uintptr_t)address - p3l_persistent_memory.base;
  if (bytes == 0 || offset + bytes > REGION_BYTES) {
    fprintf(stderr, "%zu bytes are marked at %llu, of %llu\n", bytes, (unsigned long long)offset,
            (unsigned long long)REGION_BYTES);
    exit(1);
  }
  marked++;
  for (uint64_t card = offset >> P3L_CARD_SHIFT; card <= (offset + bytes - 1) >> P3L_CARD_SHIFT;
       card++)
    cards[card] = 1;
}

static struct part *parts;

static void make_graph(bool surrogates) {
  memset((void *)p3l_persistent_memory.base, 0, REGION_BYTES);
  for (unsigned i = 0; i < PARTS; i++) {
    struct part *part = &parts[i];
    part->id = i;
    part->kind = i % 8;
    part->rest = i * 3;
    part->x = (int64_t)i * i - 100;
    for (unsigned k = 0; k < 3; k++) part->to[k] = &parts[(i * 3 + k + 1) % PARTS];
    part->either = &parts[(i + 7) % PARTS];
    part->pair.left = &parts[(i + 11) % PARTS];
    part->pair.right = &parts[(i + 13) % PARTS];
    part->unsteady = &parts[(i + 17) % PARTS];
    part->atomic = &parts[(i + 19) % PARTS];
    part->inside = &parts[(i + 23) % PARTS].to[1];
    snprintf(part->name, sizeof part->name, "part %u", i);
    part->weight = i;
    for (int k = 0; k < 32; k++) part->numbers[k] = k * (int)i;
  }
  if (!surrogates) return;
  for (uint64_t at = 0; at < REGION_BYTES; at += 8) {
    uint64_t *word = (uint64_t *)(p3l_persistent_memory.base + at);
    *word = surrogate_of(*word);
  }
}

/* The region with a surrogate for each address in it. */
static void take(uint8_t *picture) {
  for (uint64_t at = 0; at < REGION_BYTES; at += 8) {
    uint64_t word;
    memcpy(&word, (void *)(p3l_persistent_memory.base + at), 8);
    word = surrogate_of(word);
    memcpy(picture + at, &word, 8);
  }
}

typedef int64_t (*probe)(link part, long n);
static int failures;

static void fail(const char *name, long n, const char *what, long long a, long long b) {
  fprintf(stderr, "%s(%ld): %s: %lld, %lld\n", name, n, what, a, b);
  failures++;
}

static void run(const char *name, probe checked, probe plain, unsigned from, long n) {
  static uint8_t before[REGION_BYTES], after[REGION_BYTES], expected[REGION_BYTES];
  make_graph(false);
  int64_t told = plain(&parts[from], n);
  take(expected);

  make_graph(true);
  take(before);
  memset(cards, 0, sizeof cards);
  long swizzled_before = swizzled;
  int64_t found = checked(&parts[from], n);
  take(after);
  if (found != told) fail(name, n, "returns, instead of", found, told);
  if (memcmp(after, expected, REGION_BYTES) != 0) fail(name, n, "leaves another graph", 0, 0);
  /* A loop must use only pointers that were checked in the same round. */
  if (swizzled == swizzled_before && n > 1) fail(name, n, "checked nothing", 0, 0);
  for (uint64_t at = 0; at < REGION_BYTES; at++)
    if (before[at] != after[at] && !cards[at >> P3L_CARD_SHIFT]) {
      fail(name, n, "changed a byte that was not marked", (long long)at, 0);
      return;
    }
}

int main(void) {
  /* Below 2^46, where the library takes its memory (segment.h). */
  void *region = mmap((void *)UINT64_C(0x200000000000), REGION_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED || (uintptr_t)region >> 46 != 0) return 1;
  p3l_persistent_memory = (p3l_memory){(uintptr_t)region, REGION_BYTES, cards};
  parts = (struct part *)((char *)region + 40); /* so that parts lie across cards */
#define RUN(name)                                              \
  for (long n = 0; n < 9; n++) {                               \
    run(#name, PROBE(name), plain_##name, (unsigned)n * 5, n); \
    run(#name, PROBE(name), plain_##name, 63, n);              \
  }
  EACH_PROBE(RUN)
  printf("%ld swizzled, %ld marked, %d failures\n", swizzled, marked, failures);
  return failures != 0;
}
