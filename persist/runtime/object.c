/*
 * Creating and deleting objects, and the state of a transaction in which that failed.
 *
 *   transaction   sound ── p3l_poison ──> poisoned: p3l_commit() aborts it ── p3l_begin() ──> sound
 *
 * Invariants:
 *  1. store->failure is the first failure of the transaction under way; it has no meaning outside
 *     of one.
 *  2. `last` is the thread's last failure, even after its transaction has ended.
 */
#include <string.h>

#include "changes.h"
#include "fault.h"
#include "object.h"
#include "residency_change.h"
#include "slots.h"
#include "store.h"
#include "transaction_cards.h"
#include "types.h"
#include "visits.h"

/* The thread's last failure, and its store. The transaction's own failure is in the store
 * (`failure`). */
static _Thread_local struct {
  const p3l_store *store;
  p3l_error error;
} last;

void p3l_failure_forget(const p3l_store *store) {
  if (last.store == store) last.store = NULL;
}

/* Records the failure for p3l_failure(); the transaction stays sound. */
static void note_failure(const p3l_store *store, const p3l_error *error) {
  last.store = store;
  last.error = *error;
}

void p3l_poison(p3l_store *store, const p3l_error *error) {
  note_failure(store, error);
  if (p3l_scope_writing(store) && store->failure.code == P3L_OK) store->failure = *error;
}

const p3l_error *p3l_failure(p3l_store *store) {
  static const p3l_error none = {P3L_OK, "nothing failed"};
  return last.store == store ? &last.error : &none;
}

/* ---- creating ---- */

static p3l_code bytes_of(const p3l_store *store, const p3l_type *type, p3l_type_id id, size_t count,
                         bool array, uint64_t *bytes, p3l_error *error) {
  uint64_t arm_bytes = p3l_arm_bytes(p3l_types_of(store, id), count);
  if (count == 0)
    return p3l_fail(error, P3L_MISUSE, "%s: an array of no %s", store->path, type->name);
  /* An object that cannot be resident as a whole cannot be created. */
  if (__builtin_mul_overflow((uint64_t)type->bytes, (uint64_t)count, bytes) ||
      *bytes > p3l_persistent_memory.bytes / 2)
    return p3l_fail(error, P3L_NO_MEMORY,
                    "%s: an array of %zu %s of %u bytes is more than memory has addresses for",
                    store->path, count, type->name, type->bytes);
  /* Programs keep the address of an array's end, even of an array of one element: the next
   * object must not begin there. */
  if (array) ++*bytes;
  *bytes += arm_bytes;
  *bytes = (*bytes + P3L_GRANULE - 1) / P3L_GRANULE * P3L_GRANULE;
  return P3L_OK;
}

/* The parts of an object are often created one after the other, next to it: the last neighbour
 * that was requested is kept with its address. */
static void note_neighbour(p3l_changes *changes, const void *near, const p3l_place *place) {
  static const p3l_address anywhere = {0};
  changes->neighbour = near;
  changes->neighbour_address = place->bytes <= P3L_SMALL_BYTES ? place->address : anywhere;
}

static p3l_code address_of_neighbour(const p3l_store *store, const void *near, p3l_address *address,
                                     p3l_error *error) {
  p3l_changes *changes = store->changes;
  p3l_place place;
  *address = (p3l_address){0};
  if (near == NULL) return P3L_OK;
  if (near != changes->neighbour) {
    if (!p3l_place_of(near, &place) || place.segment->store != store)
      return p3l_fail(error, P3L_MISUSE, "%s: near %p, which is not an object of this store",
                      store->path, near);
    note_neighbour(changes, near, &place);
  }
  *address = changes->neighbour_address;
  return P3L_OK;
}

