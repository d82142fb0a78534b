/*
 * Waiting requests: a line for each group of kinds, first come first served within it, and their
 * age across lines. All memory is allocated at once. Not thread-safe: the caller holds the queue's
 * lock.
 */
#ifndef SPLIT_QUEUE_LINES_H
#define SPLIT_QUEUE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The limit of distinguished groups; a set of them is a uint64_t. Group 0 has the kinds that may
 * run anywhere.
 */
enum { QUEUE_GROUPS = 64, QUEUE_ROAMING = 0, QUEUE_NO_GROUP = 255 };

struct queue_request {
  void *request;
  uint64_t put_ns;
  uint64_t age; /* sequence number: smaller is older */
  uint32_t code;
  uint32_t next;
};

struct queue_lines {
  struct queue_request *requests; /* `capacity` of them, waiting or free */
  uint32_t free_first;
  uint64_t puts;
  uint64_t filled; /* set of the groups with waiting requests */
  uint32_t waiting;
  struct {
    uint32_t first, last, length;
  } line[QUEUE_GROUPS];
};

bool split_queue_lines_open(struct queue_lines *lines, uint32_t capacity);
void split_queue_lines_close(struct queue_lines *lines);

/* false: the queue is full. */
bool split_queue_lines_put(struct queue_lines *lines, unsigned group, uint32_t code, void *request,
                           uint64_t now_ns);

/* The group of `among` (a set) with the oldest request; QUEUE_NO_GROUP if none waits. */
unsigned split_queue_lines_oldest(const struct queue_lines *lines, uint64_t among);

/* The first of a line that is not empty. */
const struct queue_request *split_queue_lines_first(const struct queue_lines *lines,
                                                    unsigned group);
struct queue_request split_queue_lines_take(struct queue_lines *lines, unsigned group);

#endif
