/*
 * Prefetching: loads everything reachable from an object, breadth first, so that all pages of a
 * level are known before the first of them is read.
 *
 *   level 0   root
 *   level 1   targets of its slots      surrogates of a level ──> pages ──> read, many at a time
 *   level 2   their targets, ...             │                                │   (prefetch_pages.c)
 *                                            └──> p3l_resolve(), in the order of the slots
 *
 * Objects become resident in the order of the breadth-first search, not in the order in which their
 * pages arrive, and arenas keep that order. A small store is read and adopted whole; its objects
 * are then in place already.
 *
 * Prefetching is a hint: what cannot be loaded (a dangling slot, an unreadable page, no memory for
 * the records kept here) is skipped; following the pointer later reports the error. It ends at the
 * store's memory limit.
 */
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "fault.h"
#include "guard.h"
#include "pool_frames.h"
#include "prefetch_pages.h"
#include "residency.h"
#include "residency_known.h"
#include "segment.h"
#include "slots.h"
#include "store.h"
#include "types.h"
#include "unread.h"

/* Beyond this depth, or this share of pages wanted at once, a small store is read whole: one
 * request for every 16 pages is slower, and when only a few pages are wanted, they are wanted
 * one after the other. */
#define DEEP 4u
#define WHOLE_PART 64u

