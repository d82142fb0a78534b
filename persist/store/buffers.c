/* Buffers for copies of pages, in slabs of huge pages. buffers.h describes them. */
#include "buffers.h"

#include <sys/mman.h>

enum { SLAB_BYTES = 1 << 21, BUFFERS = SLAB_BYTES / P3L_PAGE_SIZE - 1 };

struct p3l_slab {
  p3l_slab *next, *previous;         /* slabs with a free buffer */
  p3l_slab *all_next, *all_previous; /* all slabs */
  uint32_t fresh;                    /* buffers from here on were never used */
  uint32_t used;
  struct free_buffer {
    struct free_buffer *next;
  } * given_back;
};
_Static_assert(sizeof(p3l_slab) <= P3L_PAGE_SIZE, "the head has the room of a buffer");

static p3l_slab *slab_of(p3l_page *buffer) {
  return (p3l_slab *)((uintptr_t)buffer & ~(uintptr_t)(SLAB_BYTES - 1));
}

static void link_slab(p3l_buffers *buffers, p3l_slab *slab) {
  slab->previous = NULL;
  slab->next = buffers->with_room;
  if (slab->next != NULL) slab->next->previous = slab;
  buffers->with_room = slab;
}

static void unlink_slab(p3l_buffers *buffers, p3l_slab *slab) {
  if (slab->next != NULL) slab->next->previous = slab->previous;
  if (slab->previous != NULL)
    slab->previous->next = slab->next;
  else
    buffers->with_room = slab->next;
}

/* Maps twice the size and unmaps the parts outside of the aligned range. */
static void *map_aligned(void) {
  uint8_t *range =
      mmap(NULL, 2 * SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return NULL;
  size_t before = -(uintptr_t)range & (SLAB_BYTES - 1);
  if (before > 0) munmap(range, before);
  munmap(range + before + SLAB_BYTES, SLAB_BYTES - before);
  return range + before;
}

static p3l_slab *make_slab(p3l_buffers *buffers) {
  p3l_slab *slab = map_aligned();
  if (slab == NULL) return NULL;
  madvise(slab, SLAB_BYTES, MADV_HUGEPAGE); /* without huge pages it is no worse than malloc() */
  *slab = (p3l_slab){.all_next = buffers->all};
  if (buffers->all != NULL) buffers->all->all_previous = slab;
  buffers->all = slab;
  link_slab(buffers, slab);
  return slab;
}

static void free_slab(p3l_buffers *buffers, p3l_slab *slab) {
  if (slab->all_next != NULL) slab->all_next->all_previous = slab->all_previous;
  if (slab->all_previous != NULL)
    slab->all_previous->all_next = slab->all_next;
  else
    buffers->all = slab->all_next;
  munmap(slab, SLAB_BYTES);
}

p3l_page *p3l_buffer_take(p3l_buffers *buffers) {
  p3l_slab *slab = buffers->with_room;
  if (slab == NULL) slab = make_slab(buffers);
  if (slab == NULL) return NULL;
  p3l_page *buffer;
  if (slab->given_back != NULL) {
    buffer = (void *)slab->given_back;
    slab->given_back = slab->given_back->next;
  } else {
    buffer = (p3l_page *)slab + ++slab->fresh;
  }
  if (++slab->used == BUFFERS) unlink_slab(buffers, slab);
  return buffer;
}

void p3l_buffer_give(p3l_buffers *buffers, p3l_page *buffer) {
  if (buffer == NULL) return;
  p3l_slab *slab = slab_of(buffer);
  struct free_buffer *given = (void *)buffer;
  given->next = slab->given_back;
  slab->given_back = given;
  if (slab->used-- == BUFFERS) link_slab(buffers, slab);
  /* One unused slab is kept for the next commit; others are freed, because only a load needs
   * many, and only once. */
  if (slab->used == 0 && (slab->next != NULL || slab->previous != NULL)) {
    unlink_slab(buffers, slab);
    free_slab(buffers, slab);
  }
}

void p3l_buffers_give_all(p3l_buffers *buffers) {
  p3l_slab *kept = buffers->all;
  if (kept == NULL) return;
  while (kept->all_next != NULL) free_slab(buffers, kept->all_next);
  *kept = (p3l_slab){0};
  buffers->with_room = NULL;
  link_slab(buffers, kept);
}

void p3l_buffers_end(p3l_buffers *buffers) {
  while (buffers->all != NULL) free_slab(buffers, buffers->all);
  buffers->with_room = NULL;
}
