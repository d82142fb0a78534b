/*
 * Kinds: from keys to code ids. What every section does is inline; whoever is met for the first time is settled in kinds.c.
 */
#ifndef SPLIT_KINDS_H
#define SPLIT_KINDS_H

#include "hash.h"
#include "mapping.h"
#include "split.h"

/* So many places are looked at: in a full table an unknown key costs that much, and no more. */
#define SPLIT_KIND_PLACES 32

struct split_key {
  uint64_t hash, number;
  const char *text; /* NULL: it is the number */
  size_t length;
};

/* The kind of a key that this process did not meet at its first place. */
uint32_t split_kind_settle(struct split_mapping *mapping, const struct split_key *key);

/* The first two places are taken: "none" and "other". */
static inline uint32_t split_kind_home(const struct split_mapping *mapping, uint64_t hash) {
  return (uint32_t)((hash >> 32) * (mapping->kind_count - 2) >> 32);
}

/* The code id of a key of `length` bytes; NULL: none. */
static inline uint32_t split_kind_of_key(struct split_mapping *mapping, const void *bytes,
                                         size_t length) {
  struct split_key key = {0};
  if (!bytes) return SPLIT_CODE_NONE;
  if (mapping->key_type == SPLIT_KEY_NUMBER) {
    if (length < sizeof key.number) return SPLIT_CODE_NONE;
    memcpy(&key.number, bytes, sizeof key.number);
    key.hash = split_hash_number(key.number);
  } else {
    key.text = bytes;
    key.length = length < SPLIT_KEY_LENGTH ? length : SPLIT_KEY_LENGTH;
    key.hash = split_hash_text(key.text, key.length);
  }
  uint32_t code = 2 + split_kind_home(mapping, key.hash);
  if (atomic_load_explicit(&mapping->known[code], memory_order_relaxed) == key.hash) return code;
  const struct split_key met = key; /* a copy, so that the other stays in registers */
  return split_kind_settle(mapping, &met);
}

/* Words for people, once. */
void split_kind_note(struct split_mapping *mapping, uint32_t code, const char *text, size_t length);
/* What caused one of these sections. */
void split_kind_related(struct split_mapping *mapping, uint32_t code, uint32_t app,
                        uint32_t related);

#endif
