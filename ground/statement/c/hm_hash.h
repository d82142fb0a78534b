/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * A 64-bit hash of bytes that reads eight bytes per step. All bits are well mixed; not secure
 * against deliberate collisions. No libc except string.h, so that it compiles inside a Valgrind
 * tool.
 *
 * The results are written into files (ids of statements, kinds of SPLiT's segments): a change
 * here is a change of their formats. Little-endian machines only. */
#ifndef HM_HASH_H
#define HM_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Odd constants: fractions of e, pi, the golden ratio and the square root of 2. */
#define HM_HASH_1 UINT64_C(0xb7e151628aed2a6b)
#define HM_HASH_2 UINT64_C(0x243f6a8885a308d3)
#define HM_HASH_3 UINT64_C(0x9e3779b97f4a7c15)
#define HM_HASH_4 UINT64_C(0x6a09e667f3bcc909)

/* Folded product of two words: each bit of the result depends on all bits of both. */
static inline uint64_t hm_hash_fold(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hm_hash_word(const unsigned char *bytes) {
  uint64_t word;
  __builtin_memcpy(&word, bytes, sizeof word);
  return word;
}

/* Tables of hashes use 0 and 1 as marks. */
static inline uint64_t hm_hash_fit(uint64_t hash) {
  return __builtin_expect(hash < 2, 0) ? hash + 2 : hash;
}

/* Never 0 and never 1. */
static inline uint64_t hm_hash_text(const void *text, size_t length) {
  const unsigned char *at = text;
  /* Two lanes, so that two multiplications overlap. */
  uint64_t even = HM_HASH_1, odd = HM_HASH_4;
  if (__builtin_expect(length < 16, 0)) {
    uint64_t first = 0, last = 0;
    if (length >= 8) {
      first = hm_hash_word(at);
      last = hm_hash_word(at + length - 8);
    } else {
      for (size_t i = 0; i < length; i++) first = first << 8 | at[i];
    }
    even ^= length;
    odd = hm_hash_fold(first ^ HM_HASH_3, last ^ odd);
    return hm_hash_fit(hm_hash_fold(even ^ HM_HASH_4, odd ^ HM_HASH_1));
  }
  /* The last 16 bytes may overlap bytes already hashed. */
  const unsigned char *const last = at + length - 16;
  for (; last - at > 16; at += 32) {
    even = hm_hash_fold(hm_hash_word(at) ^ HM_HASH_2, hm_hash_word(at + 8) ^ even);
    odd = hm_hash_fold(hm_hash_word(at + 16) ^ HM_HASH_3, hm_hash_word(at + 24) ^ odd);
  }
  if (at < last) even = hm_hash_fold(hm_hash_word(at) ^ HM_HASH_2, hm_hash_word(at + 8) ^ even);
  /* One word into each lane: the final product mixes them, too. The length is mixed in last,
   * when it is known. */
  even ^= hm_hash_word(last) ^ (length + HM_HASH_4);
  odd ^= hm_hash_word(last + 8) ^ HM_HASH_1;
  return hm_hash_fit(hm_hash_fold(even, odd));
}

#endif
