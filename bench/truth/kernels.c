/* Kernels whose memory behaviour is known, for bench/truth:
 *
 *   kernels NAME BYTES OPERATIONS        prints nanoseconds per operation of the second of two runs
 *   kernels --list                       names
 *
 * Each run goes on where the one before ended: nothing is accessed again sooner than its pattern
 * says.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LINE 64u
#define KEYS 15u /* keys of a B-tree's node: 60 bytes of keys, 64 of children */

static char *memory;
static uint64_t bytes;
static volatile uint64_t sink;

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* Numbers 0 to n - 1 in one random cycle (Sattolo). */
static void make_cycle(uint32_t *order, uint32_t n) {
  uint64_t state = 88172645463325252ull;
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  for (uint32_t i = n - 1; i > 0; i--) {
    uint32_t other = (uint32_t)(next(&state) % i), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

static void *take(uint64_t size) {
  void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) abort();
  madvise(place, size, MADV_NOHUGEPAGE); /* the model has pages of 4 KiB */
  return place;
}

/* --- stream: every line in order; an operation is a line ---------------------------- */

static uint64_t stream(uint64_t operations) {
  static uint64_t line;
  uint64_t sum = 0, lines = bytes / LINE;
  for (uint64_t i = 0; i < operations; line = 0)
    for (; line < lines && i < operations; line++, i++) {
      const uint64_t *word = (const uint64_t *)memory + line * 8;
      sum += word[0] + word[1] + word[2] + word[3] + word[4] + word[5] + word[6] + word[7];
    }
  return sum;
}

/* --- random: lines at computed places, none depends on another ----------------------- */

static uint64_t random_lines(uint64_t operations) {
  static uint64_t state = 1;
  uint64_t sum = 0, mask = bytes / LINE - 1;
  for (uint64_t i = 0; i < operations; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    sum += *(const uint64_t *)(memory + (state >> 33 & mask) * LINE);
  }
  return sum;
}

/* --- chase: every line holds the address of the next one ------------------------------ */

static void set_chase(void) {
  uint32_t lines = (uint32_t)(bytes / LINE);
  uint32_t *order = take(lines * sizeof *order);
  make_cycle(order, lines);
  for (uint32_t i = 0; i < lines; i++)
    *(void **)(memory + (uint64_t)i * LINE) = memory + (uint64_t)order[i] * LINE;
  munmap(order, lines * sizeof *order);
}

static uint64_t chase(uint64_t operations) {
  static void *at;
  if (at == NULL) at = memory;
  for (uint64_t i = 0; i < operations; i++) at = *(void **)at;
  return (uint64_t)at;
}

/* --- gather: table[index[i]], the indices in order ------------------------------------- */

/* A sixteenth of the table's size, so that it is cached at least as well. */
static uint32_t *gathered, gathered_mask;
static void set_gather(void) {
  uint64_t state = 7, lines = bytes / LINE;
  gathered = take(lines * sizeof *gathered);
  gathered_mask = (uint32_t)lines - 1;
  for (uint64_t i = 0; i < lines; i++) gathered[i] = (uint32_t)(next(&state) % lines);
}

static uint64_t gather(uint64_t operations) {
  static uint64_t at;
  uint64_t sum = 0;
  for (uint64_t end = at + operations; at < end; at++)
    sum += *(const uint64_t *)(memory + (uint64_t)gathered[at & gathered_mask] * LINE);
  return sum;
}

/* --- hash: a bucket's first entry, by pointer, and mostly one entry ---------------------- */

struct entry {
  struct entry *next;
  uint64_t key, value[6];
};
static struct entry **bucket;
static uint64_t bucket_mask;

static uint64_t hash_of(uint64_t key) { return key * 0x9e3779b97f4a7c15ull >> 20; }

static void set_hash(void) {
  uint64_t entries = bytes / sizeof(struct entry) * 7 / 8, buckets = 1;
  while (buckets * 2 <= bytes / sizeof(struct entry)) buckets *= 2;
  bucket_mask = buckets - 1;
  bucket = take(buckets * sizeof *bucket);
  struct entry *entry = (struct entry *)memory;
  for (uint64_t key = 0; key < entries; key++) {
    struct entry **at = &bucket[hash_of(key) & bucket_mask];
    entry[key].key = key;
    entry[key].next = *at;
    *at = &entry[key];
  }
}

static uint64_t hash_probe(uint64_t operations) {
  static uint64_t state = 3;
  uint64_t sum = 0, entries = bytes / sizeof(struct entry) * 7 / 8;
  for (uint64_t i = 0; i < operations; i++) {
    uint64_t key = next(&state) % entries;
    const struct entry *entry = bucket[hash_of(key) & bucket_mask];
    while (entry->key != key) entry = entry->next;
    sum += entry->value[2];
  }
  return sum;
}

/* --- btree: from the root down, 16 children a node, two lines each ----------------------- */

struct node {
  uint32_t key[KEYS], leaf;
  uint32_t child[16];
};
static uint32_t tree_root, tree_keys;

/* One level: `count` nodes over `below` nodes or keys, each of which spans `width` keys. */
static void set_level(const uint32_t *place, const uint32_t *child_place, uint32_t below,
                      uint32_t width, uint32_t leaf) {
  struct node *node = (struct node *)memory;
  for (uint32_t i = 0; i * 16 < below; i++) {
    struct node *one = &node[place[i]];
    one->leaf = leaf;
    for (uint32_t k = 0; k < 16; k++) {
      uint32_t child = i * 16 + k;
      if (k < KEYS) one->key[k] = child + 1 < below ? (child + 1) * width : UINT32_MAX;
      one->child[k] = leaf || child >= below ? child : child_place[child];
    }
  }
}

static void set_btree(void) {
  uint32_t room = (uint32_t)(bytes / sizeof(struct node));
  uint32_t *place = take(room * sizeof *place); /* nodes are in random order */
  make_cycle(place, room);
  uint32_t leaves = room / 16 * 15 - 16, below = leaves * 16, used = 0, first = 0, width = 1;
  tree_keys = below;
  for (uint32_t leaf = 1; below > 1; leaf = 0) {
    uint32_t count = (below + 15) / 16;
    set_level(place + used, place + first, below, width, leaf);
    first = used;
    used += count;
    below = count;
    width *= 16;
  }
  tree_root = place[first];
  munmap(place, room * sizeof *place);
}

/* An operation is one node, so that trees of all sizes are comparable. */
static uint64_t btree(uint64_t operations) {
  static uint64_t state = 5;
  uint64_t sum = 0;
  const struct node *node = (const struct node *)memory;
  for (uint64_t done = 0; done < operations;) {
    uint32_t key = (uint32_t)(next(&state) % tree_keys);
    const struct node *at = &node[tree_root];
    for (;;) {
      uint32_t below = 0;
      for (uint32_t k = 0; k < KEYS; k++) below += at->key[k] <= key; /* no branch */
      done++;
      if (at->leaf) {
        sum += at->child[below];
        break;
      }
      at = &node[at->child[below]];
    }
  }
  return sum;
}

/* --- transposition, stencil, matrix multiply: an operation is a cell --------------------- */

static uint32_t side(uint32_t matrices) {
  uint32_t n = 16;
  while ((uint64_t)(n + 16) * (n + 16) * 8 * matrices <= bytes) n += 16;
  return n;
}

static uint64_t transpose(uint64_t operations) {
  uint32_t n = side(2);
  const uint64_t *from = (const uint64_t *)memory;
  uint64_t *to = (uint64_t *)memory + (uint64_t)n * n;
  static uint32_t i;
  for (uint64_t done = 0; done < operations; i = (i + 1) % n, done += n)
    for (uint32_t j = 0; j < n; j++) to[(uint64_t)i * n + j] = from[(uint64_t)j * n + i];
  return to[0];
}

static uint64_t stencil(uint64_t operations) {
  uint32_t n = side(2);
  const double *from = (const double *)memory;
  double *to = (double *)memory + (uint64_t)n * n;
  static uint32_t i = 1;
  for (uint64_t done = 0; done < operations; i = i + 2 < n ? i + 1 : 1, done += n - 2) {
    const double *row = from + (uint64_t)i * n, *up = row - n, *down = row + n;
    for (uint32_t j = 1; j + 1 < n; j++)
      to[(uint64_t)i * n + j] = row[j] + row[j - 1] + row[j + 1] + up[j] + down[j];
  }
  return (uint64_t)to[n + 1];
}

/* By rows and columns, the textbook loop; an operation is one product. */
static uint64_t multiply(uint64_t operations) {
  uint32_t n = side(3);
  const double *a = (const double *)memory, *b = a + (uint64_t)n * n;
  double *c = (double *)memory + 2 * (uint64_t)n * n;
  static uint32_t i, j;
  for (uint64_t done = 0; done < operations; done += n) {
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += a[(uint64_t)i * n + k] * b[(uint64_t)k * n + j];
    c[(uint64_t)i * n + j] = sum;
    if ((j = (j + 1) % n) == 0) i = (i + 1) % n;
  }
  return (uint64_t)c[0];
}

/* --- Which ----------------------------------------------------------------------------- */

static const struct kind {
  const char *name;
  void (*set)(void);
  uint64_t (*run)(uint64_t operations);
} kinds[] = {
    {"stream", NULL, stream},       {"random", NULL, random_lines}, {"chase", set_chase, chase},
    {"gather", set_gather, gather}, {"hash", set_hash, hash_probe}, {"btree", set_btree, btree},
    {"transpose", NULL, transpose}, {"stencil", NULL, stencil},     {"multiply", NULL, multiply},
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--list") == 0) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) puts(kinds[i].name);
    return 0;
  }
  if (count != 4) return fputs("usage: kernels NAME BYTES OPERATIONS\n", stderr), 2;
  bytes = strtoull(words[2], NULL, 10);
  uint64_t operations = strtoull(words[3], NULL, 10);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    const struct kind *kind = &kinds[i];
    if (strcmp(kind->name, words[1]) != 0) continue;
    memory = take(bytes + 4096);
    for (uint64_t at = 0; at < bytes; at += 8) *(uint64_t *)(memory + at) = at;
    if (kind->set != NULL) kind->set();
    sink = kind->run(operations);
    double begin = now();
    sink = kind->run(operations);
    printf("%.4f\n", (now() - begin) / (double)operations);
    return 0;
  }
  return fprintf(stderr, "there is no kernel %s\n", words[1]), 2;
}
