/* Takes and gives back space for objects, and keeps the list of pages with holes. */
#include "allocate.h"

#include <string.h>

/* Maximum number of pages on the list of holes that one allocation tries. */
enum { LOOKS = 4 };

static p3l_object_page *objects_of(p3l_page *page) { return (p3l_object_page *)(void *)page; }

static p3l_code corrupt_list(p3l_pager_transaction *transaction, uint64_t number,
                             p3l_error *error) {
  return p3l_fail(error, P3L_CORRUPT,
                  "%s: the list of pages with holes is broken at page %llu; restore the store from "
                  "a copy",
                  p3l_pager_path(p3l_pager_of(transaction)), (unsigned long long)number);
}

static void changed(p3l_pager_transaction *transaction, p3l_page *page) {
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
}

/* ---- the list of pages with holes ---- */

static bool worth_listing(const p3l_object_page *page) {
  uint32_t tail = P3L_PAGE_SIZE - page->end - page->count * (uint32_t)sizeof(p3l_type_id);
  return page->hole_bytes + tail >= P3L_LISTED_ROOM && p3l_page_room(page) >= P3L_USEFUL_ROOM;
}

/* Sets `previous` of the next page on the list. */
static p3l_code set_previous(p3l_pager_transaction *transaction, uint64_t number, uint64_t was,
                             uint64_t previous, p3l_error *error) {
  p3l_page *page;
  if (number == 0) return P3L_OK;
  p3l_code code = p3l_data_page_for_writing(transaction, number, P3L_USE_OBJECTS, &page, error);
  if (code != P3L_OK) return code;
  if (objects_of(page)->previous != was) return corrupt_list(transaction, number, error);
  objects_of(page)->previous = previous;
  changed(transaction, page);
  return P3L_OK;
}

static p3l_code list_page(p3l_pager_transaction *transaction, p3l_catalog *catalog, p3l_page *page,
                          p3l_error *error) {
  uint64_t number = page->number, head = catalog->holes;
  p3l_code code = set_previous(transaction, head, head, number, error);
  if (code != P3L_OK) return code;
  page->next = head;
  objects_of(page)->previous = number;
  changed(transaction, page);
  catalog->holes = number;
  return p3l_catalog_write(transaction, catalog, error);
}

static p3l_code unlist_page(p3l_pager_transaction *transaction, p3l_catalog *catalog,
                            p3l_page *page, p3l_error *error) {
  uint64_t number = page->number, next = page->next, previous = objects_of(page)->previous;
  p3l_code code;
  if (previous == number) {
    if (catalog->holes != number) return corrupt_list(transaction, number, error);
    catalog->holes = next;
    code = p3l_catalog_write(transaction, catalog, error);
    if (code == P3L_OK) code = set_previous(transaction, next, number, next, error);
  } else {
    p3l_page *before;
    code = p3l_data_page_for_writing(transaction, previous, P3L_USE_OBJECTS, &before, error);
    if (code != P3L_OK) return code;
    if (before->next != number) return corrupt_list(transaction, number, error);
    before->next = next;
    changed(transaction, before);
    code = set_previous(transaction, next, number, previous, error);
  }
  page->next = 0;
  objects_of(page)->previous = 0;
  changed(transaction, page);
  return code;
}

/* ---- taking ---- */

typedef struct wish {
  p3l_type_id type;
  uint32_t bytes;      /* as p3l_piece_add() expects it */
  p3l_address address; /* set once it is fulfilled */
} wish;

static void add_to(p3l_pager_transaction *transaction, p3l_page *page, wish *wish) {
  uint32_t offset = p3l_piece_add(page, wish->type, wish->bytes);
  if (offset == 0) return;
  changed(transaction, page);
  wish->address = (p3l_address){page->number * P3L_PAGE_SIZE + offset};
}

/* Tries to place the object on this page. Copies the page only if it has space. */
static p3l_code try_page(p3l_pager_transaction *transaction, uint64_t number, wish *wish,
                         p3l_error *error) {
  p3l_page *page = p3l_page_private(transaction, (p3l_page_number){number});
  if (page == NULL) {
    const p3l_page *seen;
    p3l_code code = p3l_data_page_seen(transaction, number, P3L_USE_OBJECTS, &seen, error);
    if (code != P3L_OK || p3l_page_room((const void *)seen) < wish->bytes) return code;
    code = p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, error);
    if (code != P3L_OK) return code;
  }
  add_to(transaction, page, wish);
  return P3L_OK;
}

