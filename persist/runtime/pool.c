/*
 * Reading pages into the pool, with their neighbours while that saves time.
 */
#include "pool.h"

#include <string.h>
#include <time.h>

#include "catalog.h"
#include "pager.h"
#include "pool_frames.h"
#include "residency_policy.h"
#include "small_store.h"
#include "store.h"

/* ---- reading ---- */

/* Classifies a page that was read. */
static p3l_code look(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                     const p3l_page *page, p3l_error *error) {
  unsigned use = p3l_page_use_of(page);
  const char *fault = page->kind == P3L_PAGE_DATA ? p3l_data_page_fault(page) : NULL;
  if (fault != NULL)
    return p3l_fail(error, P3L_CORRUPT, "%s: page %llu %s; restore the store from a copy",
                    store->path, (unsigned long long)number.n, fault);
  if (use != P3L_USE_OBJECTS && use != P3L_USE_LARGE)
    return p3l_fail(error, P3L_DANGLING,
                    "%s: a pointer leads to page %llu, which has no objects (any more); p3l gc "
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

/* ---- clusters ---- */

/*
 * When clusters are worth it: a neighbour costs its transfer, about 0.5 us from the page cache, and
 * saves a request if it is needed: 1 us from the page cache, 100 us from a disk. So the longer a
 * request takes, the smaller the share of neighbours that must be used. Checked again after this
 * number of requests.
 */
#define CLUSTER_WINDOW 16u
#define SLOW_REQUEST 20000u /* ns: typical of a disk, not of the page cache */

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static bool in_memory(p3l_store *store, uint64_t number) {
  const p3l_page_state *state = p3l_page_state_find(store->pages, number);
  return state != NULL && (state->frame != NULL || (state->known && state->use == P3L_USE_LARGE));
}

static void adapt(p3l_cluster *cluster) {
  if (cluster->reads < CLUSTER_WINDOW) return;
  bool slow = cluster->nanoseconds > SLOW_REQUEST;
  /* In a longer cluster, the pages next to those already read would certainly be used. */
  uint32_t enough = slow ? 8 : 2; /* one in this many */
  bool longer =
      cluster->adjacent * enough >= cluster->reads && cluster->used * enough >= cluster->brought;
  bool shorter = cluster->used * enough * 2 < cluster->brought;
  if (longer && cluster->pages < P3L_LONGEST_CLUSTER)
    cluster->pages *= 2;
  else if (shorter && cluster->pages > 1)
    cluster->pages /= 2;
  cluster->reads = cluster->adjacent = cluster->brought = cluster->used = 0;
}

/* The cluster around a page: the pages before and after it that are not in memory. */
static uint32_t plan(p3l_store *store, uint64_t number, uint64_t *first) {
  p3l_pool *pool = store->pool;
  p3l_cluster *cluster = &pool->cluster;
  if (!p3l_adopts_all(store)) adapt(cluster); /* otherwise use is not counted */
  uint64_t size = cluster->pages, begin = number & ~(size - 1), end = begin + size;
  uint64_t buddy = begin ^ size; /* the additional pages of a cluster twice as long */
  cluster->reads++;
  cluster->adjacent += in_memory(store, buddy) || in_memory(store, buddy + size - 1);
  if (end > store->page_count) end = store->page_count;
  *first = number;
  while (*first > begin && *first > 1 && !in_memory(store, *first - 1)) --*first;
  uint64_t last = number;
  while (last + 1 < end && !in_memory(store, last + 1)) last++;
  return (uint32_t)(last + 1 - *first);
}

/* After this number of requested pages of a small store, their neighbours are adopted, too. */
#define ADOPTED_ENOUGH 16u

/* Skips neighbours that are not pages of objects or are damaged: they were not requested. Pages
 * that will be adopted are adopted now, while they are in the processor's cache. */
static void keep_neighbour(p3l_store *store, p3l_frame_run run, uint32_t index, uint64_t number) {
  const p3l_page *page = (const p3l_page *)p3l_frame_page(run, index);
  if (p3l_page_use_of(page) != P3L_USE_OBJECTS || p3l_data_page_fault(page) != NULL) return;
  p3l_page_state *state = p3l_page_state_of(store, (p3l_page_number){number});
  if (state == NULL) return;
  bool adopted = p3l_adopts_all(store) && store->statistics.pages_adopted >= ADOPTED_ENOUGH;
  p3l_frame_put(run, index, (p3l_page_number){number}, state, !adopted);
  if (!adopted)
    store->pool->cluster.brought++;
  else
    p3l_adopt(store, state);
}

/*
 * Most pages of a small store will be used: after the first wait for a disk, the kernel fetches the
 * megabytes around the page while the program continues. Not before: if they are in the page cache,
 * the request costs 25 us for 4 MB.
 */
#define REGION_PAGES 512u
#define WAITED UINT64_C(60000) /* ns: 64 KB from the page cache take 25 us */
_Static_assert(P3L_SMALL_STORE_PAGES / REGION_PAGES <= 32, "a bit for each region");

static void fetch_region(p3l_store *store, uint64_t page, uint64_t took) {
  p3l_pool *pool = store->pool;
  uint64_t region = page / REGION_PAGES;
  if (took < WAITED || !p3l_adopts_all(store) || (pool->regions >> region & 1) != 0) return;
  pool->regions |= UINT32_C(1) << region;
  p3l_pager_soon(store->pager, (p3l_page_number){region * REGION_PAGES}, REGION_PAGES);
}

/* The page was read: removes its hint, if there was one, and counts it as used. */
static bool take_hint(p3l_pool *pool, uint64_t number) {
  return p3l_soon_came(&pool->soon, number & ~(uint64_t)(pool->cluster.pages - 1));
}

static p3l_code read_frames(p3l_store *store, uint64_t first, p3l_frame_run run, p3l_error *error) {
  p3l_cluster *cluster = &store->pool->cluster;
  p3l_page *pages = (p3l_page *)p3l_frame_page(run, 0);
  bool hinted = take_hint(store->pool, first);
  uint64_t before = now();
  if (!hinted && cluster->nanoseconds > SLOW_REQUEST && !p3l_adopts_all(store))
    p3l_soon_neighbours(store, &store->pool->soon, first, run.count, cluster->pages);
  p3l_code code =
      run.count == 1
          ? p3l_pager_read(store->pager, (p3l_page_number){first}, pages, error)
          : p3l_pager_read_run(store->pager, (p3l_page_number){first}, run.count, pages, error);
  uint64_t took = now() - before;
  if (!hinted) cluster->nanoseconds = (cluster->nanoseconds * 7 + took) / 8;
  fetch_region(store, first, took);
  store->statistics.reads++;
  if (code == P3L_OK) store->statistics.pages_read += run.count;
  return code;
}

/*
 * A small store is adopted whole, which takes frames; under a memory limit, mapped pages would not
 * be counted.
 */
static const p3l_page *find_mapped(p3l_store *store, p3l_page_number number) {
  bool may = store->options.read_only && store->options.memory_bytes == 0 && !p3l_adopts_all(store);
  return may ? p3l_pager_mapped(store->pager, number) : NULL;
}

static p3l_code use_mapped(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                           const p3l_page *page, p3l_error *error) {
  p3l_code code = look(store, number, state, page, error);
  store->statistics.pages_read++;
  take_hint(store->pool, number.n);
  if (code == P3L_OK && p3l_page_use_of(page) == P3L_USE_OBJECTS)
    p3l_state_pooled(state, (p3l_object_page *)(uintptr_t)page, false);
  return code;
}

p3l_code p3l_pool_read(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                       p3l_error *error) {
  store->page_count = p3l_pager_page_count(store->pager);
  if (number.n >= store->page_count)
    return p3l_fail(error, P3L_DANGLING,
                    "%s: a pointer leads to page %llu, behind the last page of the store; p3l gc "
                    "--dry-run lists all such pointers",
                    store->path, (unsigned long long)number.n);
  const p3l_page *mapped = find_mapped(store, number);
  if (mapped != NULL) return use_mapped(store, number, state, mapped, error);
  uint64_t first;
  uint32_t count = plan(store, number.n, &first);
  p3l_frame_run run;
  p3l_code code = p3l_frames_find(store, count, &run, error);
  if (code != P3L_OK) return code;
  /*
   * There are fewer frames than pages: read the first pages, or, if the requested page is not among
   * them, those that end with it.
   */
  if (number.n >= first + run.count) first = number.n + 1 - run.count;
  code = read_frames(store, first, run, error);
  if (code != P3L_OK && run.count > 1) {
    /* A neighbour may be the damaged page. */
    run.count = 1;
    first = number.n;
    code = read_frames(store, first, run, error);
  }
  if (code != P3L_OK) return code;
  uint32_t index = (uint32_t)(number.n - first);
  const p3l_page *page = (const p3l_page *)p3l_frame_page(run, index);
  code = look(store, number, state, page, error);
  for (uint32_t at = 0; at < run.count; at++)
    if (at != index) keep_neighbour(store, run, at, first + at);
  if (code == P3L_OK && p3l_page_use_of(page) == P3L_USE_OBJECTS)
    p3l_frame_put(run, index, number, state, false);
  return code;
}

p3l_code p3l_pool_put(p3l_store *store, p3l_page_number number, p3l_page_state *state,
                      const p3l_page *page, p3l_error *error) {
  p3l_code code = look(store, number, state, page, error);
  if (code != P3L_OK || p3l_page_use_of(page) != P3L_USE_OBJECTS) return code;
  p3l_frame_run run;
  code = p3l_frames_find(store, 1, &run, error);
  if (code != P3L_OK) return code;
  memcpy(p3l_frame_page(run, 0), page, P3L_PAGE_SIZE);
  p3l_frame_put(run, 0, number, state, false);
  return P3L_OK;
}
