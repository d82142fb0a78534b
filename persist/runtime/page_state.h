/*
 * What is known of a page: where its objects are in memory.
 *
 *   unknown ──> known, no frame ──> in the pool ──> adopted
 *      ^               ^ p3l_pool_read │    │ p3l_adopt │
 *      │               └───────────────┘<───┴───────────┘  p3l_pool_drop, p3l_pool_forget
 *      └── p3l_page_states_trim, when nothing of the page's group is resident
 *
 * Invariants:
 *   1. A state does not move while anything of its page is resident.
 *   2. Fields are written under the store's slow-path lock. `in_place`, `found`, `reused` and the way from
 *      a number to a state are read without it: what is published there is complete.
 * residency.h has those of objects. Private to runtime/.
 */
#ifndef P3L_PAGE_STATE_H
#define P3L_PAGE_STATE_H

#include "bits.h"
#include "object_page.h"
#include "p3l.h"

#define P3L_FEW_COPIES 8

/*
 * Three lines of the processor's cache: a pointer to an object in place needs the first alone, to one
 * that is copied from a page of one type two, and the page but for the object not at all.
 */
typedef struct p3l_page_state {
  p3l_object_page *frame; /* adopted, or in the pool; NULL: neither */
  uint64_t in_place[4];   /* by granule: an object begins there, and is used there */
  void **copies;          /* memory of the copied objects, by rank in `copied`; `few` at first */
  uint16_t copy_capacity; /* of `copies` if that is not `few`, else 0 */
  uint16_t pieces;        /* of the page, when it was read */
  uint16_t discovered;    /* of them resident, here or there */
  uint16_t end;           /* of the pieces in the page; in the pool only */
  p3l_type_id type;       /* of all pieces, in the pool only; P3L_HOLE: of several types */
  uint8_t use;            /* p3l_page_use, if known */
  bool known;             /* the page was read, or made by the transaction under way */
  bool adopted;
  bool asked : 1;   /* in the pool: an object of it was asked for since the clock passed */
  bool brought : 1; /* in the pool: read as a neighbour, and not asked for yet */
  bool reused; /* some piece has, or had, another generation than 0: pointers are compared with it.
                  * Stays until the state is forgotten; atomic */
  uint8_t found; /* adopted: slow paths that led here, as far as they are counted; atomic */
  /* second line */
  uint64_t copied[4]; /* by granule: an object begins there, and is in an arena */
  uint64_t starts[4]; /* by granule: a piece begins there; in the pool only */
  /* third line */
  union {
    void *few[P3L_FEW_COPIES]; /* pages used sparsely need no allocation */
    struct {
      uint64_t first;  /* page number of the object's first page */
      uint8_t *memory; /* of its first byte, in the state of its first page; NULL: not there */
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
/* NULL: no memory. Made when first asked for. */
p3l_page_state *p3l_page_state_of(p3l_store *store, p3l_page_number number);
/* The same, NULL if nothing is known of the page. */
p3l_page_state *p3l_page_state_known(p3l_store *store, p3l_page_number number);
/* Forgets states none of which has anything resident, by groups: for stores larger than memory. No
 * pointer to a state may be kept across it. */
void p3l_page_states_trim(p3l_store *store);

/* All states of which anything is known, in any order, while the visitor says P3L_OK. */
typedef p3l_code (*p3l_state_visitor)(void *state, p3l_page_number number, p3l_page_state *page,
                                      p3l_error *error);
p3l_code p3l_page_states_each(p3l_store *store, p3l_state_visitor visit, void *state,
                              p3l_error *error);

/* ---- page states by number ---- */

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

/* Whether a pointer without a generation may lead here without a look at the object's: most do. */
static inline bool p3l_never_reused(const p3l_page_state *state) {
  return !__atomic_load_n(&state->reused, __ATOMIC_RELAXED);
}

/* Whether what the surrogate means is in place. Without the lock, too: the ids of an adopted frame
 * change only while no reader is within. */
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
