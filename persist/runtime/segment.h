/*
 * Virtual memory for resident objects: one range of addresses, cut into segments of 1 MB. Given an
 * address, the segment says what lies there, whose it is, and where in the store.
 *
 *   p3l_persistent_memory.base       on x86-64, all of it lies below 2^46 (but under ThreadSanitizer), and
 *   v                                the last segment is never used
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *   | frames  | arena   | arena   | large   | (large) | not used      |   PROT_NONE until it is taken
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *
 *   frames  256 pages as the file has them: of the pool, or adopted, their objects used in place
 *   arena   objects copied one by one, in the order in which the program came to them; no headers:
 *           `starts` says where one begins, `objects[rank of the bit]` what it is
 *   large   one object, over as many segments as it takes
 *
 * Invariants:
 *   1. Taken once by a store, a segment belongs to it until evicted or until p3l_close(). In a
 *      build with P3L_DEBUG, an evicted one is never used again, so that a dangling pointer traps.
 *   2. An arena is filled from the front; nothing moves in it, nothing is taken out. A dead object
 *      stays, so that a slot which still points there has a surrogate.
 *   3. A store's segments are taken, filled and released under its slow-path lock. What a thread
 *      got an address of by the rules of p3l.h is stable while it may use that address: so
 *      p3l_segment_of(), p3l_place_of(), p3l_places_in() and p3l_memory_surrogate() take no lock.
 */
#ifndef P3L_SEGMENT_H
#define P3L_SEGMENT_H

#include "object_page.h"
#include "p3l.h"

#define P3L_SEGMENT_SHIFT 20
#define P3L_SEGMENT_BYTES (UINT64_C(1) << P3L_SEGMENT_SHIFT)
#define P3L_SEGMENT_FRAMES (P3L_SEGMENT_BYTES / P3L_PAGE_SIZE)
#define P3L_SEGMENT_GRANULES (P3L_SEGMENT_BYTES / P3L_GRANULE)

typedef enum p3l_segment_kind { P3L_FRAMES, P3L_ARENA, P3L_LARGE } p3l_segment_kind;

/* An object in an arena: what `objects` has of it. */
typedef struct p3l_resident {
  uint64_t address : 56; /* in the store */
  uint64_t stored : 8;   /* upgraded: granules that the store has of it */
  p3l_type_id type;      /* the store's id, of the layout that it has in memory */
  uint16_t granules;     /* length, in the store and here alike unless it was upgraded */
  uint32_t flags : 24;   /* P3L_RESIDENT_... */
  uint32_t generation : 8;
} p3l_resident;
/* Upgraded in memory: its bytes in the store are of an older type; a change writes it whole. */
#define P3L_RESIDENT_UPGRADED 1u
/* Made in the transaction under way. */
#define P3L_RESIDENT_NEW 2u
/* It was deleted, or its transaction aborted: pointers to it dangle. */
#define P3L_RESIDENT_DEAD 4u

/* What a frame is for. */
typedef enum p3l_frame_use {
  P3L_FRAME_EMPTY = 0, /* no page is in it */
  P3L_FRAME_POOLED,    /* a page of the pool; no address leads into it */
  P3L_FRAME_ADOPTED    /* its objects are used in place */
} p3l_frame_use;

struct p3l_page_state; /* page_state.h */

typedef struct p3l_frame_info {
  uint64_t page;                /* number */
  struct p3l_page_state *state; /* of that page */
  uint8_t use;                  /* p3l_frame_use */
  bool reused;                  /* adopted: as that of `state`, where a commit finds it sooner */
} p3l_frame_info;

typedef struct p3l_segment {
  p3l_store *store;
  p3l_segment_kind kind;
  uint32_t index;    /* in the table; memory = base + index x P3L_SEGMENT_BYTES */
  uint32_t segments; /* 1, or of a large object all */
  uint32_t pins;
  uint64_t born; /* the store's count of segments when this was taken: the oldest are evicted */
  uint8_t *memory;
  struct p3l_segment *older, *younger; /* of the store's segments */
  uint64_t held;                       /* p3l_segment_held() */
  size_t mapped;                       /* bytes of this very structure, with what follows it */
  union {
    struct {
      uint32_t fresh;   /* frames from here on were never touched */
      uint32_t adopted; /* frames */
      p3l_frame_info frame[P3L_SEGMENT_FRAMES];
    } frames;
    struct {
      uint32_t fill;  /* bytes used, a multiple of 16 */
      uint32_t count; /* objects */
      uint64_t starts[P3L_SEGMENT_GRANULES / 64];
      uint32_t rank[P3L_SEGMENT_GRANULES / 64]; /* objects before this word */
      p3l_resident *objects; /* [count]; P3L_SEGMENT_GRANULES reserved, touched as they come */
    } arena;
    struct {
      p3l_resident object; /* granules, stored: not used */
      uint64_t bytes;
      uint64_t stored; /* bytes that the store has of it; others than `bytes` if it was upgraded */
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
  uint8_t generation;     /* of the object */
} p3l_place;

/* Reserves the range, once per process. */
p3l_code p3l_memory_reserve(p3l_error *error);
/* `segments` side by side, zeroed, readable and writable. */
p3l_code p3l_segment_take(p3l_store *store, p3l_segment_kind kind, uint32_t segments,
                          p3l_segment **segment, p3l_error *error);
/* Gives the memory back to the kernel. */
void p3l_segment_release(p3l_segment *segment);
/* Bytes that it holds, with what is known of its objects: of an arena and of frames what was
 * touched. The store's statistics count it until the release. */
static inline uint64_t p3l_segment_held(const p3l_segment *segment) { return segment->held; }
/* Adds to the count of its objects. */
void p3l_segment_grew(p3l_segment *segment, uint64_t bytes);

extern p3l_segment **p3l_segment_table; /* [index]; NULL: free */

/* NULL: not persistent memory, or a free part of it. */
static inline p3l_segment *p3l_segment_of(const void *address) {
  uintptr_t offset = (uintptr_t)address - p3l_persistent_memory.base;
  if (offset >= p3l_persistent_memory.bytes) return NULL;
  return __atomic_load_n(&p3l_segment_table[offset >> P3L_SEGMENT_SHIFT], __ATOMIC_ACQUIRE);
}

/* The object that `address` lies in; false: none (a page's head, a hole, free space, a dead object,
 * no segment). */
bool p3l_place_of(const void *address, p3l_place *place);
/* All objects that overlap [from, to), which lies in one segment, ascending. Holes, forwards and
 * dead objects are left out. */
typedef p3l_code (*p3l_place_visitor)(void *state, const p3l_place *place, p3l_error *error);
p3l_code p3l_places_in(p3l_segment *segment, const uint8_t *from, const uint8_t *to,
                       p3l_place_visitor visit, void *state, p3l_error *error);
/* What a deleted object's memory is filled with, if it is not its own: bytes that say which generation
 * it was, and that are no address. */
#define P3L_DELETED_BYTE 0xc0u
/* The surrogate of a byte of persistent memory that is or was an object's: what a slot that points
 * there is written as. Of a dead object it is the dangling one that it always was.
 * False: there is no such memory. */
bool p3l_memory_surrogate(const void *memory, p3l_store **store, uint64_t *surrogate);

#endif
