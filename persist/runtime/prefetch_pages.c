/*
 * Three ways to read pages that are wanted soon:
 *
 *   far apart      many requests at a time, each into a buffer, from there into the pool
 *   side by side   the same, one after the other: the kernel then reads ahead automatically, and what it
 *                  has costs no change of threads
 *   whole store    from its first page to its last straight into frames, which are adopted: nothing
 *                  is copied, the kernel reads ahead all the way while we check what we have
 */
#include "prefetch_pages.h"

#include <stdlib.h>

#include "pool_frames.h"
#include "read_many.h"
#include "residency_policy.h"
#include "small_store.h"
#include "store.h"

#define SMALL_STORE_PAGES 2048u /* 8 MB: about 4 ms from an SSD */
/*
 * Pages of one request when the whole store is read: few, so that the kernel reads ahead while they
 * are checked.
 */
#define WHOLE_RUN 64u

bool p3l_prefetch_room(void **array, size_t count, size_t *capacity, size_t each) {
  if (count < *capacity) return true;
  size_t more = *capacity == 0 ? 256 : *capacity * 2;
  void *grown = realloc(*array, more * each);
  if (grown == NULL) return false;
  *array = grown;
  *capacity = more;
  return true;
}

/* ---- lists ---- */

typedef struct offer {
  p3l_store *store;
  const p3l_page_number *pages;
} offer;

static p3l_code offer_page(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  const offer *offer = state;
  pthread_mutex_lock(&offer->store->slow);
  p3l_code code = p3l_residency_offer(offer->store, offer->pages[index], page, error);
  offer->store->statistics.pages_read++;
  pthread_mutex_unlock(&offer->store->slow);
  return code;
}

static int by_number(const void *a, const void *b) {
  uint64_t left = ((const p3l_page_number *)a)->n, right = ((const p3l_page_number *)b)->n;
  return left < right ? -1 : left > right;
}

/* Sorts the pages and removes duplicates. */
static void sort(p3l_page_list *list) {
  qsort(list->pages, list->count, sizeof(*list->pages), by_number);
  size_t unique = 0;
  for (size_t i = 0; i < list->count; i++)
    if (unique == 0 || list->pages[i].n != list->pages[unique - 1].n)
      list->pages[unique++] = list->pages[i];
  list->count = unique;
}

/*
 * The longest gap of unrequested pages that is read rather than skipped by a second request. If
 * every eighth page is wanted, its neighbours will be soon; in a large store, wanted pages stand
 * alone.
 */
static uint64_t gap_to_bridge(p3l_store *store, const p3l_page_list *list) {
  uint64_t span = list->pages[list->count - 1].n - list->pages[0].n + 1;
  return list->count * 8 >= span || store->page_count <= SMALL_STORE_PAGES ? 16 : 1;
}

/* Adds the pages of short gaps, while the pool has space for them. Called with `slow` held. */
static void bridge_gaps(p3l_store *store, p3l_page_list *list) {
  size_t wanted = list->count, frames = p3l_pool_frames(store);
  uint64_t most = gap_to_bridge(store, list);
  for (size_t i = 1; i < wanted; i++) {
    uint64_t from = list->pages[i - 1].n + 1, to = list->pages[i].n;
    if (to - from > most || list->count + (to - from) > frames) continue;
    for (uint64_t n = from; n < to; n++) {
      const p3l_page_state *state = p3l_page_state_find(store->pages, n);
      if (state != NULL && state->known) continue; /* read before */
      if (!p3l_prefetch_room((void **)&list->pages, list->count, &list->capacity,
                             sizeof(*list->pages)))
        return;
      list->pages[list->count++].n = n;
    }
  }
  if (list->count > wanted) sort(list);
}

void p3l_prefetch_pages(p3l_store *store, p3l_page_list *list) {
  if (list->count == 0) return;
  sort(list);
  pthread_mutex_lock(&store->slow);
  bridge_gaps(store, list);
  pthread_mutex_unlock(&store->slow);
  uint64_t span = list->pages[list->count - 1].n - list->pages[0].n + 1;
  p3l_read_engine engine = list->count * 4 >= span * 3 ? P3L_READ_PLAIN : P3L_READ_BEST;
  offer offer = {store, list->pages};
  p3l_read_counts counts;
  p3l_read_many_by(engine, store->pager, list->pages, list->count, offer_page, &offer, &counts,
                   NULL);
  pthread_mutex_lock(&store->slow);
  store->statistics.reads += counts.requests;
  pthread_mutex_unlock(&store->slow);
}

/* ---- whole stores ---- */

bool p3l_prefetch_is_small(p3l_store *store) {
  uint64_t pages = p3l_pager_page_count(store->pager), limit = store->options.memory_bytes;
  pthread_mutex_lock(&store->slow);
  size_t frames = p3l_pool_frames(store);
  pthread_mutex_unlock(&store->slow);
  return pages <= SMALL_STORE_PAGES && pages <= frames &&
         (limit == 0 || pages * P3L_PAGE_SIZE <= limit / 2);
}

static bool is_read(p3l_store *store, uint64_t number) {
  const p3l_page_state *state = p3l_page_state_find(store->pages, number);
  return state != NULL && (state->frame != NULL || (state->known && state->use == P3L_USE_LARGE));
}

/* Pages without objects, and damaged pages, leave their frames empty. */
static void keep_page(p3l_store *store, p3l_frame_run run, uint32_t index, uint64_t number) {
  const p3l_page *page = (const p3l_page *)p3l_frame_page(run, index);
  if (p3l_page_use_of(page) != P3L_USE_OBJECTS || p3l_data_page_fault(page) != NULL) return;
  p3l_page_state *state = p3l_page_state_of(store, (p3l_page_number){number});
  if (state == NULL) return;
  p3l_frame_put(run, index, (p3l_page_number){number}, state, false);
  p3l_adopt(store, state); /* if that fails, it stays in the pool */
}

/* Returns how many pages it tried; 0: there is no space. */
static uint32_t read_run(p3l_store *store, uint64_t first, uint32_t count) {
  p3l_frame_run run;
  if (p3l_frames_find(store, count, &run, NULL) != P3L_OK) return 0;
  p3l_page *pages = (p3l_page *)p3l_frame_page(run, 0);
  p3l_code code =
      p3l_pager_read_run(store->pager, (p3l_page_number){first}, run.count, pages, NULL);
  store->statistics.reads++;
  if (code != P3L_OK) return run.count;
  store->statistics.pages_read += run.count;
  for (uint32_t at = 0; at < run.count; at++) keep_page(store, run, at, first + at);
  return run.count;
}

/* The lock is released between requests, for other threads that need an object. */
void p3l_prefetch_whole(p3l_store *store) {
  uint64_t pages = p3l_pager_page_count(store->pager);
  p3l_pager_soon(store->pager, (p3l_page_number){0}, pages);
  for (uint64_t at = 1; at < pages;) {
    pthread_mutex_lock(&store->slow);
    while (at < pages && is_read(store, at)) at++;
    uint32_t count = 0;
    while (count < WHOLE_RUN && at + count < pages && !is_read(store, at + count)) count++;
    uint32_t tried = count == 0 ? 0 : read_run(store, at, count);
    pthread_mutex_unlock(&store->slow);
    if (tried == 0) return;
    at += tried;
  }
}
