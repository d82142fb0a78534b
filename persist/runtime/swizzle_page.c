/*
 * A page that slow paths reach repeatedly is swizzled whole.
 *
 * A pointer is swizzled when it is read, which keeps a rarely used store cheap. On a heavily used
 * page nearly every slot takes the slow path once, and the mispredicted branch costs more than the
 * instructions: 20 ns, against 3 ns for a slot in a pass over the whole page. So when an eighth of
 * a page's objects have been asked for, its slots become addresses if their targets are in place
 * already and they are of a kind that the program is known to follow. All other slots stay
 * surrogates, and nothing is read for them.
 *
 * Invariants:
 *   1. A slot is changed from a surrogate to the address that p3l_swizzle() would have written
 *      there, and in the same way, so several threads may do it at any time, concurrently with
 *      readers.
 *   2. Not while a transaction is under way, whose allocations may have changed the page's head.
 */
#include "bits.h"
#include "segment.h"
#include "slots.h"
#include "store.h"
#include "swizzle_page.h"
#include "types.h"

#define DENSE_PART 8  /* an eighth */
#define LEAST_FOUND 8 /* with fewer objects, a pass saves nothing */
/* Types with more followed slots are arrays of pointers, which programs follow only in part. */
#define MOST_SLOTS 16
/* The first passes find out which kinds of slots the program follows; later, one pass in this
 * many looks for new kinds: finding out costs as much as the pass itself. */
#define LEARNING_FIRST 8u
#define LEARNING 64u

#define CACHE_LINE 64u

/* The slots of a type that are followed. Aligned, so that indexing is a shift. */
typedef struct plan {
  p3l_type_id type; /* P3L_HOLE: the entry is free */
  uint16_t count;
  uint32_t bytes; /* length of an instance */
  uint32_t two;   /* granules that two instances take */
  uint16_t offsets[MOST_SLOTS];
} __attribute__((aligned(64))) plan;

/* Enough for the types of a page; types that share an entry replace each other. */
#define PLANS 8u

/* ---- which slots are followed ---- */

static uint64_t *followed(p3l_store *store, p3l_type_id type) {
  return &store->followed[type % P3L_FOLLOWED_TYPES];
}

/* Slots of a kind are at the same offset in objects of the same type; far apart, they may share a bit. */
static uint64_t kind_bit(uint64_t offset) { return UINT64_C(1) << offset / sizeof(void *) % 64; }

typedef struct lesson {
  const uint8_t *object;
  const p3l_stored_type *type;
  uint64_t kinds;
} lesson;

/* A slot that holds an address was followed: by the program, or by a pass because its kind was
 * followed in another page. */
static void learn_slot(void *state, uint64_t offset) {
  lesson *lesson = state;
  uint64_t value =
      __atomic_load_n((const uint64_t *)(const void *)(lesson->object + offset), __ATOMIC_RELAXED);
  if (value != 0 && (value & P3L_SURROGATE_BIT) == 0)
    lesson->kinds |= kind_bit(offset % lesson->type->bytes);
}

static void learn(p3l_store *store, const p3l_page_state *state) {
  const p3l_object_page *page = state->frame;
  for (p3l_piece piece = {0}; p3l_piece_next(page, &piece);) {
    const p3l_stored_type *type = p3l_types_of(store, piece.type);
    if (type == NULL || type->union_count > 0 ||
        !p3l_is_in_place(state, piece.offset / P3L_GRANULE))
      continue;
    lesson lesson = {(const uint8_t *)page + piece.offset, type, 0};
    p3l_type_slots(type, 0, piece.bytes, learn_slot, &lesson);
    uint64_t *kinds = followed(store, piece.type);
    uint64_t known = __atomic_load_n(kinds, __ATOMIC_RELAXED);
    __atomic_store_n(kinds, known | lesson.kinds, __ATOMIC_RELAXED);
  }
}

static void make_plan(p3l_store *store, p3l_type_id id, plan *plan) {
  const p3l_stored_type *type = p3l_types_of(store, id);
  plan->type = id;
  plan->count = 0;
  /* What lies behind elements with unions (slots.h) is not an element. */
  if (type == NULL || type->union_count > 0) return;
  uint64_t kinds = __atomic_load_n(followed(store, id), __ATOMIC_RELAXED);
  plan->bytes = type->bytes;
  plan->two = (2 * type->bytes + P3L_GRANULE - 1) / P3L_GRANULE;
  for (uint32_t f = 0; f < type->field_count; f++)
    for (uint32_t i = 0; i < type->fields[f].count; i++) {
      uint32_t offset = type->fields[f].offset + i * (uint32_t)sizeof(void *);
      if ((kinds & kind_bit(offset)) == 0) continue;
      if (plan->count == MOST_SLOTS || offset >= P3L_PAGE_SIZE) {
        plan->count = 0;
        return;
      }
      plan->offsets[plan->count++] = (uint16_t)offset;
    }
}

/* ---- the pass ---- */

/*
 * In 35 first traversals of OO1 with 20,000 parts, the pass executes more instructions than
 * everything else. So for each object it reads only a bit and its type's plan, and computes the
 * object's length only as far as needed to exclude an array.
 */

/* The state of targets beyond the near groups is not known here: such slots are skipped. */
#define NEAR_BYTES (P3L_NEAR_GROUPS * (uint64_t)P3L_GROUP_STATES * P3L_PAGE_SIZE)
#define BATCH 128u

/* A slot that waits for its target's page state: these are all over memory, and are prefetched
 * for many slots at a time. */
