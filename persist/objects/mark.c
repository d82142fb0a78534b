/*
 * Marks objects reachable from the roots. Marked objects that were not scanned yet wait by page. So
 * each page is read once for all objects that wait in it, and lists of any length need no deep
 * stack.
 */
#include <stdlib.h>
#include <string.h>

#include "survey.h"

typedef struct marking {
  p3l_survey *survey;
  uint64_t (*marked)[4], (*waiting)[4]; /* [page] */
  uint64_t *queue;                      /* pages with waiting objects, each of them once */
  size_t queued;
  const char *root; /* the only root used, or NULL */
} marking;

static void mark(marking *marking, uint64_t surrogate) {
  p3l_address begin;
  if (p3l_survey_lead(marking->survey, surrogate, &begin) == P3L_TO_NOTHING) return; /* dangling */
  uint64_t number = begin.byte / P3L_PAGE_SIZE;
  uint64_t granule = begin.byte % P3L_PAGE_SIZE / P3L_GRANULE, bit = UINT64_C(1) << granule % 64;
  if (marking->marked[number][granule / 64] & bit) return;
  static const uint64_t none[4];
  if (memcmp(marking->waiting[number], none, sizeof(none)) == 0)
    marking->queue[marking->queued++] = number;
  marking->marked[number][granule / 64] |= bit;
  marking->waiting[number][granule / 64] |= bit;
}

static p3l_code mark_value(void *state, const p3l_found *found, uint64_t offset, uint64_t value,
                           p3l_error *error) {
  marking *marking = state;
  if (!p3l_slot_possible(value))
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: page %llu: an object has at its byte %llu what is "
                    "not a pointer; see p3l "
                    "verify",
                    p3l_pager_path(marking->survey->pager),
                    (unsigned long long)(found->address.byte / P3L_PAGE_SIZE),
                    (unsigned long long)offset);
  if (value != 0) mark(marking, value);
  return P3L_OK;
}

static p3l_code mark_root(void *state, const p3l_root_entry *entry, p3l_error *error) {
  (void)error;
  marking *marking = state;
  if (marking->root == NULL || strcmp(marking->root, entry->name) == 0)
    mark(marking, UINT64_C(1) << 63 | entry->address);
  return P3L_OK;
}

/* Scans all objects that wait in a page. Objects that this marks in the same page wait again. */
static p3l_code look_into(marking *marking, uint64_t number, p3l_error *error) {
  uint64_t waiting[4];
  memcpy(waiting, marking->waiting[number], sizeof(waiting));
  memset(marking->waiting[number], 0, sizeof(waiting));
  p3l_page page;
  page.number = 0;
  for (uint64_t granule = 0; granule < P3L_PAGE_SIZE / P3L_GRANULE; granule++) {
    p3l_found found;
    if (!(waiting[granule / 64] >> granule % 64 & 1)) continue;
    p3l_address address = {number * P3L_PAGE_SIZE + granule * P3L_GRANULE};
    p3l_code code = p3l_survey_find(marking->survey, address, &page, &found, error);
    if (code == P3L_OK && found.type != P3L_FORWARD && found.layout == NULL)
      code =
          p3l_fail(error, P3L_CORRUPT,
                   "%s: page %llu has an object of type %u, which is not in "
                   "the table; see p3l "
                   "verify",
                   p3l_pager_path(marking->survey->pager), (unsigned long long)number, found.type);
    if (code == P3L_OK)
      code = p3l_survey_slots(marking->survey, &found, mark_value, marking, error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

p3l_code p3l_mark(p3l_survey *survey, const char *root, p3l_marks *marks, p3l_error *error) {
  marking marking = {.survey = survey,
                     .root = root,
                     .marked = calloc(survey->page_count, sizeof(*marking.marked)),
                     .waiting = calloc(survey->page_count, sizeof(*marking.waiting)),
                     .queue = calloc(survey->page_count, sizeof(*marking.queue))};
  p3l_code code = P3L_OK;
  if (marking.marked == NULL || marking.waiting == NULL || marking.queue == NULL)
    code = p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to mark its objects",
                    p3l_pager_path(survey->pager));
  if (code == P3L_OK) code = p3l_root_each(survey->pager, mark_root, &marking, error);
  for (uint64_t done = 0; code == P3L_OK && marking.queued > 0; done++) {
    if (done % 256 == 0) /* the total is unknown: report the pages met so far, of all pages */
      p3l_survey_progress(survey, "reachable",
                          done < survey->page_count ? done : survey->page_count,
                          survey->page_count);
    code = look_into(&marking, marking.queue[--marking.queued], error);
  }
  free(marking.waiting);
  free(marking.queue);
  marks->marked = marking.marked;
  if (code != P3L_OK) p3l_marks_free(marks);
  return code;
}

bool p3l_is_marked(const p3l_marks *marks, p3l_address begin) {
  uint64_t granule = begin.byte % P3L_PAGE_SIZE / P3L_GRANULE;
  return marks->marked[begin.byte / P3L_PAGE_SIZE][granule / 64] >> granule % 64 & 1;
}

void p3l_marks_free(p3l_marks *marks) {
  free(marks->marked);
  marks->marked = NULL;
}
