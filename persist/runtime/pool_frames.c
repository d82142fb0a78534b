/*
 * The pool's frames, and the clock that empties them.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pager.h"
#include "pool_frames.h"
#include "small_store.h"
#include "store.h"

/* Size of the pool without a memory limit: 256 MB, but at most a 32nd of the machine's memory.
 * The kernel may still have a dropped page, but reading it again costs more than copying one of
 * its objects. */
#define DEFAULT_FRAMES 65536u
#define LEAST_FRAMES 16u
/* The pool's part of a memory limit: one in this many. */
#define LIMIT_PART 8

/* Most pages of a small store will be used: 200,000 parts without locality are read from a disk
 * by 850 requests instead of 1900. Unknown for a large store, or one that does not stay in
 * memory. */
static uint32_t first_cluster(const p3l_store *store) {
  return p3l_adopts_all(store) ? P3L_LONGEST_CLUSTER : 1;
}

static uint64_t capacity_of(const p3l_store *store) {
  uint64_t most = DEFAULT_FRAMES, frames = store->options.memory_bytes / LIMIT_PART / P3L_PAGE_SIZE;
  if (store->options.memory_bytes == 0) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    frames = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 32 / P3L_PAGE_SIZE : most;
  }
  return frames < LEAST_FRAMES ? LEAST_FRAMES : frames > most ? most : frames;
}