/* `near` is only a hint and may be invalid. */
static p3l_code try_near(p3l_pager_transaction *transaction, p3l_address near, wish *wish,
                         p3l_error *error) {
  uint64_t number = near.byte / P3L_PAGE_SIZE;
  const p3l_page *seen;
  p3l_page *page = p3l_page_private(transaction, (p3l_page_number){number});
  if (page != NULL && page->kind == P3L_PAGE_DATA && objects_of(page)->use == P3L_USE_OBJECTS) {
    add_to(transaction, page, wish);
    return P3L_OK;
  }
  if (number == 0 || number >= p3l_transaction_page_count(transaction)) return P3L_OK;
  p3l_code code = p3l_page_seen(transaction, (p3l_page_number){number}, &seen, error);
  if (code != P3L_OK || seen->kind != P3L_PAGE_DATA ||
      ((const p3l_object_page *)(const void *)seen)->use != P3L_USE_OBJECTS)
    return code;
  return try_page(transaction, number, wish, error);
}

static p3l_code try_holes(p3l_pager_transaction *transaction, p3l_catalog *catalog, wish *wish,
                          p3l_error *error) {
  uint64_t number = catalog->holes;
  for (int look = 0; look < LOOKS && number != 0; look++) {
    const p3l_page *seen;
    p3l_page *page;
    p3l_code code = p3l_data_page_seen(transaction, number, P3L_USE_OBJECTS, &seen, error);
    if (code != P3L_OK) return code;
    uint64_t next = seen->next;
    bool full = p3l_page_room((const void *)seen) < P3L_USEFUL_ROOM;
    code = try_page(transaction, number, wish, error);
    if (code != P3L_OK || wish->address.byte != 0) return code;
    if (full) {
      code = p3l_data_page_for_writing(transaction, number, P3L_USE_OBJECTS, &page, error);
      if (code == P3L_OK) code = unlist_page(transaction, catalog, page, error);
      if (code != P3L_OK) return code;
    }
    number = next;
  }
  return P3L_OK;
}

/*
 * Adds a page, which will be filled from now on. The previous one goes on the list if much of it is
 * free.
 */
static p3l_code next_filled(p3l_pager_transaction *transaction, p3l_catalog *catalog, wish *wish,
                            p3l_error *error) {
  p3l_page_number number;
  p3l_page *page;
  uint64_t before = catalog->filled;
  p3l_code code = p3l_page_allocate(transaction, &number, &page, error);
  if (code != P3L_OK) return code;
  p3l_object_page_init(page);
  catalog->filled = number.n;
  code = p3l_catalog_write(transaction, catalog, error);
  add_to(transaction, page, wish);
  if (code != P3L_OK || before == 0) return code;
  const p3l_page *seen;
  code = p3l_data_page_seen(transaction, before, P3L_USE_OBJECTS, &seen, error);
  if (code != P3L_OK || !worth_listing((const void *)seen)) return code;
  code = p3l_data_page_for_writing(transaction, before, P3L_USE_OBJECTS, &page, error);
  if (code == P3L_OK && objects_of(page)->previous == 0)
    code = list_page(transaction, catalog, page, error);
  return code;
}

static p3l_code take_small(p3l_pager_transaction *transaction, p3l_address near, wish *wish,
                           p3l_error *error) {
  p3l_catalog catalog;
  p3l_code code = P3L_OK;
  if (near.byte != 0) code = try_near(transaction, near, wish, error);
  if (code != P3L_OK || wish->address.byte != 0) return code;
  code = p3l_catalog_seen(transaction, &catalog, error);
  if (code == P3L_OK && catalog.filled != 0)
    code = try_page(transaction, catalog.filled, wish, error);
  if (code == P3L_OK && wish->address.byte == 0)
    code = try_holes(transaction, &catalog, wish, error);
  if (code == P3L_OK && wish->address.byte == 0)
    code = next_filled(transaction, &catalog, wish, error);
  return code;
}

