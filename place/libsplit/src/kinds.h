/*
 * Kinds: from keys to code ids. The path of every section is inline; kinds.c handles new kinds.
 */
#ifndef SPLIT_KINDS_H
#define SPLIT_KINDS_H

#include "hash.h"
#include "mapping.h"
#include "split.h"

#include <stdbool.h>

/* Limit of probed places: an unknown key in a full table costs this much at most. */
#define SPLIT_KIND_PLACES 32

struct split_key {
  uint64_t hash, number;
  const char *text; /* NULL: the key is the number */
  size_t length;
};

/* Finds or creates the kind of a key anywhere in the table. */
uint32_t split_kind_settle(struct split_mapping *mapping, const struct split_key *key);

/* The first two places are reserved for "none" and "other". */
static inline uint32_t split_kind_home(const struct split_mapping *mapping, uint64_t hash) {
  return (uint32_t)((hash >> 32) * mapping->homes >> 32);
}

/* Reads a key of `length` bytes; `bytes` is not NULL. False: too short for a number. */
static inline bool split_key_of(const struct split_mapping *mapping, const void *bytes,
                                size_t length, struct split_key *key) {
  *key = (struct split_key){0};
  if (mapping->key_type == SPLIT_KEY_NUMBER) {
    if (length < sizeof key->number) return false;
    memcpy(&key->number, bytes, sizeof key->number);
    key->hash = split_hash_number(key->number);
  } else {
    key->text = bytes;
    key->length = length < SPLIT_KEY_LENGTH ? length : SPLIT_KEY_LENGTH;
    key->hash = hm_hash_text(key->text, key->length);
  }
  return true;
}

static inline bool split_hash_at_home(const struct split_mapping *mapping, uint64_t hash,
                                      uint32_t *code) {
  *code = 2 + split_kind_home(mapping, hash);
  return atomic_load_explicit(&mapping->known[*code], memory_order_relaxed) == hash;
}

/* The same as split_kind_of_key, but without a call: false if one look-up is not enough. */
static inline bool split_kind_at_home(const struct split_mapping *mapping, const void *bytes,
                                      size_t length, uint32_t *code) {
  struct split_key key;
  *code = SPLIT_CODE_NONE;
  if (!bytes) return true;
  if (!split_key_of(mapping, bytes, length, &key)) return true;
  return split_hash_at_home(mapping, key.hash, code);
}

/* The code id of a key of `length` bytes; NULL: none. */
static inline uint32_t split_kind_of_key(struct split_mapping *mapping, const void *bytes,
                                         size_t length) {
  struct split_key key;
  if (!bytes || !split_key_of(mapping, bytes, length, &key)) return SPLIT_CODE_NONE;
  return split_kind_settle(mapping, &key);
}

/* Stores a kind's display text, once. */
void split_kind_note(struct split_mapping *mapping, uint32_t code, const char *text, size_t length);
/* Stores the StatementId, once. */
void split_kind_statement(struct split_mapping *mapping, uint32_t code, uint64_t statement);
/*
 * Records what caused one of these sections. Written only if it changes: otherwise the line would
 * move between CPUs with each section.
 */
static inline void split_kind_related(const struct split_mapping *mapping, uint32_t code,
                                      uint32_t app, uint32_t related) {
  struct split_kind *kind = &mapping->kinds[code];
  if (atomic_load_explicit(&kind->related_app, memory_order_relaxed) != app)
    atomic_store_explicit(&kind->related_app, app, memory_order_relaxed);
  if (atomic_load_explicit(&kind->related_code, memory_order_relaxed) != related)
    atomic_store_explicit(&kind->related_code, related, memory_order_relaxed);
}

#endif
