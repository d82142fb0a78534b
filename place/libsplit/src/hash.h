/*
 * Hashes of keys. A kind of text key is known by this hash alone (its label is cut), so that all 64 bits have to be good; whoever
 * makes collisions on purpose makes kinds be counted together, and no more.
 */
#ifndef SPLIT_HASH_H
#define SPLIT_HASH_H

#include "hm_hash.h"

/* One to one, but for two numbers of 2^64: a kind of number key is that number. The upper half, by which places are chosen, depends on
 * every bit. */
static inline uint64_t split_hash_number(uint64_t number) {
  number ^= number >> 32;
  number *= HM_HASH_3;
  return hm_hash_fit(number);
}

#endif
