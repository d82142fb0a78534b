/* Lines of waiting requests, in memory that is allocated once. queue_lines.h describes them. */
#include "queue_lines.h"

#include <stdlib.h>

#define NOBODY UINT32_MAX

bool split_queue_lines_open(struct queue_lines *lines, uint32_t capacity) {
  *lines = (struct queue_lines){.free_first = NOBODY};
  for (unsigned group = 0; group < QUEUE_GROUPS; group++)
    lines->line[group].first = lines->line[group].last = NOBODY;
  lines->requests = malloc(capacity * sizeof(*lines->requests));
  if (lines->requests == NULL) return false;
  for (uint32_t i = capacity; i-- > 0;) {
    lines->requests[i].next = lines->free_first;
    lines->free_first = i;
  }
  return true;
}

void split_queue_lines_close(struct queue_lines *lines) {
  free(lines->requests);
  lines->requests = NULL;
}

bool split_queue_lines_put(struct queue_lines *lines, unsigned group, uint32_t code, void *request,
                           uint64_t now_ns) {
  uint32_t place = lines->free_first;
  if (place == NOBODY) return false;
  lines->free_first = lines->requests[place].next;
  lines->requests[place] = (struct queue_request){
      .request = request, .put_ns = now_ns, .age = lines->puts++, .code = code, .next = NOBODY};
  if (lines->line[group].last == NOBODY)
    lines->line[group].first = place;
  else
    lines->requests[lines->line[group].last].next = place;
  lines->line[group].last = place;
  lines->line[group].length++;
  lines->filled |= UINT64_C(1) << group;
  lines->waiting++;
  return true;
}

unsigned split_queue_lines_oldest(const struct queue_lines *lines, uint64_t among) {
  unsigned oldest = QUEUE_NO_GROUP;
  uint64_t age = UINT64_MAX;
  for (uint64_t left = lines->filled & among; left != 0; left &= left - 1) {
    unsigned group = (unsigned)__builtin_ctzll(left);
    uint64_t of_first = split_queue_lines_first(lines, group)->age;
    if (of_first < age) {
      age = of_first;
      oldest = group;
    }
  }
  return oldest;
}

const struct queue_request *split_queue_lines_first(const struct queue_lines *lines,
                                                    unsigned group) {
  return &lines->requests[lines->line[group].first];
}

struct queue_request split_queue_lines_take(struct queue_lines *lines, unsigned group) {
  uint32_t place = lines->line[group].first;
  struct queue_request taken = lines->requests[place];
  lines->line[group].first = taken.next;
  if (taken.next == NOBODY) {
    lines->line[group].last = NOBODY;
    lines->filled &= ~(UINT64_C(1) << group);
  }
  lines->line[group].length--;
  lines->waiting--;
  lines->requests[place].next = lines->free_first;
  lines->free_first = place;
  return taken;
}
