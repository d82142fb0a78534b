/*
 * Checks the invariants of data pages. They come from a file that any program may have written:
 * a valid checksum only shows that a page is unchanged.
 */
#include <string.h>

#include "catalog.h"

static bool all_zero(const void *bytes, size_t length) {
  const uint8_t *at = bytes;
  return length == 0 || (at[0] == 0 && memcmp(at, at + 1, length - 1) == 0);
}

/* True if the piece of a moved object contains anything but the new address. */
static bool forward_wrong(const uint8_t *bytes, size_t length) {
  uint64_t surrogate;
  memcpy(&surrogate, bytes, sizeof(surrogate));
  return !p3l_surrogate_possible(surrogate) ||
         !all_zero(bytes + sizeof(surrogate), length - sizeof(surrogate));
}

static const char *pieces_fault(const p3l_object_page *page) {
  const uint8_t *bytes = (const uint8_t *)page;
  uint32_t holes = 0;
  p3l_type_id before = 1;
  /* Most pages have neither. Their ids show that without a walk along the pieces. */
  if (page->hole_bytes == 0 && !p3l_has_holes_or_forwards(page)) return NULL;
  for (p3l_piece piece = {0}; p3l_piece_next(page, &piece); before = piece.type) {
    if (piece.type == P3L_FORWARD && forward_wrong(bytes + piece.offset, piece.bytes))
      return "has a moved object without its new address";
    if (piece.type != P3L_HOLE) continue;
    if (before == P3L_HOLE) return "has two holes side by side";
    if (!all_zero(bytes + piece.offset, piece.bytes)) return "has a hole with something in it";
    holes += piece.bytes;
  }
  if (page->count > 0 && before == P3L_HOLE) return "ends with a hole";
  return holes == page->hole_bytes ? NULL : "miscounts its holes";
}

static const char *object_page_fault(const p3l_object_page *page) {
  uint32_t starts = 0, ids = page->count * (uint32_t)sizeof(p3l_type_id);
  if (page->end < P3L_OBJECTS_BEGIN || page->end % P3L_GRANULE != 0 ||
      page->end + ids > P3L_PAGE_SIZE)
    return "has objects where none can be";
  for (uint32_t w = 0; w < 4; w++) {
    /* The granules of this word that may be starts: from byte 80 up to `end`. */
    uint32_t from = P3L_OBJECTS_BEGIN / P3L_GRANULE, to = page->end / P3L_GRANULE;
    uint64_t allowed = 0;
    if (to > w * 64)
      allowed = to - w * 64 >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (to - w * 64)) - 1;
    if (w == 0) allowed &= ~UINT64_C(0) << from;
    if ((page->starts[w] & ~allowed) != 0) return "has objects that begin where none can be";
    starts += (uint32_t)__builtin_popcountll(page->starts[w]);
  }
  if (starts != page->count) return "miscounts its objects";
  bool first = page->starts[0] >> P3L_OBJECTS_BEGIN / P3L_GRANULE & 1;
  if (first != (page->end > P3L_OBJECTS_BEGIN)) return "has bytes that belong to no object";
  if (!all_zero((const uint8_t *)page + page->end, P3L_PAGE_SIZE - page->end - ids))
    return "has nonzero bytes in its free space";
  return pieces_fault(page);
}

static const char *large_page_fault(const p3l_large_page *page, uint64_t number) {
  if (page->zero != 0 || page->zero_too != 0) return "has a head that was never written so";
  if (page->bytes <= P3L_SMALL_BYTES || page->bytes >> P3L_ADDRESS_BITS != 0 || page->first == 0 ||
      page->type == P3L_HOLE)
    return "is of a large object that cannot be";
  uint64_t index = number - page->first, at = index * P3L_LARGE_PART;
  if (number < page->first || index > page->bytes / P3L_LARGE_PART || at >= page->bytes)
    return "belongs to a large object that does not contain it";
  if (page->bytes - at < P3L_LARGE_PART) {
    size_t used = (size_t)(page->bytes - at);
    if (!all_zero(page->part + used, P3L_LARGE_PART - used))
      return "has something behind the end of its object";
  }
  if (page->type == P3L_FORWARD && (index == 0 ? forward_wrong(page->part, P3L_LARGE_PART)
                                               : !all_zero(page->part, P3L_LARGE_PART)))
    return "has a moved object without its new address";
  return NULL;
}

const char *p3l_data_page_fault(const p3l_page *page) {
  if (page->kind != P3L_PAGE_DATA) return "is not a data page";
  const void *view = page;
  switch (((const p3l_object_page *)view)->use) {
    case P3L_USE_OBJECTS: return object_page_fault(view);
    case P3L_USE_LARGE: return large_page_fault(view, page->number);
    case P3L_USE_TYPES: return p3l_type_page_fault(view);
    case P3L_USE_ROOTS: return p3l_root_page_fault(view);
    default: return "has data of no known use";
  }
}
