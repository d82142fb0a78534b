/*
 * Conversion between memory's form of an object and the store's: slots that hold addresses become
 * surrogates. All other bytes are equal in both.
 */
#include <stdio.h>
#include <string.h>

#include "convert.h"
#include "fault.h"
#include "guard.h"
#include "segment_places.h"
#include "slots.h"
#include "store.h"
#include "types.h"

/*
 * An object that was upgraded in memory may be longer there than in the store. The place of the
 * rest is decided when the object is written; until then a pointer to the rest has no surrogate:
 * from + inside would be a neighbour's.
 */
static inline bool not_stored_yet(const p3l_store *store, const void *pointer) {
  p3l_place place;
  if (!store->upgrades) return false;
  if (!p3l_place_of(pointer, &place) || place.resident == NULL ||
      (place.resident->flags & P3L_RESIDENT_UPGRADED) == 0)
    return false;
  uint64_t inside = (uint64_t)((const uint8_t *)pointer - place.memory);
  uint64_t stored = place.segment->kind == P3L_LARGE
                        ? place.segment->large.stored
                        : (uint64_t)place.resident->stored * P3L_GRANULE;
  return inside >= stored;
}

/* True if a slot holds what the store would hold: NULL or a surrogate. */
static inline bool is_stored_form(uint64_t value) {
  return value == 0 || p3l_surrogate_possible(value);
}

__attribute__((noinline, cold)) static p3l_code no_surrogate(const p3l_store *store,
                                                             const void *pointer,
                                                             p3l_error *error) {
  p3l_address address;
  const p3l_segment *segment = p3l_segment_of(pointer);
  if (p3l_is_surrogate(pointer)) /* such as (void *)-1 */
    return p3l_fail(error, P3L_MISUSE, "%p is not an address of a store", pointer);
  if (segment == NULL || !p3l_segment_address(segment, pointer, &address))
    return p3l_fail(error, P3L_MISUSE, "%p is not a persistent object", pointer);
  if (segment->store != store)
    return p3l_fail(error, P3L_MISUSE, "%p is an object of %s", pointer, segment->store->path);
  return p3l_fail(
      error, P3L_MISUSE,
      "%p lies in the part by which an upgrade made an object longer, and the store does "
      "not have it yet: change that object in a transaction of its own first",
      pointer);
}

/* False: the pointer has no surrogate; no_surrogate() explains why. */
static inline bool find_surrogate(const p3l_store *store, uint64_t value, uint64_t *surrogate) {
  const void *pointer = (const void *)(uintptr_t)value;
  *surrogate = value;
  if (is_stored_form(value)) return true;
  const p3l_segment *segment = p3l_segment_of(pointer);
  return segment != NULL && segment->store == store &&
         p3l_segment_surrogate(segment, pointer, surrogate) && !not_stored_yet(store, pointer);
}

p3l_code p3l_surrogate_of(const p3l_store *store, const void *pointer, uint64_t *surrogate,
                          p3l_error *error) {
  return find_surrogate(store, (uintptr_t)pointer, surrogate) ? P3L_OK
                                                              : no_surrogate(store, pointer, error);
}

/* ---- slots ---- */

/* "to[2]": the field at `offset` of an object or an array of the type. */
static void name_slot(const p3l_store *store, p3l_type_id id, uint64_t offset, char *name,
                      size_t bytes) {
  const p3l_type *type = p3l_types_program(store, id);
  if (type == NULL) {
    snprintf(name, bytes, "the slot at byte %llu", (unsigned long long)offset);
    return;
  }
  uint64_t element = offset / type->bytes, inside = offset % type->bytes;
  int length =
      element == 0 ? 0 : snprintf(name, bytes, "element %llu, ", (unsigned long long)element);
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) {
    uint64_t index = (inside - field->offset) / sizeof(void *);
    if (inside < field->offset || index >= field->count) continue;
    snprintf(name + length, bytes - (size_t)length, field->count > 1 ? "%s[%llu]" : "%s",
             field->name, (unsigned long long)index);
    return;
  }
  for (const p3l_union *at = p3l_types_unions(type); at != NULL && at->name != NULL; at++)
    if (inside >= at->offset && inside - at->offset < at->bytes) {
      snprintf(name + length, bytes - (size_t)length, "%s, by the arm that is live, byte %llu",
               at->name, (unsigned long long)(inside - at->offset));
      return;
    }
  snprintf(name + length, bytes - (size_t)length, "the slot at byte %llu",
           (unsigned long long)inside);
}

/* Reports why the slot at `offset` has no surrogate. */
__attribute__((noinline, cold)) static p3l_code explain(const p3l_place *place, uint64_t offset,
                                                        p3l_error *error) {
  const p3l_store *store = place->segment->store;
  char slot[160];
  uint64_t value;
  p3l_error why;
  memcpy(&value, place->memory + offset, sizeof(value));
  no_surrogate(store, (const void *)(uintptr_t)value, &why);
  name_slot(store, place->type, offset, slot, sizeof(slot));
  return p3l_fail(error, why.code,
                  "%s: %s of the %s at page %llu, byte %llu cannot be stored: %s. A persistent "
                  "pointer leads to an object of the same store or is NULL",
                  store->path, slot, p3l_types_of(store, place->type)->name,
                  (unsigned long long)(place->address.byte / P3L_PAGE_SIZE),
                  (unsigned long long)(place->address.byte % P3L_PAGE_SIZE), why.message);
}

#define NO_SLOT UINT64_MAX

/* Its address does not escape, so that the compiler keeps it in registers. */
typedef struct conversion {
  const p3l_store *store;
  const uint8_t *memory; /* of the object, in memory */
  uint8_t *bytes;        /* destination of byte `from` */
  uint64_t from;
  uint64_t wrong; /* offset of a slot that has no surrogate */
} conversion;

