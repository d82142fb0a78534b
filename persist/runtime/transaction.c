/*
 * Begin, commit, abort. changes.h has the invariants.
 *
 *   outside ── p3l_begin ──> under way ── p3l_commit: refresh ──> append ──> settle, end ──> outside
 *      ^                        │ p3l_abort, or a failure before the append              (committed)
 *      └────── roll_back, end ──┘
 */
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "changes.h"
#include "evict.h"
#include "fault.h"
#include "guard.h"
#include "object.h"
#include "residency_change.h"
#include "scope.h"
#include "store.h"
#include "transaction_cards.h"
#include "transaction_write.h"
#include "types.h"
#include "visits.h"

/* ---- begin, abort ---- */

p3l_code p3l_begin(p3l_store *store, p3l_error *error) {
  /* Before the locks: a thread that did not survive the fork may hold one. */
  p3l_code code = p3l_pager_inherited(store->pager, error);
  if (code == P3L_OK) code = p3l_scope_begin_writing(store, error);
  if (code != P3L_OK) return code;
  p3l_changes *changes =
      store->spare_changes != NULL ? store->spare_changes : calloc(1, sizeof(*changes));
  store->spare_changes = NULL;
  code = changes == NULL
             ? p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for a transaction", store->path)
             : p3l_pager_begin(store->pager, &changes->pager, error);
  if (code != P3L_OK) {
    store->spare_changes = changes;
    p3l_scope_end_writing(store);
    return code;
  }
  changes->type_limit = store->types.limit;
  store->failure.code = P3L_OK;
  p3l_failure_forget(store);
  store->changes = changes;
  return P3L_OK;
}

/* Ends the transaction in memory. The caller then lets other threads in. */
static void end(p3l_store *store, bool committed) {
  p3l_changes *changes = store->changes;
  pthread_mutex_lock(&store->slow);
  store->statistics.cards_written += changes->card_count;
  store->statistics.commits += committed;
  store->statistics.bytes_logged = p3l_pager_bytes_logged(store->pager);
  pthread_mutex_unlock(&store->slow);
  p3l_changes_empty(changes, store->options.memory_bytes != 0);
  store->spare_changes = changes;
  store->changes = NULL;
}

/* The pager's transaction has ended without effect. */
static void roll_back(p3l_store *store) {
  p3l_changes *changes = store->changes;
  p3l_changes_put_back(changes);
  /* Before the segments of large objects are released: another store may take them next, and
   * mark their cards. */
  p3l_changes_unmark(changes);
  pthread_mutex_lock(&store->slow);
  for (size_t i = 0; i < changes->made.count; i++) {
    /* The store's place is as before, and its next object has the same generation: an address that the
     * program kept, and stores now, must not lead there. */
    p3l_resident *resident = changes->made.places[i].resident;
    resident->generation = p3l_generation_before((uint8_t)resident->generation);
    p3l_residency_remove(store, changes->made.places[i].address);
  }
  pthread_mutex_unlock(&store->slow);
  p3l_types_forget(store, changes->type_limit);
  end(store, false);
}

void p3l_abort(p3l_store *store) {
  if (!p3l_scope_writing(store)) return; /* the commit failed and has aborted already */
  p3l_pager_abort(store->changes->pager);
  roll_back(store);
  p3l_scope_end_writing(store);
  p3l_evict_if_needed(store);
}

/* ---- loading ---- */

/* Memory for the pages of a load: 256 MB without a limit, so that pages which change repeatedly
 * are not written each time. */
enum { LOAD_BYTES = 256 << 20, LIMIT_PART = 4 };

static p3l_code outside_of_transactions(const p3l_store *store, const char *what,
                                        p3l_error *error) {
  if (!p3l_scope_writing(store)) return P3L_OK;
  return p3l_fail(error, P3L_MISUSE, "%s: %s within a transaction of this thread; commit it first",
                  store->path, what);
}

p3l_code p3l_load_begin(p3l_store *store, p3l_error *error) {
  uint64_t limit = store->options.memory_bytes;
  p3l_code code = outside_of_transactions(store, "p3l_load_begin()", error);
  return code != P3L_OK ? code
                        : p3l_pager_load_begin(store->pager,
                                               limit == 0 ? LOAD_BYTES : limit / LIMIT_PART, error);
}

p3l_code p3l_load_end(p3l_store *store, p3l_error *error) {
  p3l_code code = outside_of_transactions(store, "p3l_load_end()", error);
  return code != P3L_OK ? code : p3l_pager_load_end(store->pager, error);
}

/* ---- commit ---- */

/* Before the append, while the transaction's own pages are still available and it may still
 * fail. */
