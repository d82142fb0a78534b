/*
 * Hashes of keys. A kind of text key is known by this hash alone (its label is cut), so that all 64 bits have to be good; whoever
 * makes collisions on purpose makes kinds be counted together, and no more.
 */
#ifndef SPLIT_HASH_H
#define SPLIT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Product of two words, folded: each bit of the result depends on all bits of both. */
static inline uint64_t split_fold(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t split_word(const unsigned char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

/* 0 and 1 mean something else in the table of kinds. */
static inline uint64_t split_hash_fit(uint64_t hash) {
  return __builtin_expect(hash < 2, 0) ? hash + 2 : hash;
}

/* Odd constants: fractions of e, pi, the golden ratio and the square root of 2. */
#define SPLIT_HASH_1 UINT64_C(0xb7e151628aed2a6b)
#define SPLIT_HASH_2 UINT64_C(0x243f6a8885a308d3)
#define SPLIT_HASH_3 UINT64_C(0x9e3779b97f4a7c15)
#define SPLIT_HASH_4 UINT64_C(0x6a09e667f3bcc909)

static inline uint64_t split_hash_text(const void *text, size_t length) {
  const unsigned char *at = text;
  /* Two lanes, so that the processor has two products under way. */
  uint64_t even = SPLIT_HASH_1, odd = SPLIT_HASH_4;
  if (__builtin_expect(length < 16, 0)) {
    uint64_t first = 0, last = 0;
    if (length >= 8) {
      first = split_word(at);
      last = split_word(at + length - 8);
    } else {
      for (size_t i = 0; i < length; i++) first = first << 8 | at[i];
    }
    even ^= length;
    odd = split_fold(first ^ SPLIT_HASH_3, last ^ odd);
    return split_hash_fit(split_fold(even ^ SPLIT_HASH_4, odd ^ SPLIT_HASH_1));
  }
  /* The last 16 bytes, some of which may be taken before. */
  const unsigned char *const last = at + length - 16;
  for (; last - at > 16; at += 32) {
    even = split_fold(split_word(at) ^ SPLIT_HASH_2, split_word(at + 8) ^ even);
    odd = split_fold(split_word(at + 16) ^ SPLIT_HASH_3, split_word(at + 24) ^ odd);
  }
  if (at < last) even = split_fold(split_word(at) ^ SPLIT_HASH_2, split_word(at + 8) ^ even);
  /* One into each lane: the product that ends it mixes them, too. What depends on the length comes last, since that is known last. */
  even ^= split_word(last) ^ (length + SPLIT_HASH_4);
  odd ^= split_word(last + 8) ^ SPLIT_HASH_1;
  return split_hash_fit(split_fold(even, odd));
}

/* One to one, but for two numbers of 2^64: a kind of number key is that number. The upper half, by which places are chosen, depends on
 * every bit. */
static inline uint64_t split_hash_number(uint64_t number) {
  number ^= number >> 32;
  number *= SPLIT_HASH_3;
  return split_hash_fit(number);
}

#endif
