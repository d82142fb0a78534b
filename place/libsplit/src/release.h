/* Restoring the affinity of narrowed threads. release.c has the invariants. */
#ifndef SPLIT_RELEASE_H
#define SPLIT_RELEASE_H

#include "process.h"

#include <errno.h>

/* The thread's entry in the shared table, taken now if it has none; NULL: the table is full. */
struct split_thread *split_thread_entry(struct split_self *self);
struct split_thread *split_entry_claim(struct split_mapping *mapping, uint32_t tid);
/* Restores a thread's affinity; false: it was not narrowed, or another thread is restoring it. */
bool split_entry_release(struct split_thread *entry);
/* The same for its time slice. */
bool split_entry_release_slice(struct split_thread *entry);
/* Start time of a thread in clock ticks since boot; 0, with errno: it is not known. */
uint64_t split_started_ticks(uint32_t tid);
/* After a result of 0: true if there is no such thread, false if /proc could not be read, as when
 * the process has no free descriptor. */
static inline bool split_has_ended(void) { return errno == ENOENT || errno == ESRCH; }
/* True if the thread of this entry is still the one that took it, and one of this server's. */
bool split_entry_lives(const struct split_thread *entry, uint32_t tid);
void split_release_all(struct split_mapping *mapping);
/* false: there is no service thread, and none can be created. */
bool split_service_start(struct split_mapping *mapping);

#endif
