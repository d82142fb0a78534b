/*
 * Writing increments, and looking at them. increment.h has the invariants.
 */
#include "increment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy_file.h"
#include "images.h"

/* Pages that are read at a time. */
enum { RUN = 64 };

p3l_version p3l_pager_version(p3l_pager *pager) {
  p3l_version version = {.position = pager->log.end.byte,
                         .page_count = p3l_pager_page_count(pager)};
  memcpy(version.store_id, pager->log.store_id, sizeof(version.store_id));
  return version;
}

/* ---- looking ---- */

static p3l_code not_a_source(const char *path, const char *why, p3l_error *error) {
  return p3l_fail(
      error, P3L_NOT_A_STORE,
      "%s %s; give backups (p3l backup) and increments (p3l backup --since, p3l follow)", path,
      why);
}

static p3l_code look_at_store(const char *path, const p3l_page *zero, p3l_source *source,
                              p3l_error *error) {
  p3l_origin origin;
  p3l_code code = p3l_header_check(zero, path, error);
  if (code != P3L_OK) return code;
  memcpy(&origin, zero->payload + P3L_ORIGIN_AT, sizeof(origin));
  if (memcmp(origin.magic, P3L_ORIGIN_MAGIC, sizeof(origin.magic)) != 0)
    return not_a_source(path, "is a store, but not a backup", error);
  if (zero->checkpoint != 0) return not_a_source(path, "was written to since it was made", error);
  *source = (p3l_source){.to = origin.version,
                         .pages = ((const p3l_header *)zero->payload)->page_count,
                         .is_store = true};
  return P3L_OK;
}

static p3l_code look_at_increment(const char *path, const p3l_increment_head *head, uint64_t bytes,
                                  p3l_source *source, p3l_error *error) {
  if (head->checksum != p3l_crc32c(0, head, offsetof(p3l_increment_head, checksum)))
    return p3l_fail(error, P3L_CORRUPT,
                    "%s: the head does not have the checksum that it was written with; take "
                    "another copy of it",
                    path);
  if (head->version != P3L_INCREMENT_VERSION || head->byte_order != P3L_BYTE_ORDER)
    return p3l_fail(error, P3L_WRONG_VERSION,
                    "%s is an increment of version %u, or of a machine with another byte order; "
                    "this library knows version %u",
                    path, head->version, P3L_INCREMENT_VERSION);
  if (head->pages >= bytes / P3L_PAGE_SIZE || bytes != (head->pages + 1) * P3L_PAGE_SIZE ||
      head->to.page_count > UINT64_C(1) << (P3L_ADDRESS_BITS - 12) || head->to.page_count == 0 ||
      head->since > head->to.position || (head->since == 0 && head->pages != head->to.page_count))
    return p3l_fail(error, P3L_CORRUPT,
                    "%s does not have the length that it says; take another copy", path);
  *source = (p3l_source){.to = head->to, .since = head->since, .pages = head->pages};
  return P3L_OK;
}

p3l_code p3l_source_look(const char *path, p3l_source *source, p3l_error *error) {
  union {
    p3l_page page;
    p3l_increment_head head;
  } first;
  struct stat status;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return p3l_fail_errno(error, errno, "%s: opening it", path);
  p3l_code code =
      fstat(descriptor, &status) == 0 ? P3L_OK : p3l_fail_errno(error, errno, "%s", path);
  if (code == P3L_OK && (!S_ISREG(status.st_mode) || status.st_size < (off_t)P3L_PAGE_SIZE))
    code = not_a_source(path, "is neither a store nor an increment", error);
  if (code == P3L_OK) code = p3l_copy_read(descriptor, path, &first, sizeof(first), 0, error);
  close(descriptor);
  if (code != P3L_OK) return code;
  return memcmp(first.head.magic, P3L_INCREMENT_MAGIC, sizeof(first.head.magic)) == 0
             ? look_at_increment(path, &first.head, (uint64_t)status.st_size, source, error)
             : look_at_store(path, &first.page, source, error);
}

/* ---- writing ---- */

typedef struct writing {
  p3l_pager *pager;
  const p3l_version *since; /* NULL: all pages */
  p3l_version to;
  p3l_copy_file copy;
  uint64_t pages; /* written */
} writing;

static p3l_code write_page(writing *writing, p3l_page *page, p3l_error *error) {
  p3l_page_seal(page, (p3l_lsn){writing->to.position});
  uint64_t at = ++writing->pages * P3L_PAGE_SIZE;
  return p3l_copy_write(&writing->copy, page, sizeof(*page), at, error);
}

/* Invariant 2. */
static bool may_have_changed(writing *writing, const p3l_page *page, uint64_t number) {
  return writing->since == NULL || number >= writing->since->page_count ||
         page->checkpoint > writing->since->position ||
         p3l_image_find(writing->pager, (p3l_page_number){number}) != NULL;
}

