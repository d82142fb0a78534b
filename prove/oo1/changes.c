#include "changes.h"

#include <stdlib.h>

#include "die.h"
#include "image.h"

typedef struct change {
  uint64_t from, to; /* offsets */
} change;

static change *changes;
static size_t count, capacity;

void changes_add(uint64_t offset, uint64_t bytes) {
  if (count == capacity) {
    capacity = capacity == 0 ? 1024 : 2 * capacity;
    changes = realloc(changes, capacity * sizeof *changes);
    if (changes == NULL) oo1_die("no memory for a transaction");
  }
  changes[count++] = (change){offset, offset + bytes};
}

static int by_offset(const void *a, const void *b) {
  uint64_t left = ((const change *)a)->from, right = ((const change *)b)->from;
  return (left > right) - (left < right);
}

void changes_commit(redo *log, const void *(*at)(uint64_t offset)) {
  qsort(changes, count, sizeof *changes, by_offset);
  for (size_t i = 0; i < count;) {
    change all = changes[i++];
    for (; i < count && changes[i].from <= all.to &&
           changes[i].from / IMAGE_PAGE == all.from / IMAGE_PAGE;
         i++)
      if (changes[i].to > all.to) all.to = changes[i].to;
    redo_add(log, all.from, at(all.from), all.to - all.from);
  }
  count = 0;
  redo_commit(log);
}
