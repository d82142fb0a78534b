/* Threads: their states, as process.h has them. */
#ifndef SPLIT_THREAD_H
#define SPLIT_THREAD_H

#include "process.h"

/* This thread's state, created or made ready for the mapping; NULL: no memory. */
struct split_self *split_self_for(struct split_mapping *mapping);

static inline struct split_self *split_self_ready(struct split_mapping *mapping) {
  struct split_self *self = split_self_here;
  if (__builtin_expect(self && self->mapping == mapping, 1)) return self;
  return split_self_for(mapping);
}

bool split_threads_open(void); /* once */
/* Calls `visit` for each living thread's state. */
void split_threads_each(void (*visit)(struct split_self *));
/*
 * Called around a fork: in the child the list of states is unlocked, and its single thread has no
 * open section and its own affinity.
 */
void split_threads_hold(void);
void split_threads_let_go(void);
void split_threads_child(void);

#endif
