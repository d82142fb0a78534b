/* Affinity is given back to threads that are narrowed. release.c has the invariants. */
#ifndef SPLIT_RELEASE_H
#define SPLIT_RELEASE_H

#include "mapping.h"

struct split_thread *split_entry_claim(struct split_mapping *mapping, uint32_t tid);
/* Gives the affinity back of whoever it is; false: it was not narrowed, or somebody else is at it. */
bool split_entry_release(struct split_thread *entry);
void split_release_all(struct split_mapping *mapping);
/* false: there is none and can be none. */
bool split_service_start(struct split_mapping *mapping);

#endif
