/*
 * Changes that were not reported: found by comparing memory with the store, a little at each
 * commit.
 *
 * Invariants:
 *  1. Within a transaction, the bytes of an object whose card is not marked equal the store's,
 *     except in slots that were healed: the audit compares the store's form. A difference would be
 *     lost, because a commit writes marked cards only. In a marked card a word that is as when the
 *     card was marked equals the store's, too: a commit writes what differs from that.
 *  2. A hand moves over all resident objects, from the oldest segment to the youngest. A change
 *     that stays in memory is therefore found at the latest after as many commits as memory has
 *     places.
 *
 * Private to runtime/.
 */
#ifndef P3L_AUDIT_H
#define P3L_AUDIT_H

#include "p3l.h"

/* P3L_MISUSE: the next `places` places of memory contain an unreported change. Called within a
 * transaction, before anything of it is written. */
p3l_code p3l_audit_changes(p3l_store *store, uint32_t places, p3l_error *error);

/* The same of objects some of whose cards are marked: their other cards are as writable. For the debug
 * library (guard.h). */
p3l_code p3l_audit_opened(p3l_store *store, p3l_error *error);

#endif
