/*
 * Virtual memory for resident objects: one range of addresses, divided into segments of 1 MB. For
 * an address, the segment gives the object there, its store, and its place in the store.
 *
 *   p3l_persistent_memory.base       on x86-64, all of it lies below 2^46 (but under ThreadSanitizer), and
 *   v                                the last segment is never used
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *   | frames  | arena   | arena   | large   | (large) | not used      |   PROT_NONE until it is taken
 *   +---------+---------+---------+---------+---------+----- ... -----+
 *
 *   frames  256 pages in the file's form: of the pool, or adopted, their objects used in place
 *   arena   objects copied one by one, in the order in which the program reached them; no headers:
 *           `starts` says where one begins, `objects[rank of the bit]` what it is
 *   large   one object, over as many segments as it takes
 *
 * Invariants:
 *   1. A segment belongs to the store that took it until it is evicted or until p3l_close(). In a
 *      build with P3L_DEBUG, an evicted one is never used again, so that a dangling pointer traps.
 *   2. An arena is filled from the front; its objects neither move nor disappear. A dead object
 *      stays, so that a slot which still points there has a surrogate.
 *   3. A store's segments are taken, filled and released under its slow-path lock. An object whose
 *      address a thread got by the rules of p3l.h is stable while the thread may use that address,
 *      so p3l_segment_of(), p3l_place_of(), p3l_places_in() and p3l_memory_surrogate() take no
 *      lock.
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

/* An object in an arena: an element of `objects`. */
typedef struct p3l_resident {
  uint64_t address : 56; /* its address in the store */
  uint64_t stored : 8;   /* upgraded: number of its granules in the store */
  p3l_type_id type;      /* the store's type id of the object's layout in memory */
  uint16_t granules;     /* length, the same in memory and in the store unless it was upgraded */
  uint32_t flags : 24;   /* P3L_RESIDENT_... */
  uint32_t generation : 8;
} p3l_resident;
/* Upgraded in memory: its stored bytes have an older type; any change writes it whole. */
#define P3L_RESIDENT_UPGRADED 1u
/* Created in the transaction under way. */
#define P3L_RESIDENT_NEW 2u
/* It was deleted, or its transaction aborted: pointers to it dangle. */
#define P3L_RESIDENT_DEAD 4u

/* The use of a frame. */
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
  bool reused;                  /* adopted: copy of the field of `state`, quicker to read */
} p3l_frame_info;

typedef struct p3l_segment {
  p3l_store *store;
  p3l_segment_kind kind;
  uint32_t index;    /* in the table; memory = base + index x P3L_SEGMENT_BYTES */
  uint32_t segments; /* 1; of a large object, all its segments */
  uint32_t pins;
  uint64_t born; /* the store's count of segments when this one was taken: the oldest are evicted */
  uint8_t *memory;
  struct p3l_segment *older, *younger; /* list of the store's segments */
  uint64_t held;                       /* p3l_segment_held() */
  size_t mapped;                       /* size of this structure with its arrays */
  union {
    struct {
      uint32_t fresh;   /* frames from this index on were never touched */
      uint32_t adopted; /* number of adopted frames */
      p3l_frame_info frame[P3L_SEGMENT_FRAMES];
    } frames;
    struct {
      uint32_t fill;  /* bytes used, a multiple of 16 */
      uint32_t count; /* number of objects */
      uint64_t starts[P3L_SEGMENT_GRANULES / 64];
      uint32_t rank[P3L_SEGMENT_GRANULES / 64]; /* number of objects before this word */
      p3l_resident *objects; /* [count]; P3L_SEGMENT_GRANULES are reserved, touched when used */
    } arena;
    struct {
      p3l_resident object; /* its granules and stored are not used */
      uint64_t bytes;
      uint64_t stored; /* its length in the store; differs from `bytes` if it was upgraded */
      uint8_t *unread; /* [stretch]: 1: not read yet (unread.h); NULL: all of it is in memory */
    } large;
  };
} p3l_segment;

/* An object found by an address in memory. */
typedef struct p3l_place {
  p3l_segment *segment;
  uint8_t *memory;     /* its first byte in memory */
  p3l_address address; /* its first byte in the store */
  uint64_t bytes;      /* extent */
  p3l_type_id type;
  p3l_resident *resident; /* for an arena's or a large object; NULL in frames */
  uint8_t generation;     /* its generation */
} p3l_place;

/* Reserves the range, once per process. */
p3l_code p3l_memory_reserve(p3l_error *error);
/* Takes `segments` adjacent segments, zeroed, readable and writable. */
p3l_code p3l_segment_take(p3l_store *store, p3l_segment_kind kind, uint32_t segments,
                          p3l_segment **segment, p3l_error *error);
/* The same for a large object that is read by stretches: inaccessible, and whole pairs of segments. */
p3l_code p3l_segment_take_unread(p3l_store *store, uint32_t segments, p3l_segment **segment,
                                 p3l_error *error);
/* Gives the memory back to the kernel. */
void p3l_segment_release(p3l_segment *segment);
/* Bytes that it holds, including the records of its objects; for arenas and frames, the touched
 * part. The store's statistics count it until the release. */
static inline uint64_t p3l_segment_held(const p3l_segment *segment) { return segment->held; }
/* Adds to the bytes that it holds. */
void p3l_segment_grew(p3l_segment *segment, uint64_t bytes);

extern p3l_segment **p3l_segment_table; /* [index]; NULL: free */

/* NULL: not persistent memory, or a free part of it. */
static inline p3l_segment *p3l_segment_of(const void *address) {
  uintptr_t offset = (uintptr_t)address - p3l_persistent_memory.base;
  if (offset >= p3l_persistent_memory.bytes) return NULL;
  return __atomic_load_n(&p3l_segment_table[offset >> P3L_SEGMENT_SHIFT], __ATOMIC_ACQUIRE);
}

/* Finds the object that contains `address`; false: none (a page's head, a hole, free space, a
 * dead object, no segment). */
bool p3l_place_of(const void *address, p3l_place *place);
/* Visits all objects that overlap [from, to), which lies in one segment, in ascending order,
 * without holes, forwards and dead objects. */
typedef p3l_code (*p3l_place_visitor)(void *state, const p3l_place *place, p3l_error *error);
p3l_code p3l_places_in(p3l_segment *segment, const uint8_t *from, const uint8_t *to,
                       p3l_place_visitor visit, void *state, p3l_error *error);
/* Filler for the memory of a deleted object that shares its segment with others: bytes that
 * contain its generation and are not a valid address. */
#define P3L_DELETED_BYTE 0xc0u
/* The surrogate of a byte of persistent memory that is or was an object's: the stored form of a
 * slot that points there. For a dead object it is the surrogate that it had, which now dangles.
 * False: there is no such memory. */
bool p3l_memory_surrogate(const void *memory, p3l_store **store, uint64_t *surrogate);

/* Large objects with pointers are read in stretches of this length (unread.h). */
#define P3L_STRETCH_BYTES (2 * P3L_SEGMENT_BYTES)

/* True if the byte is in memory. */
static inline bool p3l_is_read(const p3l_segment *segment, uint64_t offset) {
  return segment->kind != P3L_LARGE || segment->large.unread == NULL ||
         __atomic_load_n(&segment->large.unread[offset / P3L_STRETCH_BYTES], __ATOMIC_ACQUIRE) == 0;
}

#endif
