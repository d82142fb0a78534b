/* Checks the relations between pages: pointers, roots, lists. */
#include <stdlib.h>
#include <string.h>

#include "survey.h"

/* Maximum number of dangling pointers reported one by one: a graph that lost a hub has millions. */
enum { TOLD = 20 };
/* Maximum number of moves of one object. More hops indicate a cycle. */
enum { HOPS = 64 };

typedef struct verifying {
  p3l_survey *survey;
  p3l_object_verification *counts;
} verifying;

static const char *name_of(const p3l_found *found) {
  if (found->type == P3L_FORWARD) return "(moved)";
  return found->layout == NULL ? "(unknown)" : found->layout->name;
}

static unsigned long long page_of(p3l_address address) { return address.byte / P3L_PAGE_SIZE; }
static unsigned long long byte_of(p3l_address address) { return address.byte % P3L_PAGE_SIZE; }

static p3l_code first_slot(void *state, const p3l_found *found, uint64_t offset, uint64_t value,
                           p3l_error *error) {
  (void)found;
  (void)error;
  if (offset == 0) *(uint64_t *)state = value;
  return P3L_OK;
}

/* Checks that a surrogate leads to the live object that it was made for, also if that object has
 * moved. */
static p3l_code leads_to_object(p3l_survey *survey, uint64_t surrogate, bool *leads,
                                p3l_error *error) {
  p3l_address begin;
  p3l_leads_to what = p3l_survey_lead(survey, surrogate, &begin);
  for (int hop = 0; what == P3L_TO_FORWARD && hop < HOPS; hop++) {
    p3l_page page;
    p3l_found found;
    uint64_t value = 0;
    page.number = 0;
    p3l_code code = p3l_survey_find(survey, begin, &page, &found, error);
    if (code == P3L_OK) code = p3l_survey_slots(survey, &found, first_slot, &value, error);
    if (code != P3L_OK) return code;
    what = p3l_survey_lead(survey, value, &begin);
  }
  *leads = what == P3L_TO_OBJECT;
  return P3L_OK;
}

static p3l_code check_slot(void *state, const p3l_found *found, uint64_t offset, uint64_t value,
                           p3l_error *error) {
  verifying *verifying = state;
  p3l_survey *survey = verifying->survey;
  bool leads;
  if (value == 0) return P3L_OK;
  verifying->counts->pointers++;
  if (!p3l_slot_possible(value)) {
    p3l_survey_tell(survey,
                    "page %llu: the %s at byte %llu has at byte %llu what is "
                    "not a pointer: %#llx",
                    page_of(found->address), name_of(found), byte_of(found->address),
                    (unsigned long long)offset, (unsigned long long)value);
    return P3L_OK;
  }
  p3l_code code = leads_to_object(survey, value, &leads, error);
  if (code != P3L_OK || leads) return code;
  p3l_address to = p3l_surrogate_address(value), begin;
  bool reused = p3l_survey_at(survey, to, &begin) != P3L_TO_NOTHING;
  if (verifying->counts->dangling++ < TOLD) {
    uint64_t faults = survey->faults;
    p3l_survey_tell(survey,
                    "dangling: the %s at page %llu, byte %llu points by byte "
                    "%llu of it to page %llu, "
                    "byte %llu, where %s",
                    name_of(found), page_of(found->address), byte_of(found->address),
                    (unsigned long long)offset, page_of(to), byte_of(to),
                    reused ? "another object is now" : "no object is");
    survey->faults = faults; /* the store itself is intact */
  }
  return P3L_OK;
}

static p3l_code check_object(void *state, const p3l_found *found, p3l_error *error) {
  verifying *verifying = state;
  p3l_survey *survey = verifying->survey;
  if (found->type == P3L_FORWARD)
    verifying->counts->forwards++;
  else if (found->content == NULL)
    verifying->counts->large_objects++;
  else
    verifying->counts->objects++;
  if (found->type != P3L_FORWARD && found->layout == NULL && survey->types_known) {
    p3l_survey_tell(survey,
                    "page %llu: the object at byte %llu is of type %u, which "
                    "is not in the table",
                    page_of(found->address), byte_of(found->address), found->type);
    return P3L_OK;
  }
  if (found->layout != NULL && found->bytes < found->layout->bytes)
    p3l_survey_tell(survey, "page %llu: the %s at byte %llu has %llu bytes, its type has %u",
                    page_of(found->address), name_of(found), byte_of(found->address),
                    (unsigned long long)found->bytes, found->layout->bytes);
  return p3l_survey_slots(survey, found, check_slot, verifying, error);
}

/* ---- roots ---- */

typedef struct names {
  char (*name)[P3L_ROOT_NAME_BYTES];
  size_t count, capacity;
  verifying *verifying;
} names;

