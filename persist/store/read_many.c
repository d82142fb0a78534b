/*
 * Reads many pages at a time: chooses, sorts and merges requests. read_many.h has the invariants.
 */
#include "read_many.h"

#include <stdlib.h>

#include "images.h"

/* The buffers of a call; kept between calls, because a ring costs more than a small call. */
typedef struct reader {
  p3l_read_engine engine;
  p3l_ring *ring;
  p3l_crew *crew;
  p3l_page *pages; /* [P3L_READ_DEPTH][P3L_READ_MERGED]; only the parts used are ever touched */
  p3l_read_slot slots[P3L_READ_DEPTH];
  struct reader *next;
} reader;

/* Idle readers: at most as many as the calls that ever ran at the same time. */
struct p3l_readers {
  pthread_mutex_t lock;
  reader *idle;
};

/* ---- readers ---- */

static struct p3l_readers *readers_of(p3l_pager *pager) {
  struct p3l_readers *readers = __atomic_load_n(&pager->many, __ATOMIC_ACQUIRE);
  if (readers != NULL) return readers;
  struct p3l_readers *made = calloc(1, sizeof(*made));
  if (made == NULL) return NULL;
  pthread_mutex_init(&made->lock, NULL);
  if (__atomic_compare_exchange_n(&pager->many, &readers, made, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return made;
  pthread_mutex_destroy(&made->lock);
  free(made);
  return readers;
}

static void reader_free(reader *reader) {
  p3l_ring_close(reader->ring);
  p3l_crew_close(reader->crew);
  free(reader->pages);
  free(reader);
}

static reader *reader_make(p3l_read_engine engine) {
  reader *made = calloc(1, sizeof(*made));
  if (made == NULL) return NULL;
  made->engine = engine;
  made->pages = malloc(sizeof(p3l_page) * P3L_READ_DEPTH * P3L_READ_MERGED);
  if (engine == P3L_READ_RING) made->ring = p3l_ring_open();
  if (made->ring == NULL)
    made->crew = p3l_crew_open(engine == P3L_READ_PLAIN ? 0 : P3L_READ_MANY_THREADS);
  if (made->pages == NULL || (made->ring == NULL && made->crew == NULL)) {
    reader_free(made);
    return NULL;
  }
  for (size_t i = 0; i < P3L_READ_DEPTH; i++)
    made->slots[i].pages = made->pages + i * P3L_READ_MERGED;
  return made;
}

static reader *reader_take(struct p3l_readers *readers, p3l_read_engine engine) {
  pthread_mutex_lock(&readers->lock);
  reader **at = &readers->idle;
  while (*at != NULL && (*at)->engine != engine) at = &(*at)->next;
  reader *found = *at;
  if (found != NULL) *at = found->next;
  pthread_mutex_unlock(&readers->lock);
  return found != NULL ? found : reader_make(engine);
}

static void reader_give(struct p3l_readers *readers, reader *reader) {
  pthread_mutex_lock(&readers->lock);
  reader->next = readers->idle;
  readers->idle = reader;
  pthread_mutex_unlock(&readers->lock);
}

void p3l_read_many_end(p3l_pager *pager) {
  if (pager->many == NULL) return;
  for (reader *at = pager->many->idle, *next; at != NULL; at = next) {
    next = at->next;
    reader_free(at);
  }
  pthread_mutex_destroy(&pager->many->lock);
  free(pager->many);
  pager->many = NULL;
}

/* ---- a call ---- */

/* For a child of the process that opened the store: the ring and the threads remained in the
 * parent. */
static p3l_code read_one_by_one(p3l_pager *pager, const p3l_page_number *numbers, size_t count,
                                p3l_page_visitor visit, void *state, p3l_error *error) {
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < count && code == P3L_OK; i++) {
    p3l_page page;
    code = p3l_pager_read(pager, numbers[i], &page, error);
    if (code == P3L_OK) code = visit(state, i, &page, error);
  }
  return code;
}

/* A page to be read from the file. */
typedef struct wanted {
  uint64_t number;
  size_t index; /* index in the caller's list */
} wanted;

/* The part of the sorted list that one slot reads. */
typedef struct request {
  const wanted *first;
  size_t count;
} request;

typedef struct call {
  p3l_pager *pager;
  p3l_page_visitor visit;
  void *state;
  p3l_error *error;
} call;

static int by_number(const void *a, const void *b) {
  uint64_t left = ((const wanted *)a)->number, right = ((const wanted *)b)->number;
  return left < right ? -1 : left > right;
}

/* Chooses the pages to be read from the file; the others (newer than the file, or not existing)
 * are left to p3l_pager_read(). */
static size_t choose(p3l_pager *pager, const p3l_page_number *numbers, size_t count, wanted *list,
                     bool *sorted) {
  size_t chosen = 0;
  *sorted = true;
  pthread_rwlock_rdlock(&pager->readers);
  for (size_t i = 0; i < count; i++) {
    const p3l_image *image = pager->images == NULL ? NULL : p3l_image_find(pager, numbers[i]);
    if (image != NULL && image->committed != NULL) continue;
    if (numbers[i].n >= pager->page_count) continue;
    if (chosen > 0 && list[chosen - 1].number > numbers[i].n) *sorted = false;
    list[chosen++] = (wanted){numbers[i].n, i};
  }
  pthread_rwlock_unlock(&pager->readers);
  return chosen;
}

static p3l_code visit_other(const call *call, p3l_page_number number, size_t index) {
  p3l_page page;
  p3l_code code = p3l_pager_read(call->pager, number, &page, call->error);
  return code != P3L_OK ? code : call->visit(call->state, index, &page, call->error);
}

/* Visits the pages that are not in the list, which is not sorted yet. */
static p3l_code visit_others(const call *call, const p3l_page_number *numbers, size_t count,
                             const wanted *list, size_t chosen) {
  p3l_code code = P3L_OK;
  for (size_t i = 0, at = 0; i < count && code == P3L_OK; i++) {
    if (at < chosen && list[at].index == i)
      at++;
    else
      code = visit_other(call, numbers[i], i);
  }
  return code;
}

static p3l_code deliver(const call *call, const p3l_read_slot *slot, const request *request) {
  p3l_code code = P3L_OK;
  for (size_t i = 0; i < request->count && code == P3L_OK; i++) {
    p3l_page_number number = {request->first[i].number};
    const p3l_page *page = slot->pages + (number.n - request->first->number);
    if (slot->failed != 0 ||
        p3l_file_page_fault(call->pager, page, number) != NULL) /* read_many.h, invariant 1 */
      code = visit_other(call, number, request->first[i].index);
    else
      code = call->visit(call->state, request->first[i].index, page, call->error);
  }
  return code;
}

/* Takes the next request from the list: merges neighbours and pages that are wanted twice. */
static request gather(const wanted *list, size_t count) {
  size_t many = 1;
  while (many < count && list[many].number - list[many - 1].number <= 1 &&
         list[many].number - list[0].number < P3L_READ_MERGED)
    many++;
  return (request){list, many};
}

static void start(reader *reader, p3l_device *device, p3l_read_slot *slot, const request *request) {
  slot->at = (p3l_file_offset){request->first->number * P3L_PAGE_SIZE};
  slot->length =
      (request->first[request->count - 1].number - request->first->number + 1) * P3L_PAGE_SIZE;
  if (reader->ring != NULL)
    p3l_ring_start(reader->ring, p3l_file_descriptor(device), slot);
  else
    p3l_crew_start(reader->crew, device, slot);
}

/*
 * Keeps the queue full. After a failure it starts no request and waits for the running ones. The
 * number of pages in progress is also limited: large requests need no long queue, and memory
 * touched for the first time costs as much as a page read from the kernel's cache.
 */
static p3l_code read_all(const call *call, reader *reader, const wanted *list, size_t count,
                         uint64_t *requests) {
  request under_way[P3L_READ_DEPTH];
  p3l_read_slot *free_slots[P3L_READ_DEPTH];
  size_t free_count = P3L_READ_DEPTH, next = 0;
  for (size_t i = 0; i < P3L_READ_DEPTH; i++)
    free_slots[i] = &reader->slots[P3L_READ_DEPTH - 1 - i];
  size_t pages = 0; /* in progress */
  size_t most = reader->engine == P3L_READ_PLAIN ? 1 : P3L_READ_PAGES;
  p3l_code code = P3L_OK;
  while ((code == P3L_OK && next < count) || free_count < P3L_READ_DEPTH) {
    while (code == P3L_OK && next < count && free_count > 0 && pages < most) {
      p3l_read_slot *slot = free_slots[--free_count];
      request *request = &under_way[slot - reader->slots];
      *request = gather(list + next, count - next);
      next += request->count;
      start(reader, call->pager->file, slot, request);
      pages += slot->length / P3L_PAGE_SIZE;
      ++*requests;
    }
    p3l_read_slot *slot =
        reader->ring != NULL ? p3l_ring_finish(reader->ring) : p3l_crew_finish(reader->crew);
    if (code == P3L_OK) code = deliver(call, slot, &under_way[slot - reader->slots]);
    pages -= slot->length / P3L_PAGE_SIZE;
    free_slots[free_count++] = slot;
  }
  return code;
}

p3l_code p3l_read_many_by(p3l_read_engine engine, p3l_pager *pager, const p3l_page_number *numbers,
                          size_t count, p3l_page_visitor visit, void *state,
                          p3l_read_counts *counts, p3l_error *error) {
  if (p3l_pager_is_inherited(pager)) {
    if (counts != NULL) *counts = (p3l_read_counts){.requests = count, .used = P3L_READ_PLAIN};
    return read_one_by_one(pager, numbers, count, visit, state, error);
  }
  if (p3l_file_descriptor(pager->file) < 0) {
    if (engine == P3L_READ_BEST || engine == P3L_READ_RING) engine = P3L_READ_PLAIN;
  } else if (engine == P3L_READ_BEST) {
    engine = P3L_READ_RING;
  }
  struct p3l_readers *readers = readers_of(pager);
  reader *reader = readers == NULL ? NULL : reader_take(readers, engine);
  wanted *list = malloc(sizeof(*list) * (count + 1));
  p3l_read_counts done = {.used = engine};
  p3l_code code = P3L_OK;
  if (reader == NULL || list == NULL) {
    code = p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to read %zu pages", pager->path, count);
  } else {
    call call = {pager, visit, state, error};
    bool sorted;
    size_t chosen = choose(pager, numbers, count, list, &sorted);
    if (reader->ring == NULL && engine == P3L_READ_RING) done.used = P3L_READ_THREADS;
    if (chosen < count) code = visit_others(&call, numbers, count, list, chosen);
    if (!sorted) qsort(list, chosen, sizeof(*list), by_number);
    if (code == P3L_OK) code = read_all(&call, reader, list, chosen, &done.requests);
  }
  free(list);
  if (reader != NULL) reader_give(readers, reader);
  if (counts != NULL) *counts = done;
  return code;
}

p3l_code p3l_pager_read_many(p3l_pager *pager, const p3l_page_number *numbers, size_t count,
                             p3l_page_visitor visit, void *state, p3l_error *error) {
  return p3l_read_many_by(P3L_READ_BEST, pager, numbers, count, visit, state, NULL, error);
}
