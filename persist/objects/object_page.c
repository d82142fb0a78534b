/* Finds, adds and removes pieces of a page. page_fault.c checks pages. */
#include "object_page.h"

#include <string.h>

enum { TYPES = P3L_PAGE_SIZE / sizeof(p3l_type_id), BITS = P3L_PAGE_SIZE / P3L_GRANULE };

static p3l_object_page *view(p3l_page *page) { return (p3l_object_page *)(void *)page; }

/* The type ids grow down from the page's end: the id of piece k is types[TYPES - 1 - k]. */
static uint16_t *type_ids(p3l_object_page *page) { return (uint16_t *)(void *)page; }

static uint16_t id_of(const p3l_object_page *page, uint32_t index) {
  return ((const uint16_t *)(const void *)page)[TYPES - 1 - index];
}

p3l_type_id p3l_piece_type(const p3l_object_page *page, uint32_t index) {
  return p3l_id_type(id_of(page, index));
}

static void set_id(p3l_page *page, uint32_t index, p3l_type_id type, uint8_t generation) {
  type_ids(view(page))[TYPES - 1 - index] = p3l_id_make(type, generation);
}

void p3l_piece_set_type(p3l_page *page, uint32_t index, p3l_type_id type) {
  set_id(page, index, type, p3l_id_generation(id_of(view(page), index)));
}

static p3l_piece piece_of(uint32_t start, uint32_t end, uint16_t id, uint32_t index) {
  return (p3l_piece){.offset = (uint16_t)start,
                     .bytes = (uint16_t)(end - start),
                     .type = p3l_id_type(id),
                     .index = (uint16_t)index,
                     .generation = p3l_id_generation(id)};
}

void p3l_object_page_init(p3l_page *page) {
  memset(page->payload, 0, sizeof(page->payload));
  p3l_object_page *objects = view(page);
  objects->use = P3L_USE_OBJECTS;
  objects->end = P3L_OBJECTS_BEGIN;
}

/* ---- bits ---- */

static void set_start(p3l_object_page *page, uint32_t offset, bool starts) {
  uint32_t bit = offset / P3L_GRANULE;
  uint64_t mask = UINT64_C(1) << bit % 64;
  page->starts[bit / 64] = starts ? page->starts[bit / 64] | mask : page->starts[bit / 64] & ~mask;
}

/* Offset of the last start at or before `offset`, or 0. *index: the number of starts before it. */
static uint32_t start_before(const p3l_object_page *page, uint32_t offset, uint32_t *index) {
  uint32_t bit = offset / P3L_GRANULE, word = bit / 64, before = 0;
  uint64_t bits = page->starts[word] & ~UINT64_C(0) >> (63 - bit % 64);
  for (uint32_t w = 0; w < word; w++) before += (uint32_t)__builtin_popcountll(page->starts[w]);
  while (bits == 0 && word > 0) {
    bits = page->starts[--word];
    before -= (uint32_t)__builtin_popcountll(bits);
  }
  if (bits == 0) return 0;
  *index = before + (uint32_t)__builtin_popcountll(bits) - 1;
  return (word * 64 + 63 - (uint32_t)__builtin_clzll(bits)) * P3L_GRANULE;
}

/* Offset of the first start after `offset`, or `end`. */
static uint32_t start_behind(const p3l_object_page *page, uint32_t offset) {
  uint32_t bit = offset / P3L_GRANULE + 1;
  if (bit >= BITS) return page->end;
  uint32_t word = bit / 64;
  uint64_t bits = page->starts[word] & ~UINT64_C(0) << bit % 64;
  while (bits == 0 && ++word < BITS / 64) bits = page->starts[word];
  return bits == 0 ? page->end : (word * 64 + (uint32_t)__builtin_ctzll(bits)) * P3L_GRANULE;
}

/* ---- pieces ---- */

bool p3l_piece_at(const p3l_object_page *page, uint32_t offset, p3l_piece *piece) {
  uint32_t index = 0;
  if (offset < P3L_OBJECTS_BEGIN || offset >= page->end) return false;
  uint32_t start = start_before(page, offset, &index);
  if (start == 0) return false;
  *piece = piece_of(start, start_behind(page, start), id_of(page, index), index);
  return true;
}

bool p3l_piece_next(const p3l_object_page *page, p3l_piece *piece) {
  bool first = piece->offset == 0;
  uint32_t start = first ? P3L_OBJECTS_BEGIN : (uint32_t)piece->offset + piece->bytes;
  uint32_t index = first ? 0 : piece->index + 1u;
  if (start >= page->end) return false;
  *piece = piece_of(start, start_behind(page, start), id_of(page, index), index);
  return true;
}

static uint32_t tail_room(const p3l_object_page *page, uint32_t more_pieces) {
  uint32_t taken = page->end + (uint32_t)sizeof(p3l_type_id) * (page->count + more_pieces);
  return taken >= P3L_PAGE_SIZE ? 0 : P3L_PAGE_SIZE - taken;
}