/*
 * Handles most slots: empty, a surrogate, or an address that needs no search. False: use
 * find_surrogate().
 */
static inline __attribute__((always_inline)) bool find_soon(const p3l_store *store, uint64_t value,
                                                            uint64_t *surrogate) {
  *surrogate = value;
  if (is_stored_form(value)) return true;
  const p3l_segment *segment = p3l_segment_of((const void *)(uintptr_t)value);
  return segment != NULL && segment->store == store && !store->upgrades &&
         p3l_segment_surrogate_soon(segment, (const void *)(uintptr_t)value, surrogate);
}

__attribute__((noinline)) static uint64_t find_or_zero(const p3l_store *store, uint64_t value) {
  uint64_t surrogate;
  return find_surrogate(store, value, &surrogate) ? surrogate : 0;
}

/* Inlined into the walk over the slots; a slot that was not swizzled has been copied already. */
static inline __attribute__((always_inline)) void convert_slot(void *state, uint64_t offset) {
  conversion *conversion = state;
  uint64_t value, surrogate;
  memcpy(&value, conversion->memory + offset, sizeof(value));
  if (value == 0) return;
  if (!find_soon(conversion->store, value, &surrogate)) {
    surrogate = find_or_zero(conversion->store, value);
    if (surrogate == 0) {
      if (conversion->wrong == NO_SLOT) conversion->wrong = offset;
      return;
    }
  }
  memcpy(conversion->bytes + (offset - conversion->from), &surrogate, sizeof(surrogate));
}

/*
 * Tests only (the debug library, P3L_AUDIT_ALL), as an integer may happen to be an address: a word that no
 * pointer is described at holds the address of an object. The next run would find an address of this one.
 */
static p3l_code refuse_addresses(const p3l_place *place, const p3l_stored_type *type, uint64_t from,
                                 uint64_t to, p3l_error *error) {
  const p3l_store *store = place->segment->store;
  uint64_t end = p3l_type_elements(type, place->bytes) * type->bytes, bit, value;
  p3l_place target;
  for (uint64_t at = (from + 7) / 8 * 8; at + 8 <= to && at + 8 <= end; at += 8) {
    memcpy(&value, place->memory + at, sizeof(value));
    const void *address = (const void *)(uintptr_t)value;
    if (p3l_segment_of(address) == NULL || p3l_type_is_slot(type, at) ||
        p3l_type_arm_at(type, place->bytes, at, &bit) || !p3l_place_of(address, &target))
      continue;
    const p3l_stored_type *what = p3l_types_of(target.segment->store, target.type);
    return p3l_fail(error, P3L_MISUSE,
                    "%s: byte %llu of the %s at page %llu, byte %llu holds the address of an "
                    "object (%s), and no "
                    "pointer is described there: the next run would find an address of this one. "
                    "Use p3l::pptr, or "
                    "describe the pointer (P3L_POINTERS) or the union (P3L_UNION)",
                    store->path, (unsigned long long)at, type->name,
                    (unsigned long long)(place->address.byte / P3L_PAGE_SIZE),
                    (unsigned long long)(place->address.byte % P3L_PAGE_SIZE),
                    what == NULL ? "of no type" : what->name);
  }
  return P3L_OK;
}

p3l_code p3l_unswizzle(const p3l_place *place, uint64_t from, uint64_t to, uint8_t *bytes,
                       p3l_error *error) {
  const p3l_store *store = place->segment->store;
  const p3l_stored_type *type = p3l_types_of(store, place->type);
  if (type == NULL)
    return p3l_fail(error, P3L_CORRUPT, "%s: the object at page %llu, byte %llu has no type",
                    store->path, (unsigned long long)(place->address.byte / P3L_PAGE_SIZE),
                    (unsigned long long)(place->address.byte % P3L_PAGE_SIZE));
  memcpy(bytes, place->memory + from, to - from);
  conversion conversion = {store, place->memory, bytes, from, NO_SLOT};
  p3l_object_slots(type, place->memory + place->bytes, place->bytes, from, to, convert_slot,
                   &conversion);
  if (conversion.wrong != NO_SLOT) return explain(place, conversion.wrong, error);
  return P3L_GUARDED || store->options.audit_places == P3L_AUDIT_ALL
             ? refuse_addresses(place, type, from, to, error)
             : P3L_OK;
}

/* ---- for programs ---- */

__attribute__((noreturn)) static void refuse(const void *address, const char *what) {
  p3l_error error;
  p3l_fail(&error, P3L_MISUSE, "%s of %p, which is not a persistent object", what, address);
  p3l_raise(&error);
}

void *p3l_surrogate(const void *address) {
  if (address == NULL || p3l_is_surrogate(address)) return (void *)(uintptr_t)address;
  p3l_segment *segment = p3l_segment_of(address);
  if (segment == NULL) refuse(address, "p3l_surrogate()");
  p3l_store *store = segment->store, *owner;
  uint64_t surrogate;
  pthread_mutex_lock(&store->slow);
  bool found = p3l_memory_surrogate(address, &owner, &surrogate);
  pthread_mutex_unlock(&store->slow);
  if (!found) refuse(address, "p3l_surrogate()");
  return (void *)(uintptr_t)surrogate;
}

size_t p3l_extent(const void *object) {
  p3l_segment *segment = p3l_segment_of(object);
  if (segment == NULL) refuse(object, "p3l_extent()");
  p3l_place place;
  pthread_mutex_lock(&segment->store->slow);
  bool found = p3l_place_of(object, &place);
  pthread_mutex_unlock(&segment->store->slow);
  if (!found) refuse(object, "p3l_extent()");
  return (size_t)place.bytes;
}
