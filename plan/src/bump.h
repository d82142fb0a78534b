/*
 * Memory for many small objects that are freed together: no header each, no rounding to powers of
 * two.
 */
#ifndef CCOPT_BUMP_H
#define CCOPT_BUMP_H

#include "postgres.h"

#include "utils/memutils.h"

/*
 * The decoder of short decimals loads the eight bytes that end at a value's end (decode.c), so up
 * to this many bytes before a value must be readable.
 */
#define BUMP_SLACK 8

typedef struct Bump {
  MemoryContext context;
  char *next;
  Size left;
  Size block; /* bytes allocated at a time */
  Size total; /* bytes taken from the context since the last reset */
} Bump;

static inline void bump_init(Bump *bump, MemoryContext context, Size block) {
  memset(bump, 0, sizeof(*bump));
  bump->context = context;
  bump->block = block;
}

/* To be called after the context was reset. */
static inline void bump_reset(Bump *bump) {
  bump->next = NULL;
  bump->left = 0;
  bump->total = 0;
}

static pg_noinline void bump_block(Bump *bump, Size size) {
  Size block = Max(bump->block, size + BUMP_SLACK);
  bump->next = (char *)MemoryContextAlloc(bump->context, block) + BUMP_SLACK;
  bump->left = block - BUMP_SLACK;
  bump->total += block;
}

/* Aligned as palloc() does. */
static inline char *bump_alloc(Bump *bump, Size size) {
  char *result;
  size = MAXALIGN(size);
  if (unlikely(size > bump->left)) bump_block(bump, size);
  result = bump->next;
  bump->next += size;
  bump->left -= size;
  return result;
}

#endif