/* Inserts the type id of a new piece at this index; there is space for it. */
static void insert_type(p3l_object_page *page, uint32_t index, p3l_type_id type,
                        uint8_t generation) {
  uint16_t *ids = type_ids(page);
  uint32_t lowest = TYPES - page->count;
  if (index < page->count) /* otherwise it is the last, the usual case */
    memmove(&ids[lowest - 1], &ids[lowest], (page->count - index) * sizeof(*ids));
  ids[TYPES - 1 - index] = p3l_id_make(type, generation);
  page->count++;
}

static void drop_type(p3l_object_page *page, uint32_t index) {
  uint16_t *ids = type_ids(page);
  uint32_t lowest = TYPES - page->count;
  memmove(&ids[lowest + 1], &ids[lowest], (page->count - index - 1) * sizeof(*ids));
  ids[lowest] = 0;
  page->count--;
}

/* Using a part of a hole needs one more type id. If there is no space for it, the object must
 * fit exactly. */
static bool fits(const p3l_object_page *page, const p3l_piece *hole, uint32_t bytes) {
  return hole->bytes == bytes || (hole->bytes > bytes && tail_room(page, 0) >= sizeof(p3l_type_id));
}

uint32_t p3l_piece_add(p3l_page *page, p3l_type_id type, uint32_t bytes) {
  p3l_object_page *objects = view(page);
  p3l_piece best = {0};
  if (bytes > P3L_SMALL_BYTES) return 0;
  bytes = bytes == 0 ? P3L_GRANULE : (bytes + P3L_GRANULE - 1) / P3L_GRANULE * P3L_GRANULE;
  if (objects->hole_bytes >= bytes)
    for (p3l_piece piece = {0}; p3l_piece_next(objects, &piece);)
      if (piece.type == P3L_HOLE && fits(objects, &piece, bytes) &&
          (best.offset == 0 || piece.bytes < best.bytes))
        best = piece;
  if (best.offset != 0) {
    set_id(page, best.index, type, (uint8_t)best.generation);
    objects->hole_bytes = (uint16_t)(objects->hole_bytes - bytes);
    if (best.bytes > bytes) {
      insert_type(objects, best.index + 1u, P3L_HOLE, (uint8_t)best.generation);
      set_start(objects, best.offset + bytes, true);
    }
    return best.offset;
  }
  if (tail_room(objects, 1) < bytes) return 0;
  uint32_t offset = objects->end;
  set_start(objects, offset, true);
  insert_type(objects, objects->count, type, (uint8_t)page->generation);
  objects->end = (uint16_t)(offset + bytes);
  return offset;
}

/* Merges hole `behind` into hole `before`. */
static void join(p3l_page *page, p3l_piece *before, const p3l_piece *behind) {
  before->generation =
      p3l_generation_later((uint8_t)before->generation, (uint8_t)behind->generation);
  before->bytes = (uint16_t)(before->bytes + behind->bytes);
  set_id(page, before->index, P3L_HOLE, (uint8_t)before->generation);
  set_start(view(page), behind->offset, false);
  drop_type(view(page), behind->index);
}

void p3l_piece_remove(p3l_page *page, uint32_t offset) {
  p3l_object_page *objects = view(page);
  p3l_piece piece, other;
  if (!p3l_piece_at(objects, offset, &piece) || piece.type == P3L_HOLE) return;
  memset((uint8_t *)page + piece.offset, 0, piece.bytes);
  piece.generation = p3l_generation_next((uint8_t)piece.generation);
  set_id(page, piece.index, P3L_HOLE, (uint8_t)piece.generation);
  objects->hole_bytes = (uint16_t)(objects->hole_bytes + piece.bytes);

  other = piece;
  if (p3l_piece_next(objects, &other) && other.type == P3L_HOLE) join(page, &piece, &other);
  if (piece.index > 0 && p3l_piece_at(objects, piece.offset - 1u, &other) &&
      other.type == P3L_HOLE) {
    join(page, &other, &piece);
    piece = other;
  }
  if (piece.offset + piece.bytes == objects->end) { /* becomes free space again */
    objects->hole_bytes = (uint16_t)(objects->hole_bytes - piece.bytes);
    objects->end = piece.offset;
    page->generation = p3l_generation_later((uint8_t)piece.generation, (uint8_t)page->generation);
    set_start(objects, piece.offset, false);
    drop_type(objects, piece.index);
  }
}

uint32_t p3l_page_room(const p3l_object_page *page) {
  uint32_t room = tail_room(page, 1) / P3L_GRANULE * P3L_GRANULE;
  if (page->hole_bytes > room)
    for (p3l_piece piece = {0}; p3l_piece_next(page, &piece);)
      if (piece.type == P3L_HOLE && piece.bytes > room) room = piece.bytes;
  return room;
}
