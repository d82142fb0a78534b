/*
 * Counting and searching bits in a page's bitmap of granules.
 */
#ifndef P3L_BITS_H
#define P3L_BITS_H

#include <stdbool.h>
#include <stdint.h>

static inline bool p3l_bit(const uint64_t *words, uint32_t index) {
  return words[index / 64] >> index % 64 & 1;
}

/* Without the POPCNT instruction, the compiler's builtin calls a function with a table: 15 % of
 * all instructions of a first traversal. */
static inline uint32_t p3l_bits(uint64_t word) {
#ifdef __POPCNT__
  return (uint32_t)__builtin_popcountll(word);
#else
  word -= word >> 1 & UINT64_C(0x5555555555555555);
  word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
  word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* Bits before `index`. */
static inline uint32_t p3l_bits_before(const uint64_t words[4], uint32_t index) {
  uint32_t count = 0;
  for (uint32_t word = 0; word < index / 64; word++) count += p3l_bits(words[word]);
  return count + p3l_bits(words[index / 64] & ((UINT64_C(1) << index % 64) - 1));
}

/* The last bit set at or before `index`. */
static inline bool p3l_bit_at_or_before(const uint64_t words[4], uint32_t index, uint32_t *found) {
  uint64_t mask = ~UINT64_C(0) >> (63 - index % 64);
  for (uint32_t word = index / 64;; word--) {
    uint64_t left = words[word] & mask;
    if (left != 0) {
      *found = word * 64 + 63 - (uint32_t)__builtin_clzll(left);
      return true;
    }
    if (word == 0) return false;
    mask = ~UINT64_C(0);
  }
}

/* The first bit set after `index`, or `none`. */
static inline uint32_t p3l_bit_behind(const uint64_t words[4], uint32_t index, uint32_t none) {
  uint64_t mask = ~UINT64_C(1) << index % 64; /* for bit 63: no bit of this word */
  for (uint32_t word = index / 64; word < 4; word++, mask = ~UINT64_C(0)) {
    uint64_t left = words[word] & mask;
    if (left != 0) return word * 64 + (uint32_t)__builtin_ctzll(left);
  }
  return none;
}

#endif
