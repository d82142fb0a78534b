/*
 * Hashes of keys. A kind of text key is identified by this hash alone (its label is cut), so all 64
 * bits must be good. Deliberate collisions only cause kinds to be counted together.
 */
#ifndef SPLIT_HASH_H
#define SPLIT_HASH_H

#include "hm_hash.h"

/* One to one, except for two of the 2^64 numbers: a kind of number key is that number. The upper
 * half, which chooses the place, depends on every bit. */
static inline uint64_t split_hash_number(uint64_t number) {
  number ^= number >> 32;
  number *= HM_HASH_3;
  return hm_hash_fit(number);
}

#endif
