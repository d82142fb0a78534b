/*
 * The state of a page: where its objects are in memory.
 *
 *   unknown ──> known, no frame ──> in the pool ──> adopted
 *      ^               ^ p3l_pool_read │    │ p3l_adopt │
 *      │               └───────────────┘<───┴───────────┘  p3l_pool_drop, p3l_pool_forget
 *      └── p3l_page_states_trim, when nothing of the page's group is resident
 *
 * Invariants:
 *   1. A state does not move while anything of its page is resident.
 *   2. Fields are written under the store's slow-path lock. `in_place`, `found`, `reused` and the
 *      tables from a number to a state are read without it: what they publish is complete.
 * residency.h has the invariants of objects. Private to runtime/.
 */
#ifndef P3L_PAGE_STATE_H
#define P3L_PAGE_STATE_H

#include "bits.h"
#include "object_page.h"
#include "p3l.h"

#define P3L_FEW_COPIES 8

/*
 * Three cache lines: a pointer to an object in place needs only the first, one to a copied object
 * of a page with one type two, and neither needs the page except for the object.
 */
typedef struct p3l_page_state {
  p3l_object_page *frame; /* adopted, or in the pool; NULL: no frame */
  uint64_t in_place[4];   /* one bit a granule: an object begins there and is used there */
  void **copies;          /* addresses of the copied objects, by rank in `copied`; `few` at first */
  uint16_t copy_capacity; /* capacity of `copies` if it is not `few`, else 0 */
  uint16_t pieces;        /* number of pieces in the page when it was read */
  uint16_t discovered;    /* pieces that are resident, in place or copied */
  uint16_t end;           /* end of the pieces in the page; in the pool only */
  p3l_type_id type;       /* type of all pieces, in the pool only; P3L_HOLE: several types */
  uint8_t use;            /* p3l_page_use, if known */
  bool known;             /* the page was read, or made by the transaction under way */
  bool adopted;
  bool asked : 1;   /* in the pool: one of its objects was asked for since the clock passed */
  bool brought : 1; /* in the pool: read as a neighbour, not yet asked for */
  bool reused;      /* some piece has, or had, a generation other than 0: pointers are compared with
                * it. Stays set until the state is forgotten; atomic */
  uint8_t found;    /* adopted: number of slow paths that led here, up to a limit; atomic */
  /* second line */
  uint64_t copied[4]; /* one bit a granule: an object begins there and is in an arena */
  uint64_t starts[4]; /* one bit a granule: a piece begins there; in the pool only */
  /* third line */
  union {
    void *few[P3L_FEW_COPIES]; /* for pages used sparsely: no allocation */
    struct {
      uint64_t first;  /* page number of the object's first page */
      uint8_t *memory; /* its first byte, in the state of its first page; NULL: not resident */
    } large;           /* P3L_USE_LARGE; `copied` is zero */
  };
} __attribute__((aligned(64))) p3l_page_state;
_Static_assert(offsetof(p3l_page_state, copied) == 64 && sizeof(p3l_page_state) == 192,
               "three cache lines");

/* 0: not a page of the object layer. */
static inline unsigned p3l_page_use_of(const p3l_page *page) {
  return page->kind == P3L_PAGE_DATA ? ((const p3l_object_page *)page)->use : 0;
}

/* All page states of a store. */
typedef struct p3l_page_states p3l_page_states;
p3l_code p3l_page_states_open(p3l_store *store, p3l_error *error);
void p3l_page_states_close(p3l_store *store);
/* NULL: no memory. The state is created when first requested. */
p3l_page_state *p3l_page_state_of(p3l_store *store, p3l_page_number number);
/* The same, NULL if nothing is known of the page. */
p3l_page_state *p3l_page_state_known(p3l_store *store, p3l_page_number number);
/* Frees states, in groups, of which no page has anything resident: for stores larger than
 * memory. No pointer to a state may be kept across this call. */
void p3l_page_states_trim(p3l_store *store);

/* Visits all known states, in any order, while the visitor returns P3L_OK. */
typedef p3l_code (*p3l_state_visitor)(void *state, p3l_page_number number, p3l_page_state *page,
                                      p3l_error *error);
p3l_code p3l_page_states_each(p3l_store *store, p3l_state_visitor visit, void *state,
                              p3l_error *error);

/* ---- page states by number ---- */

/*
 * Three levels, so that a page of any store is found in three steps and unknown pages cost nothing.
 * They are read without a lock: an entry is complete before a pointer to it is published.
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
  void *allocated[P3L_GROUP_STATES]; /* as calloc() returned it: groups begin at a cache line */
} p3l_state_middle;

typedef struct p3l_state_top {
  struct p3l_state_top *smaller; /* the table before this one; other threads may still read it */
  uint64_t count;
  p3l_state_middle *middles[];
} p3l_state_top;

#define P3L_NEAR_GROUPS 64u

struct p3l_page_states {
  p3l_state_top *top; /* NULL: no page is known yet */
  /* A second table of the first groups, those of 128 MB: it saves two steps, a fifth of the cost
   * of resolving a pointer to an object in place. */
  p3l_state_group *near[P3L_NEAR_GROUPS];
};

/* The state of a page in one of the near groups. */
static inline p3l_page_state *p3l_page_state_near(const p3l_page_states *states, uint64_t number) {
  p3l_state_group *near =
      __atomic_load_n(&states->near[number >> P3L_GROUP_SHIFT], __ATOMIC_ACQUIRE);
  return near == NULL ? NULL : &near->states[number & (P3L_GROUP_STATES - 1)];
}

/* As p3l_page_state_known(), without the lock, for any thread that may use the store. */
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

/* True if an object of an adopted frame begins at the granule; only when the whole frame is
 * ready to be read. Also called without the lock. */
static inline bool p3l_is_in_place(const p3l_page_state *state, uint32_t granule) {
  uint64_t word = __atomic_load_n(&state->in_place[granule / 64], __ATOMIC_ACQUIRE);
  return word >> granule % 64 & 1;
}

/* True if a pointer without a generation may lead here without comparing the object's
 * generation: most do. */
static inline bool p3l_never_reused(const p3l_page_state *state) {
  return !__atomic_load_n(&state->reused, __ATOMIC_RELAXED);
}

/* True if the object that the surrogate names is in place. Also called without the lock: the ids
 * of an adopted frame change only while no reader is within the store. */
static inline bool p3l_is_in_place_as(const p3l_page_state *state, uint64_t surrogate) {
  uint32_t granule = (uint32_t)(surrogate % P3L_PAGE_SIZE / P3L_GRANULE);
  uint8_t generation = p3l_surrogate_generation(surrogate);
  if (!p3l_is_in_place(state, granule)) return false;
  if (__builtin_expect(p3l_never_reused(state), 1)) return generation == 0;
  uint32_t rank = p3l_bits_before(state->frame->starts, granule);
  return p3l_id_generation(p3l_id_at(state->frame, rank)) == generation;
}

static inline void p3l_reused_put(p3l_page_state *state) {
  __atomic_store_n(&state->reused, true, __ATOMIC_RELAXED);
}

static inline void p3l_in_place_put(p3l_page_state *state, uint32_t word, uint64_t bits) {
  __atomic_store_n(&state->in_place[word], bits, __ATOMIC_RELEASE);
}

#endif
