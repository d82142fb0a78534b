/*
 * What a transaction has changed in memory, and the way back. Private to runtime/.
 *
 *   p3l_will_write() ──> card: what it was ──┬── p3l_commit(): the difference, unswizzled, into pages of the pager
 *   p3l_allocate()   ──> object: new        │                  p3l_pager_append(), scopes unlocked, p3l_pager_wait()
 *   p3l_delete()     ──> object: gone       └── p3l_abort():   the bytes are put back
 *
 *   transaction.c         begin, commit, abort
 *   changes.c             memory for all this
 *   transaction_cards.c   keeping cards, putting them back
 *   transaction_write.c   the difference, into pages
 *   object.c, roots.c     what a program makes, deletes, names
 *
 * Invariants:
 *  1. A card's byte is P3L_CARD_KEPT if and only if its former bytes are among the kept
 *     cards of the transaction; P3L_CARD_NEW: all objects in it are new. Cards of other stores' segments are
 *     never touched. Outside of transactions all bytes are zero.
 *  2. Something made resident into a card that is marked (an arena grows by objects that are merely
 *     read) is kept, too: p3l_changes_arrived(). So putting the card back loses nothing. That it
 *     cannot fail, a place for one more card is always reserved: only the card that the store's arena
 *     is filled up to can be in need of it.
 *  3. A slot that was healed differs from what is kept, and yet is unchanged: what is compared is
 *     the store's form of both.
 *  4. The pager's pages are changed by allocation at once (it needs the space), by everything else
 *     only in commit; deleted objects keep their space until then, so that no two objects of a
 *     transaction have one address. Aborting the pager's transaction takes all back.
 *  5. Commit fails before p3l_pager_append(), and then aborts; or it has happened.
 */
#ifndef P3L_CHANGES_H
#define P3L_CHANGES_H

#include "object_page.h"
#include "pager.h"
#include "segment.h"
#include "transaction_table.h"

/* What p3l_persistent_memory.cards holds; 0: nothing changed. */
enum { P3L_CARD_KEPT = 1, P3L_CARD_NEW = 2 };

typedef struct p3l_kept_card {
  uintptr_t card; /* index in p3l_persistent_memory.cards */
  uint8_t bytes[P3L_CARD_BYTES];
} p3l_kept_card;

/* Cards side by side. */
typedef struct p3l_card_run {
  uintptr_t first, count;
} p3l_card_run;

/* Objects of a transaction: made, deleted, upgraded. */
typedef struct p3l_place_list {
  p3l_place *places;
  size_t count, capacity;
} p3l_place_list;

typedef struct p3l_changes {
  p3l_pager_transaction *pager;
  uint32_t type_limit; /* of the store's type table at begin */

  /* In chunks that do not move: growing costs no copy, and small ones come out of malloc's hand. */
  p3l_kept_card **chunks;
  size_t chunk_count, chunk_capacity;
  size_t card_count;
  p3l_table kept; /* index of a card -> which kept card */
  p3l_card_run *new_cards;
  size_t new_count, new_capacity;

  p3l_place_list made, deleted;
  const void *neighbour; /* that p3l_allocate() had last, or what it made without one */
  p3l_address neighbour_address;
  p3l_table deleted_at; /* address of first byte -> index in `deleted` */

  /* In commit. */
  p3l_place_list
      upgraded;       /* to be written whole, at their addresses as they were; of those that move
                              * the generation is the new one */
  p3l_address *moved; /* [index in upgraded]: where they are now */
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

/* Nothing is in them any more, for the next transaction; what is large is given back. */
void p3l_changes_empty(p3l_changes *changes);
/* The store closes: what it keeps for the next transaction goes. */
void p3l_changes_close(p3l_store *store);

/* `array` with room for `needed` elements, or NULL, and then it is as it was. */
void *p3l_grown(void *array, size_t *capacity, size_t needed, size_t element_bytes);
/* False: no memory. */
bool p3l_place_list_grow(p3l_place_list *list);
static inline bool p3l_place_list_add(p3l_place_list *list, const p3l_place *place) {
  if (list->count == list->capacity && !p3l_place_list_grow(list)) return false;
  list->places[list->count++] = *place;
  return true;
}

#endif
