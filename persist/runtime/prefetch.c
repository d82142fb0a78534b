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
#include "residency_pages.h"
#include "store.h"

#define SMALL_STORE_PAGES 2048u /* 8 MB */

/* Which objects were met: a bit for each granule of each segment that one was met in. */
typedef struct seen {
  uint64_t **bits; /* [index of the segment][granule / 64]; NULL: none there */
  size_t count;    /* of segments */
} seen;

typedef struct object {
  uint8_t *memory;
  uint64_t bytes;
  p3l_type_id type;
} object;

typedef struct object_list {
  object *objects;
  size_t count, capacity;
} object_list;

/* A slot that holds a surrogate. */
typedef struct wish {
  uint64_t *slot;
  uint64_t surrogate;
} wish;

typedef struct prefetch {
  p3l_store *store;
  seen seen;
  size_t met; /* objects */
  object_list level, next;
  wish *wishes;
  size_t wish_count, wish_capacity;
  p3l_page_number *pages; /* of a batch */
  size_t page_count, page_capacity;
  uint8_t *memory; /* of the object whose slots are looked at */
  bool over;       /* no memory, or the store's limit */
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

static bool grow_seen(seen *seen, size_t count) {
  uint64_t **grown = realloc(seen->bits, count * sizeof(*grown));
  if (grown == NULL) return false;
  memset(grown + seen->count, 0, (count - seen->count) * sizeof(*grown));
  seen->bits = grown;
  seen->count = count;
  return true;
}

/* The word with an object's bit, NULL: nothing was met in its segment. */
static uint64_t *word_of(const seen *seen, const uint8_t *memory, uint64_t *bit) {
  uintptr_t offset = (uintptr_t)memory - p3l_persistent_memory.base;
  uint64_t index = offset >> P3L_SEGMENT_SHIFT;
  uint64_t granule = (offset & (P3L_SEGMENT_BYTES - 1)) / P3L_GRANULE;
  *bit = UINT64_C(1) << granule % 64;
  return index < seen->count && seen->bits[index] != NULL ? &seen->bits[index][granule / 64] : NULL;
}

static bool is_seen(const seen *seen, const uint8_t *memory) {
  uint64_t bit, *word = word_of(seen, memory, &bit);
  return word != NULL && (*word & bit) != 0;
}

/* False: no memory. */
static bool see(seen *seen, const uint8_t *memory) {
  uint64_t bit, *word = word_of(seen, memory, &bit);
  if (word == NULL) {
    size_t index = ((uintptr_t)memory - p3l_persistent_memory.base) >> P3L_SEGMENT_SHIFT;
    if (index >= seen->count && !grow_seen(seen, index + 1)) return false;
    seen->bits[index] = calloc(P3L_SEGMENT_GRANULES / 64, sizeof(uint64_t));
    if (seen->bits[index] == NULL) return false;
    word = word_of(seen, memory, &bit);
  }
  *word |= bit;
  return true;
}

/* Notes the object that `memory` lies in for the next level, unless it was met before. Most pointers
 * lead to the beginning of an object, and many to one that was met: these are looked up first. */
static void meet(prefetch *p, const uint8_t *memory) {
  p3l_place place;
  if (((uintptr_t)memory & (P3L_GRANULE - 1)) == 0 && is_seen(&p->seen, memory)) return;
  if (!p3l_place_of(memory, &place) || is_seen(&p->seen, place.memory)) return;
  if (!room((void **)&p->next.objects, p->next.count, &p->next.capacity, sizeof(object)) ||
      !see(&p->seen, place.memory)) {
    p->over = true;
    return;
  }
  p->met++;
  p->next.objects[p->next.count++] = (object){place.memory, place.bytes, place.type};
}

/* ---- slots ---- */

/* As the first load of the slot would do it. */
static void heal(const wish *wish, const void *memory) {
  uint64_t expected = wish->surrogate;
  __atomic_compare_exchange_n(wish->slot, &expected, (uint64_t)(uintptr_t)memory, false,
                              __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static p3l_address address_of(const wish *wish) {
  return (p3l_address){wish->surrogate & ~P3L_SURROGATE_BIT};
}

/* Where the target is used in place, if it is; without a lock, as p3l_swizzle() does it. */
static uint8_t *in_place(const prefetch *p, p3l_address address) {
  uint64_t offset = address.byte % P3L_PAGE_SIZE;
  const p3l_page_state *state = p3l_page_state_find(p->store->pages, address.byte / P3L_PAGE_SIZE);
  bool there = state != NULL && p3l_is_in_place(state, (uint32_t)(offset / P3L_GRANULE));
  return there ? (uint8_t *)state->frame + offset : NULL;
}

static void look_at_slot(void *state, uint64_t offset) {
  prefetch *p = state;
  wish wish = {.slot = (uint64_t *)(p->memory + offset)};
  wish.surrogate = __atomic_load_n(wish.slot, __ATOMIC_ACQUIRE);
  if (wish.surrogate == 0 || p->over) return;
  if ((wish.surrogate & P3L_SURROGATE_BIT) == 0) {
    meet(p, (const uint8_t *)(uintptr_t)wish.surrogate);
    return;
  }
  if ((wish.surrogate & P3L_SURROGATE_ZEROS) != 0) return; /* (void *)-1 and the like */
  const uint8_t *memory = in_place(p, address_of(&wish));
  if (memory != NULL) {
    heal(&wish, memory);
    meet(p, memory);
  } else if (room((void **)&p->wishes, p->wish_count, &p->wish_capacity, sizeof(wish))) {
    p->wishes[p->wish_count++] = wish;
  } else {
    p->over = true;
  }
}

static void look_at_level(prefetch *p) {
  p->wish_count = 0;
  for (size_t i = 0; i < p->level.count && !p->over; i++) {
    const object *object = &p->level.objects[i];
    const p3l_stored_type *type = p3l_types_of(p->store, object->type);
    p->memory = object->memory;
    if (type != NULL && type->field_count > 0)
      p3l_type_slots(type, 0, object->bytes, look_at_slot, p);
  }
}

/* ---- pages ---- */

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

/* Sorts the batch's pages; each is there once. */
static void sort_batch(prefetch *p) {
  qsort(p->pages, p->page_count, sizeof(*p->pages), by_number);
  size_t unique = 0;
  for (size_t i = 0; i < p->page_count; i++)
    if (unique == 0 || p->pages[i].n != p->pages[unique - 1].n) p->pages[unique++] = p->pages[i];
  p->page_count = unique;
}

/*
 * How many pages that nobody asked for are read rather than begin another request behind them. A
 * store of a few megabytes is wanted whole soon, and so is a part of one in which every eighth page
 * is wanted; in a large store pages that are wanted stand alone.
 */
static uint64_t gap_to_bridge(const prefetch *p) {
  uint64_t span = p->pages[p->page_count - 1].n - p->pages[0].n + 1;
  if (p3l_pool_store_pages(p->store) <= SMALL_STORE_PAGES) return SMALL_STORE_PAGES;
  return p->page_count * 8 >= span ? 16 : 1;
}

/* Adds the pages of short gaps, while the pool has room for them. */
static void bridge_gaps(prefetch *p) {
  size_t wanted = p->page_count, frames = p3l_pool_frames(p->store);
  uint64_t most = gap_to_bridge(p);
  for (size_t i = 1; i < wanted; i++) {
    uint64_t from = p->pages[i - 1].n + 1, to = p->pages[i].n;
    if (to - from > most || p->page_count + (to - from) > frames) continue;
    for (uint64_t n = from; n < to; n++) {
      const p3l_page_state *state = p3l_page_state_find(p->store->pages, n);
      if (state != NULL && state->known) continue; /* it was read before */
      if (!room((void **)&p->pages, p->page_count, &p->page_capacity, sizeof(*p->pages))) return;
      p->pages[p->page_count++].n = n;
    }
  }
  if (p->page_count > wanted) sort_batch(p);
}

/* What fails here is read again, and told, by p3l_resolve(). */
static void read_batch(prefetch *p) {
  if (p->page_count == 0) return;
  sort_batch(p);
  pthread_mutex_lock(&p->store->slow);
  bridge_gaps(p);
  pthread_mutex_unlock(&p->store->slow);
  /* Side by side they are read one after the other: the kernel reads ahead by itself then, and what it
   * has costs no change of threads. */
  uint64_t span = p->pages[p->page_count - 1].n - p->pages[0].n + 1;
  p3l_read_engine engine = p->page_count * 4 >= span * 3 ? P3L_READ_PLAIN : P3L_READ_BEST;
  p3l_read_counts counts;
  p3l_read_many_by(engine, p->store->pager, p->pages, p->page_count, offer_page, p, &counts, NULL);
  pthread_mutex_lock(&p->store->slow);
  p->store->statistics.reads += counts.requests;
  pthread_mutex_unlock(&p->store->slow);
}

/* ---- objects ---- */

/* Makes the target resident. */
static void grant(prefetch *p, const wish *wish) {
  void *memory = in_place(p, address_of(wish));
  bool there = memory != NULL;
  if (!there) {
    uint64_t limit = p->store->options.memory_bytes;
    pthread_mutex_lock(&p->store->slow);
    there = p3l_resolve(p->store, address_of(wish), &memory, NULL) == P3L_OK;
    if (limit != 0 && p->store->statistics.memory_bytes > limit) p->over = true;
    pthread_mutex_unlock(&p->store->slow);
  }
  if (!there) return;
  heal(wish, memory);
  meet(p, memory);
}

static void grant_level(prefetch *p) {
  pthread_mutex_lock(&p->store->slow);
  size_t frames = p3l_pool_frames(p->store) / 2;
  pthread_mutex_unlock(&p->store->slow);
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
  for (size_t i = 0; i < p.seen.count; i++) free(p.seen.bits[i]);
  free(p.seen.bits);
  free(p.level.objects);
  free(p.next.objects);
  free(p.wishes);
  free(p.pages);
  return p.met;
}
