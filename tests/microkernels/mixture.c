/* A little of everything: a binary tree, a sort, a histogram at random places.
 *
 *   mixture COUNT
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
  struct node *child[2];
  uint32_t key;
  char rest[44];
};

static uint32_t next(void) {
  static uint32_t state = 1;
  return state = state * 1664525u + 1013904223u;
}

static int compare(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  size_t count = (size_t)atol(argv[1]);
  struct node *root = NULL;
  uint32_t *keys = malloc(count * sizeof *keys);
  uint32_t *histogram = calloc(1 << 16, sizeof *histogram);
  if (keys == NULL || histogram == NULL) return 1;
  for (size_t i = 0; i < count; i++) {
    struct node *node = calloc(1, sizeof *node), **place = &root;
    if (node == NULL) return 1;
    node->key = keys[i] = next();
    while (*place != NULL) place = &(*place)->child[node->key >= (*place)->key];
    *place = node;
    histogram[node->key >> 16]++;
  }
  qsort(keys, count, sizeof *keys, compare);
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) sum += keys[i] * (i % 7) + histogram[keys[i] & 0xffff];
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
