/*
 * Texts that a host keeps and passes repeatedly, mostly literals: recognized by their address, and
 * compared with a copy instead of measured and hashed. Each thread has a few.
 */
#ifndef SPLIT_TEXTS_H
#define SPLIT_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* Whole blocks are read, which may include bytes of other objects. */
#if defined(__SSE2__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define SPLIT_TEXT_BLOCK 16u
#endif

#define SPLIT_TEXTS 16
#define SPLIT_TEXT_BLOCKS 4

struct split_text {
  const char *text; /* text that is compared from now on; NULL: none */
  uint32_t code, blocks;
  uint64_t hash;                       /* hash of the text that was last seen ... */
  const char *seen;                    /* ... here */
  uint16_t ignored[SPLIT_TEXT_BLOCKS]; /* mask of the bytes in each block that are not the text's */
#ifdef SPLIT_TEXT_BLOCK
  __m128i copy[SPLIT_TEXT_BLOCKS]; /* includes the zero at the end */
#endif
};

#ifdef SPLIT_TEXT_BLOCK
static inline size_t split_text_place(const char *text) {
  return ((uintptr_t)text >> 4 ^ (uintptr_t)text >> 10) % SPLIT_TEXTS;
}

static inline const __m128i *split_text_block(const char *text) {
  return (const __m128i *)(const void *)(text - (uintptr_t)text % SPLIT_TEXT_BLOCK);
}

/* Checks whether the address has the same text as before, and returns its code. Blocks without a
 * byte of the text are not read: those before equal the copy, which has no end in them. */
static inline bool split_text_known(const struct split_text *texts, const char *text,
                                    uint32_t *code) {
  const struct split_text *known = &texts[split_text_place(text)];
  if (known->text != text) return false;
  const __m128i *block = split_text_block(text);
  for (uint32_t i = 0; i < known->blocks; i++) {
    const int same = _mm_movemask_epi8(_mm_cmpeq_epi8(block[i], known->copy[i]));
    if ((same | known->ignored[i]) != UINT16_MAX) return false;
  }
  *code = known->code;
  return true;
}

/* Called after a text was measured and hashed. One that is seen twice in a row at its address is
 * remembered, unless it is long. */
static inline void split_text_meet(struct split_text *texts, const char *text, size_t length,
                                   uint64_t hash, uint32_t code) {
  struct split_text *known = &texts[split_text_place(text)];
  const size_t before = (uintptr_t)text % SPLIT_TEXT_BLOCK, end = before + length + 1;
  known->text = NULL;
  if (known->seen == text && known->hash == hash && end <= sizeof known->copy) {
    known->blocks = (uint32_t)((end + SPLIT_TEXT_BLOCK - 1) / SPLIT_TEXT_BLOCK);
    for (uint32_t i = 0; i < known->blocks; i++) {
      known->copy[i] = split_text_block(text)[i];
      known->ignored[i] = 0;
    }
    known->ignored[0] = (uint16_t)((1u << before) - 1);
    known->ignored[known->blocks - 1] |=
        (uint16_t)(UINT32_MAX << ((end - 1) % SPLIT_TEXT_BLOCK + 1));
    known->code = code;
    known->text = text;
  }
  known->seen = text;
  known->hash = hash;
}
#else
static inline bool split_text_known(const struct split_text *texts, const char *text,
                                    uint32_t *code) {
  (void)texts;
  (void)text;
  (void)code;
  return false;
}
static inline void split_text_meet(struct split_text *texts, const char *text, size_t length,
                                   uint64_t hash, uint32_t code) {
  (void)texts;
  (void)text;
  (void)length;
  (void)hash;
  (void)code;
}
#endif

#endif