/* Objects that were reached: a bit for each granule of each segment with such an object. */
typedef struct seen {
  uint64_t **bits; /* [index of the segment][granule / 64]; NULL: no object there */
  size_t count;    /* number of segments */
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

/* The slots of a type that are followed, if the caller chooses: stored as a type with these
 * slots alone. */
typedef struct choice {
  struct choice *next;
  p3l_stored_type type;
  struct p3l_stored_field fields[];
} choice;

typedef struct prefetch {
  p3l_store *store;
  p3l_follow follow; /* NULL: all slots are followed */
  void *follow_state;
  const p3l_stored_type **chosen; /* [type id]; NULL: not asked for yet */
  choice *choices;
  unsigned depth; /* levels still to follow */
  seen seen;
  size_t met; /* number of objects reached */
  object_list level, next;
  wish *wishes;
  size_t wish_count, wish_capacity;
  p3l_page_list pages;           /* pages of a batch */
  uint8_t *memory;               /* memory of the object whose slots are visited */
  const p3l_stored_type *layout; /* and its types, where its unions are visited */
  const p3l_type *type;
  bool over; /* no memory, or the store's limit is reached */
} prefetch;

/* ---- records ---- */

static bool grow_seen(seen *seen, size_t count) {
  uint64_t **grown = realloc(seen->bits, count * sizeof(*grown));
  if (grown == NULL) return false;
  memset(grown + seen->count, 0, (count - seen->count) * sizeof(*grown));
  seen->bits = grown;
  seen->count = count;
  return true;
}

/* The word with an object's bit; NULL: no object of its segment was reached. */
static uint64_t *word_of(const seen *seen, const uint8_t *memory, uint64_t *bit) {
  uintptr_t offset = (uintptr_t)memory - p3l_persistent_memory.base;
  uint64_t index = offset >> P3L_SEGMENT_SHIFT;
  uint64_t granule = (offset & (P3L_SEGMENT_BYTES - 1)) / P3L_GRANULE;
  *bit = UINT64_C(1) << granule % 64;
  return index < seen->count && seen->bits[index] != NULL ? &seen->bits[index][granule / 64] : NULL;
}

/* As above, created if missing; NULL: no memory. */
static uint64_t *make_word(seen *seen, const uint8_t *memory, uint64_t *bit) {
  size_t index = ((uintptr_t)memory - p3l_persistent_memory.base) >> P3L_SEGMENT_SHIFT;
  if (index >= seen->count && !grow_seen(seen, index + 1)) return NULL;
  if (seen->bits[index] == NULL)
    seen->bits[index] = calloc(P3L_SEGMENT_GRANULES / 64, sizeof(uint64_t));
  return word_of(seen, memory, bit);
}

/* Records an object for the next level, unless it was reached before. */
static void note(prefetch *p, const object *object) {
  uint64_t bit, *word = word_of(&p->seen, object->memory, &bit);
  if (word == NULL) word = make_word(&p->seen, object->memory, &bit);
  if (word == NULL || !p3l_prefetch_room((void **)&p->next.objects, p->next.count,
                                         &p->next.capacity, sizeof(*object))) {
    p->over = true;
    return;
  }
  if ((*word & bit) != 0) return;
  *word |= bit;
  p->met++;
  p->next.objects[p->next.count++] = *object;
}

/* True if an object that was reached begins at `memory`. Most pointers lead to the beginning of
 * an object, and many to one that was reached: this check comes first. */
static bool is_seen(const seen *seen, const uint8_t *memory) {
  uint64_t bit, *word = word_of(seen, memory, &bit);
  return ((uintptr_t)memory & (P3L_GRANULE - 1)) == 0 && word != NULL && (*word & bit) != 0;
}

/* Records the object that contains `memory`. */
static void meet(prefetch *p, const uint8_t *memory) {
  p3l_place place;
  if (is_seen(&p->seen, memory) || !p3l_place_of(memory, &place)) return;
  note(p, &(object){place.memory, place.bytes, place.type});
}

/* The same for an object in place that begins at the granule: half the cost. */
static void meet_in_place(prefetch *p, const p3l_page_state *state, uint32_t granule) {
  const p3l_object_page *page = state->frame;
  uint8_t *memory = (uint8_t *)state->frame + granule * P3L_GRANULE;
  if (is_seen(&p->seen, memory)) return;
  uint32_t next = p3l_bit_behind(page->starts, granule, page->end / P3L_GRANULE);
  p3l_type_id type = p3l_piece_type(page, p3l_bits_before(page->starts, granule));
  note(p, &(object){memory, (next - granule) * P3L_GRANULE, type});
}

/* ---- choices ---- */

/* Adds a slot; slots side by side are one field. */
static void choose(choice *choice, uint32_t offset) {
  struct p3l_stored_field *last = &choice->fields[choice->type.field_count];
  if (choice->type.field_count > 0 &&
      last[-1].offset + last[-1].count * sizeof(uint64_t) == offset) {
    last[-1].count++;
    return;
  }
  *last = (struct p3l_stored_field){offset, 1};
  choice->type.field_count++;
}

static const p3l_stored_type *ask(prefetch *p, const p3l_stored_type *stored,
                                  const p3l_type *type) {
  size_t slots = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++) slots += field->count;
  choice *made = malloc(sizeof(*made) + slots * sizeof(made->fields[0]));
  if (made == NULL) return NULL;
  made->type = *stored;
  made->type.fields = made->fields;
  made->type.field_count = 0;
  for (const p3l_field *field = type->pointers; field->name != NULL; field++)
    for (uint32_t at = 0; at < field->count && !p3l_types_in_union(type, field); at++) {
      p3l_field slot = {field->name, field->offset + at * (uint32_t)sizeof(uint64_t), 1};
      if (p->follow(p->follow_state, type, &slot)) choose(made, slot.offset);
    }
  made->next = p->choices;
  p->choices = made;
  return &made->type;
}

/* The slots to follow in objects of a type; NULL: none, or no memory. */
static const p3l_stored_type *slots_of(prefetch *p, p3l_type_id id) {
  if (p->follow == NULL) return p3l_types_of(p->store, id);
  if (p->chosen == NULL) p->chosen = calloc((size_t)P3L_FORWARD + 1, sizeof(*p->chosen));
  if (p->chosen == NULL) {
    p->over = true;
    return NULL;
  }
  if (p->chosen[id] == NULL) {
    const p3l_stored_type *stored = p3l_types_of(p->store, id);
    const p3l_type *type = p3l_types_program(p->store, id);
    p->chosen[id] = stored == NULL || type == NULL ? stored : ask(p, stored, type);
    p->over |= p->chosen[id] == NULL && stored != NULL;
  }
  return p->chosen[id];
}

