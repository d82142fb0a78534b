/* Affinity is given back to threads that are narrowed. release.c has the invariants. */
#ifndef SPLIT_RELEASE_H
#define SPLIT_RELEASE_H

#include "process.h"

/* The thread's place in the shared table, taken now if it has none; NULL: there is no room. */
struct split_thread *split_thread_entry(struct split_self *self);
struct split_thread *split_entry_claim(struct split_mapping *mapping, uint32_t tid);
/* Restores a thread's affinity; false: it was not narrowed, or another thread is restoring it. */
bool split_entry_release(struct split_thread *entry);
/* The same of its time slice. */
bool split_entry_release_slice(struct split_thread *entry);
/* Whether the thread that has this entry is the one that took it. */
bool split_entry_lives(const struct split_thread *entry, uint32_t tid);
void split_release_all(struct split_mapping *mapping);
/* false: there is none and can be none. */
bool split_service_start(struct split_mapping *mapping);

#endif
