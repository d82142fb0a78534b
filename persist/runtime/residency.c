/*
 * From a surrogate to an address. residency.h has the picture and the invariants.
 */
#include "residency.h"

#include <string.h>

#include "page_copies.h"
#include "pool.h"
#include "pool_frames.h"
#include "residency_known.h"
#include "residency_load.h"
#include "residency_policy.h"
#include "store.h"

/* A chain of forwards grows by one with each upgrade that made the object larger; longer ones are a
 * circle. */
#define LONGEST_CHAIN 64

static p3l_code dangling(const p3l_store *store, p3l_address address, const char *what,
                         p3l_error *error) {
  return p3l_fail(error, P3L_DANGLING,
                  "%s: a pointer leads to page %llu, offset %llu, %s; the object it meant was "
                  "deleted, or the pointer was never one; p3l gc --dry-run lists all such pointers",
                  store->path, (unsigned long long)(address.byte / P3L_PAGE_SIZE),
                  (unsigned long long)(address.byte % P3L_PAGE_SIZE), what);
}

static p3l_code no_memory(const p3l_store *store, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to make an object resident", store->path);
}

/* A pointer while it is resolved. */
typedef struct lead {
  p3l_address address;
  uint8_t generation;
  bool again; /* it led to a forward and now has a new target */
} lead;

/* `surrogate` is the forward's target, `inside` the pointer's distance from the object's
 * beginning. */
static void lead_on(lead *lead, uint64_t surrogate, uint64_t inside) {
  lead->address.byte = p3l_surrogate_address(surrogate).byte + inside;
  lead->generation = p3l_surrogate_generation(surrogate);
  lead->again = true;
}

static uint64_t forward_target(const p3l_object_page *page, const p3l_piece *piece) {
  uint64_t surrogate;
  memcpy(&surrogate, (const uint8_t *)page + piece->offset, sizeof(surrogate));
  return surrogate;
}

static p3l_code other_object(const p3l_store *store, p3l_address address, p3l_error *error) {
  return dangling(store, address, "where another object is now", error);
}

/* Checks that the object found is the one that the pointer means. */
static p3l_code check_generation(const p3l_store *store, const lead *lead, const void *memory,
                                 p3l_error *error) {
  p3l_store *owner;
  uint64_t surrogate;
  bool meant = p3l_memory_surrogate(memory, &owner, &surrogate) &&
               p3l_surrogate_generation(surrogate) == lead->generation;
  return meant ? P3L_OK : other_object(store, lead->address, error);
}

/* Resolves a pointer to a large object, or to a byte within one. */
static p3l_code resolve_large(p3l_store *store, p3l_page_state *state, lead *lead, void **memory,
                              p3l_error *error) {
  p3l_page_number first = {state->large.first};
  p3l_page_state *head = p3l_page_state_of(store, first);
  if (head == NULL) return no_memory(store, error);
  uint8_t *begin = head->known && head->use == P3L_USE_LARGE ? head->large.memory : NULL;
  uint64_t inside = lead->address.byte - first.n * P3L_PAGE_SIZE;
  if (begin == NULL) {
    uint64_t forward;
    p3l_code code = p3l_load_large(store, first, &begin, &forward, error);
    if (code != P3L_OK) return code;
    if (begin == NULL) {
      lead_on(lead, forward, inside);
      return P3L_OK;
    }
  }
  p3l_place place;
  /* The end is a valid address, too: loops count up to it. */
  if (!p3l_place_of(begin, &place) || inside > place.bytes)
    return dangling(store, lead->address, "which is behind the end of a large object", error);
  *memory = begin + inside;
  return P3L_OK;
}

/* Resolves by reading the page itself. */
static p3l_code resolve_in_page(p3l_store *store, p3l_page_state *state, lead *lead,
                                const p3l_object_page *page, void **memory, p3l_error *error) {
  uint32_t offset = lead->address.byte % P3L_PAGE_SIZE;
  p3l_piece piece;
  bool found = p3l_piece_at(page, offset, &piece) && piece.type != P3L_HOLE;
  uint32_t inside = found ? offset - piece.offset : 0;
  if (!found || (inside != 0 && p3l_bit(state->copied, piece.offset / P3L_GRANULE))) {
    /* The object is copied, or was created in the transaction under way and is not in the page
     * yet. */
    bool upgraded;
    uint8_t *copy = p3l_copied_around(state, offset, &upgraded);
    if (copy == NULL || (!found && upgraded))
      return dangling(store, lead->address, "where no object is", error);
    *memory = copy;
    return P3L_OK;
  }
  if (piece.type == P3L_FORWARD) {
    if (piece.generation != lead->generation) return other_object(store, lead->address, error);
    lead_on(lead, forward_target(page, &piece), inside);
    return P3L_OK;
  }
  if (p3l_is_in_place(state, piece.offset / P3L_GRANULE)) {
    *memory = (uint8_t *)state->frame + offset;
    return P3L_OK;
  }
  uint8_t *begin;
  p3l_address first = {lead->address.byte - inside};
  p3l_code code = p3l_load_object(store, state, first, page, &piece, &begin, error);
  *memory = code == P3L_OK ? begin + inside : NULL;
  return code;
}

/* The piece that begins at `offset` of a page in the pool, without reading the page: all its
 * objects have one type. */
