/*
 * Copies an object from its page into memory of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "arms.h"
#include "guard.h"
#include "page_copies.h"
#include "pool_frames.h"
#include "residency_load.h"
#include "slots.h"
#include "store.h"
#include "transaction_cards.h"
#include "types.h"
#include "unread.h"

/* Objects that an upgrade made larger than this get segments of their own. */
#define ARENA_BYTES (P3L_SEGMENT_BYTES / 16)

static p3l_code no_memory(const p3l_store *store, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to make an object resident", store->path);
}

static uint64_t rounded(uint64_t bytes) {
  return (bytes + P3L_GRANULE - 1) / P3L_GRANULE * P3L_GRANULE;
}

/* ---- upgrades ---- */

_Thread_local bool p3l_upgrading;

typedef struct upgrade {
  p3l_upgrade function; /* NULL: the object has the program's layout already */
  p3l_type_id to;
  const p3l_stored_type *from_type, *to_type;
  uint64_t count; /* number of instances of an array; 1 for an object */
  uint64_t bytes; /* length of all instances in the new layout, rounded up */
} upgrade;

static p3l_code find_upgrade(const p3l_store *store, p3l_type_id type, uint64_t bytes,
                             upgrade *upgrade, p3l_error *error) {
  *upgrade = (struct upgrade){.to = type, .count = 1, .bytes = bytes};
  if (!store->upgrades || !p3l_types_upgrade(store, type, &upgrade->to, &upgrade->function))
    return P3L_OK;
  upgrade->from_type = p3l_types_of(store, type);
  upgrade->to_type = p3l_types_of(store, upgrade->to);
  /* An object has no count: the remainder from rounding is less than an instance, or zeros that
   * are upgraded like instances. An array has a byte after its end, and keeps one. */
  upgrade->count = upgrade->from_type->union_count > 0
                       ? p3l_type_elements(upgrade->from_type, bytes)
                       : (bytes - 1) / upgrade->from_type->bytes;
  if (upgrade->count == 0 && bytes == upgrade->from_type->bytes) upgrade->count = 1;
  if (upgrade->count == 0)
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: an object of type %s has %llu bytes, less than the type's %u; restore the "
                    "store from a copy",
                    store->path, upgrade->from_type->name, (unsigned long long)bytes,
                    upgrade->from_type->bytes);
  if (__builtin_mul_overflow(upgrade->count, (uint64_t)upgrade->to_type->bytes, &upgrade->bytes) ||
      upgrade->bytes > p3l_persistent_memory.bytes)
    return no_memory(store, error);
  uint64_t one = upgrade->from_type->bytes + p3l_arm_bytes(upgrade->from_type, 1);
  bool array = upgrade->count > 1 || bytes > rounded(one);
  uint64_t arms = p3l_arm_bytes(upgrade->to_type, upgrade->count);
  upgrade->bytes = rounded(upgrade->bytes + array + arms);
  return P3L_OK;
}

static p3l_code run_upgrade(p3l_store *store, const upgrade *upgrade, const uint8_t *old_bytes,
                            uint8_t *new_bytes, p3l_error *error) {
  size_t old_size = upgrade->from_type->bytes, new_size = upgrade->to_type->bytes;
  bool done = true;
  p3l_upgrading = true;
  for (uint64_t at = 0; at < upgrade->count && done; at++)
    done = upgrade->function(old_bytes + at * old_size, old_size, upgrade->from_type->version,
                             new_bytes + at * new_size, new_size);
  p3l_upgrading = false;
  if (!done)
    return p3l_fail(error, P3L_WRONG_TYPE,
                    "%s: the program's upgrade of type %s from version %u to %u failed; the store "
                    "is as it was. Fix the upgrade, or use the program that wrote the object",
                    store->path, upgrade->to_type->name, upgrade->from_type->version,
                    upgrade->to_type->version);
  store->statistics.objects_upgraded++;
  return p3l_arms_upgraded(store, upgrade->to, new_bytes, upgrade->bytes, error);
}

/* ---- objects of pages ---- */