/* ---- slots ---- */

/* The same store as in p3l_swizzle(), which explains why it needs no lock. */
static void heal(const wish *wish, const void *memory) {
  if (__atomic_load_n(wish->slot, __ATOMIC_RELAXED) != wish->surrogate) return;
  p3l_guard_begin(wish->slot, sizeof(*wish->slot));
  __atomic_store_n(wish->slot, (uint64_t)(uintptr_t)memory, __ATOMIC_RELEASE);
  p3l_guard_end(wish->slot, sizeof(*wish->slot));
}

static p3l_address address_of(const wish *wish) { return p3l_surrogate_address(wish->surrogate); }

/* If the target is used in place, heals the slot and records the object, without a lock, as
 * p3l_swizzle() does. */
static bool follow_in_place(prefetch *p, const wish *wish) {
  p3l_address address = address_of(wish);
  uint32_t offset = address.byte % P3L_PAGE_SIZE;
  const p3l_page_state *state = p3l_page_state_find(p->store->pages, address.byte / P3L_PAGE_SIZE);
  if (state == NULL || !p3l_is_in_place_as(state, wish->surrogate)) return false;
  heal(wish, (uint8_t *)state->frame + offset);
  meet_in_place(p, state, offset / P3L_GRANULE);
  return true;
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
  if (!p3l_surrogate_possible(wish.surrogate)) return; /* (void *)-1 and similar values */
  if (follow_in_place(p, &wish)) return;
  if (p3l_prefetch_room((void **)&p->wishes, p->wish_count, &p->wish_capacity, sizeof(wish))) {
    p->wishes[p->wish_count++] = wish;
  } else {
    p->over = true;
  }
}

static void look_at_fields(prefetch *p, const object *object, const p3l_stored_type *type) {
  const p3l_stored_type *whole = p3l_types_of(p->store, object->type);
  if (p3l_unread_read_all(p3l_segment_of(object->memory), NULL) != P3L_OK) return;
  /* Behind the elements of a type with unions there are no slots. */
  uint64_t end = whole->union_count == 0 ? object->bytes
                                         : p3l_type_elements(whole, object->bytes) * whole->bytes;
  p3l_type_slots(type, 0, end, look_at_slot, p);
}

/* What follow() says of a word of a union, by the name of the union. */
static bool follows(prefetch *p, const p3l_type *type, uint64_t inside) {
  if (p->follow == NULL || type == NULL) return true;
  for (const p3l_union *at = p3l_types_unions(type); at != NULL && at->name != NULL; at++) {
    if (inside < at->offset || inside - at->offset >= at->bytes) continue;
    p3l_field slot = {at->name, (uint32_t)inside, 1};
    return p->follow(p->follow_state, type, &slot);
  }
  return true;
}

static void look_at_arm(void *state, uint64_t offset) {
  prefetch *p = state;
  if (follows(p, p->type, offset % p->layout->bytes)) look_at_slot(p, offset);
}

/* Not within a transaction: it may have changed arms that their bits do not say yet. */
static void look_at_unions(prefetch *p, const object *object) {
  p->layout = p3l_types_of(p->store, object->type);
  if (p->layout == NULL || p->layout->union_count == 0 || p->store->changes != NULL) return;
  p->type = p3l_types_program(p->store, object->type);
  uint64_t elements = p3l_type_elements(p->layout, object->bytes);
  for (uint64_t element = 0; element < elements; element++)
    p3l_union_slots_of(p->layout, element, object->memory + object->bytes, 0, object->bytes,
                       look_at_arm, p);
}

