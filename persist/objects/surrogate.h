/*
 * A surrogate in its parts: bit 63, the generation of the place that it leads to, the address.
 *
 *   1 00 ggggg  page number (44) offset (12)
 *
 * A place of the store holds one object after another. Each has the next generation, modulo
 * P3L_GENERATIONS, and a surrogate leads to the object whose generation it has: one that was kept when
 * its object was deleted dangles, and does not lead to what has its place now. Counting by 31, it is
 * recognised for certain while 15 objects follow one another in the place; later by 30 of 31.
 *
 * The generation with all bits set is none, so that -1 and its like are no surrogates, nor are
 * negative floating-point numbers but those below 2^-511.
 */
#ifndef P3L_SURROGATE_H
#define P3L_SURROGATE_H

#include "page.h"

#define P3L_ADDRESS_MASK (~UINT64_C(0) >> (64 - P3L_ADDRESS_BITS))
/* Bits 63..56 of a surrogate of generation 0. */
#define P3L_SURROGATE_BYTE 0x80u

/* Whether a word is a surrogate; nothing is in page 0. */
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

/* Of two places that become one: the one that is ahead, at most half of the way round. */
static inline uint8_t p3l_generation_later(uint8_t a, uint8_t b) {
  return (a + P3L_GENERATIONS - b) % P3L_GENERATIONS <= P3L_GENERATIONS / 2 ? a : b;
}

#endif