static p3l_code make(p3l_store *store, const p3l_type *type, size_t count, bool array,
                     const void *near, void **memory, p3l_error *error) {
  uint64_t bytes = 0;
  p3l_address neighbour, address;
  p3l_type_id id = 0;
  p3l_place place;
  p3l_changes *changes = store->changes;
  p3l_code code = p3l_types_id(store, type, &id, error);
  if (code == P3L_OK) code = bytes_of(store, type, id, count, array, &bytes, error);
  if (code == P3L_OK) code = address_of_neighbour(store, near, &neighbour, error);
  if (code == P3L_OK) code = p3l_room_take(changes->pager, id, bytes, neighbour, &address, error);
  if (code != P3L_OK) return code;
  uint8_t generation = p3l_room_generation(changes->pager, address);
  pthread_mutex_lock(&store->slow);
  code = p3l_residency_add(store, address, id, bytes, P3L_RESIDENT_NEW, generation, &place, error);
  pthread_mutex_unlock(&store->slow);
  if (code != P3L_OK) return code;
  if (!p3l_place_list_add(&changes->made, &place)) {
    pthread_mutex_lock(&store->slow);
    p3l_residency_remove(store, address);
    pthread_mutex_unlock(&store->slow);
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to note a new object", store->path);
  }
  *memory = place.memory;
  if (near == NULL) note_neighbour(changes, place.memory, &place);
  return p3l_changes_mark_new(changes, place.memory, bytes, error);
}

static void *allocate(p3l_store *store, const p3l_type *type, size_t count, bool array,
                      const void *near) {
  p3l_error error;
  void *memory = NULL;
  if (!p3l_scope_writing(store)) {
    p3l_fail(&error, P3L_MISUSE,
             "%s: a new %s outside of a transaction of this thread; call p3l_begin() first",
             store->path, type->name);
    note_failure(store, &error);
    return NULL;
  }
  if (store->failure.code != P3L_OK) {
    note_failure(store, &store->failure);
    return NULL;
  }
  if (make(store, type, count, array, near, &memory, &error) == P3L_OK) return memory;
  p3l_poison(store, &error);
  return NULL;
}

void *p3l_allocate(p3l_store *store, const p3l_type *type, size_t count, const void *near) {
  return allocate(store, type, count, count > 1, near);
}

void *p3l_allocate_array(p3l_store *store, const p3l_type *type, size_t count, const void *near) {
  return allocate(store, type, count, true, near);
}

const p3l_type *p3l_type_of(const void *object) {
  p3l_segment *segment = p3l_segment_of(object);
  p3l_place place;
  if (segment == NULL) return NULL;
  pthread_mutex_lock(&segment->store->slow);
  bool found = p3l_place_of(object, &place);
  pthread_mutex_unlock(&segment->store->slow);
  return found ? p3l_types_program(segment->store, place.type) : NULL;
}

/* ---- deleting ---- */

__attribute__((noreturn)) static void refuse(const p3l_store *store, const void *object,
                                             p3l_code code, const char *why) {
  p3l_error error;
  p3l_fail(&error, code, "%s: deleting %p: %s", store->path, object, why);
  p3l_raise(&error);
}

void p3l_delete(p3l_store *store, void *object) {
  p3l_place place;
  size_t index;
  if (object == NULL) return;
  if (!p3l_scope_writing(store))
    refuse(store, object, P3L_MISUSE,
           "outside of a transaction of this thread; call p3l_begin() first");
  p3l_changes *changes = store->changes;
  if (!p3l_place_of(object, &place) || place.segment->store != store)
    refuse(store, object, P3L_MISUSE, "no object of this store is there");
  if (place.memory != object)
    refuse(store, object, P3L_MISUSE, "it is within an object, not the beginning of one");
  if (p3l_table_find(&changes->deleted_at, place.address.byte, &index))
    refuse(store, object, P3L_MISUSE, "it was deleted before, in this transaction");
  if (!p3l_table_reserve(&changes->deleted_at, 1) || !p3l_place_list_add(&changes->deleted, &place))
    refuse(store, object, P3L_NO_MEMORY, "no memory to note it");
  p3l_table_add(&changes->deleted_at, place.address.byte, changes->deleted.count - 1);
}