static p3l_code refresh(p3l_store *store, p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_code code = P3L_OK;
  pthread_mutex_lock(&store->slow);
  for (size_t i = 0; i < changes->upgraded.count && code == P3L_OK; i++)
    if (changes->moved[i].byte != changes->upgraded.places[i].address.byte)
      code =
          p3l_residency_reserve(store, changes->moved[i], changes->upgraded.places[i].bytes, error);
  for (size_t i = 0; i < changes->written_count && code == P3L_OK; i++) {
    const p3l_page *page;
    code = p3l_page_seen(changes->pager, changes->written[i], &page, error);
    if (code == P3L_OK) code = p3l_residency_refresh(store, changes->written[i], page, error);
  }
  pthread_mutex_unlock(&store->slow);
  return code;
}

/* The append failed: restores the committed pages in residency. Pages that the transaction
 * created no longer exist, and nothing of them is resident. */
static void refresh_back(p3l_store *store) {
  p3l_changes *changes = store->changes;
  pthread_mutex_lock(&store->slow);
  for (size_t i = 0; i < changes->written_count; i++) {
    p3l_page page;
    p3l_page_number number = changes->written[i];
    p3l_error error;
    if (number.n >= p3l_pager_page_count(store->pager)) {
      p3l_page_init(&page, P3L_PAGE_FREE, number);
    } else if (p3l_pager_read(store->pager, number, &page, &error) != P3L_OK) {
      /* Neither the log nor the page can be read: memory cannot be restored to a committed
       * state. */
      pthread_mutex_unlock(&store->slow);
      p3l_raise(&error);
    }
    if (p3l_residency_refresh(store, number, &page, &error) != P3L_OK) {
      pthread_mutex_unlock(&store->slow);
      p3l_raise(&error);
    }
  }
  pthread_mutex_unlock(&store->slow);
}

/* For programs that kept the address of a deleted object: overwrites its bytes, so that its
 * slots lead nowhere, since this is not a canonical address. The memory of large objects is
 * freed. */
static void poison(const p3l_place *place) {
  if (place->bytes > P3L_SMALL_BYTES) return;
  p3l_guard_begin(place->memory, place->bytes);
  memset(place->memory, P3L_DELETED_BYTE | place->generation, place->bytes);
  p3l_guard_end(place->memory, place->bytes);
}

/* Makes the committed state the state of memory: created objects are no longer new, deleted ones
 * are removed. */
static void settle(p3l_store *store) {
  p3l_changes *changes = store->changes;
  p3l_changes_unmark(changes); /* see roll_back() */
  pthread_mutex_lock(&store->slow);
  for (size_t i = 0; i < changes->made.count; i++)
    changes->made.places[i].resident->flags &= ~P3L_RESIDENT_NEW;
  for (size_t i = 0; i < changes->upgraded.count; i++) {
    const p3l_place *place = &changes->upgraded.places[i];
    place->resident->flags &= ~P3L_RESIDENT_UPGRADED;
    if (changes->moved[i].byte != place->address.byte)
      p3l_residency_moved(store, place->address, changes->moved[i], place->generation);
  }
  for (size_t i = 0; i < changes->deleted.count; i++) {
    poison(&changes->deleted.places[i]);
    p3l_residency_remove(store, changes->deleted.places[i].address);
  }
  pthread_mutex_unlock(&store->slow);
}

p3l_code p3l_commit(p3l_store *store, p3l_error *error) {
  if (!p3l_scope_writing(store))
    return p3l_fail(error, P3L_MISUSE, "%s: a commit without p3l_begin() of this thread",
                    store->path);
  if (store->failure.code != P3L_OK) {
    p3l_fail(error, store->failure.code, "%s", store->failure.message);
    p3l_code code = store->failure.code;
    p3l_abort(store);
    return code;
  }
  p3l_code code = p3l_pager_inherited(store->pager, error);
  uint32_t places = store->options.audit_places;
  if (code == P3L_OK) code = p3l_audit_changes(store, places == 0 ? 1 : places, error);
  if (code == P3L_OK && P3L_GUARDED) code = p3l_audit_opened(store, error);
  if (code == P3L_OK) code = p3l_changes_write(store, error);
  if (code != P3L_OK) {
    p3l_abort(store);
    return code;
  }
  p3l_lsn position = {0};
  code = refresh(store, error);
  if (code == P3L_OK)
    code = p3l_pager_append(store->changes->pager, &position, error);
  else
    p3l_pager_abort(store->changes->pager);
  if (code != P3L_OK) {
    refresh_back(store);
    roll_back(store);
  } else {
    settle(store);
    end(store, true);
  }
  p3l_scope_end_writing(store);
  /* The next transaction may begin while this one waits: group commit. */
  if (code == P3L_OK) code = p3l_pager_wait(store->pager, position, error);
  p3l_evict_if_needed(store);
  return code;
}