typedef struct waiting {
  uint64_t *slot;
  const p3l_page_state *target;
  uint64_t address;
} waiting;

static uint64_t heal_batch(const waiting *batch, const waiting *end) {
  uint64_t healed = 0;
  for (const waiting *at = batch; at < end; at++) {
    uint32_t inside = at->address % P3L_PAGE_SIZE;
    if (!p3l_is_in_place_as(at->target, at->address)) continue;
    __atomic_store_n(at->slot, (uint64_t)(uintptr_t)at->target->frame + inside, __ATOMIC_RELEASE);
    healed++;
  }
  return healed;
}

typedef struct pass {
  const p3l_page_states *states;
  uint64_t healed;
  waiting batch[BATCH];
  plan plans[PLANS];
} pass;

/* Adds an object's slots that lead to known pages to the waiting ones, from `next` on. */
static inline waiting *add_instance(pass *pass, const plan *plan, uint8_t *object, waiting *next) {
  if (next > pass->batch + BATCH - MOST_SLOTS) {
    pass->healed += heal_batch(pass->batch, next);
    next = pass->batch;
  }
  const p3l_page_states *states = pass->states;
  for (const uint16_t *at = plan->offsets, *end = at + plan->count; at < end; at++) {
    uint64_t *slot = (uint64_t *)(void *)(object + *at);
    /* NULL, addresses, values that are not surrogates or have a generation are also beyond the
     * limit; nothing is in place in page 0. */
    uint64_t address = __atomic_load_n(slot, __ATOMIC_RELAXED) - P3L_SURROGATE_BIT;
    if (address >= NEAR_BYTES) continue;
    const p3l_page_state *target = p3l_page_state_near(states, address / P3L_PAGE_SIZE);
    if (target == NULL) continue;
    __builtin_prefetch(target);
    *next++ = (waiting){slot, target, address};
  }
  return next;
}

/* Possibly an array, or the last object that begins in a word of the page's bits. */
static __attribute__((noinline)) waiting *add_array(pass *pass, const p3l_object_page *page,
                                                    const plan *plan, uint32_t granule,
                                                    waiting *next) {
  uint32_t behind = p3l_bit_behind(page->starts, granule, page->end / P3L_GRANULE);
  uint32_t extent = (behind - granule) * P3L_GRANULE;
  uint8_t *object = (uint8_t *)(uintptr_t)page + granule * P3L_GRANULE;
  for (uint32_t end = plan->bytes; end <= extent; end += plan->bytes, object += plan->bytes)
    next = add_instance(pass, plan, object, next);
  return next;
}

static uint64_t heal_page(p3l_store *store, const p3l_page_state *state) {
  p3l_object_page *page = state->frame;
  const uint16_t *id = (const uint16_t *)(const void *)(page + 1);
  pass pass;
  waiting *next = pass.batch;
  for (uint32_t at = 0; at < PLANS; at++) {
    pass.plans[at].type = P3L_HOLE;
    pass.plans[at].count = 0; /* a hole in the page finds a free entry without slots to follow */
  }
  pass.states = store->pages;
  pass.healed = 0;
  for (uint32_t word = 0; word < 4; word++) {
    uint64_t here = __atomic_load_n(&state->in_place[word], __ATOMIC_ACQUIRE);
    uint64_t starts = page->starts[word];
    while (starts != 0) {
      uint32_t bit = (uint32_t)__builtin_ctzll(starts), granule = word * 64 + bit;
      starts &= starts - 1;
      p3l_type_id type = *--id & P3L_TYPE_LIMIT;
      plan *plan = &pass.plans[type % PLANS];
      if (plan->type != type) make_plan(store, type, plan);
      if (plan->count == 0 || (here >> bit & 1) == 0) continue;
      bool single = starts != 0 && (uint32_t)__builtin_ctzll(starts) - bit < plan->two;
      next = single ? add_instance(&pass, plan, (uint8_t *)page + granule * P3L_GRANULE, next)
                    : add_array(&pass, page, plan, granule, next);
    }
  }
  return pass.healed + heal_batch(pass.batch, next);
}

static void swizzle_page(p3l_store *store, const p3l_page_state *state) {
  uint64_t *passes = &store->passes, pass = __atomic_load_n(passes, __ATOMIC_RELAXED);
  __atomic_store_n(passes, pass + 1, __ATOMIC_RELAXED);
  if (pass < LEARNING_FIRST || pass % LEARNING == 0) learn(store, state);
  uint64_t *count = &store->statistics.swizzled, healed = heal_page(store, state);
  __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + healed, __ATOMIC_RELAXED);
}

void p3l_page_found(p3l_store *store, p3l_page_state *state) {
  /* A counter that may lose increments of concurrent threads. */
  uint8_t found = (uint8_t)(__atomic_load_n(&state->found, __ATOMIC_RELAXED) + 1);
  bool dense = found >= LEAST_FOUND && (uint32_t)found * DENSE_PART >= state->pieces;
  if (dense && store->changes != NULL) return;
  /* The frame's cache lines are prefetched a few at a time until then: all at once, the thread
   * would wait for them. */
  const uint8_t *ahead = (const uint8_t *)state->frame + (found - 1u) % 8 * (P3L_PAGE_SIZE / 8);
  for (uint32_t at = 0; at < P3L_PAGE_SIZE / 8; at += CACHE_LINE) __builtin_prefetch(ahead + at, 1);
  __atomic_store_n(&state->found, dense ? P3L_FOUND_ENOUGH : found, __ATOMIC_RELAXED);
  if (dense) swizzle_page(store, state);
}
