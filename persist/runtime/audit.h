/*
 * Changes that were not reported: found by comparing memory with the store, a little at each commit.
 *
 * Invariants:
 *  1. Within a transaction, the bytes of an object whose card is not marked are the store's, but for
 *     slots that were healed: the comparison is made in the store's form. What differs would be lost,
 *     for a commit writes what lies in marked cards.
 *  2. A hand goes over all resident objects, from the oldest segment to the youngest: so a change
 *     that stays in memory is found after as many commits as memory has places, at the latest.
 *
 * Private to runtime/.
 */
#ifndef P3L_AUDIT_H
#define P3L_AUDIT_H

#include "p3l.h"

/* P3L_MISUSE: there is one among the next `places` of memory. Within a transaction, before anything of
 * it is written. */
p3l_code p3l_audit_changes(p3l_store *store, uint32_t places, p3l_error *error);

/* The same of objects some of whose cards are marked: their other cards are as writable. For the debug
 * library (guard.h). */
p3l_code p3l_audit_opened(p3l_store *store, p3l_error *error);

#endif
