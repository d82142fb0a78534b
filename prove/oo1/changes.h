/* The bytes of an image that a transaction changed: collected as they come, logged once each. */
#ifndef OO1_CHANGES_H
#define OO1_CHANGES_H

#include "redo.h"

void changes_add(uint64_t offset, uint64_t bytes);
/* Commits them: at(offset) is the byte's address in memory; called once for each page. */
void changes_commit(redo *log, const void *(*at)(uint64_t offset));

#endif
