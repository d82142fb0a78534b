/*
 * Object pages: where each object begins, and its type. The layout is the same on disk and in
 * memory; pointers in the objects are surrogates here (p3l_access.h).
 *
 *   0      32     34      36    38      40   48       80                       end         4096
 *   +------+------+-------+-----+-------+----+--------+-------+------+-------+------+----------+
 *   | head | what | count | end | holes | <- | starts | piece | hole | piece | free | . t2 t1 t0|
 *   +------+------+-------+-----+-------+----+--------+-------+------+-------+------+----------+
 *
 * Invariants:
 *  1. Between byte 80 and `end` the page is divided into pieces without gaps. If bit i of `starts`
 *     is set, a piece begins at byte 16 i; it ends at the next piece, or at `end`. So an object
 *     needs no header, and a pointer into its middle leads to its beginning.
 *  2. Piece k, counted from the front, has `types[-k - 1]` from the page's end: 11 bits of type id
 *     and 5 of generation. The type P3L_HOLE marks free pieces; two holes are never adjacent, and
 *     no hole ends at `end` (it becomes free space). The type P3L_FORWARD marks a piece whose
 *     object has moved: its first eight bytes are the surrogate of the new place; the rest is zero.
 *  3. `end` + 2 x `count` <= 4096. Bytes after `end` that no type id occupies are zero, and so is
 *     every hole: deleted data does not stay in the file.
 *
 *  4. A piece stores the generation (surrogate.h) that valid pointers to it have. A hole stores the
 *     generation of the next object there, later than those of earlier objects. The head stores the
 *     generation of the space after `end`, or of a large object. In pages of version 1 all
 *     generations are 0, and a forward is 0xffff.
 *
 * An object of more than P3L_SMALL_BYTES has adjacent pages of its own:
 *
 *   page f, f+1, ...:   head (32) | what | type | 0 (4) | first page f | bytes of the object | 0 (8) | bytes
 *
 * Its byte o has the address f x 4096 + o, as if the pages had no heads, so that pointer arithmetic
 * works. The byte lies in page f + o / 4032. Since 4032 < 4096, these addresses never reach those
 * of the page after the object. So page number address / 4096 is always one of the object's own
 * pages, and that page names f. A large object that has moved is of type P3L_FORWARD in all its
 * pages, and its first eight bytes are the surrogate; the pages remain, so that no other object
 * gets the addresses in its middle.
 */
#ifndef P3L_OBJECT_PAGE_H
#define P3L_OBJECT_PAGE_H

#include <stddef.h>
#include <string.h>

#include "surrogate.h"

#define P3L_GRANULE 16u /* objects' offsets and lengths are multiples of it */
#define P3L_SMALL_BYTES 4000u

typedef uint16_t p3l_type_id;
#define P3L_HOLE ((p3l_type_id)0)
#define P3L_FORWARD ((p3l_type_id)0xffff)
/* Type ids are below this limit. */
#define P3L_TYPE_LIMIT ((p3l_type_id)0x7ff)

/* The use of a data page. */
typedef enum p3l_page_use {
  P3L_USE_OBJECTS = 1,
  P3L_USE_LARGE = 2,
  P3L_USE_TYPES = 3, /* catalog.h */
  P3L_USE_ROOTS = 4  /* catalog.h */
} p3l_page_use;

typedef struct p3l_object_page {
  uint8_t head[32]; /* p3l_page; its `next`: see `previous` */
  uint16_t use;     /* P3L_USE_OBJECTS */
  uint16_t count;   /* pieces, holes included */
  uint16_t end;     /* offset in the page */
  uint16_t hole_bytes;
  uint64_t previous; /* previous page on the list of allocate.h; first page: its own; 0: none */
  uint64_t starts[4];
  uint8_t rest[P3L_PAGE_SIZE - 80];
} p3l_object_page;
_Static_assert(sizeof(p3l_object_page) == P3L_PAGE_SIZE, "a view of a whole page");
#define P3L_OBJECTS_BEGIN 80u

typedef struct p3l_large_page {
  uint8_t head[32]; /* p3l_page */
  uint16_t use;     /* P3L_USE_LARGE */
  p3l_type_id type;
  uint32_t zero;
  uint64_t first; /* page number */
  uint64_t bytes; /* of the whole object; the same in each of its pages */
  uint64_t zero_too;
  uint8_t part[P3L_PAGE_SIZE - 64];
} p3l_large_page;
_Static_assert(sizeof(p3l_large_page) == P3L_PAGE_SIZE, "a view of a whole page");
#define P3L_LARGE_PART (P3L_PAGE_SIZE - 64u)

/* A piece of an object page. */
typedef struct p3l_piece {
  uint16_t offset; /* offset in the page */
  uint16_t bytes;
  p3l_type_id type;
  uint16_t index; /* k of invariant 2 */
  uint16_t generation;
} p3l_piece;

void p3l_object_page_init(p3l_page *page);

/* The piece that contains byte `offset` of the page; returns false before the first or after the
 * last. The page must have been checked. */
bool p3l_piece_at(const p3l_object_page *page, uint32_t offset, p3l_piece *piece);
/* The next piece after `piece`; the first, if its offset is 0. Returns false at the end. */
bool p3l_piece_next(const p3l_object_page *page, p3l_piece *piece);
p3l_type_id p3l_piece_type(const p3l_object_page *page, uint32_t index);

/* ---- all type ids of a page at once: checked for each page read, so four in a word ---- */