static bool piece_unseen(const p3l_page_state *state, uint32_t offset, p3l_piece *piece) {
  uint32_t granule = offset / P3L_GRANULE;
  if (state->type == P3L_HOLE || offset % P3L_GRANULE != 0 || !p3l_bit(state->starts, granule) ||
      !p3l_never_reused(state))
    return false;
  uint32_t end = p3l_bit_behind(state->starts, granule, state->end / P3L_GRANULE) * P3L_GRANULE;
  *piece = (p3l_piece){
      .offset = (uint16_t)offset, .bytes = (uint16_t)(end - offset), .type = state->type};
  return true;
}

/* For pointers that the first checks in p3l_resolve() did not resolve. */
static p3l_code resolve_slowly(p3l_store *store, p3l_page_state *state, lead *lead, void **memory,
                               p3l_error *error) {
  p3l_page_number number = {lead->address.byte / P3L_PAGE_SIZE};
  uint32_t offset = lead->address.byte % P3L_PAGE_SIZE;
  if (state->frame == NULL) {
    /* Before reading the page: does it lead into the middle of a copied object? */
    uint8_t *copy = p3l_copied_surely(state, offset);
    if (copy != NULL) {
      *memory = copy;
      return P3L_OK;
    }
  }
  if (!state->known || (state->use == P3L_USE_OBJECTS && state->frame == NULL)) {
    p3l_code code = p3l_pool_read(store, number, state, error);
    if (code != P3L_OK) return code;
  }
  if (state->use == P3L_USE_LARGE) return resolve_large(store, state, lead, memory, error);
  if (!state->adopted) {
    p3l_pool_asked(store, state);
    p3l_piece piece;
    if (!p3l_adopt(store, state) && piece_unseen(state, offset, &piece)) {
      uint8_t *begin = NULL;
      p3l_code code =
          p3l_load_object(store, state, lead->address, state->frame, &piece, &begin, error);
      *memory = begin;
      return code;
    }
    return resolve_in_page(store, state, lead, state->frame, memory, error);
  }
  p3l_piece piece;
  if (p3l_piece_at(state->frame, offset, &piece) && piece.type != P3L_HOLE &&
      piece.type != P3L_FORWARD && !p3l_is_in_place(state, piece.offset / P3L_GRANULE)) {
    /* It is copied; or it was, and the copy was evicted; or the page was freed and allocated
     * again by the transaction under way: the frame has the old content (invariant 1). */
    uint8_t *copy = p3l_copied_surely(state, offset);
    if (copy != NULL) {
      *memory = copy;
      return P3L_OK;
    }
    p3l_page page;
    p3l_code code = p3l_pager_read(store->pager, number, &page, error);
    if (code != P3L_OK) return code;
    store->statistics.pages_read++;
    store->statistics.reads++;
    if (p3l_page_use_of(&page) != P3L_USE_OBJECTS || p3l_data_page_fault(&page) != NULL)
      return dangling(store, lead->address, "where no object is any more", error);
    return resolve_in_page(store, state, lead, (const p3l_object_page *)&page, memory, error);
  }
  return resolve_in_page(store, state, lead, state->frame, memory, error);
}

/* The state of the page that a pointer leads to. */
static p3l_code state_of(p3l_store *store, p3l_address address, p3l_page_state **state,
                         p3l_error *error) {
  p3l_page_number number = {address.byte / P3L_PAGE_SIZE};
  if (number.n == 0 || address.byte >> P3L_ADDRESS_BITS != 0)
    return dangling(store, address, "which no object can have", error);
  *state = p3l_page_state_known(store, number);
  if (*state != NULL) return P3L_OK;
  /* Not for pages beyond the store: a wild pointer would allocate states up to it. */
  if (number.n >= p3l_pager_page_count(store->pager))
    return dangling(store, address, "behind the last page of the store", error);
  *state = p3l_page_state_of(store, number);
  return *state != NULL ? P3L_OK : no_memory(store, error);
}

p3l_code p3l_resolve(p3l_store *store, uint64_t surrogate, void **memory, p3l_error *error) {
  lead lead = {p3l_surrogate_address(surrogate), p3l_surrogate_generation(surrogate), false};
  if (store->lost)
    return p3l_fail(
        error, P3L_MISUSE,
        "%s: p3l_refresh() failed, and left no version to read; close the store and open "
        "it again",
        store->path);
  for (int hops = 0; hops <= LONGEST_CHAIN; hops++) {
    uint32_t offset = lead.address.byte % P3L_PAGE_SIZE, granule = offset / P3L_GRANULE;
    p3l_page_state *state;
    p3l_code code = state_of(store, lead.address, &state, error);
    if (code != P3L_OK) return code;
    lead.again = false;
    if (p3l_is_in_place(state, granule))
      *memory = (uint8_t *)state->frame + offset;
    else if (p3l_bit(state->copied, granule))
      *memory = (uint8_t *)p3l_copy_at(state, granule) + offset % P3L_GRANULE;
    else
      code = resolve_slowly(store, state, &lead, memory, error);
    if (code != P3L_OK) return code;
    if (lead.again) continue;
    if (lead.generation == 0 && p3l_never_reused(state)) return P3L_OK;
    return check_generation(store, &lead, *memory, error);
  }
  return p3l_fail(error, P3L_CORRUPT,
                  "%s: moved objects form a cycle through page %llu; restore the "
                  "store from a copy",
                  store->path, (unsigned long long)(lead.address.byte / P3L_PAGE_SIZE));
}

p3l_code p3l_residency_offer(p3l_store *store, p3l_page_number number, const p3l_page *page,
                             p3l_error *error) {
  p3l_page_state *state = p3l_page_state_of(store, number);
  if (state == NULL) return no_memory(store, error);
  if (state->frame != NULL || (state->known && state->use == P3L_USE_LARGE)) return P3L_OK;
  return p3l_pool_put(store, number, state, page, error);
}
