/*
 * The record of a transaction's changes in memory, and how they are undone. Private to runtime/.
 *
 *   p3l_will_write() ──> card: what it was ──┬── p3l_commit(): the difference, unswizzled, into pages of the pager
 *   p3l_allocate()   ──> object: new        │                  p3l_pager_append(), scopes unlocked, p3l_pager_wait()
 *   p3l_delete()     ──> object: gone       └── p3l_abort():   the bytes are put back
 *
 *   transaction.c         begin, commit, abort
 *   changes.c             memory for all this
 *   transaction_cards.c   saving cards, restoring them
 *   transaction_write.c   the difference, into pages
 *   object.c, roots.c     objects that a program creates, deletes and names
 *
 * Invariants:
 *  1. A card's byte is P3L_CARD_KEPT if and only if the transaction's kept cards include its former
 *     bytes; P3L_CARD_NEW: all objects in it are new. Cards of other stores' segments are never
 *     touched. Outside of transactions all bytes are zero.
 *  2. An object that becomes resident in a marked card (an arena also grows by objects that are
 *     only read) is kept, too: p3l_changes_arrived(). Restoring the card therefore loses nothing.
 *     One more kept card is always reserved, so that this cannot fail: only the card at the end of
 *     the store's youngest arena can need it.
 *  3. A slot that was healed differs from its kept bytes but is unchanged: the store's forms of
 *     both are compared.
 *  4. The pager's pages are changed at once by allocation, which needs the space, and by everything
 *     else only in commit; deleted objects keep their space until then, so that no two objects of a
 *     transaction have one address. Aborting the pager's transaction undoes all of this.
 *  5. A commit fails before p3l_pager_append(), and then aborts; after the append it cannot fail.
 */
#ifndef P3L_CHANGES_H
#define P3L_CHANGES_H

#include "object_page.h"
#include "pager.h"
#include "segment.h"
#include "transaction_table.h"

/* Values in p3l_persistent_memory.cards; 0: nothing changed. */
enum { P3L_CARD_KEPT = 1, P3L_CARD_NEW = 2 };

typedef struct p3l_kept_card {
  uintptr_t card; /* index in p3l_persistent_memory.cards */
  uint8_t bytes[P3L_CARD_BYTES];
} p3l_kept_card;

/* Cards side by side. */
typedef struct p3l_card_run {
  uintptr_t first, count;
} p3l_card_run;

/* A list of a transaction's objects: created, deleted, or upgraded. */
typedef struct p3l_place_list {
  p3l_place *places;
  size_t count, capacity;
} p3l_place_list;

typedef struct p3l_changes {
  p3l_pager_transaction *pager;
  uint32_t type_limit; /* length of the store's type table at begin */

  /* Chunks do not move, so growing copies nothing, and small ones come from malloc's free lists. */
  p3l_kept_card **chunks;
  size_t chunk_count, chunk_capacity;
  size_t card_count;
  uint32_t *order; /* p3l_changes_order() */
  size_t order_capacity;
  p3l_table kept; /* index of a card -> which kept card */
  p3l_card_run *new_cards;
  size_t new_count, new_capacity;

  p3l_place_list made, deleted;
  const void *neighbour; /* last one passed to p3l_allocate(), or the object created without one */
  p3l_address neighbour_address;
  p3l_table deleted_at; /* address of first byte -> index in `deleted` */

  /* Used in commit only. */
  p3l_place_list
      upgraded;       /* written whole; old addresses, but the new generation for those that move */
  p3l_address *moved; /* [index in upgraded]: the new addresses */
  p3l_table upgraded_at;
  p3l_page_number *written; /* pages of objects that differ from what was committed */
  size_t written_count, written_capacity;
  p3l_table written_at;
  p3l_page_number last_number; /* page written last, and its private copy */
  p3l_page *last_page;
} p3l_changes;

#define P3L_CHUNK_CARDS 64

static inline p3l_kept_card *p3l_kept_card_at(const p3l_changes *changes, size_t index) {
  return &changes->chunks[index / P3L_CHUNK_CARDS][index % P3L_CHUNK_CARDS];
}

/* The kept cards in the order of their addresses, so that a commit comes to each page once; NULL: no
 * memory, or they are few. */
const uint32_t *p3l_changes_order(p3l_changes *changes);
/* Empties the record for the next transaction, which gets as much memory as this one needed; more is
 * freed. `limited`: the store has a memory limit, and only little is kept. */
void p3l_changes_empty(p3l_changes *changes, bool limited);
/* Frees the record that the store keeps for the next transaction, when the store closes. */
void p3l_changes_close(p3l_store *store);

/* Grows `array` to hold `needed` elements; NULL: no memory, and the array is unchanged. */
void *p3l_grown(void *array, size_t *capacity, size_t needed, size_t element_bytes);
/* False: no memory. */
bool p3l_place_list_grow(p3l_place_list *list);
static inline bool p3l_place_list_add(p3l_place_list *list, const p3l_place *place) {
  if (list->count == list->capacity && !p3l_place_list_grow(list)) return false;
  list->places[list->count++] = *place;
  return true;
}

#endif