static void look_at_level(prefetch *p) {
  p->wish_count = 0;
  for (size_t i = 0; i < p->level.count && !p->over; i++) {
    const object *object = &p->level.objects[i];
    const p3l_stored_type *type = slots_of(p, object->type);
    p->memory = object->memory;
    if (type != NULL && type->field_count > 0) look_at_fields(p, object, type);
    look_at_unions(p, object);
  }
}

/* ---- pages ---- */

/* Collects the pages that the wishes from `first` on need, up to what the pool can take. Returns
 * the end of the batch. */
static size_t gather_batch(prefetch *p, size_t first, size_t frames) {
  p3l_page_list *list = &p->pages;
  size_t at = first;
  p->pages.count = 0;
  pthread_mutex_lock(&p->store->slow);
  for (; at < p->wish_count && list->count < frames; at++) {
    p3l_address address = address_of(&p->wishes[at]);
    if (p3l_residency_has(p->store, address)) continue;
    p3l_page_number number = {address.byte / P3L_PAGE_SIZE};
    if (list->count > 0 && list->pages[list->count - 1].n == number.n) continue;
    if (!p3l_prefetch_room((void **)&list->pages, list->count, &list->capacity,
                           sizeof(*list->pages))) {
      p->over = true;
      break;
    }
    list->pages[list->count++] = number;
  }
  pthread_mutex_unlock(&p->store->slow);
  return at;
}

/* True if the remaining levels justify reading the whole store; asked when pages are missing. */
static bool wants_whole(const prefetch *p) {
  return (p->depth >= DEEP ||
          p->pages.count * WHOLE_PART >= p3l_pager_page_count(p->store->pager)) &&
         p3l_prefetch_is_small(p->store);
}

static void read_batch(prefetch *p) {
  if (p->pages.count == 0) return;
  if (wants_whole(p))
    p3l_prefetch_whole(p->store);
  else
    p3l_prefetch_pages(p->store, &p->pages);
}

/* ---- objects ---- */

/* Makes the target of a wish resident. */
static void grant(prefetch *p, const wish *wish) {
  if (follow_in_place(p, wish)) return;
  void *memory;
  uint64_t limit = p->store->options.memory_bytes;
  pthread_mutex_lock(&p->store->slow);
  bool there = p3l_resolve(p->store, wish->surrogate, &memory, NULL) == P3L_OK;
  if (limit != 0 && p->store->statistics.memory_bytes > limit) p->over = true;
  pthread_mutex_unlock(&p->store->slow);
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

static void end(prefetch *p) {
  for (size_t i = 0; i < p->seen.count; i++) free(p->seen.bits[i]);
  free(p->seen.bits);
  free(p->level.objects);
  free(p->next.objects);
  free(p->wishes);
  free(p->pages.pages);
  free(p->chosen);
  for (choice *at = p->choices, *next; at != NULL; at = next) {
    next = at->next;
    free(at);
  }
}

size_t p3l_prefetch_by(p3l_store *store, const void *object, unsigned depth, p3l_follow follow,
                       void *state) {
  p3l_place place;
  if (object == NULL) return 0;
  if (!p3l_place_of(object, &place) || place.segment->store != store) {
    p3l_error error;
    p3l_fail(&error, P3L_MISUSE, "%s: p3l_prefetch() from %p, which is not an object in it",
             store->path, object);
    p3l_raise(&error);
  }
  prefetch p = {.store = store, .follow = follow, .follow_state = state};
  meet(&p, place.memory);
  for (p.depth = depth; p.depth > 0 && p.next.count > 0 && !p.over; p.depth--) {
    object_list done = p.level;
    p.level = p.next;
    p.next = done;
    p.next.count = 0;
    look_at_level(&p);
    grant_level(&p);
  }
  end(&p);
  return p.met;
}

size_t p3l_prefetch(p3l_store *store, const void *object, unsigned depth) {
  return p3l_prefetch_by(store, object, depth, NULL, NULL);
}
