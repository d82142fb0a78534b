/*
 * Cards: the state of memory before the transaction changed it. changes.h has the invariants.
 * Private to runtime/.
 */
#ifndef P3L_TRANSACTION_CARDS_H
#define P3L_TRANSACTION_CARDS_H

#include "changes.h"

/* Marks the cards of an object that was just created. */
p3l_code p3l_changes_mark_new(p3l_changes *changes, const uint8_t *memory, uint64_t bytes,
                              p3l_error *error);
/*
 * Called with the slow-path lock: an object that the transaction did not create became resident at
 * `memory`.
 */
void p3l_changes_arrived(p3l_store *store, const uint8_t *memory, uint64_t bytes);
/* Restores the former bytes of every card. */
void p3l_changes_put_back(p3l_changes *changes);
/* Clears the marks of all cards. */
void p3l_changes_unmark(p3l_changes *changes);

#endif
