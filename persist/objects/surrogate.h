/*
 * The parts of a surrogate: bit 63, the generation of the object's place, the address.
 *
 *   1 00 ggggg  page number (44) offset (12)
 *
 * A place in the store can hold several objects, one after another. Each new object gets the next
 * generation, modulo P3L_GENERATIONS. A surrogate is valid only for the object with its generation:
 * if that object was deleted, the surrogate dangles, and does not lead to a later object in the
 * same place. Generations repeat after 31, so a stale surrogate is detected with certainty while at
 * most 15 further objects use the place, and later in 30 of 31 cases.
 *
 * The generation with all bits set is not used. So -1 and similar numbers are no surrogates, and
 * neither are negative floating-point numbers except those below 2^-511.
 */
#ifndef P3L_SURROGATE_H
#define P3L_SURROGATE_H

#include "page.h"

#define P3L_ADDRESS_MASK (~UINT64_C(0) >> (64 - P3L_ADDRESS_BITS))
/* Bits 63..56 of a surrogate of generation 0. */
#define P3L_SURROGATE_BYTE 0x80u

/* True if a word may be a surrogate; page 0 contains no objects. */
static inline bool p3l_surrogate_possible(uint64_t value) {
  return (value >> P3L_ADDRESS_BITS) - P3L_SURROGATE_BYTE < P3L_GENERATIONS &&
         (value & P3L_ADDRESS_MASK) >= P3L_PAGE_SIZE;
}

static inline p3l_address p3l_surrogate_address(uint64_t surrogate) {
  return (p3l_address){surrogate & P3L_ADDRESS_MASK};
}

static inline uint8_t p3l_surrogate_generation(uint64_t surrogate) {
  return (uint8_t)(surrogate >> P3L_ADDRESS_BITS & 0x1f);
}

static inline uint64_t p3l_surrogate_make(p3l_address address, uint8_t generation) {
  return UINT64_C(1) << 63 | (uint64_t)generation << P3L_ADDRESS_BITS | address.byte;
}

/* ---- generations ---- */

static inline uint8_t p3l_generation_next(uint8_t generation) {
  return (uint8_t)((generation + 1u) % P3L_GENERATIONS);
}

static inline uint8_t p3l_generation_before(uint8_t generation) {
  return (uint8_t)((generation + P3L_GENERATIONS - 1u) % P3L_GENERATIONS);
}

/*
 * The generation of two places that are merged: the later one, if at most half of the cycle lies
 * between them.
 */
static inline uint8_t p3l_generation_later(uint8_t a, uint8_t b) {
  return (a + P3L_GENERATIONS - b) % P3L_GENERATIONS <= P3L_GENERATIONS / 2 ? a : b;
}

#endif
