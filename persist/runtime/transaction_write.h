/*
 * Writes a transaction's changes into pages. changes.h has the invariants. Private to runtime/.
 */
#ifndef P3L_TRANSACTION_WRITE_H
#define P3L_TRANSACTION_WRITE_H

#include "p3l.h"

/* Updates the pages of the pager's transaction to the state of memory. */
p3l_code p3l_changes_write(p3l_store *store, p3l_error *error);

#endif
