/*
 * What residency.c and its neighbours share: where copies are noted in a page's state, how an
 * object comes out of a page. Private to residency*.c and pool.c.
 */
#ifndef P3L_RESIDENCY_PAGES_H
#define P3L_RESIDENCY_PAGES_H

#include "residency.h"

/* Bits 63..56 of every surrogate. */
#define P3L_SURROGATE_BYTE 0x80u

static inline bool p3l_bit(const uint64_t *words, uint32_t index) {
  return words[index / 64] >> index % 64 & 1;
}

/* Without the instruction, the compiler's own is a call with a table: 15 % of all instructions of a
 * first traversal. */
static inline uint32_t p3l_bits(uint64_t word) {
#ifdef __POPCNT__
  return (uint32_t)__builtin_popcountll(word);
#else
  word -= word >> 1 & UINT64_C(0x5555555555555555);
  word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
  word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  return (uint32_t)(word * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* Bits before `index`. */
static inline uint32_t p3l_bits_before(const uint64_t words[4], uint32_t index) {
  uint32_t count = 0;
  for (uint32_t word = 0; word < index / 64; word++) count += p3l_bits(words[word]);
  return count + p3l_bits(words[index / 64] & ((UINT64_C(1) << index % 64) - 1));
}

/* The last bit set at or before `index`. */
static inline bool p3l_bit_at_or_before(const uint64_t words[4], uint32_t index, uint32_t *found) {
  uint64_t mask = ~UINT64_C(0) >> (63 - index % 64);
  for (uint32_t word = index / 64;; word--) {
    uint64_t left = words[word] & mask;
    if (left != 0) {
      *found = word * 64 + 63 - (uint32_t)__builtin_clzll(left);
      return true;
    }
    if (word == 0) return false;
    mask = ~UINT64_C(0);
  }
}

/* The first bit set behind `index`, or `none`. */
static inline uint32_t p3l_bit_behind(const uint64_t words[4], uint32_t index, uint32_t none) {
  uint64_t mask = ~UINT64_C(1) << index % 64; /* of bit 63: none of this word */
  for (uint32_t word = index / 64; word < 4; word++, mask = ~UINT64_C(0)) {
    uint64_t left = words[word] & mask;
    if (left != 0) return word * 64 + (uint32_t)__builtin_ctzll(left);
  }
  return none;
}

/* 0: not a page of the object layer. */
static inline unsigned p3l_page_use_of(const p3l_page *page) {
  return page->kind == P3L_PAGE_DATA ? ((const p3l_object_page *)page)->use : 0;
}

/* ---- page states by number (residency_states.c) ---- */

/*
 * Three levels, so that a store of any size is reached in three steps, and what is unknown costs
 * nothing. They are read without a lock: what one level points to was complete before.
 *
 *   top->middles[number / 2^18]  ──>  middle->groups[512]  ──>  group->states[512]
 */
#define P3L_GROUP_SHIFT 9
#define P3L_GROUP_STATES (1u << P3L_GROUP_SHIFT)
#define P3L_TOP_SHIFT (2 * P3L_GROUP_SHIFT)

typedef struct p3l_state_group {
  p3l_page_state states[P3L_GROUP_STATES];
} p3l_state_group;

typedef struct p3l_state_middle {
  p3l_state_group *groups[P3L_GROUP_STATES];
  void *allocated[P3L_GROUP_STATES]; /* as calloc() gave it: groups begin at a cache line */
} p3l_state_middle;

typedef struct p3l_state_top {
  struct p3l_state_top *smaller; /* the one before; somebody may still read it */
  uint64_t count;
  p3l_state_middle *middles[];
} p3l_state_top;

#define P3L_NEAR_GROUPS 64u

struct p3l_page_states {
  p3l_state_top *top; /* NULL: nothing is known yet */
  /* The first groups once more, of 128 MB: two steps fewer, which is a fifth of the way of a pointer
   * that is found in place. */
  p3l_state_group *near[P3L_NEAR_GROUPS];
};

/* Of a page in one of the near groups. */
static inline p3l_page_state *p3l_page_state_near(const p3l_page_states *states, uint64_t number) {
  p3l_state_group *near =
      __atomic_load_n(&states->near[number >> P3L_GROUP_SHIFT], __ATOMIC_ACQUIRE);
  return near == NULL ? NULL : &near->states[number & (P3L_GROUP_STATES - 1)];
}

/* As p3l_page_state_known(), by any thread that may use the store, without the lock. */
static inline p3l_page_state *p3l_page_state_find(const p3l_page_states *states, uint64_t number) {
  if (number < P3L_NEAR_GROUPS * (uint64_t)P3L_GROUP_STATES)
    return p3l_page_state_near(states, number);
  const p3l_state_top *top = __atomic_load_n(&states->top, __ATOMIC_ACQUIRE);
  uint64_t index = number >> P3L_TOP_SHIFT;
  if (top == NULL || index >= top->count) return NULL;
  p3l_state_middle *middle = __atomic_load_n(&top->middles[index], __ATOMIC_ACQUIRE);
  if (middle == NULL) return NULL;
  uint64_t at = number >> P3L_GROUP_SHIFT & (P3L_GROUP_STATES - 1);
  p3l_state_group *group = __atomic_load_n(&middle->groups[at], __ATOMIC_ACQUIRE);
  return group == NULL ? NULL : &group->states[number & (P3L_GROUP_STATES - 1)];
}

/* Whether an object of an adopted frame begins at the granule: true only when all of the frame is
 * there to be read. Without the lock, too. */
static inline bool p3l_is_in_place(const p3l_page_state *state, uint32_t granule) {
  uint64_t word = __atomic_load_n(&state->in_place[granule / 64], __ATOMIC_ACQUIRE);
  return word >> granule % 64 & 1;
}

static inline void p3l_in_place_put(p3l_page_state *state, uint32_t word, uint64_t bits) {
  __atomic_store_n(&state->in_place[word], bits, __ATOMIC_RELEASE);
}

/* ---- residency_pages.c ---- */

/* Makes room for one more copy; the next p3l_copies_put() of this state cannot fail. */
bool p3l_copies_reserve(p3l_store *store, p3l_page_state *state);
/* The same for as many as a page can have. */
bool p3l_copies_reserve_all(p3l_store *store, p3l_page_state *state);
void p3l_copies_put(p3l_page_state *state, uint32_t granule, void *memory);
void p3l_copies_take(p3l_store *store, p3l_page_state *state, uint32_t granule);
static inline void *p3l_copy_at(const p3l_page_state *state, uint32_t granule) {
  return state->copies[p3l_bits_before(state->copied, granule)];
}

/* ---- residency_load.c ---- */

/* Copies the object at `piece` of the page into an arena, upgraded if need be. */
p3l_code p3l_load_object(p3l_store *store, p3l_page_state *state, p3l_address address,
                         const p3l_object_page *page, const p3l_piece *piece, uint8_t **memory,
                         p3l_error *error);
/* Makes the large object whose first page that is resident; *memory is its first byte. NULL: it has
 * moved to *forward. */
p3l_code p3l_load_large(p3l_store *store, p3l_page_number first, uint8_t **memory,
                        p3l_address *forward, p3l_error *error);
/* Every page of it knows where it begins, for pointers into its middle. False: no memory for the
 * first of them; the others may be read again. */
bool p3l_large_note(p3l_store *store, uint64_t first, uint64_t bytes, uint8_t *memory);
/* Memory for a large object of the transaction, or one that is being loaded, of which the store has
 * `stored` bytes. */
p3l_code p3l_large_take(p3l_store *store, p3l_resident object, uint64_t bytes, uint64_t stored,
                        uint8_t **memory, p3l_error *error);

/* ---- residency_policy.c ---- */

/* Whether the page in the pool is adopted for an object that has just been asked for; if so,
 * `in_place` is filled. */
bool p3l_adopt(p3l_store *store, p3l_page_state *state);
/* Whether all pages of the store are used in place: a small store, which stays in memory. */
bool p3l_adopts_all(const p3l_store *store);

/* In 32 huge pages, which frames are: about what a processor's nearest translation buffer has. */
#define P3L_SMALL_STORE_PAGES ((UINT64_C(64) << 20) / P3L_PAGE_SIZE)

/* ---- swizzle_page.c ---- */

/* `found` of a page that was swizzled whole, or is not to be. */
#define P3L_FOUND_ENOUGH UINT8_MAX
/* A slow path has led to an object of the adopted page once more, without the lock. */
void p3l_page_found(p3l_store *store, p3l_page_state *state);
#endif
