/*
 * A store out of a backup and increments: each page from the last source that has it. increment.h has the
 * invariants.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "copy_file.h"
#include "images.h"

typedef struct source {
  const char *path;
  p3l_source is;
  p3l_pager *store; /* of a backup */
  int descriptor;   /* of an increment */
} source;

/* Where a page is: in which source, at which place of an increment. */
typedef struct place {
  uint32_t source; /* index + 1; 0: nowhere yet */
  uint32_t unused;
  uint64_t at; /* bytes */
} place;

typedef struct restoring {
  const char *path; /* of the store to be */
  source *sources;
  size_t count;
  place *places; /* [page] */
  uint64_t pages;
} restoring;

/* Each begins at or before where the one before it ends. */
static p3l_code check_chain(const restoring *restoring, p3l_error *error) {
  const source *before = &restoring->sources[0];
  if (before->is.since != 0)
    return p3l_fail(error, P3L_MISUSE,
                    "%s has what changed since version %llu only; give the backup and the "
                    "increments before it first",
                    before->path, (unsigned long long)before->is.since);
  for (size_t at = 1; at < restoring->count; before = &restoring->sources[at++]) {
    const source *next = &restoring->sources[at];
    if (memcmp(next->is.to.store_id, before->is.to.store_id, sizeof(next->is.to.store_id)) != 0)
      return p3l_fail(error, P3L_MISUSE, "%s is of another store than %s", next->path,
                      before->path);
    if (next->is.since > before->is.to.position || next->is.to.position < before->is.to.position ||
        next->is.to.page_count < before->is.to.page_count)
      return p3l_fail(error, P3L_MISUSE,
                      "%s has what changed since version %llu, and %s is version %llu: one between "
                      "them is missing, or they are in another order",
                      next->path, (unsigned long long)next->is.since, before->path,
                      (unsigned long long)before->is.to.position);
  }
  return P3L_OK;
}

static p3l_code damaged(const source *source, uint64_t number, p3l_error *error) {
  return p3l_fail(error, P3L_CORRUPT,
                  "%s: page %llu is not as it was written; take another copy of this file",
                  source->path, (unsigned long long)number);
}

static p3l_code place_increment(restoring *restoring, size_t index, p3l_error *error) {
  const source *source = &restoring->sources[index];
  uint64_t next = 0;
  for (uint64_t n = 1; n <= source->is.pages; n++) {
    struct {
      uint32_t checksum;
      uint16_t kind, generation;
      uint64_t number, checkpoint;
    } head;
    uint64_t at = n * P3L_PAGE_SIZE;
    p3l_code code = p3l_copy_read(source->descriptor, source->path, &head, sizeof(head), at, error);
    if (code != P3L_OK) return code;
    if (head.number < next || head.number >= source->is.to.page_count)
      return damaged(source, head.number, error);
    next = head.number + 1;
    restoring->places[head.number] = (place){.source = (uint32_t)index + 1, .at = at};
  }
  return P3L_OK;
}

static p3l_code place_all(restoring *restoring, p3l_error *error) {
  restoring->pages = restoring->sources[restoring->count - 1].is.to.page_count;
  restoring->places = calloc(restoring->pages, sizeof(*restoring->places));
  if (restoring->places == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to restore %llu pages", restoring->path,
                    (unsigned long long)restoring->pages);
  p3l_code code = P3L_OK;
  for (size_t index = 0; index < restoring->count && code == P3L_OK; index++) {
    const source *source = &restoring->sources[index];
    for (uint64_t page = 0; source->is.is_store && page < source->is.pages; page++)
      restoring->places[page] = (place){.source = (uint32_t)index + 1};
    if (!source->is.is_store) code = place_increment(restoring, index, error);
  }
  return code;
}

static p3l_code read_one(const restoring *restoring, uint64_t number, p3l_page *page,
                         p3l_error *error) {
  place place = restoring->places[number];
  if (place.source == 0)
    return p3l_fail(error, P3L_CORRUPT, "%s: page %llu is in none of the files", restoring->path,
                    (unsigned long long)number);
  const source *source = &restoring->sources[place.source - 1];
  if (source->is.is_store) {
    p3l_code code = p3l_pager_read(source->store, (p3l_page_number){number}, page, error);
    if (code == P3L_OK && page->checkpoint != 0)
      return p3l_fail(error, P3L_MISUSE, "%s was written to since it was made; it is not a backup",
                      source->path);
    return code;
  }
  p3l_code code =
      p3l_copy_read(source->descriptor, source->path, page, sizeof(*page), place.at, error);
  if (code != P3L_OK) return code;
  bool sound = p3l_page_fault(page, (p3l_page_number){number}) == NULL &&
               page->checkpoint == source->is.to.position;
  return sound ? P3L_OK : damaged(source, number, error);
}

static p3l_code read_places(void *state, p3l_page_number first, size_t count, p3l_page *pages,
                            p3l_error *error) {
  p3l_code code = P3L_OK;
  for (size_t at = 0; at < count && code == P3L_OK; at++)
    code = read_one(state, first.n + at, &pages[at], error);
  return code;
}

/* ---- the sources ---- */

static p3l_code open_source(source *source, p3l_error *error) {
  p3l_code code = p3l_source_look(source->path, &source->is, error);
  if (code != P3L_OK) return code;
  if (source->is.is_store) {
    p3l_pager_options options = {.read_only = true};
    code = p3l_pager_open(source->path, &options, &source->store, NULL, error);
    if (code == P3L_OK && source->store->images != NULL)
      code = p3l_fail(error, P3L_MISUSE, "%s was written to since it was made; it is not a backup",
                      source->path);
    return code;
  }
  source->descriptor = open(source->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  return source->descriptor >= 0 ? P3L_OK
                                 : p3l_fail_errno(error, errno, "%s: opening it", source->path);
}

static void close_sources(restoring *restoring) {
  for (size_t at = 0; at < restoring->count; at++) {
    source *source = &restoring->sources[at];
    if (source->store != NULL) p3l_pager_close(source->store, NULL);
    if (source->descriptor >= 0) close(source->descriptor);
  }
  free(restoring->sources);
  free(restoring->places);
}

p3l_code p3l_restore(const char *const *paths, size_t count, const char *path, p3l_backup *backup,
                     p3l_error *error) {
  if (count == 0 || count >= UINT32_MAX)
    return p3l_fail(error, P3L_MISUSE, "%s: nothing to restore it from", path);
  restoring restoring = {.path = path, .sources = calloc(count, sizeof(source)), .count = count};
  if (restoring.sources == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to restore it", path);
  for (size_t at = 0; at < count; at++)
    restoring.sources[at] = (source){.path = paths[at], .descriptor = -1};
  p3l_code code = P3L_OK;
  for (size_t at = 0; at < count && code == P3L_OK; at++)
    code = open_source(&restoring.sources[at], error);
  if (code == P3L_OK) code = check_chain(&restoring, error);
  if (code == P3L_OK) code = place_all(&restoring, error);
  if (code == P3L_OK) {
    p3l_build build = {restoring.pages, NULL, read_places, &restoring};
    code = p3l_build_store(&build, path, backup, error);
  }
  close_sources(&restoring);
  return code;
}
