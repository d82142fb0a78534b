/*
 * What a transaction has changed in memory, and the way back. Private to runtime/.
 *
 *   p3l_will_write() ──> card: what it was ──┬── p3l_commit(): the difference, unswizzled, into pages of the pager
 *   p3l_allocate()   ──> object: new        │                  p3l_pager_append(), scopes unlocked, p3l_pager_wait()
 *   p3l_delete()     ──> object: gone       └── p3l_abort():   the bytes are put back
 *
 * Invariants:
 *  1. A card's byte is set if and only if its former bytes are in `cards` of the transaction, or all
 *     of it is new. Cards of other stores' segments are never touched.
 *  2. Something made resident into a card that is kept (an arena grows by objects that are merely
 *     read) is kept, too: p3l_changes_arrived(). So putting the card back loses nothing.
 *  3. A slot that was healed differs from what is kept, and yet is unchanged: what is compared is
 *     the store's form of both.
 *  4. The pager's pages are changed by allocation and deletion at once (they need the room), by
 *     everything else only in commit. Aborting the pager's transaction takes all back.
 *  5. Commit fails before p3l_pager_append(), and then aborts; or it has happened.
 */
#ifndef P3L_TRANSACTION_H
#define P3L_TRANSACTION_H

#include "store.h"

typedef struct p3l_kept_card {
  uintptr_t card; /* index in p3l_persistent_memory.cards */
  uint8_t bytes[P3L_CARD_BYTES];
} p3l_kept_card;

typedef struct p3l_changes {
  p3l_pager_transaction *pager;
  p3l_kept_card *cards;
  size_t card_count, card_capacity;
  uintptr_t *new_cards; /* set for new objects only: nothing kept */
  size_t new_card_count, new_card_capacity;
  p3l_address *made, *deleted; /* first bytes */
  size_t made_count, made_capacity, deleted_count, deleted_capacity;
  uint32_t type_limit; /* of the store's type table at begin */
} p3l_changes;

/* Under the slow-path lock: an object that is not the transaction's came to lie at `memory`. */
void p3l_changes_arrived(p3l_store *store, const uint8_t *memory, uint64_t bytes);

#endif
