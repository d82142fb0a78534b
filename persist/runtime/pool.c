#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "residency_pages.h"
#include "store.h"

/* Pages that are read at a time, at most. */
#define LONGEST_CLUSTER 16u
/* What the pool holds without a memory limit: what it drops, the kernel still has. */
#define DEFAULT_FRAMES 4096u
#define LEAST_FRAMES 16u
/* Of a memory limit, the part that is the pool's. */
#define LIMIT_PART 8

struct p3l_pool {
  p3l_segment *filling; /* has fresh frames; NULL: none has */
  p3l_segment **segments;
  size_t count, room;
  size_t hand_segment; /* the clock's hand */
  uint32_t hand_frame;
  uint64_t loose;       /* frames pooled or empty */
  uint64_t capacity;    /* of them */
  uint64_t store_pages; /* as of the last read */
};

p3l_code p3l_pool_open(p3l_store *store, p3l_error *error) {
  p3l_pool *pool = calloc(1, sizeof(*pool));
  if (pool == NULL) return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to open it", store->path);
  uint64_t limit = store->options.memory_bytes / LIMIT_PART / P3L_PAGE_SIZE;
  pool->capacity = store->options.memory_bytes == 0 ? DEFAULT_FRAMES
                   : limit < LEAST_FRAMES           ? LEAST_FRAMES
                   : limit > DEFAULT_FRAMES         ? DEFAULT_FRAMES
                                                    : limit;
  pool->store_pages = p3l_pager_page_count(store->pager);
  store->pool = pool;
  return P3L_OK;
}

void p3l_pool_close(p3l_store *store) {
  if (store->pool == NULL) return;
  free(store->pool->segments);
  free(store->pool);
  store->pool = NULL;
}

size_t p3l_pool_frames(const p3l_store *store) { return store->pool->capacity; }
uint64_t p3l_pool_store_pages(const p3l_store *store) { return store->pool->store_pages; }

/* ---- frames ---- */

static p3l_frame_info *info_of(const p3l_page_state *state) {
  p3l_segment *segment = p3l_segment_of(state->frame);
  uint64_t offset = (uint64_t)((const uint8_t *)state->frame - segment->memory);
  return &segment->frames.frame[offset / P3L_PAGE_SIZE];
}

static p3l_object_page *frame_memory(const p3l_segment *segment, uint32_t frame) {
  return (p3l_object_page *)(segment->memory + (uint64_t)frame * P3L_PAGE_SIZE);
}

static void empty(p3l_frame_info *info) {
  if (info->state != NULL) {
    info->state->frame = NULL;
    memset(info->state->in_place, 0, sizeof(info->state->in_place));
    info->state->adopted = false;
  }
  *info = (p3l_frame_info){0};
}

void p3l_pool_drop(p3l_store *store, p3l_page_state *state) {
  p3l_frame_info *info = info_of(state);
  if (info->use == P3L_FRAME_ADOPTED) {
    p3l_segment_of(state->frame)->frames.adopted--;
    store->pool->loose++;
  }
  empty(info);
}

void p3l_pool_asked(p3l_store *store, p3l_page_state *state) {
  (void)store;
  p3l_frame_info *info = info_of(state);
  info->asked = true;
  info->brought = false;
}

void p3l_pool_adopted(p3l_store *store, p3l_page_state *state) {
  info_of(state)->use = P3L_FRAME_ADOPTED;
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

/* ---- room ---- */

typedef struct frame_run {
  p3l_segment *segment;
  uint32_t first, count;
} frame_run;

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

/* Frames that were never used, while the pool may grow. */
static p3l_code take_fresh(p3l_store *store, uint32_t count, frame_run *run, p3l_error *error) {
  p3l_pool *pool = store->pool;
  if (pool->filling == NULL || pool->filling->frames.fresh == P3L_SEGMENT_FRAMES) {
    p3l_code code = take_segment(store, error);
    if (code != P3L_OK) return code;
  }
  p3l_segment *segment = pool->filling;
  uint32_t left = (uint32_t)P3L_SEGMENT_FRAMES - segment->frames.fresh;
  *run = (frame_run){segment, segment->frames.fresh, count < left ? count : left};
  segment->frames.fresh += run->count;
  pool->loose += run->count;
  p3l_segment_grew(segment, (uint64_t)run->count * P3L_PAGE_SIZE);
  return P3L_OK;
}

static void advance_segment(p3l_pool *pool) {
  pool->hand_segment = (pool->hand_segment + 1) % pool->count;
  pool->hand_frame = 0;
}

/* The clock: up to `count` frames side by side that nobody has come to since the hand passed. */
static bool sweep(p3l_pool *pool, uint32_t count, frame_run *run) {
  *run = (frame_run){0};
  /* Twice around: the first time may only take their chance from all. */
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
    if (info->use == P3L_FRAME_ADOPTED || info->asked) {
      info->asked = false;
      if (run->count > 0) break;
      continue;
    }
    if (run->count == 0) *run = (frame_run){segment, at, 0};
    empty(info);
    if (++run->count == count) break;
  }
  return run->count > 0;
}