static p3l_code take_large(p3l_pager_transaction *transaction, p3l_type_id type, uint64_t bytes,
                           p3l_address *address, p3l_error *error) {
  uint64_t count = (bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART;
  p3l_page_number first;
  p3l_code code = p3l_page_allocate_run(transaction, count, &first, error);
  for (uint64_t i = 0; i < count && code == P3L_OK; i++) {
    p3l_page *page;
    code = p3l_page_for_writing(transaction, (p3l_page_number){first.n + i}, &page, error);
    if (code != P3L_OK) break;
    p3l_large_page *large = (void *)page;
    large->use = P3L_USE_LARGE;
    large->type = type;
    large->first = first.n;
    large->bytes = bytes;
    changed(transaction, page);
  }
  *address = (p3l_address){first.n * P3L_PAGE_SIZE};
  return code;
}

p3l_code p3l_room_take(p3l_pager_transaction *transaction, p3l_type_id type, uint64_t bytes,
                       p3l_address near, p3l_address *address, p3l_error *error) {
  if (type == P3L_HOLE || type == P3L_FORWARD)
    return p3l_fail(error, P3L_MISUSE, "%s: %u is not a type that an object can have",
                    p3l_pager_path(p3l_pager_of(transaction)), type);
  if (bytes >> (P3L_ADDRESS_BITS - 8) != 0)
    return p3l_fail(error, P3L_NO_SPACE, "%s: an object of %llu bytes is larger than stores can be",
                    p3l_pager_path(p3l_pager_of(transaction)), (unsigned long long)bytes);
  if (bytes > P3L_SMALL_BYTES) return take_large(transaction, type, bytes, address, error);
  /* Round up here, too, to compare with a page's free space. */
  uint32_t granules = bytes == 0 ? 1 : ((uint32_t)bytes + P3L_GRANULE - 1) / P3L_GRANULE;
  wish wish = {.type = type, .bytes = granules * P3L_GRANULE};
  p3l_code code = take_small(transaction, near, &wish, error);
  *address = wish.address;
  return code;
}

uint8_t p3l_room_generation(p3l_pager_transaction *transaction, p3l_address address) {
  const p3l_page *page =
      p3l_page_private(transaction, (p3l_page_number){address.byte / P3L_PAGE_SIZE});
  const p3l_object_page *objects = (const void *)page;
  p3l_piece piece;
  if (page == NULL) return 0;
  if (objects->use != P3L_USE_OBJECTS) return (uint8_t)page->generation;
  return p3l_piece_at(objects, (uint32_t)(address.byte % P3L_PAGE_SIZE), &piece) ? piece.generation
                                                                                 : 0;
}

/* ---- giving ---- */

static p3l_code dangling(p3l_pager_transaction *transaction, p3l_address address,
                         p3l_error *error) {
  return p3l_fail(error, P3L_DANGLING, "%s: no object begins at page %llu, byte %llu",
                  p3l_pager_path(p3l_pager_of(transaction)),
                  (unsigned long long)(address.byte / P3L_PAGE_SIZE),
                  (unsigned long long)(address.byte % P3L_PAGE_SIZE));
}

/*
 * Returns a writable copy of the page of the object that begins at `address`; for a small object
 * also its piece.
 */
static p3l_code page_of(p3l_pager_transaction *transaction, p3l_address address, p3l_page **page,
                        p3l_piece *piece, p3l_error *error) {
  uint64_t number = address.byte / P3L_PAGE_SIZE, offset = address.byte % P3L_PAGE_SIZE;
  const p3l_page *seen;
  if (number == 0 || number >= p3l_transaction_page_count(transaction))
    return dangling(transaction, address, error);
  p3l_code code = p3l_page_seen(transaction, (p3l_page_number){number}, &seen, error);
  if (code != P3L_OK) return code;
  if (seen->kind != P3L_PAGE_DATA) return dangling(transaction, address, error);
  code = p3l_data_page_for_writing(transaction, number, 0, page, error);
  if (code != P3L_OK) return code;
  const p3l_large_page *large = (const void *)*page;
  bool begins = false;
  if (large->use == P3L_USE_LARGE)
    begins = offset == 0 && large->first == number;
  else if (large->use == P3L_USE_OBJECTS)
    begins = p3l_piece_at((const void *)*page, (uint32_t)offset, piece) &&
             piece->offset == offset && piece->type != P3L_HOLE;
  return begins ? P3L_OK : dangling(transaction, address, error);
}

/* Page `i` of the large object that begins on `first`, as a writable copy. */
static p3l_code large_page(p3l_pager_transaction *transaction, const p3l_large_page *first,
                           uint64_t i, p3l_page **page, p3l_error *error) {
  p3l_code code =
      p3l_data_page_for_writing(transaction, first->first + i, P3L_USE_LARGE, page, error);
  if (code != P3L_OK) return code;
  const p3l_large_page *large = (const void *)*page;
  if (large->first != first->first || large->bytes != first->bytes || large->type != first->type)
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: pages %llu and %llu are of one object and do not agree; restore the store "
                    "from a copy",
                    p3l_pager_path(p3l_pager_of(transaction)), (unsigned long long)first->first,
                    (unsigned long long)(first->first + i));
  return P3L_OK;
}