static p3l_code check_root(void *state, const p3l_root_entry *entry, p3l_error *error) {
  names *names = state;
  bool leads;
  if (names->count == names->capacity) {
    size_t capacity = names->capacity == 0 ? 64 : names->capacity * 2;
    void *more = realloc(names->name, capacity * sizeof(*names->name));
    if (more == NULL)
      return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for its roots",
                      p3l_pager_path(names->verifying->survey->pager));
    names->name = more;
    names->capacity = capacity;
  }
  memcpy(names->name[names->count++], entry->name, sizeof(entry->name));
  uint64_t surrogate = UINT64_C(1) << 63 | entry->address;
  p3l_address address = p3l_surrogate_address(surrogate);
  p3l_code code = leads_to_object(names->verifying->survey, surrogate, &leads, error);
  if (code == P3L_OK && !leads)
    p3l_survey_tell(names->verifying->survey,
                    "the root \"%s\" leads to page %llu, byte %llu, where no object is",
                    entry->name, page_of(address), byte_of(address));
  return code;
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static p3l_code check_roots(verifying *verifying, p3l_error *error) {
  names names = {.verifying = verifying};
  p3l_error why;
  p3l_code code = p3l_root_each(verifying->survey->pager, check_root, &names, &why);
  if (code == P3L_CORRUPT || code == P3L_WRONG_VERSION) {
    p3l_survey_tell(verifying->survey, "%s", why.message);
    code = P3L_OK;
  }
  if (code != P3L_OK && error != NULL) *error = why;
  if (names.count > 0) qsort(names.name, names.count, sizeof(*names.name), by_name);
  for (size_t i = 1; i < names.count; i++)
    if (strcmp(names.name[i - 1], names.name[i]) == 0)
      p3l_survey_tell(verifying->survey, "there are two roots of the name \"%s\"", names.name[i]);
  verifying->counts->roots = names.count;
  free(names.name);
  return code;
}

/* ---- lists of pages ---- */

/* Follows a list by the `next` of its pages, and marks them as met. */
static p3l_code follow(p3l_survey *survey, const char *what, uint64_t first, p3l_page_use use,
                       p3l_error *error) {
  p3l_page page;
  uint64_t before = first; /* the first page on the list of holes names itself */
  for (uint64_t number = first; number != 0; before = number, number = page.next) {
    bool possible = number < survey->page_count && survey->pages[number].use == use;
    if (!possible || survey->pages[number].met) {
      p3l_survey_tell(survey, "the list of %s leads to page %llu, %s", what,
                      (unsigned long long)number,
                      possible ? "a second time" : "which is not one of these");
      return P3L_OK;
    }
    survey->pages[number].met = true;
    p3l_code code = p3l_pager_read(survey->pager, (p3l_page_number){number}, &page, error);
    if (code != P3L_OK) return code;
    uint64_t previous = ((const p3l_object_page *)(const void *)&page)->previous;
    if (use == P3L_USE_OBJECTS && previous != before)
      p3l_survey_tell(survey,
                      "page %llu is on the list of %s behind page %llu, and "
                      "names page %llu",
                      (unsigned long long)number, what, (unsigned long long)before,
                      (unsigned long long)previous);
  }
  return P3L_OK;
}

static p3l_code check_lists(p3l_survey *survey, p3l_error *error) {
  p3l_catalog catalog;
  p3l_error why;
  p3l_code code = p3l_catalog_read(survey->pager, &catalog, &why);
  if (code == P3L_CORRUPT || code == P3L_WRONG_VERSION) return P3L_OK; /* reported by the survey */
  if (code != P3L_OK && error != NULL) *error = why;
  if (code == P3L_OK) code = follow(survey, "types", catalog.types, P3L_USE_TYPES, error);
  if (code == P3L_OK) code = follow(survey, "roots", catalog.roots, P3L_USE_ROOTS, error);
  if (code == P3L_OK)
    code = follow(survey, "pages with holes", catalog.holes, P3L_USE_OBJECTS, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = 1; number < survey->page_count; number++) {
    const p3l_surveyed_page *page = &survey->pages[number];
    bool listed = page->use == P3L_USE_TYPES || page->use == P3L_USE_ROOTS ||
                  (page->use == P3L_USE_OBJECTS && page->listed);
    if (listed && !page->met)
      p3l_survey_tell(survey, "page %llu should be on a list, and no list leads to it",
                      (unsigned long long)number);
  }
  if (catalog.filled != 0 && (catalog.filled >= survey->page_count ||
                              survey->pages[catalog.filled].use != P3L_USE_OBJECTS))
    p3l_survey_tell(survey, "page %llu is to be filled with objects, and is not a page for them",
                    (unsigned long long)catalog.filled);
  return P3L_OK;
}

p3l_code p3l_objects_verify(p3l_survey *survey, p3l_object_verification *verification,
                            p3l_error *error) {
  verifying verifying = {survey, verification};
  *verification = (p3l_object_verification){0};
  p3l_code code = check_lists(survey, error);
  if (code == P3L_OK) code = check_roots(&verifying, error);
  if (code == P3L_OK) code = p3l_survey_each(survey, check_object, &verifying, error);
  return code;
}