static p3l_code write_all_changed(writing *writing, p3l_error *error) {
  p3l_page *pages = malloc(RUN * sizeof(*pages));
  if (pages == NULL)
    return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory to copy it", writing->copy.path);
  p3l_code code = P3L_OK;
  uint64_t total = writing->to.page_count;
  for (uint64_t first = 0; first < total && code == P3L_OK; first += RUN) {
    size_t count = total - first < RUN ? (size_t)(total - first) : RUN;
    p3l_pager_soon(writing->pager, (p3l_page_number){first + count}, RUN);
    code = p3l_pager_read_run(writing->pager, (p3l_page_number){first}, count, pages, error);
    for (size_t at = 0; at < count && code == P3L_OK; at++)
      if (may_have_changed(writing, &pages[at], first + at))
        code = write_page(writing, &pages[at], error);
  }
  free(pages);
  return code;
}

static p3l_code write_news(writing *writing, const p3l_news *news, p3l_error *error) {
  p3l_code code = P3L_OK;
  for (size_t at = 0; at < news->count && code == P3L_OK; at++) {
    p3l_page page;
    code = p3l_pager_read(writing->pager, (p3l_page_number){news->pages[at].number}, &page, error);
    if (code == P3L_OK) code = write_page(writing, &page, error);
  }
  return code;
}

static p3l_code write_head(const writing *writing, p3l_error *error) {
  p3l_increment_head head = {.version = P3L_INCREMENT_VERSION,
                             .byte_order = P3L_BYTE_ORDER,
                             .to = writing->to,
                             .since = writing->since == NULL ? 0 : writing->since->position,
                             .pages = writing->pages};
  memcpy(head.magic, P3L_INCREMENT_MAGIC, sizeof(head.magic));
  head.checksum = p3l_crc32c(0, &head, offsetof(p3l_increment_head, checksum));
  return p3l_copy_write(&writing->copy, &head, sizeof(head), 0, error);
}

/* Invariant 3. */
static p3l_code read_again(const writing *writing, p3l_source *made, p3l_error *error) {
  const char *fresh = writing->copy.fresh;
  p3l_code code = p3l_source_look(fresh, made, error);
  uint64_t before = 0;
  for (uint64_t n = 1; n <= writing->pages && code == P3L_OK; n++) {
    p3l_page page;
    code = p3l_copy_read(writing->copy.descriptor, fresh, &page, sizeof(page), n * P3L_PAGE_SIZE,
                         error);
    if (code == P3L_OK && (p3l_page_fault(&page, (p3l_page_number){page.number}) != NULL ||
                           (n > 1 && page.number <= before)))
      code =
          p3l_fail(error, P3L_CORRUPT,
                   "%s: what was written is not what is read again, and is not kept; the disk or "
                   "memory is faulty",
                   writing->copy.path);
    before = page.number;
  }
  return code;
}

static p3l_code check_since(const writing *writing, p3l_error *error) {
  const p3l_version *since = writing->since;
  if (since == NULL) return P3L_OK;
  if (memcmp(since->store_id, writing->to.store_id, sizeof(since->store_id)) != 0)
    return p3l_fail(error, P3L_MISUSE,
                    "%s: the base of the increment is of another store, or of one from "
                    "which this one was restored; begin with a backup of this one",
                    p3l_pager_path(writing->pager));
  if (since->position > writing->to.position || since->page_count > writing->to.page_count)
    return p3l_fail(error, P3L_MISUSE,
                    "%s is of an earlier version (%llu) than the base of the increment "
                    "(%llu); begin with a backup of it",
                    p3l_pager_path(writing->pager), (unsigned long long)writing->to.position,
                    (unsigned long long)since->position);
  return P3L_OK;
}

p3l_code p3l_pager_increment(p3l_pager *pager, const p3l_version *since, const p3l_news *news,
                             const char *path, const char *fresh, p3l_source *made,
                             p3l_error *error) {
  writing writing = {.pager = pager, .since = since, .to = p3l_pager_version(pager)};
  p3l_code code = check_since(&writing, error);
  if (code == P3L_OK) code = p3l_pager_check_size(pager, error);
  if (code == P3L_OK) code = p3l_copy_begin(&writing.copy, path, fresh, error);
  if (code != P3L_OK) return code;
  bool known = since != NULL && news != NULL && !news->everywhere;
  code = known ? write_news(&writing, news, error) : write_all_changed(&writing, error);
  if (code == P3L_OK) code = write_head(&writing, error);
  if (code == P3L_OK) code = p3l_copy_sync(&writing.copy, error);
  if (code == P3L_OK) code = read_again(&writing, made, error);
  if (code == P3L_OK) code = p3l_copy_name(&writing.copy, error);
  p3l_copy_end(&writing.copy);
  return code;
}