p3l_code p3l_load_object(p3l_store *store, p3l_page_state *state, p3l_address address,
                         const p3l_object_page *page, const p3l_piece *piece, uint8_t **memory,
                         p3l_error *error) {
  const uint8_t *bytes = (const uint8_t *)page + piece->offset;
  if (p3l_types_of(store, piece->type) == NULL)
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: page %llu, offset %u: an object of type %u, which the store does not "
                    "have; restore it from a copy",
                    store->path, (unsigned long long)(address.byte / P3L_PAGE_SIZE), piece->offset,
                    piece->type);
  upgrade upgrade;
  p3l_code code = find_upgrade(store, piece->type, piece->bytes, &upgrade, error);
  if (code != P3L_OK) return code;
  if (!p3l_copies_reserve(store, state)) return no_memory(store, error);

  p3l_resident resident = {
      .address = address.byte, .type = upgrade.to, .generation = piece->generation};
  bool upgraded = upgrade.function != NULL;
  uint8_t *scratch = NULL;
  if (upgraded) {
    /* Upgraded into separate memory, so that a failure leaves nothing in the arena. */
    resident.flags = P3L_RESIDENT_UPGRADED;
    resident.stored = piece->bytes / P3L_GRANULE;
    scratch = calloc(1, upgrade.bytes);
    if (scratch == NULL) return no_memory(store, error);
    code = run_upgrade(store, &upgrade, bytes, scratch, error);
    bytes = scratch;
  }
  p3l_place place = {0};
  if (code == P3L_OK && upgrade.bytes > ARENA_BYTES)
    code = p3l_large_take(store, resident, upgrade.bytes, piece->bytes, &place.memory, error);
  else if (code == P3L_OK) {
    resident.granules = (uint16_t)(upgrade.bytes / P3L_GRANULE);
    code = p3l_arena_add(store, resident, &place, error);
  }
  if (code == P3L_OK) {
    p3l_guard_begin(place.memory, upgrade.bytes);
    memcpy(place.memory, bytes, upgrade.bytes);
    p3l_guard_end(place.memory, upgrade.bytes);
    p3l_copies_put(state, piece->offset / P3L_GRANULE, place.memory);
    state->discovered++;
    store->statistics.objects_copied++;
    if (store->changes != NULL) p3l_changes_arrived(store, place.memory, upgrade.bytes);
    *memory = place.memory;
  }
  free(scratch);
  return code;
}

/* ---- large objects ---- */

static p3l_code take_large(p3l_store *store, p3l_resident object, uint64_t bytes, uint64_t stored,
                           bool unread, uint8_t **memory, p3l_error *error) {
  /* One byte more, so that the address of its end belongs to it alone. */
  uint64_t segments = bytes / P3L_SEGMENT_BYTES + 1;
  p3l_segment *segment;
  if (segments > UINT32_MAX - 1) return no_memory(store, error);
  p3l_code code = unread ? p3l_segment_take_unread(store, (uint32_t)segments, &segment, error)
                         : p3l_segment_take(store, P3L_LARGE, (uint32_t)segments, &segment, error);
  if (code != P3L_OK) return code;
  segment->large.object = object;
  segment->large.bytes = bytes;
  segment->large.stored = stored;
  p3l_segment_grew(segment, bytes);
  *memory = segment->memory;
  return P3L_OK;
}

p3l_code p3l_large_take(p3l_store *store, p3l_resident object, uint64_t bytes, uint64_t stored,
                        uint8_t **memory, p3l_error *error) {
  return take_large(store, object, bytes, stored, false, memory, error);
}