/* From the last page to the first, so that the free list has them in ascending order. */
static p3l_code give_large(p3l_pager_transaction *transaction, p3l_page *page, p3l_error *error) {
  p3l_large_page first = *(p3l_large_page *)(void *)page;
  p3l_code code = P3L_OK;
  for (uint64_t i = (first.bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART;
       i-- > 0 && code == P3L_OK;) {
    code = large_page(transaction, &first, i, &page, error);
    if (code == P3L_OK) page->generation = p3l_generation_next((uint8_t)page->generation);
    if (code == P3L_OK)
      code = p3l_page_release(transaction, (p3l_page_number){first.first + i}, error);
  }
  return code;
}

static p3l_code give_small(p3l_pager_transaction *transaction, p3l_page *page, uint32_t offset,
                           p3l_error *error) {
  p3l_catalog catalog;
  p3l_code code = p3l_catalog_seen(transaction, &catalog, error);
  if (code != P3L_OK) return code;
  p3l_piece_remove(page, offset);
  changed(transaction, page);
  bool listed = objects_of(page)->previous != 0;
  if (objects_of(page)->count > 0) {
    if (listed || page->number == catalog.filled || !worth_listing(objects_of(page))) return P3L_OK;
    return list_page(transaction, &catalog, page, error);
  }
  if (listed) code = unlist_page(transaction, &catalog, page, error);
  if (code == P3L_OK && catalog.filled == page->number) {
    catalog.filled = 0;
    code = p3l_catalog_write(transaction, &catalog, error);
  }
  return code == P3L_OK ? p3l_page_release(transaction, (p3l_page_number){page->number}, error)
                        : code;
}

/* The surrogate at the beginning of a forward. */
static p3l_address target_of(const uint8_t *bytes) {
  uint64_t surrogate;
  memcpy(&surrogate, bytes, sizeof(surrogate));
  return (p3l_address){surrogate & ~UINT64_C(0) >> (64 - P3L_ADDRESS_BITS)};
}

/* *next: the object's new address if it has moved, otherwise 0. */
static p3l_code give_piece(p3l_pager_transaction *transaction, p3l_address address,
                           p3l_address *next, p3l_error *error) {
  p3l_page *page;
  p3l_piece piece;
  *next = (p3l_address){0};
  p3l_code code = page_of(transaction, address, &page, &piece, error);
  if (code == P3L_OK) code = p3l_format_raise(transaction, error);
  if (code != P3L_OK) return code;
  const p3l_large_page *large = (const void *)page;
  if (large->use == P3L_USE_LARGE) {
    if (large->type == P3L_FORWARD) *next = target_of(large->part);
    return give_large(transaction, page, error);
  }
  if (piece.type == P3L_FORWARD) *next = target_of((const uint8_t *)page + piece.offset);
  return give_small(transaction, page, piece.offset, error);
}

p3l_code p3l_room_give_piece(p3l_pager_transaction *transaction, p3l_address address,
                             p3l_error *error) {
  return give_piece(transaction, address, &address, error);
}

p3l_code p3l_room_give(p3l_pager_transaction *transaction, p3l_address address, p3l_error *error) {
  p3l_code code;
  /* A chain of forwards gets shorter with each step; a cycle ends at a hole. */
  do code = give_piece(transaction, address, &address, error);
  while (code == P3L_OK && address.byte != 0);
  return code;
}

p3l_code p3l_room_forward(p3l_pager_transaction *transaction, p3l_address from, p3l_address to,
                          p3l_error *error) {
  p3l_page *page;
  p3l_piece piece;
  uint64_t surrogate = p3l_surrogate_make(to, p3l_room_generation(transaction, to));
  p3l_code code = page_of(transaction, from, &page, &piece, error);
  if (code != P3L_OK) return code;
  if (((p3l_object_page *)(void *)page)->use == P3L_USE_OBJECTS) {
    memset((uint8_t *)page + piece.offset, 0, piece.bytes);
    memcpy((uint8_t *)page + piece.offset, &surrogate, sizeof(surrogate));
    p3l_piece_set_type(page, piece.index, P3L_FORWARD);
    changed(transaction, page);
    return P3L_OK;
  }
  p3l_large_page first = *(p3l_large_page *)(void *)page;
  for (uint64_t i = 0; i * P3L_LARGE_PART < first.bytes; i++) {
    code = large_page(transaction, &first, i, &page, error);
    if (code != P3L_OK) return code;
    p3l_large_page *large = (void *)page;
    large->type = P3L_FORWARD;
    memset(large->part, 0, sizeof(large->part));
    if (i == 0) memcpy(large->part, &surrogate, sizeof(surrogate));
    changed(transaction, page);
  }
  return P3L_OK;
}
