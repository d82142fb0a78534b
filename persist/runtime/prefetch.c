/*
 * Prefetching: what is reachable from an object, breadth first, so that the pages of a whole level
 * are known before the first of them is read.
 *
 *   level 0   root
 *   level 1   targets of its slots      surrogates of a level ──> pages ──> p3l_read_many_by()
 *   level 2   targets of theirs, ...         │                                │
 *                                            └──> p3l_resolve(), in the order of the slots
 *
 * The order in which objects become resident is that in which a breadth-first search meets them, not
 * that in which their pages arrive: arenas lie in it afterwards.
 *
 * It is a hint: what cannot be had (a dangling slot, a page that cannot be read, no memory for the
 * books kept here) is left out, and told to whoever comes for it. At the store's memory limit it
 * ends.
 */
#include <stdlib.h>
#include <string.h>

#include "pool.h"
#include "read_many.h"
#include "store.h"

/* Objects by address of memory; open addressing, at most half full. */
typedef struct object_set {
  const uint8_t **entries;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
} object_set;

typedef struct object_list {
  const uint8_t **objects;
  size_t count, capacity;
} object_list;

/* A slot that holds a surrogate. */
typedef struct wish {
  uint64_t *slot;
  uint64_t surrogate;
} wish;

typedef struct prefetch {
  p3l_store *store;
  object_set seen;
  object_list level, next;
  wish *wishes;
  size_t wish_count, wish_capacity;
  p3l_page_number *pages; /* of a batch */
  size_t page_count, page_capacity;
  const p3l_place *place; /* of the object whose slots are looked at */
  bool over;              /* no memory, or the store's limit */
} prefetch;

/* ---- books ---- */

/* Room for one more; false: no memory. */
static bool room(void **array, size_t count, size_t *capacity, size_t each) {
  if (count < *capacity) return true;
  size_t more = *capacity == 0 ? 256 : *capacity * 2;
  void *grown = realloc(*array, more * each);
  if (grown == NULL) return false;
  *array = grown;
  *capacity = more;
  return true;
}