p3l_code p3l_pool_open(p3l_store *store, p3l_error *error) {
  p3l_pool *pool = calloc(1, sizeof(*pool));
  if (pool == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", store->path);
  pool->capacity = capacity_of(store);
  store->page_count = p3l_pager_page_count(store->pager);
  store->pool = pool;
  pool->cluster.pages = first_cluster(store);
  return P3L_OK;
}

void p3l_pool_close(p3l_store *store) {
  if (store->pool == NULL) return;
  free(store->pool->segments);
  free(store->pool);
  store->pool = NULL;
}

size_t p3l_pool_frames(const p3l_store *store) { return store->pool->capacity; }

/* ---- frames ---- */

/* True if its page is used in the page cache, without a frame of the pool. */
static bool is_mapped(const p3l_page_state *state) { return p3l_segment_of(state->frame) == NULL; }

static p3l_frame_info *info_of(const p3l_page_state *state) {
  p3l_segment *segment = p3l_segment_of(state->frame);
  uint64_t offset = (uint64_t)((const uint8_t *)state->frame - segment->memory);
  return &segment->frames.frame[offset / P3L_PAGE_SIZE];
}

static void empty(p3l_frame_info *info) {
  p3l_page_state *state = info->state;
  if (info->use == P3L_FRAME_ADOPTED) {
    /* No thread is within the store: an adopted frame is only emptied by a commit or a sweep. */
    for (uint32_t word = 0; word < 4; word++) p3l_in_place_put(state, word, 0);
    state->adopted = false;
    state->found = 0;
  }
  if (state != NULL) state->frame = NULL;
  *info = (p3l_frame_info){0};
}

void p3l_pool_drop(p3l_store *store, p3l_page_state *state) {
  if (is_mapped(state)) {
    state->frame = NULL;
    return;
  }
  p3l_frame_info *info = info_of(state);
  if (info->use == P3L_FRAME_ADOPTED) {
    p3l_segment_of(state->frame)->frames.adopted--;
    store->pool->loose++;
  }
  empty(info);
}

void p3l_pool_asked(p3l_store *store, p3l_page_state *state) {
  state->asked = true;
  store->pool->cluster.used += state->brought;
  state->brought = false;
}

void p3l_pool_adopted(p3l_store *store, p3l_page_state *state) {
  info_of(state)->use = P3L_FRAME_ADOPTED;
  info_of(state)->reused = !p3l_never_reused(state);
  p3l_segment_of(state->frame)->frames.adopted++;
  store->pool->loose--;
}

bool p3l_pool_owns(const p3l_store *store, const p3l_segment *segment) {
  (void)store;
  return segment->kind == P3L_FRAMES && segment->frames.adopted == 0;
}

void p3l_pool_forget(p3l_store *store, p3l_segment *segment) {
  p3l_pool *pool = store->pool;
  for (uint32_t at = 0; at < segment->frames.fresh; at++) {
    if (segment->frames.frame[at].use != P3L_FRAME_ADOPTED) pool->loose--;
    empty(&segment->frames.frame[at]);
  }
  segment->frames.adopted = 0;
  if (pool->filling == segment) pool->filling = NULL;
  for (size_t at = 0; at < pool->count; at++)
    if (pool->segments[at] == segment) pool->segments[at--] = pool->segments[--pool->count];
  pool->hand_segment = 0;
  pool->hand_frame = 0;
}

/* ---- space ---- */

static p3l_code take_segment(p3l_store *store, p3l_error *error) {
  p3l_pool *pool = store->pool;
  if (pool->count == pool->room) {
    size_t room = pool->room == 0 ? 16 : 2 * pool->room;
    p3l_segment **segments = realloc(pool->segments, room * sizeof(*segments));
    if (segments == NULL)
      return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for pages", store->path);
    pool->segments = segments;
    pool->room = room;
  }
  p3l_code code = p3l_segment_take(store, P3L_FRAMES, 1, &pool->filling, error);
  if (code == P3L_OK) pool->segments[pool->count++] = pool->filling;
  return code;
}

/* Takes frames that were never used, while the pool may grow. */
static p3l_code take_fresh(p3l_store *store, uint32_t count, p3l_frame_run *run, p3l_error *error) {
  p3l_pool *pool = store->pool;
  if (pool->filling == NULL || pool->filling->frames.fresh == P3L_SEGMENT_FRAMES) {
    p3l_code code = take_segment(store, error);
    if (code != P3L_OK) return code;
  }
  p3l_segment *segment = pool->filling;
  uint32_t left = (uint32_t)P3L_SEGMENT_FRAMES - segment->frames.fresh;
  *run = (p3l_frame_run){segment, segment->frames.fresh, count < left ? count : left};
  segment->frames.fresh += run->count;
  pool->loose += run->count;
  p3l_segment_grew(segment, (uint64_t)run->count * P3L_PAGE_SIZE);
  return P3L_OK;
}

static void advance_segment(p3l_pool *pool) {
  pool->hand_segment = (pool->hand_segment + 1) % pool->count;
  pool->hand_frame = 0;
}

/* The clock: finds up to `count` adjacent frames that were not requested since the hand passed. */
static bool sweep(p3l_pool *pool, uint32_t count, p3l_frame_run *run) {
  *run = (p3l_frame_run){0};
  /* Two rounds: the first may only clear the marks of all frames. */
  for (size_t passed = 0; passed <= 2 * pool->count;) {
    p3l_segment *segment = pool->segments[pool->hand_segment];
    if (pool->hand_frame >= segment->frames.fresh) {
      if (run->count > 0) break;
      advance_segment(pool);
      passed++;
      continue;
    }
    uint32_t at = pool->hand_frame++;
    p3l_frame_info *info = &segment->frames.frame[at];
    if (info->use == P3L_FRAME_ADOPTED || (info->state != NULL && info->state->asked)) {
      info->state->asked = false;
      if (run->count > 0) break;
      continue;
    }
    if (run->count == 0) *run = (p3l_frame_run){segment, at, 0};
    empty(info);
    if (++run->count == count) break;
  }
  return run->count > 0;
}

p3l_code p3l_frames_find(p3l_store *store, uint32_t count, p3l_frame_run *run, p3l_error *error) {
  p3l_pool *pool = store->pool;
  if (count > pool->capacity / 2) count = (uint32_t)(pool->capacity / 2);
  if (pool->loose + count > pool->capacity && sweep(pool, count, run)) return P3L_OK;
  return take_fresh(store, count, run, error);
}

/* Called while the page is in the processor's cache. */
static p3l_type_id type_of_all(const p3l_object_page *page) {
  p3l_type_id type = p3l_type_of_all(page);
  return type != P3L_FORWARD ? type : P3L_HOLE;
}

void p3l_state_pooled(p3l_page_state *state, p3l_object_page *page, bool brought) {
  state->frame = page;
  state->known = true;
  state->use = P3L_USE_OBJECTS;
  state->pieces = page->count;
  state->end = page->end;
  state->type = type_of_all(page);
  state->asked = false;
  state->brought = brought;
  if (p3l_has_generations(page)) p3l_reused_put(state);
  memcpy(state->starts, page->starts, sizeof(state->starts));
}

void p3l_frame_put(p3l_frame_run run, uint32_t index, p3l_page_number number, p3l_page_state *state,
                   bool brought) {
  run.segment->frames.frame[run.first + index] =
      (p3l_frame_info){.page = number.n, .state = state, .use = P3L_FRAME_POOLED};
  p3l_state_pooled(state, p3l_frame_page(run, index), brought);
}

void p3l_frame_refreshed(p3l_page_state *state) {
  if (p3l_has_generations(state->frame)) p3l_reused_put(state);
  info_of(state)->reused = !p3l_never_reused(state);
}

bool p3l_pool_own(p3l_store *store, p3l_page_state *state) {
  if (!is_mapped(state)) return true;
  const p3l_object_page *mapped = state->frame;
  p3l_page_number number = {((const p3l_page *)(const void *)mapped)->number};
  p3l_frame_run run;
  if (p3l_frames_find(store, 1, &run, NULL) != P3L_OK) return false;
  memcpy(p3l_frame_page(run, 0), mapped, P3L_PAGE_SIZE);
  p3l_frame_put(run, 0, number, state, false);
  return true;
}
