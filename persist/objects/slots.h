/*
 * The positions of an object's pointers, with fields repeated in arrays. Inline, because a commit
 * needs it for each written object, and one call per slot took an eighth of OO1's Insert.
 *
 * Unions. A word of a union is a pointer in some objects and not in others, and its value does not
 * say which: integers from -2^63 to -7e18, tiny negative numbers and UTF-8 may look like
 * surrogates. A function of the program knows (p3l.h). The tools do not have it, and what only
 * reads should not have to call it; so what it returned is in the object, behind the elements: one
 * bit for each word of a union, 1: it is a pointer.
 *
 *   | element 0 | element 1 | ... | element n-1 | zeros |    ... bits 15..8 | bits 7..0 |
 *   ^ memory                                            ^                               ^ extent
 *
 *   bit = number of the element x union_words + number of the word among those of the element;
 *   n = the most elements whose bits fit as well (p3l_type_elements)
 *
 * Counted from the end, since the extent is known wherever an object is met, and not how many
 * elements the program asked for. These bytes belong to the object like any others: they are
 * logged, undone, refreshed, backed up with it, by code that does not know them. Tags in the words
 * would have no room, since an arm may need all 64 bits; a table for each page would change its
 * size where nothing is allocated.
 *
 * Invariants:
 *  1. In the store, and in memory outside of transactions, the bits are right: a word whose bit is
 *     1 is 0, a surrogate, or (in memory) an address.
 *  2. Within a transaction they say what the last commit had; of new objects they are 0. The commit
 *     sets them before it converts anything (runtime/arms.c), and nothing else changes them.
 *  3. The bits of a word that holds 0 are 0.
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

/* ---- unions ---- */

/* Number of bytes that the bits of `elements` take. */
static inline uint64_t p3l_arm_bytes(const p3l_stored_type *type, uint64_t elements) {
  return (elements * type->union_words + 7) / 8;
}

/* Number of elements of an object of a type with unions. */
static inline uint64_t p3l_type_elements(const p3l_stored_type *type, uint64_t extent) {
  uint64_t elements = extent / type->bytes;
  if (type->union_words == 0) return elements;
  /* Without the product, which a hostile length would overflow. */
  uint64_t most =
      (uint64_t)((unsigned __int128)extent * 8 / ((uint64_t)type->bytes * 8 + type->union_words));
  while (most > 0 && most * type->bytes + p3l_arm_bytes(type, most) > extent) most--;
  return most < elements ? most : elements;
}

/* `end` is the end of the object, in memory or of its last bytes. */
static inline bool p3l_arm_bit(const uint8_t *end, uint64_t bit) {
  return end[-1 - (int64_t)(bit / 8)] >> bit % 8 & 1;
}

/* Calls visit for each slot in [from, to) of a union of elements [first, first + 1): the bits say
 * which words are. */
static inline void p3l_union_slots_of(const p3l_stored_type *type, uint64_t element,
                                      const uint8_t *end, uint64_t from, uint64_t to,
                                      p3l_slot_visitor visit, void *state) {
  const struct p3l_stored_field *unions = type->fields + type->field_count;
  uint64_t bit = element * type->union_words;
  for (uint32_t u = 0; u < type->union_count; u++)
    for (uint32_t word = 0; word < unions[u].count; word++, bit++) {
      uint64_t offset = element * type->bytes + unions[u].offset + (uint64_t)word * P3L_SLOT_BYTES;
      if (offset + P3L_SLOT_BYTES > from && offset < to && p3l_arm_bit(end, bit))
        visit(state, offset);
    }
}

/*
 * All slots of [from, to) of an object of `extent` bytes, those of unions included: element by
 * element, first the ordinary ones. `end` is the object's end, before which the bits are.
 */
static inline __attribute__((always_inline)) void p3l_object_slots(
    const p3l_stored_type *type, const uint8_t *end, uint64_t extent, uint64_t from, uint64_t to,
    p3l_slot_visitor visit, void *state) {
  if (__builtin_expect(type->union_count == 0, 1)) {
    p3l_type_slots(type, from, to, visit, state);
    return;
  }
  uint64_t elements = p3l_type_elements(type, extent);
  for (uint64_t element = from / type->bytes; element < elements; element++) {
    uint64_t begin = element * type->bytes, behind = begin + type->bytes;
    if (begin >= to) break;
    p3l_type_slots(type, begin < from ? from : begin, behind < to ? behind : to, visit, state);
    p3l_union_slots_of(type, element, end, from, to, visit, state);
  }
}

/* The number of the bit of the word at `offset` of an object of `extent` bytes; false: no union
 * is there. */
static inline bool p3l_type_arm_at(const p3l_stored_type *type, uint64_t extent, uint64_t offset,
                                   uint64_t *bit) {
  if (type->union_count == 0) return false;
  const struct p3l_stored_field *unions = type->fields + type->field_count;
  uint64_t element = offset / type->bytes, inside = offset % type->bytes;
  if (element >= p3l_type_elements(type, extent)) return false;
  *bit = element * type->union_words;
  for (uint32_t u = 0; u < type->union_count; *bit += unions[u++].count) {
    if (inside < unions[u].offset) return false;
    uint64_t word = (inside - unions[u].offset) / P3L_SLOT_BYTES;
    if (word >= unions[u].count) continue;
    *bit += word;
    return true;
  }
  return false;
}

/* True if a slot that is not of a union is at `offset`, a multiple of P3L_SLOT_BYTES. */
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
