/*
 * Page states by page number: created when a page is first requested, freed in groups.
 */
#include <stdlib.h>
#include <string.h>

#include "page_state.h"
#include "store.h"

p3l_code p3l_page_states_open(p3l_store *store, p3l_error *error) {
  store->pages = calloc(1, sizeof(*store->pages));
  if (store->pages != NULL) return P3L_OK;
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", store->path);
}

/* The smaller table is kept: other threads read it without a lock. All smaller tables together
 * are no larger than the last. */
static bool grow_top(p3l_page_states *states, uint64_t index) {
  p3l_state_top *old = states->top;
  uint64_t count = old == NULL ? 1 : old->count;
  while (count <= index) count *= 2;
  p3l_state_top *top = calloc(1, sizeof(*top) + count * sizeof(top->middles[0]));
  if (top == NULL) return false;
  top->smaller = old;
  top->count = count;
  if (old != NULL) memcpy(top->middles, old->middles, old->count * sizeof(top->middles[0]));
  __atomic_store_n(&states->top, top, __ATOMIC_RELEASE);
  return true;
}

p3l_page_state *p3l_page_state_known(p3l_store *store, p3l_page_number number) {
  return p3l_page_state_find(store->pages, number.n);
}

static p3l_page_state *make(p3l_store *store, p3l_page_number number) {
  p3l_page_states *states = store->pages;
  uint64_t index = number.n >> P3L_TOP_SHIFT;
  if ((states->top == NULL || index >= states->top->count) && !grow_top(states, index)) return NULL;
  p3l_state_middle *middle = states->top->middles[index];
  if (middle == NULL) {
    middle = calloc(1, sizeof(*middle));
    if (middle == NULL) return NULL;
    __atomic_store_n(&states->top->middles[index], middle, __ATOMIC_RELEASE);
  }
  /* calloc(): fresh memory of the kernel is zero already, and costs nothing until it is touched. */
  const uintptr_t alignment = _Alignof(p3l_state_group);
  void *allocated = calloc(1, sizeof(p3l_state_group) + alignment);
  if (allocated == NULL) return NULL;
  p3l_state_group *group =
      (p3l_state_group *)(((uintptr_t)allocated + alignment - 1) & ~(alignment - 1));
  uint64_t at = number.n >> P3L_GROUP_SHIFT & (P3L_GROUP_STATES - 1);
  middle->allocated[at] = allocated;
  __atomic_store_n(&middle->groups[at], group, __ATOMIC_RELEASE);
  if (index == 0 && at < P3L_NEAR_GROUPS)
    __atomic_store_n(&states->near[at], group, __ATOMIC_RELEASE);
  p3l_memory_grew(store, sizeof(*group));
  return &group->states[number.n & (P3L_GROUP_STATES - 1)];
}

p3l_page_state *p3l_page_state_of(p3l_store *store, p3l_page_number number) {
  p3l_page_state *state = p3l_page_state_known(store, number);
  return state != NULL ? state : make(store, number);
}

/* ---- all of them ---- */

static p3l_code visit_group(p3l_state_group *group, uint64_t first, p3l_state_visitor visit,
                            void *state, p3l_error *error) {
  p3l_code code = P3L_OK;
  for (uint32_t at = 0; at < P3L_GROUP_STATES && code == P3L_OK; at++) {
    p3l_page_state *page = &group->states[at];
    bool copied = (page->copied[0] | page->copied[1] | page->copied[2] | page->copied[3]) != 0;
    if (page->known || page->frame != NULL || copied)
      code = visit(state, (p3l_page_number){first + at}, page, error);
  }
  return code;
}

p3l_code p3l_page_states_each(p3l_store *store, p3l_state_visitor visit, void *state,
                              p3l_error *error) {
  p3l_state_top *top = store->pages->top;
  p3l_code code = P3L_OK;
  for (uint64_t index = 0; top != NULL && index < top->count; index++) {
    p3l_state_middle *middle = top->middles[index];
    for (uint64_t at = 0; middle != NULL && at < P3L_GROUP_STATES && code == P3L_OK; at++)
      if (middle->groups[at] != NULL)
        code = visit_group(middle->groups[at], (index << P3L_TOP_SHIFT) + (at << P3L_GROUP_SHIFT),
                           visit, state, error);
  }
  return code;
}

/* ---- forgetting ---- */

static bool anything_known(const p3l_state_group *states) {
  for (uint32_t at = 0; at < P3L_GROUP_STATES; at++) {
    const p3l_page_state *state = &states->states[at];
    bool copied = (state->copied[0] | state->copied[1] | state->copied[2] | state->copied[3]) != 0;
    bool large = state->known && state->use == P3L_USE_LARGE && state->large.memory != NULL;
    if (state->frame != NULL || copied || large) return true;
  }
  return false;
}

static void free_group(p3l_store *store, p3l_state_middle *owner, uint32_t index) {
  for (uint32_t at = 0; at < P3L_GROUP_STATES; at++) {
    p3l_page_state *state = &owner->groups[index]->states[at];
    if (state->copy_capacity > 0) {
      p3l_memory_shrank(store, state->copy_capacity * sizeof(void *));
      free(state->copies);
    }
  }
  free(owner->allocated[index]);
  owner->groups[index] = NULL;
  p3l_memory_shrank(store, sizeof(p3l_state_group));
}

static void free_groups(p3l_store *store, bool known_too) {
  p3l_state_top *top = store->pages->top;
  for (uint64_t index = 0; top != NULL && index < top->count; index++) {
    p3l_state_middle *middle = top->middles[index];
    for (uint32_t at = 0; middle != NULL && at < P3L_GROUP_STATES; at++) {
      const p3l_state_group *group = middle->groups[at];
      if (group == NULL || (!known_too && anything_known(group))) continue;
      if (index == 0 && at < P3L_NEAR_GROUPS) store->pages->near[at] = NULL;
      free_group(store, middle, at);
    }
  }
}

void p3l_page_states_trim(p3l_store *store) { free_groups(store, false); }

void p3l_page_states_close(p3l_store *store) {
  if (store->pages == NULL) return;
  free_groups(store, true);
  p3l_state_top *top = store->pages->top;
  for (uint64_t index = 0; top != NULL && index < top->count; index++) free(top->middles[index]);
  while (top != NULL) {
    p3l_state_top *smaller = top->smaller;
    free(top);
    top = smaller;
  }
  free(store->pages);
  store->pages = NULL;
}
