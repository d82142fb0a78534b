/*
 * Reads all pages of a store, stores where objects begin, and visits objects and their pointers.
 */
#include "survey.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slots.h"

enum { RUN = 64 }; /* number of pages per read request */

void p3l_survey_tell(p3l_survey *survey, const char *format, ...) {
  char sentence[640];
  va_list arguments;
  survey->faults++;
  if (survey->listener.fault == NULL) return;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof(sentence), format, arguments);
  va_end(arguments);
  survey->listener.fault(survey->listener.state, sentence);
}

void p3l_survey_progress(const p3l_survey *survey, const char *what, uint64_t done,
                         uint64_t total) {
  if (survey->listener.progress != NULL)
    survey->listener.progress(survey->listener.state, what, done, total);
}

/* ---- reading pages in order ---- */

typedef p3l_code (*page_visitor)(void *state, const p3l_page *page, p3l_error *error);

/* Visits all readable pages except page 0; *unreadable: the number of others. */
static p3l_code each_page(p3l_survey *survey, const char *what, uint64_t *unreadable,
                          page_visitor visit, void *state, p3l_error *error) {
  p3l_page *pages = malloc(sizeof(*pages) * RUN);
  p3l_code code = P3L_OK;
  if (pages == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to read it",
                    p3l_pager_path(survey->pager));
  for (uint64_t first = 1; first < survey->page_count && code == P3L_OK; first += RUN) {
    size_t count = survey->page_count - first < RUN ? (size_t)(survey->page_count - first) : RUN;
    bool all =
        p3l_pager_read_run(survey->pager, (p3l_page_number){first}, count, pages, NULL) == P3L_OK;
    p3l_survey_progress(survey, what, first, survey->page_count);
    for (size_t i = 0; i < count && code == P3L_OK; i++) {
      p3l_error why;
      if (!all) {
        code = p3l_pager_read(survey->pager, (p3l_page_number){first + i}, &pages[i], &why);
        if (code == P3L_CORRUPT) {
          ++*unreadable;
          code = P3L_OK;
          continue;
        }
        if (code != P3L_OK && error != NULL) *error = why;
      }
      if (code == P3L_OK) code = visit(state, &pages[i], error);
    }
  }
  free(pages);
  return code;
}

/* ---- begin ---- */

static void set(uint64_t bits[4], uint32_t granule) {
  bits[granule / 64] |= UINT64_C(1) << granule % 64;
}

static bool get(const uint64_t bits[4], uint32_t granule) {
  return bits[granule / 64] >> granule % 64 & 1;
}

static p3l_code remember(void *state, const p3l_page *page, p3l_error *error) {
  p3l_survey *survey = state;
  p3l_surveyed_page *entry = &survey->pages[page->number];
  entry->free = page->kind == P3L_PAGE_FREE;
  if (page->kind != P3L_PAGE_DATA) return P3L_OK;
  const char *fault = p3l_data_page_fault(page);
  if (fault != NULL) {
    p3l_survey_tell(survey, "page %llu %s", (unsigned long long)page->number, fault);
    return P3L_OK;
  }
  const p3l_object_page *objects = (const void *)page;
  const p3l_large_page *large = (const void *)page;
  entry->use = (uint8_t)objects->use;
  if (entry->use == P3L_USE_LARGE) {
    entry->type = large->type;
    entry->first = large->first;
    entry->bytes = large->bytes;
    entry->generation = (uint8_t)page->generation;
  } else if (entry->use == P3L_USE_OBJECTS) {
    entry->listed = objects->previous != 0;
    entry->end = objects->end;
    memcpy(entry->starts, objects->starts, sizeof(entry->starts));
    if (p3l_has_generations(objects)) {
      entry->generations = calloc(P3L_PAGE_SIZE / P3L_GRANULE, 1);
      if (entry->generations == NULL)
        return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to survey its pages",
                        p3l_pager_path(survey->pager));
    }
    for (p3l_piece piece = {0}; p3l_piece_next(objects, &piece);) {
      if (piece.type == P3L_HOLE) set(entry->holes, piece.offset / P3L_GRANULE);
      if (piece.type == P3L_FORWARD) set(entry->moved, piece.offset / P3L_GRANULE);
      if (entry->generations != NULL)
        entry->generations[piece.offset / P3L_GRANULE] = piece.generation;
    }
  }
  return P3L_OK;
}