/* The bits of a type id, see invariant 2. */
#define P3L_ID_TYPE_BITS 11
static inline p3l_type_id p3l_id_type(uint16_t id) {
  uint16_t type = id & P3L_TYPE_LIMIT;
  return type == P3L_TYPE_LIMIT ? P3L_FORWARD : type;
}
static inline uint8_t p3l_id_generation(uint16_t id) {
  uint8_t generation = (uint8_t)(id >> P3L_ID_TYPE_BITS);
  return generation < P3L_GENERATIONS ? generation : 0;
}
static inline uint16_t p3l_id_make(p3l_type_id type, uint8_t generation) {
  return (uint16_t)((type & P3L_TYPE_LIMIT) | generation << P3L_ID_TYPE_BITS);
}

/* Read as bytes: where this is inlined for a p3l_page, a compiler may assume that other types do
 * not alias it. */
#define P3L_IDS_OF_WORD 4u
#define P3L_EACH_ID UINT64_C(0x0001000100010001)
#define P3L_EACH_TYPE (P3L_TYPE_LIMIT * P3L_EACH_ID)

static inline uint32_t p3l_id_count(const p3l_object_page *page) {
  uint16_t count;
  memcpy(&count, (const uint8_t *)page + offsetof(p3l_object_page, count), sizeof(count));
  return count;
}

/* Offset of the ids in the page; they extend to its end. */
static inline uint32_t p3l_ids_begin(const p3l_object_page *page) {
  return P3L_PAGE_SIZE - p3l_id_count(page) * (uint32_t)sizeof(uint16_t);
}

/* Type and generation of piece k. */
static inline uint16_t p3l_id_at(const p3l_object_page *page, uint32_t k) {
  uint16_t id;
  memcpy(&id, (const uint8_t *)(page + 1) - (k + 1) * sizeof(id), sizeof(id));
  return id;
}

/* The ids of pieces 4 k to 4 k + 3. */
static inline uint64_t p3l_ids_word(const p3l_object_page *page, uint32_t k) {
  uint64_t word;
  memcpy(&word, (const uint8_t *)(page + 1) - (k + 1) * sizeof(word), sizeof(word));
  return word;
}

/* The ids of the last pieces, which do not fill a word, padded with copies of `fill`. */
static inline uint64_t p3l_ids_rest(const p3l_object_page *page, p3l_type_id fill) {
  uint64_t word = fill * P3L_EACH_ID;
  uint32_t count = p3l_id_count(page);
  for (uint32_t k = count / P3L_IDS_OF_WORD * P3L_IDS_OF_WORD; k < count; k++)
    word = word << 16 | p3l_id_at(page, k);
  return word;
}

/* Sets the top bit of an id if its type is 0, so that the subtraction borrows, or all ones: then
 * its complement borrows. */
static inline uint64_t p3l_holes_or_forwards(uint64_t word) {
  uint64_t types = word & P3L_EACH_TYPE, others = ~word & P3L_EACH_TYPE;
  return ((types - P3L_EACH_ID) & ~types) | ((others - P3L_EACH_ID) & ~others);
}

/* True if a piece is a hole or a forward. The page has as many ids as it counts. */
static inline bool p3l_has_holes_or_forwards(const p3l_object_page *page) {
  uint64_t some = p3l_holes_or_forwards(p3l_ids_rest(page, 1));
  for (uint32_t k = 0; k < p3l_id_count(page) / P3L_IDS_OF_WORD; k++)
    some |= p3l_holes_or_forwards(p3l_ids_word(page, k));
  return (some & P3L_EACH_ID << 15) != 0;
}

/* The common type of all pieces; P3L_HOLE if they differ, or if there are none. */
static inline p3l_type_id p3l_type_of_all(const p3l_object_page *page) {
  if (p3l_id_count(page) == 0) return P3L_HOLE;
  uint16_t first = p3l_id_at(page, 0);
  uint64_t same = first * P3L_EACH_ID, other = p3l_ids_rest(page, first) ^ same;
  for (uint32_t k = 0; k < p3l_id_count(page) / P3L_IDS_OF_WORD; k++)
    other |= p3l_ids_word(page, k) ^ same;
  return (other & P3L_EACH_TYPE) == 0 ? p3l_id_type(first) : P3L_HOLE;
}

/* True if a piece other than a hole has a generation other than 0. */
static inline bool p3l_has_generations(const p3l_object_page *page) {
  uint64_t some = p3l_ids_rest(page, 0);
  for (uint32_t k = 0; k < p3l_id_count(page) / P3L_IDS_OF_WORD; k++) some |= p3l_ids_word(page, k);
  if ((some & ~P3L_EACH_TYPE) == 0) return false;
  for (uint32_t k = 0; k < p3l_id_count(page); k++) {
    uint16_t id = p3l_id_at(page, k);
    if (p3l_id_type(id) != P3L_HOLE && p3l_id_generation(id) != 0) return true;
  }
  return false;
}

/* The functions that change a page do not report the change. Their caller calls
 * p3l_page_changed() for the whole page; a commit logs only the differences (transaction.c). */

/* Takes space from the best fitting hole, or after `end`, and zeroes it. Returns its offset, or
 * 0 if there is no space. */
uint32_t p3l_piece_add(p3l_page *page, p3l_type_id type, uint32_t bytes);
/* Removes a piece, and merges it with adjacent holes. */
void p3l_piece_remove(p3l_page *page, uint32_t offset);
/* Changes the type of a piece; its generation stays. */
void p3l_piece_set_type(p3l_page *page, uint32_t index, p3l_type_id type);
/* The largest object that p3l_piece_add() could place now; 0: none. */
uint32_t p3l_page_room(const p3l_object_page *page);

/* NULL, or the invariant that a page violates, worded as the end of a sentence ("page 7 ...").
 * Works for pages of any use. A page comes from a file, so all its contents are checked. */
const char *p3l_data_page_fault(const p3l_page *page);

#endif