static p3l_code find_room(p3l_store *store, uint32_t count, frame_run *run, p3l_error *error) {
  p3l_pool *pool = store->pool;
  if (count > pool->capacity / 2) count = (uint32_t)(pool->capacity / 2);
  if (pool->loose + count > pool->capacity && sweep(pool, count, run)) return P3L_OK;
  return take_fresh(store, count, run, error);
}

static void put(frame_run run, uint32_t index, p3l_page_number number, p3l_page_state *state) {
  p3l_object_page *page = frame_memory(run.segment, run.first + index);
  run.segment->frames.frame[run.first + index] =
      (p3l_frame_info){.page = number.n, .state = state, .use = P3L_FRAME_POOLED};
  state->frame = page;
  state->known = true;
  state->use = P3L_USE_OBJECTS;
  state->pieces = page->count;
}

/* ---- reading ---- */

/* What a page that was read is good for. */
static p3l_code look(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                     const p3l_page *page, p3l_error *error) {
  unsigned use = p3l_page_use_of(page);
  const char *fault = page->kind == P3L_PAGE_DATA ? p3l_data_page_fault(page) : NULL;
  if (fault != NULL)
    return p3l_fail(error, P3L_CORRUPT, "%s: page %llu %s; restore the store from a copy",
                    store->path, (unsigned long long)number.n, fault);
  if (use != P3L_USE_OBJECTS && use != P3L_USE_LARGE)
    return p3l_fail(error, P3L_DANGLING,
                    "%s: a pointer leads to page %llu, which has no objects "
                    "(any more); p3l gc "
                    "--dry-run lists all such pointers",
                    store->path, (unsigned long long)number.n);
  if (use == P3L_USE_LARGE) {
    state->known = true;
    state->use = P3L_USE_LARGE;
    state->large.first = ((const p3l_large_page *)page)->first;
    state->large.memory = NULL;
  }
  return P3L_OK;
}

p3l_code p3l_pool_read(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                       p3l_error *error) {
  p3l_pool *pool = store->pool;
  pool->store_pages = p3l_pager_page_count(store->pager);
  if (number.n >= pool->store_pages)
    return p3l_fail(error, P3L_DANGLING,
                    "%s: a pointer leads to page %llu, and the store has %llu; "
                    "p3l gc --dry-run "
                    "lists all such pointers",
                    store->path, (unsigned long long)number.n,
                    (unsigned long long)pool->store_pages);
  frame_run run;
  p3l_code code = find_room(store, 1, &run, error);
  if (code != P3L_OK) return code;
  p3l_page *page = (p3l_page *)frame_memory(run.segment, run.first);
  code = p3l_pager_read(store->pager, number, page, error);
  if (code != P3L_OK) return code;
  store->statistics.reads++;
  store->statistics.pages_read++;
  code = look(store, number, state, page, error);
  if (code == P3L_OK && p3l_page_use_of(page) == P3L_USE_OBJECTS) put(run, 0, number, state);
  return code;
}

p3l_code p3l_pool_put(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                      const p3l_page *page, p3l_error *error) {
  p3l_code code = look(store, number, state, page, error);
  if (code != P3L_OK || p3l_page_use_of(page) != P3L_USE_OBJECTS) return code;
  frame_run run;
  code = find_room(store, 1, &run, error);
  if (code != P3L_OK) return code;
  memcpy(frame_memory(run.segment, run.first), page, P3L_PAGE_SIZE);
  put(run, 0, number, state);
  return P3L_OK;
}