/* True if all pages of the large object that begins at `first` are present and consistent. */
static bool large_is_whole(const p3l_survey *survey, uint64_t first) {
  const p3l_surveyed_page *begin = &survey->pages[first];
  if (begin->use != P3L_USE_LARGE || begin->first != first) return false;
  uint64_t count = (begin->bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART;
  if (count > survey->page_count - first) return false;
  for (uint64_t number = first; number < first + count; number++) {
    const p3l_surveyed_page *page = &survey->pages[number];
    if (page->use != P3L_USE_LARGE || page->first != first || page->bytes != begin->bytes ||
        page->type != begin->type)
      return false;
  }
  return true;
}

static void check_large(p3l_survey *survey) {
  for (uint64_t number = 1; number < survey->page_count; number++) {
    p3l_surveyed_page *page = &survey->pages[number];
    if (page->use != P3L_USE_LARGE) continue;
    if (page->first == number && large_is_whole(survey, number)) {
      number += (page->bytes + P3L_LARGE_PART - 1) / P3L_LARGE_PART - 1;
      continue;
    }
    p3l_survey_tell(survey,
                    "page %llu is of the large object at page %llu, whose "
                    "pages do not agree",
                    (unsigned long long)number, (unsigned long long)page->first);
    page->use = 0;
  }
}

p3l_code p3l_survey_begin(p3l_survey *survey, p3l_pager *pager, const p3l_listener *listener,
                          p3l_error *error) {
  p3l_error why;
  *survey = (p3l_survey){.pager = pager};
  if (listener != NULL) survey->listener = *listener;
  p3l_code code = p3l_pager_check_size(pager, error);
  if (code != P3L_OK) return code;
  survey->page_count = p3l_pager_page_count(pager);
  survey->pages = calloc(survey->page_count, sizeof(*survey->pages));
  if (survey->pages == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for a survey of %llu pages",
                    p3l_pager_path(pager), (unsigned long long)survey->page_count);
  code = p3l_type_table_read(pager, &survey->types, &why);
  survey->types_known = code == P3L_OK;
  if (code == P3L_CORRUPT || code == P3L_WRONG_VERSION)
    p3l_survey_tell(survey, "%s", why.message);
  else if (code != P3L_OK) {
    if (error != NULL) *error = why;
    return code;
  }
  code = each_page(survey, "pages", &survey->unreadable, remember, survey, error);
  if (code == P3L_OK) check_large(survey);
  return code;
}

void p3l_survey_end(p3l_survey *survey) {
  p3l_type_table_free(&survey->types);
  for (uint64_t at = 0; survey->pages != NULL && at < survey->page_count; at++)
    if (survey->pages[at].use == P3L_USE_OBJECTS) free(survey->pages[at].generations);
  free(survey->pages);
  survey->pages = NULL;
}

/* ---- following ---- */

p3l_leads_to p3l_survey_at(const p3l_survey *survey, p3l_address address, p3l_address *begin) {
  uint64_t number = address.byte / P3L_PAGE_SIZE;
  if (number == 0 || number >= survey->page_count) return P3L_TO_NOTHING;
  const p3l_surveyed_page *page = &survey->pages[number];
  if (page->use == P3L_USE_LARGE) {
    *begin = (p3l_address){page->first * P3L_PAGE_SIZE};
    if (address.byte - begin->byte >= page->bytes) return P3L_TO_NOTHING;
    return page->type == P3L_FORWARD ? P3L_TO_FORWARD : P3L_TO_OBJECT;
  }
  uint32_t offset = (uint32_t)(address.byte % P3L_PAGE_SIZE);
  if (page->use != P3L_USE_OBJECTS || offset < P3L_OBJECTS_BEGIN || offset >= page->end)
    return P3L_TO_NOTHING;
  uint32_t granule = offset / P3L_GRANULE;
  while (!get(page->starts, granule)) granule--; /* the first granule with a piece is a start */
  *begin = (p3l_address){number * P3L_PAGE_SIZE + granule * P3L_GRANULE};
  if (get(page->holes, granule)) return P3L_TO_NOTHING;
  return get(page->moved, granule) ? P3L_TO_FORWARD : P3L_TO_OBJECT;
}

static uint8_t generation_at(const p3l_survey *survey, p3l_address begin) {
  const p3l_surveyed_page *page = &survey->pages[begin.byte / P3L_PAGE_SIZE];
  if (page->use == P3L_USE_LARGE) return page->generation;
  return page->generations == NULL ? 0
                                   : page->generations[begin.byte % P3L_PAGE_SIZE / P3L_GRANULE];
}

p3l_leads_to p3l_survey_lead(const p3l_survey *survey, uint64_t surrogate, p3l_address *begin) {
  p3l_leads_to what = p3l_survey_at(survey, p3l_surrogate_address(surrogate), begin);
  bool meant = what != P3L_TO_NOTHING &&
               generation_at(survey, *begin) == p3l_surrogate_generation(surrogate);
  return meant ? what : P3L_TO_NOTHING;
}

/* ---- objects ---- */

static const p3l_stored_type *layout_of(const p3l_survey *survey, p3l_type_id type) {
  return type < survey->types.limit ? survey->types.types[type] : NULL;
}

static p3l_found small(const p3l_survey *survey, const p3l_page *page, const p3l_piece *piece) {
  return (p3l_found){.address = {page->number * P3L_PAGE_SIZE + piece->offset},
                     .bytes = piece->bytes,
                     .type = piece->type,
                     .layout = layout_of(survey, piece->type),
                     .content = (const uint8_t *)page + piece->offset};
}

static p3l_found large(const p3l_survey *survey, uint64_t first) {
  const p3l_surveyed_page *page = &survey->pages[first];
  return (p3l_found){.address = {first * P3L_PAGE_SIZE},
                     .bytes = page->bytes,
                     .type = page->type,
                     .layout = layout_of(survey, page->type)};
}

typedef struct each {
  p3l_survey *survey;
  p3l_found_visitor visit;
  void *state;
} each;

static p3l_code visit_objects(void *state, const p3l_page *page, p3l_error *error) {
  each *each = state;
  const p3l_surveyed_page *entry = &each->survey->pages[page->number];
  p3l_code code = P3L_OK;
  if (entry->use == P3L_USE_LARGE && entry->first == page->number) {
    p3l_found found = large(each->survey, page->number);
    return each->visit(each->state, &found, error);
  }
  if (entry->use != P3L_USE_OBJECTS) return P3L_OK;
  for (p3l_piece piece = {0}; code == P3L_OK && p3l_piece_next((const void *)page, &piece);) {
    if (piece.type == P3L_HOLE) continue;
    p3l_found found = small(each->survey, page, &piece);
    code = each->visit(each->state, &found, error);
  }
  return code;
}

p3l_code p3l_survey_each(p3l_survey *survey, p3l_found_visitor visit, void *state,
                         p3l_error *error) {
  each each = {survey, visit, state};
  uint64_t unreadable = 0;
  return each_page(survey, "objects", &unreadable, visit_objects, &each, error);
}

p3l_code p3l_survey_find(p3l_survey *survey, p3l_address address, p3l_page *page, p3l_found *found,
                         p3l_error *error) {
  uint64_t number = address.byte / P3L_PAGE_SIZE;
  p3l_piece piece;
  if (survey->pages[number].use == P3L_USE_LARGE) {
    *found = large(survey, number);
    return P3L_OK;
  }
  p3l_code code = page->number == number
                      ? P3L_OK
                      : p3l_data_page_read(survey->pager, number, P3L_USE_OBJECTS, page, error);
  if (code != P3L_OK) return code;
  if (!p3l_piece_at((const void *)page, (uint32_t)(address.byte % P3L_PAGE_SIZE), &piece))
    return p3l_fail(error, P3L_CORRUPT, "%s: page %llu changed while it was looked at",
                    p3l_pager_path(survey->pager), (unsigned long long)number);
  *found = small(survey, page, &piece);
  return P3L_OK;
}

/* ---- slots ---- */

typedef struct slots {
  const p3l_found *found;
  const uint8_t *bytes; /* of the object from byte `from` on */
  const uint8_t *end;   /* of the object; of a large one, of a copy of its bits (slots.h) */
  uint64_t from, to;
  p3l_value_visitor visit;
  void *state;
  p3l_code code;
  p3l_error *error;
} slots;

static void visit_slot(void *state, uint64_t offset) {
  slots *slots = state;
  uint64_t value;
  /* In a truncated last element a slot may lie beyond the end. */
  if (slots->code != P3L_OK || offset < slots->from || offset + sizeof(value) > slots->to) return;
  memcpy(&value, slots->bytes + (offset - slots->from), sizeof(value));
  slots->code = slots->visit(slots->state, slots->found, offset, value, slots->error);
}

static void visit_range(slots *slots, const uint8_t *bytes, uint64_t from, uint64_t to) {
  slots->bytes = bytes;
  slots->from = from;
  slots->to = to;
  if (slots->found->type == P3L_FORWARD) {
    if (from == 0) visit_slot(slots, 0);
  } else if (slots->found->layout != NULL) {
    p3l_object_slots(slots->found->layout, slots->end, slots->found->bytes, from, to, visit_slot,
                     slots);
  }
}

/* The part of a large object that the page has, from byte `from` of the object on. */
static p3l_code read_part(p3l_survey *survey, const p3l_found *found, uint64_t from, p3l_page *page,
                          p3l_error *error) {
  uint64_t number = found->address.byte / P3L_PAGE_SIZE + from / P3L_LARGE_PART;
  return p3l_data_page_read(survey->pager, number, P3L_USE_LARGE, page, error);
}

/* The last bytes of a large object: the bits of its unions; NULL: it has none. */
static p3l_code read_arms(p3l_survey *survey, const p3l_found *found, p3l_page *page,
                          uint8_t **arms, uint64_t *bytes, p3l_error *error) {
  *arms = NULL;
  if (found->layout == NULL || found->layout->union_count == 0) return P3L_OK;
  *bytes = p3l_arm_bytes(found->layout, p3l_type_elements(found->layout, found->bytes));
  *arms = malloc(*bytes + 1);
  if (*arms == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to read it",
                    p3l_pager_path(survey->pager));
  uint64_t begin = found->bytes - *bytes;
  for (uint64_t at = begin; at < found->bytes;) {
    uint64_t inside = at % P3L_LARGE_PART, count = P3L_LARGE_PART - inside;
    if (count > found->bytes - at) count = found->bytes - at;
    p3l_code code = read_part(survey, found, at, page, error);
    if (code != P3L_OK) return code;
    const p3l_large_page *large = (const void *)page;
    memcpy(*arms + (at - begin), large->part + inside, count);
    at += count;
  }
  return P3L_OK;
}

p3l_code p3l_survey_slots(p3l_survey *survey, const p3l_found *found, p3l_value_visitor visit,
                          void *state, p3l_error *error) {
  slots slots = {.found = found, .visit = visit, .state = state, .error = error};
  if (found->content != NULL) {
    slots.end = found->content + found->bytes;
    visit_range(&slots, found->content, 0, found->bytes);
    return slots.code;
  }
  if (found->type != P3L_FORWARD &&
      (found->layout == NULL || found->layout->field_count + found->layout->union_count == 0))
    return P3L_OK;
  p3l_page *page = malloc(sizeof(*page)); /* visitors may recurse, so it is not on the stack */
  if (page == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to read it",
                    p3l_pager_path(survey->pager));
  uint8_t *arms;
  uint64_t arm_bytes = 0, end = found->type == P3L_FORWARD ? 8 : found->bytes;
  slots.code = read_arms(survey, found, page, &arms, &arm_bytes, error);
  slots.end = arms == NULL ? NULL : arms + arm_bytes;
  for (uint64_t from = 0; from < end && slots.code == P3L_OK;) {
    uint64_t to = found->bytes - from < P3L_LARGE_PART ? found->bytes : from + P3L_LARGE_PART;
    slots.code = read_part(survey, found, from, page, error);
    if (slots.code == P3L_OK)
      visit_range(&slots, ((const p3l_large_page *)(const void *)page)->part, from, to);
    from = to;
  }
  free(arms);
  free(page);
  return slots.code;
}