/* Objects begin at multiples of 16: the low bits say nothing. */
static size_t hash_of(const uint8_t *object) {
  return (size_t)(((uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

static size_t entry_of(const object_set *set, const uint8_t *object) {
  size_t at = hash_of(object) & (set->capacity - 1);
  while (set->entries[at] != NULL && set->entries[at] != object)
    at = (at + 1) & (set->capacity - 1);
  return at;
}

static bool grow_set(object_set *set) {
  object_set grown = {.capacity = set->capacity == 0 ? 1024 : set->capacity * 2,
                      .count = set->count};
  grown.entries = calloc(grown.capacity, sizeof(*grown.entries));
  if (grown.entries == NULL) return false;
  for (size_t i = 0; i < set->capacity; i++)
    if (set->entries[i] != NULL) grown.entries[entry_of(&grown, set->entries[i])] = set->entries[i];
  free(set->entries);
  *set = grown;
  return true;
}

/* Notes an object of the next level, unless it was met before. */
static void meet(prefetch *p, const uint8_t *object) {
  if (p->seen.count * 2 >= p->seen.capacity && !grow_set(&p->seen)) {
    p->over = true;
    return;
  }
  size_t at = entry_of(&p->seen, object);
  if (p->seen.entries[at] != NULL) return;
  if (!room((void **)&p->next.objects, p->next.count, &p->next.capacity, sizeof(object))) {
    p->over = true;
    return;
  }
  p->seen.entries[at] = object;
  p->seen.count++;
  p->next.objects[p->next.count++] = object;
}

/* ---- slots ---- */

static void look_at_slot(void *state, uint64_t offset) {
  prefetch *p = state;
  uint64_t *slot = (uint64_t *)(p->place->memory + offset);
  uint64_t value = __atomic_load_n(slot, __ATOMIC_RELAXED);
  p3l_place target;
  if (value == 0 || p->over) return;
  if ((value & P3L_SURROGATE_BIT) == 0) {
    if (p3l_place_of((void *)(uintptr_t)value, &target)) meet(p, target.memory);
    return;
  }
  if ((value & P3L_SURROGATE_ZEROS) != 0) return; /* (void *)-1 and the like */
  if (room((void **)&p->wishes, p->wish_count, &p->wish_capacity, sizeof(*p->wishes)))
    p->wishes[p->wish_count++] = (wish){slot, value};
  else
    p->over = true;
}

static void look_at_level(prefetch *p) {
  p->wish_count = 0;
  for (size_t i = 0; i < p->level.count && !p->over; i++) {
    p3l_place place;
    if (!p3l_place_of(p->level.objects[i], &place)) continue;
    const p3l_stored_type *type = p3l_types_of(p->store, place.type);
    p->place = &place;
    if (type != NULL && type->field_count > 0)
      p3l_type_slots(type, 0, place.bytes, look_at_slot, p);
  }
}

/* ---- pages ---- */

static p3l_address address_of(const wish *wish) {
  return (p3l_address){wish->surrogate & ~P3L_SURROGATE_BIT};
}

static int by_number(const void *a, const void *b) {
  uint64_t left = ((const p3l_page_number *)a)->n, right = ((const p3l_page_number *)b)->n;
  return left < right ? -1 : left > right;
}

/* The pages of wishes from `first` on that have to be read, as many as the pool takes well. Returns
 * the end of the batch. */
static size_t gather_batch(prefetch *p, size_t first, size_t frames) {
  size_t at = first;
  p->page_count = 0;
  pthread_mutex_lock(&p->store->slow);
  for (; at < p->wish_count && p->page_count < frames; at++) {
    p3l_address address = address_of(&p->wishes[at]);
    if (p3l_residency_has(p->store, address)) continue;
    p3l_page_number number = {address.byte / P3L_PAGE_SIZE};
    if (p->page_count > 0 && p->pages[p->page_count - 1].n == number.n) continue;
    if (!room((void **)&p->pages, p->page_count, &p->page_capacity, sizeof(*p->pages))) {
      p->over = true;
      break;
    }
    p->pages[p->page_count++] = number;
  }
  pthread_mutex_unlock(&p->store->slow);
  return at;
}

static p3l_code offer_page(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  prefetch *p = state;
  pthread_mutex_lock(&p->store->slow);
  p3l_code code = p3l_residency_offer(p->store, p->pages[index], page, error);
  p->store->statistics.pages_read++;
  pthread_mutex_unlock(&p->store->slow);
  return code;
}

/* What fails here is read again, and told, by p3l_resolve(). */
static void read_batch(prefetch *p) {
  if (p->page_count == 0) return;
  qsort(p->pages, p->page_count, sizeof(*p->pages), by_number);
  size_t unique = 1;
  for (size_t i = 1; i < p->page_count; i++)
    if (p->pages[i].n != p->pages[unique - 1].n) p->pages[unique++] = p->pages[i];
  p3l_read_counts counts;
  p3l_read_many_by(P3L_READ_BEST, p->store->pager, p->pages, unique, offer_page, p, &counts, NULL);
  pthread_mutex_lock(&p->store->slow);
  p->store->statistics.reads += counts.requests;
  pthread_mutex_unlock(&p->store->slow);
}

/* ---- objects ---- */

/* Makes the target resident and heals the slot, as its first load would. */
static void grant(prefetch *p, const wish *wish) {
  void *memory;
  p3l_place place;
  uint64_t limit = p->store->options.memory_bytes, expected = wish->surrogate;
  pthread_mutex_lock(&p->store->slow);
  bool there = p3l_resolve(p->store, address_of(wish), &memory, NULL) == P3L_OK &&
               p3l_place_of(memory, &place);
  if (limit != 0 && p->store->statistics.memory_bytes > limit) p->over = true;
  pthread_mutex_unlock(&p->store->slow);
  if (!there) return;
  __atomic_compare_exchange_n(wish->slot, &expected, (uint64_t)(uintptr_t)memory, false,
                              __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  meet(p, place.memory);
}

static void grant_level(prefetch *p) {
  size_t frames = p3l_pool_frames(p->store) / 2;
  if (frames == 0) frames = 1;
  for (size_t first = 0; first < p->wish_count && !p->over;) {
    size_t end = gather_batch(p, first, frames);
    read_batch(p);
    for (; first < end && !p->over; first++) grant(p, &p->wishes[first]);
  }
}

size_t p3l_prefetch(p3l_store *store, const void *object, unsigned depth) {
  p3l_place place;
  if (object == NULL) return 0;
  if (!p3l_place_of(object, &place) || place.segment->store != store) {
    p3l_error error;
    p3l_fail(&error, P3L_MISUSE, "%s: p3l_prefetch() from %p, which is no object of it",
             store->path, object);
    p3l_raise(&error);
  }
  prefetch p = {.store = store};
  meet(&p, place.memory);
  for (unsigned level = 0; level < depth && p.next.count > 0 && !p.over; level++) {
    object_list done = p.level;
    p.level = p.next;
    p.next = done;
    p.next.count = 0;
    look_at_level(&p);
    grant_level(&p);
  }
  size_t count = p.seen.count;
  free(p.seen.entries);
  free(p.level.objects);
  free(p.next.objects);
  free(p.wishes);
  free(p.pages);
  return count;
}
