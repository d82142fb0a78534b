/*
 * Cards: what memory was before the transaction changed it. changes.h has the invariants. Private to
 * runtime/.
 */
#ifndef P3L_TRANSACTION_CARDS_H
#define P3L_TRANSACTION_CARDS_H

#include "changes.h"

/* Marks the cards of an object just made. */
p3l_code p3l_changes_mark_new(p3l_changes *changes, const uint8_t *memory, uint64_t bytes,
                              p3l_error *error);
/* Under the slow-path lock: an object that is not the transaction's came to lie at `memory`. */
void p3l_changes_arrived(p3l_store *store, const uint8_t *memory, uint64_t bytes);
/* Every card has its former bytes again. */
void p3l_changes_put_back(p3l_changes *changes);
/* No card is marked. */
void p3l_changes_unmark(p3l_changes *changes);

#endif
