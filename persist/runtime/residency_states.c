/*
 * Page states by page number: three levels, so that a store of any size is reached in three steps,
 * and what is unknown costs nothing.
 *
 *   top [number / 2^18]  ──>  middle [512]  ──>  group of 512 states
 */
#include <stdlib.h>
#include <string.h>

#include "residency_pages.h"
#include "store.h"

#define GROUP_SHIFT 9
#define GROUP_STATES (1u << GROUP_SHIFT)
#define TOP_SHIFT (2 * GROUP_SHIFT)

typedef struct group {
  p3l_page_state states[GROUP_STATES];
} group;

typedef struct middle {
  group *groups[GROUP_STATES];
  void *allocated[GROUP_STATES]; /* as calloc() gave it: groups begin at a cache
                                    line */
} middle;

struct p3l_page_states {
  middle **top;
  uint64_t top_count;
};

p3l_code p3l_page_states_open(p3l_store *store, p3l_error *error) {
  store->pages = calloc(1, sizeof(*store->pages));
  if (store->pages != NULL) return P3L_OK;
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", store->path);
}

static bool grow_top(p3l_page_states *states, uint64_t index) {
  uint64_t count = states->top_count == 0 ? 1 : states->top_count;
  while (count <= index) count *= 2;
  middle **top = calloc(count, sizeof(*top));
  if (top == NULL) return false;
  if (states->top != NULL) memcpy(top, states->top, states->top_count * sizeof(*top));
  free(states->top);
  states->top = top;
  states->top_count = count;
  return true;
}

static group **group_slot(p3l_page_states *states, uint64_t number) {
  uint64_t index = number >> TOP_SHIFT;
  if (index >= states->top_count || states->top[index] == NULL) return NULL;
  return &states->top[index]->groups[number >> GROUP_SHIFT & (GROUP_STATES - 1)];
}

p3l_page_state *p3l_page_state_known(p3l_store *store, p3l_page_number number) {
  group **slot = group_slot(store->pages, number.n);
  return slot == NULL || *slot == NULL ? NULL : &(*slot)->states[number.n & (GROUP_STATES - 1)];
}

static p3l_page_state *make(p3l_store *store, p3l_page_number number) {
  p3l_page_states *states = store->pages;
  uint64_t index = number.n >> TOP_SHIFT;
  if (index >= states->top_count && !grow_top(states, index)) return NULL;
  if (states->top[index] == NULL && (states->top[index] = calloc(1, sizeof(middle))) == NULL)
    return NULL;
  /* calloc(): fresh memory of the kernel is zero already, and costs nothing until it is touched. */
  void *allocated = calloc(1, sizeof(group) + _Alignof(group));
  if (allocated == NULL) return NULL;
  group *made =
      (group *)(((uintptr_t)allocated + _Alignof(group) - 1) & ~(uintptr_t)(_Alignof(group) - 1));
  uint64_t at = number.n >> GROUP_SHIFT & (GROUP_STATES - 1);
  states->top[index]->groups[at] = made;
  states->top[index]->allocated[at] = allocated;
  p3l_memory_grew(store, sizeof(*made));
  return &made->states[number.n & (GROUP_STATES - 1)];
}

p3l_page_state *p3l_page_state_of(p3l_store *store, p3l_page_number number) {
  p3l_page_state *state = p3l_page_state_known(store, number);
  return state != NULL ? state : make(store, number);
}

/* ---- forgetting ---- */

static bool anything_known(const group *states) {
  for (uint32_t at = 0; at < GROUP_STATES; at++) {
    const p3l_page_state *state = &states->states[at];
    bool copied = (state->copied[0] | state->copied[1] | state->copied[2] | state->copied[3]) != 0;
    bool large = state->known && state->use == P3L_USE_LARGE && state->large.memory != NULL;
    if (state->frame != NULL || copied || large) return true;
  }
  return false;
}

static void free_group(p3l_store *store, middle *owner, uint32_t index) {
  for (uint32_t at = 0; at < GROUP_STATES; at++) {
    p3l_page_state *state = &owner->groups[index]->states[at];
    if (state->copy_capacity > 0) {
      p3l_memory_shrank(store, state->copy_capacity * sizeof(void *));
      free(state->copies);
    }
  }
  free(owner->allocated[index]);
  owner->groups[index] = NULL;
  p3l_memory_shrank(store, sizeof(group));
}

static void free_groups(p3l_store *store, bool known_too) {
  p3l_page_states *states = store->pages;
  for (uint64_t top = 0; top < states->top_count; top++) {
    if (states->top[top] == NULL) continue;
    for (uint32_t at = 0; at < GROUP_STATES; at++) {
      const group *there = states->top[top]->groups[at];
      if (there != NULL && (known_too || !anything_known(there)))
        free_group(store, states->top[top], at);
    }
  }
}

void p3l_page_states_trim(p3l_store *store) { free_groups(store, false); }

void p3l_page_states_close(p3l_store *store) {
  if (store->pages == NULL) return;
  free_groups(store, true);
  for (uint64_t top = 0; top < store->pages->top_count; top++) free(store->pages->top[top]);
  free(store->pages->top);
  free(store->pages);
  store->pages = NULL;
}
