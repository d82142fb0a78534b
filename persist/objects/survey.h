/*
 * The contents of a store, page by page, fully checked: the base of `p3l verify`, `stat`, `dump`
 * and `gc`.
 *
 * p3l_survey_begin() reads every page once and stores 112 bytes about it: where pieces begin, which
 * are holes, which have moved. So a pointer can be followed without reading its target.
 *
 * Invariants:
 *  1. A page that breaks a rule of this layer is reported to the listener and left out (`use` is
 *     0): pointers into it count as dangling, and later steps see only valid pages. Unreadable
 *     pages are only counted; p3l_pager_verify() reports them.
 *  2. A large object is in the survey if all its pages are there and agree.
 *  3. The store is not written between begin and end.
 */
#ifndef P3L_SURVEY_H
#define P3L_SURVEY_H

#include "catalog.h"

/* The listener's functions. Each may be NULL. */
typedef struct p3l_listener {
  void (*fault)(void *state, const char *sentence);
  void (*progress)(void *state, const char *what, uint64_t done, uint64_t total);
  void *state;
} p3l_listener;

typedef struct p3l_surveyed_page {
  uint8_t use; /* p3l_page_use; 0: no data page, or invalid */
  bool free;   /* without an owner, according to the pager */
  bool listed; /* its head refers to the list of pages with holes */
  bool met;    /* found on the list that contains it */
  uint16_t end;
  p3l_type_id type; /* of a large object */
  union {
    struct {
      uint64_t starts[4], holes[4], moved[4]; /* one bit per granule of the page */
      uint8_t *generations;                   /* one per granule; NULL: all are 0 */
    };
    struct {
      uint64_t first, bytes; /* of a large object */
      uint8_t generation;
    };
  };
} p3l_surveyed_page;
_Static_assert(sizeof(p3l_surveyed_page) == 112, "the price of a page");

typedef struct p3l_survey {
  p3l_pager *pager;
  p3l_type_table types;
  bool types_known; /* the table could be read */
  uint64_t page_count;
  p3l_surveyed_page *pages;
  uint64_t unreadable; /* pages */
  uint64_t faults;     /* number reported so far */
  p3l_listener listener;
} p3l_survey;

/* Fails only if the survey cannot continue: no memory, a disk error, or a header page that
 * counts missing pages. Call p3l_survey_end() in any case.
 */
p3l_code p3l_survey_begin(p3l_survey *survey, p3l_pager *pager, const p3l_listener *listener,
                          p3l_error *error);
void p3l_survey_end(p3l_survey *survey);

/* Counts a fault and reports it. */
__attribute__((format(printf, 2, 3))) void p3l_survey_tell(p3l_survey *survey, const char *format,
                                                           ...);
void p3l_survey_progress(const p3l_survey *survey, const char *what, uint64_t done, uint64_t total);

typedef enum p3l_leads_to { P3L_TO_NOTHING, P3L_TO_OBJECT, P3L_TO_FORWARD } p3l_leads_to;
/* What a surrogate leads to; *begin: the object's first byte. It leads to nothing if the object
 * there has another generation. */
p3l_leads_to p3l_survey_lead(const p3l_survey *survey, uint64_t surrogate, p3l_address *begin);
/* What is at an address, regardless of its generation. */
p3l_leads_to p3l_survey_at(const p3l_survey *survey, p3l_address address, p3l_address *begin);

/* An object, or a forward (type P3L_FORWARD). */
typedef struct p3l_found {
  p3l_address address;
  uint64_t bytes;
  p3l_type_id type;
  const p3l_stored_type *layout; /* NULL: a forward, or a type that is not in the table */
  const uint8_t *content;        /* of a small one; NULL: large */
} p3l_found;

/* Visits all objects and forwards by address. `found` is valid during the call. Ends with the
 * first failure. */
typedef p3l_code (*p3l_found_visitor)(void *state, const p3l_found *found, p3l_error *error);
p3l_code p3l_survey_each(p3l_survey *survey, p3l_found_visitor visit, void *state,
                         p3l_error *error);
/* The object that begins at `address`, which is in the survey. `page` is the caller's buffer for
 * the contents of a small object; it is filled unless it already has that page (a new buffer has
 * the number 0). P3L_CORRUPT: the object has disappeared in the meantime. */
p3l_code p3l_survey_find(p3l_survey *survey, p3l_address address, p3l_page *page, p3l_found *found,
                         p3l_error *error);

/* Visits the pointer slots of an object: `value` is the contents in the file. For a forward it
 * visits the first eight bytes. */
typedef p3l_code (*p3l_value_visitor)(void *state, const p3l_found *found, uint64_t offset,
                                      uint64_t value, p3l_error *error);
p3l_code p3l_survey_slots(p3l_survey *survey, const p3l_found *found, p3l_value_visitor visit,
                          void *state, p3l_error *error);

/* True if a slot may hold the value: NULL, or a surrogate of an address after page 0. */
static inline bool p3l_slot_possible(uint64_t value) {
  return value == 0 || p3l_surrogate_possible(value);
}

/* ---- checking ---- */

typedef struct p3l_object_verification {
  uint64_t objects, large_objects, forwards, pointers, roots;
  uint64_t dangling; /* pointers without a target: the program's damage, not the store's */
} p3l_object_verification;
/*
 * Checks pointers, roots and lists. Faults are reported and counted in survey->faults. The first
 * few dangling pointers are reported, and all are counted separately.
 */
p3l_code p3l_objects_verify(p3l_survey *survey, p3l_object_verification *verification,
                            p3l_error *error);

/* ---- reachability ---- */

/* Objects reachable from all roots, or from one (`root` not NULL): one bit per granule for small
 * objects, bit 0 of the first page for large ones. */
typedef struct p3l_marks {
  uint64_t (*marked)[4]; /* [page] */
} p3l_marks;
p3l_code p3l_mark(p3l_survey *survey, const char *root, p3l_marks *marks, p3l_error *error);
bool p3l_is_marked(const p3l_marks *marks, p3l_address begin);
void p3l_marks_free(p3l_marks *marks);

#endif
