/*
 * The positions of an object's pointers, with fields repeated in arrays. Inline, because a commit
 * needs it for each written object, and one call per slot took an eighth of OO1's Insert.
 */
#ifndef P3L_SLOTS_H
#define P3L_SLOTS_H

#include "catalog.h"

#define P3L_SLOT_BYTES 8u

typedef void (*p3l_slot_visitor)(void *state, uint64_t offset);

/*
 * The pointer slots of [from, to) of an array of `type`: calls visit with the byte offset of
 * each slot that overlaps it, ascending.
 */
static inline __attribute__((always_inline)) void p3l_type_slots(const p3l_stored_type *type,
                                                                 uint64_t from, uint64_t to,
                                                                 p3l_slot_visitor visit,
                                                                 void *state) {
  if (type->field_count == 0) return;
  /* Most objects are not arrays, and a division is expensive. */
  uint64_t element = from < type->bytes ? 0 : from / type->bytes * type->bytes;
  for (; element < to; element += type->bytes)
    for (uint32_t f = 0; f < type->field_count; f++) {
      uint64_t first = element + type->fields[f].offset;
      uint64_t end = first + (uint64_t)type->fields[f].count * P3L_SLOT_BYTES;
      if (end <= from) continue;
      if (first >= to) break;
      /* A slot may begin before `from`. */
      if (first < from) first += (from - first) / P3L_SLOT_BYTES * P3L_SLOT_BYTES;
      for (uint64_t slot = first; slot < end && slot < to; slot += P3L_SLOT_BYTES)
        visit(state, slot);
    }
}

/* True if a slot is at `offset`, a multiple of P3L_SLOT_BYTES. */
static inline bool p3l_type_is_slot(const p3l_stored_type *type, uint64_t offset) {
  uint64_t inside = offset < type->bytes ? offset : offset % type->bytes;
  uint32_t from = 0, to = type->field_count; /* the last field that begins before, if any */
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (type->fields[middle].offset <= inside)
      from = middle + 1;
    else
      to = middle;
  }
  if (from == 0) return false;
  const struct p3l_stored_field *field = &type->fields[from - 1];
  return inside - field->offset < (uint64_t)field->count * P3L_SLOT_BYTES;
}

#endif