static uint64_t pages_of(uint64_t bytes) { return (bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART; }

static p3l_code not_its_page(const p3l_store *store, uint64_t number, uint64_t first,
                             p3l_error *error) {
  return p3l_fail(
      error, P3L_CORRUPT,
      "%s: page %llu is not part of the large object of page %llu; restore the store from a copy",
      store->path, (unsigned long long)number, (unsigned long long)first);
}

static bool is_large_page(const p3l_page *page, uint64_t first) {
  const p3l_large_page *large = (const p3l_large_page *)page;
  return page->kind == P3L_PAGE_DATA && large->use == P3L_USE_LARGE && large->first == first &&
         p3l_data_page_fault(page) == NULL;
}

static p3l_code read_run(p3l_store *store, p3l_large_part *part, uint64_t at, size_t run,
                         p3l_page *buffer, p3l_error *error) {
  p3l_code code =
      p3l_pager_read_run(store->pager, (p3l_page_number){part->first + at}, run, buffer, error);
  part->reads++;
  part->pages += run;
  for (size_t i = 0; i < run && code == P3L_OK; i++)
    if (!is_large_page(&buffer[i], part->first) ||
        ((const p3l_large_page *)&buffer[i])->bytes != part->bytes)
      code = not_its_page(store, part->first + at + i, part->first, error);
  return code;
}

p3l_code p3l_large_read(p3l_store *store, p3l_large_part *part, p3l_page *buffer, uint8_t *memory,
                        p3l_error *error) {
  uint64_t end = pages_of(part->to);
  for (uint64_t at = part->from / P3L_LARGE_PART; at < end;) {
    size_t run = end - at < P3L_LARGE_RUN ? (size_t)(end - at) : P3L_LARGE_RUN;
    p3l_code code = read_run(store, part, at, run, buffer, error);
    if (code != P3L_OK) return code;
    for (size_t i = 0; i < run; i++, at++) {
      uint64_t page_from = at * P3L_LARGE_PART, from = page_from, to = page_from + P3L_LARGE_PART;
      if (from < part->from) from = part->from;
      if (to > part->to) to = part->to;
      uint8_t *there = memory + (from - part->from);
      p3l_guard_begin(there, to - from);
      memcpy(there, ((const p3l_large_page *)&buffer[i])->part + (from - page_from), to - from);
      p3l_guard_end(there, to - from);
    }
  }
  return P3L_OK;
}

bool p3l_large_note(p3l_store *store, uint64_t first, uint64_t bytes, uint8_t *memory) {
  for (uint64_t at = 0; at < pages_of(bytes); at++) {
    p3l_page_state *state = p3l_page_state_of(store, (p3l_page_number){first + at});
    if (state == NULL && at == 0) return false;
    if (state == NULL) continue;
    if (state->frame != NULL) p3l_pool_drop(store, state); /* frame of the page's former content */
    p3l_reused_put(state); /* because only its first page records the generation */
    state->known = true;
    state->use = P3L_USE_LARGE;
    state->large.first = first;
    state->large.memory = at == 0 ? memory : NULL;
  }
  return true;
}

static p3l_code load_large(p3l_store *store, p3l_page_number first, p3l_page *buffer,
                           uint8_t **memory, uint64_t *forward, p3l_error *error) {
  p3l_code code = p3l_pager_read(store->pager, first, buffer, error);
  if (code != P3L_OK) return code;
  if (!is_large_page(buffer, first.n)) return not_its_page(store, first.n, first.n, error);
  const p3l_large_page *head = (const p3l_large_page *)buffer;
  uint64_t bytes = head->bytes;
  p3l_type_id type = head->type;
  if (type == P3L_FORWARD) {
    memcpy(forward, head->part, sizeof(*forward));
    *memory = NULL;
    return P3L_OK;
  }
  if (pages_of(bytes) > p3l_pager_page_count(store->pager) - first.n ||
      p3l_types_of(store, type) == NULL)
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: page %llu: a large object of a length or a type that cannot be; restore "
                    "the store from a copy",
                    store->path, (unsigned long long)first.n);
  upgrade upgrade;
  code = find_upgrade(store, type, bytes, &upgrade, error);
  if (code != P3L_OK) return code;

  bool upgraded = upgrade.function != NULL;
  p3l_resident object = {.address = first.n * P3L_PAGE_SIZE,
                         .type = upgrade.to,
                         .flags = upgraded ? P3L_RESIDENT_UPGRADED : 0,
                         .generation = buffer->generation};
  uint8_t *object_memory = NULL, *old_bytes = NULL, *new_bytes = NULL;
  bool unread = !upgraded && p3l_unread_wanted(store, p3l_types_of(store, type), bytes);
  if (unread) p3l_unread_catch();
  code = take_large(store, object, upgrade.bytes, bytes, unread, &object_memory, error);
  if (code != P3L_OK) return code;
  if (upgraded) {
    /* Both are ordinary memory: see p3l_upgrade in p3l.h. */
    old_bytes = malloc(bytes);
    new_bytes = calloc(1, upgrade.bytes);
    if (old_bytes == NULL || new_bytes == NULL) code = no_memory(store, error);
  }
  if (code == P3L_OK && !unread) {
    p3l_large_part all = {first.n, bytes, 0, bytes, 0, 0};
    code = p3l_large_read(store, &all, buffer, upgraded ? old_bytes : object_memory, error);
    store->statistics.reads += all.reads;
    store->statistics.pages_read += all.pages;
  }
  if (code == P3L_OK && upgraded) {
    code = run_upgrade(store, &upgrade, old_bytes, new_bytes, error);
    p3l_guard_begin(object_memory, upgrade.bytes);
    if (code == P3L_OK) memcpy(object_memory, new_bytes, upgrade.bytes);
    p3l_guard_end(object_memory, upgrade.bytes);
  }
  if (code == P3L_OK && !p3l_large_note(store, first.n, bytes, object_memory))
    code = no_memory(store, error);
  free(old_bytes);
  free(new_bytes);
  if (code != P3L_OK) {
    p3l_segment_release(p3l_segment_of(object_memory));
    return code;
  }
  store->statistics.objects_copied++;
  *memory = object_memory;
  return P3L_OK;
}

p3l_code p3l_load_large(p3l_store *store, p3l_page_number first, uint8_t **memory,
                        uint64_t *forward, p3l_error *error) {
  p3l_page *buffer = malloc(P3L_LARGE_RUN * sizeof(*buffer));
  if (buffer == NULL) return no_memory(store, error);
  p3l_code code = load_large(store, first, buffer, memory, forward, error);
  free(buffer);
  return code;
}
