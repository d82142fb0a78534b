/*
 * Which of the store's objects are in memory, and where: the way from a surrogate to an address.
 *
 *   surrogate ──> page state ──> in place? ─ yes ──> frame + offset
 *                    │ no
 *                    ├─ copied? ─ yes ─────────────> arena
 *                    │ no
 *                    └─ page in the pool? ─ no ──> read it, and its neighbours while that pays
 *                           │ yes                  (pool.h)
 *                           └──> the page's use so far decides: copy this object into the arena, or
 *                                adopt the frame for all that are yet to come (residency_policy.c)
 *
 * Invariants:
 *   1. An object is resident at most once: in an arena (its granule's bit in `copied` is set) or in
 *      its page's adopted frame (its bit in `in_place`). Objects that were copied before the page
 *      was adopted stay where they are; their bytes in the frame are dead, and are not believed
 *      again when the copy is evicted: then the page is read once more.
 *   2. A frame of the pool is as the pager has it; nobody has an address in it. So it may be
 *      dropped at any time, and is when a commit changes its page.
 *   3. In an adopted frame and in arenas, the bytes are the truth for everything but what
 *      p3l_commit() has not yet written to the pager; slots may be healed.
 *   4. A pointer into the middle of a copied object is resolved by the arena's own starts, of one
 *      in place by the frame's: so a page state needs none, and works when its page is not in
 *      memory.
 *   5. Objects whose layout the program has changed are never in place; their pages are not
 *      adopted.
 *
 * Everything here is called with the store's slow-path lock held, unless it says otherwise.
 */
#ifndef P3L_RESIDENCY_H
#define P3L_RESIDENCY_H

#include "segment.h"

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
  bool asked;    /* in the pool: somebody came for an object since the clock passed */
  bool brought;  /* in the pool: read as a neighbour, and nobody came for it yet */
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

/* All page states of a store. A state does not move while anything of its page is known. */
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

/*
 * Makes the object that `address` lies in resident; *memory is where that byte is. Follows
 * forwards. P3L_DANGLING, P3L_CORRUPT, P3L_IO, ...
 */
p3l_code p3l_resolve(p3l_store *store, p3l_address address, void **memory, p3l_error *error);

/* The same for a page that the caller has already read: puts it into the pool, so that
 * p3l_resolve() finds it there. A page that is there already: nothing to do. For prefetching. */
p3l_code p3l_residency_offer(p3l_store *store, p3l_page_number number, const p3l_page *page,
                             p3l_error *error);
/* Whether p3l_resolve() would read no page: the object is resident, or its page in memory. */
bool p3l_residency_has(p3l_store *store, p3l_address address);

/* The transaction made an object: it is resident from now on, in an arena or in segments of its
 * own, zeroed, also before its page is committed. */
p3l_code p3l_residency_add(p3l_store *store, p3l_address address, p3l_type_id type, uint64_t bytes,
                           uint32_t flags, p3l_place *place, p3l_error *error);
/* A transaction changes what pieces the page has: an adopted frame takes over its head and type ids
 * (no byte of an object), a frame in the pool is dropped. Called again with the page as it was, it
 * takes everything back. A page of which nothing is known: nothing to do. */
p3l_code p3l_residency_refresh(p3l_store *store, p3l_page_number number, const p3l_page *page,
                               p3l_error *error);
/* The object is gone: deleted and committed, or made and aborted. In an arena it stays, dead; the
 * memory of a large one goes back. */
void p3l_residency_remove(p3l_store *store, p3l_address address);
/* p3l_room_forward() gives an object of `bytes` the address `to`: before the commit can no longer
 * fail, room to note that; P3L_NO_MEMORY. Then, once it is committed: the object stays where it is
 * in memory, and is found by `to`; by `from` through the forward. */
p3l_code p3l_residency_reserve(p3l_store *store, p3l_address to, uint64_t bytes, p3l_error *error);
void p3l_residency_moved(p3l_store *store, p3l_address from, p3l_address to);

/* Nothing in the segment is resident any more, none of its frames is of the pool; the caller has
 * seen to it that nobody points there, and releases it. */
void p3l_residency_forget(p3l_store *store, p3l_segment *segment);

#endif
