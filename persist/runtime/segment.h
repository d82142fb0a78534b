/*
 * Virtual memory for resident objects: one range of addresses, cut into segments of 1 MB. Given an
 * address, the segment says what lies there, whose it is, and where in the store.
 *
 *   p3l_persistent_memory.base
 *   v
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *   | frames  | arena   | arena   | large   | (large) | not used      |   PROT_NONE until it is taken
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *
 *   frames  256 pages as the file has them; objects are used in place
 *   arena   objects copied one by one, in the order in which the program came to them; no headers:
 *           `starts` says where one begins, `objects[rank of the bit]` what it is
 *   large   one object, over as many segments as it takes
 *
 * Invariants:
 *  1. Taken once by a store, a segment belongs to it until evicted or until p3l_close(). In a build
 *     with P3L_DEBUG, an evicted one is never used again, so that a dangling pointer traps.
 *  2. An arena is filled from the front; nothing moves in it, nothing is taken out.
 *  3. The table of segments is written under the store's slow-path lock; entries that a thread got
 *     an address of by the rules of p3l.h are stable while it may use that address.
 */
#ifndef P3L_SEGMENT_H
#define P3L_SEGMENT_H

#include "object_page.h"
#include "p3l.h"

#define P3L_SEGMENT_BYTES (UINT64_C(1) << 20)
#define P3L_SEGMENT_FRAMES (P3L_SEGMENT_BYTES / P3L_PAGE_SIZE)
#define P3L_SEGMENT_GRANULES (P3L_SEGMENT_BYTES / P3L_GRANULE)

typedef enum p3l_segment_kind { P3L_FRAMES, P3L_ARENA, P3L_LARGE } p3l_segment_kind;

/* An object in an arena: what `objects` has of it. */
typedef struct p3l_resident {
  uint64_t address : 56; /* in the store; 0: it was deleted, or its transaction aborted */
  uint64_t unused : 8;
  p3l_type_id type;  /* the store's id, of the layout that it has in memory */
  uint16_t granules; /* length, in the store and here alike unless it was upgraded */
  uint32_t flags;    /* P3L_RESIDENT_... */
} p3l_resident;
/* Upgraded in memory: its bytes in the store are of an older type; a change writes it whole. */
#define P3L_RESIDENT_UPGRADED 1u
/* Made in the transaction under way. */
#define P3L_RESIDENT_NEW 2u

typedef struct p3l_segment {
  p3l_store *store;
  p3l_segment_kind kind;
  uint32_t index;    /* in the table; memory = base + index x P3L_SEGMENT_BYTES */
  uint32_t segments; /* 1, or of a large object all */
  uint32_t pins;
  uint64_t born; /* the store's count of segments when this was taken: eviction takes the oldest */
  uint8_t *memory;
  struct p3l_segment *older, *younger; /* of the store's segments */
  union {
    struct {
      uint64_t page[P3L_SEGMENT_FRAMES]; /* page number; 0: the frame is free */
    } frames;
    struct {
      uint32_t fill;  /* bytes used, a multiple of 16 */
      uint32_t count; /* objects */
      uint64_t starts[P3L_SEGMENT_GRANULES / 64];
      uint32_t rank[P3L_SEGMENT_GRANULES / 64]; /* objects before this word */
      p3l_resident *objects; /* [count]; P3L_SEGMENT_GRANULES reserved, touched as they come */
    } arena;
    struct {
      p3l_resident object; /* granules: not used */
      uint64_t bytes;
    } large;
  };
} p3l_segment;

/* Where an object is, seen from memory. */
typedef struct p3l_place {
  p3l_segment *segment;
  uint8_t *memory;     /* of its first byte */
  p3l_address address; /* of its first byte in the store */
  uint64_t bytes;      /* extent */
  p3l_type_id type;
  p3l_resident *resident; /* of an arena's or a large object; NULL in frames */
} p3l_place;

/* Reserves the range, once per process. */
p3l_code p3l_memory_reserve(p3l_error *error);
/* `segments` side by side, zeroed, readable and writable. */
p3l_code p3l_segment_take(p3l_store *store, p3l_segment_kind kind, uint32_t segments,
                          p3l_segment **segment, p3l_error *error);
/* Gives the memory back to the kernel. */
void p3l_segment_release(p3l_segment *segment);
/* NULL: not persistent memory, or a part of it that nobody has. */
p3l_segment *p3l_segment_of(const void *address);

/* The object that `address` lies in; false: none (a page's head, a hole, free space, no segment). */
bool p3l_place_of(const void *address, p3l_place *place);
/* All objects that overlap [from, to), which lies in one segment, ascending. Holes, forwards and
 * dead objects are left out. */
typedef p3l_code (*p3l_place_visitor)(void *state, const p3l_place *place, p3l_error *error);
p3l_code p3l_places_in(p3l_segment *segment, const uint8_t *from, const uint8_t *to,
                       p3l_place_visitor visit, void *state, p3l_error *error);

/* Room for an object in the store's youngest arena; the caller fills it. */
p3l_code p3l_arena_add(p3l_store *store, p3l_resident object, p3l_place *place, p3l_error *error);

#endif
