/*
 * Hints for the pages that the next pointers of an array lead to. soon.h has the invariants.
 */
#include "soon.h"

#include "pager.h"
#include "residency_known.h"
#include "segment.h"
#include "store.h"
#include "types.h"

/* Slots of an array to read ahead: more gains nothing on a disk. */
#define AHEAD 4u

static struct p3l_soon_page *entry_of(p3l_soon *soon, uint64_t page) {
  return &soon->pages[page % P3L_SOON_PAGES];
}

static struct p3l_soon_type *type_entry(p3l_soon *soon, p3l_type_id type) {
  return &soon->types[type % P3L_SOON_TYPES];
}

bool p3l_soon_came(p3l_soon *soon, uint64_t page) {
  struct p3l_soon_page *entry = entry_of(soon, page);
  if (entry->page != page) return false;
  struct p3l_soon_type *type = type_entry(soon, entry->type);
  if (type->used < type->given) type->used++;
  entry->page = 0;
  return true;
}

/* True if hints for slots of the type are worthwhile. */
static bool pays(struct p3l_soon_type *type) {
  if (type->rest > 0) {
    type->rest--;
    return false;
  }
  if (type->given < P3L_SOON_JUDGED) return true;
  bool used = 2 * type->used >= type->given;
  type->given /= 2;
  type->used /= 2;
  if (used) return true;
  *type = (struct p3l_soon_type){.rest = P3L_SOON_REST};
  return false;
}

static void hint(p3l_store *store, p3l_soon *soon, p3l_type_id type, uint64_t value,
                 uint64_t size) {
  uint64_t address = value & P3L_ADDRESS_MASK, page = address / P3L_PAGE_SIZE;
  if (!p3l_surrogate_possible(value)) return;
  uint64_t first = page & ~(size - 1);
  struct p3l_soon_page *entry = entry_of(soon, first);
  if (entry->page == first || p3l_residency_has(store, (p3l_address){address})) return;
  *entry = (struct p3l_soon_page){first, type};
  type_entry(soon, type)->given++;
  p3l_pager_soon(store->pager, (p3l_page_number){first}, size);
}

/* Number of slots of the field after the one at `offset` of an object. */
static uint32_t slots_behind(const p3l_stored_type *type, uint64_t offset) {
  uint64_t inside = offset % type->bytes;
  for (uint32_t at = 0; at < type->field_count; at++) {
    const struct p3l_stored_field *field = &type->fields[at];
    if (inside >= field->offset && inside - field->offset < field->count * sizeof(uint64_t))
      return field->count - 1 - (uint32_t)((inside - field->offset) / sizeof(uint64_t));
  }
  return 0;
}

void p3l_soon_neighbours(p3l_store *store, p3l_soon *soon, uint64_t first, uint64_t count,
                         uint64_t size) {
  p3l_place place;
  if (store->slot == NULL || !p3l_place_of(store->slot, &place)) return;
  const p3l_stored_type *type = p3l_types_of(store, place.type);
  uint64_t offset = (uint64_t)((const uint8_t *)store->slot - place.memory);
  if (type == NULL || offset % sizeof(uint64_t) != 0 || offset >= place.bytes) return;
  uint64_t left = (place.bytes - offset) / sizeof(uint64_t) - 1;
  uint32_t behind = slots_behind(type, offset);
  if (behind > left) behind = (uint32_t)left;
  if (behind > AHEAD) behind = AHEAD;
  if (behind == 0 || !pays(type_entry(soon, place.type))) return;
  /* The page that the thread waits for comes first. */
  p3l_pager_soon(store->pager, (p3l_page_number){first}, count);
  const uint64_t *slots = store->slot;
  /* Reading a stretch may fail, which must not happen while the lock is held. */
  for (uint32_t at = 1; at <= behind && p3l_is_read(place.segment, offset + at * sizeof(uint64_t));
       at++)
    hint(store, soon, place.type, __atomic_load_n(&slots[at], __ATOMIC_RELAXED), size);
}
