/*
 * The stores that are open, as a list. Private to runtime/.
 *
 * Invariants:
 *   1. A store is in the list from the end of p3l_open() to the beginning of its p3l_close().
 *   2. The list is changed under a lock of its own; its head and the first `next` are read without.
 */
#ifndef P3L_OPEN_STORES_H
#define P3L_OPEN_STORES_H

#include "p3l.h"

extern p3l_store *p3l_open_stores; /* for debuggers (gdb/p3l.py), too: head of `next` */

void p3l_open_stores_add(p3l_store *store);
void p3l_open_stores_remove(const p3l_store *store);

#endif
