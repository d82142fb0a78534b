/* Reads and checks pages of the object layer, reads the catalog, walks along lists. */
#include <string.h>

#include "catalog.h"

static p3l_page_use use_of(const p3l_page *page) {
  uint16_t use;
  memcpy(&use, page->payload, sizeof(use));
  return (p3l_page_use)use;
}

static p3l_code check(const p3l_page *page, uint64_t number, p3l_page_use use, const char *path,
                      p3l_error *error) {
  const char *fault = p3l_data_page_fault(page);
  if (fault == NULL && use != 0 && use_of(page) != use)
    fault = "is used differently from what its pointer requires";
  if (fault == NULL) return P3L_OK;
  return p3l_fail(error, P3L_CORRUPT, "%s: page %llu %s; restore the store from a copy", path,
                  (unsigned long long)number, fault);
}

/*
 * The pager would report a page number that is too high as misuse, but here it came from the file.
 */
static p3l_code there_is(uint64_t number, uint64_t page_count, const char *path, p3l_error *error) {
  if (number != 0 && number < page_count) return P3L_OK;
  return p3l_fail(
      error, P3L_CORRUPT,
      "%s: a pointer leads to page %llu, which is not a data page; restore the store from "
      "a copy",
      path, (unsigned long long)number);
}

p3l_code p3l_data_page_read(p3l_pager *pager, uint64_t number, p3l_page_use use, p3l_page *page,
                            p3l_error *error) {
  const char *path = p3l_pager_path(pager);
  p3l_code code = there_is(number, p3l_pager_page_count(pager), path, error);
  if (code == P3L_OK) code = p3l_pager_read(pager, (p3l_page_number){number}, page, error);
  return code == P3L_OK ? check(page, number, use, path, error) : code;
}

p3l_code p3l_data_page_seen(p3l_pager_transaction *transaction, uint64_t number, p3l_page_use use,
                            const p3l_page **page, p3l_error *error) {
  p3l_pager *pager = p3l_pager_of(transaction);
  *page = p3l_page_private(transaction, (p3l_page_number){number});
  if (*page != NULL && (use == 0 || use_of(*page) == use) && (*page)->kind == P3L_PAGE_DATA)
    return P3L_OK;
  p3l_code code =
      there_is(number, p3l_transaction_page_count(transaction), p3l_pager_path(pager), error);
  if (code == P3L_OK) code = p3l_page_seen(transaction, (p3l_page_number){number}, page, error);
  return code == P3L_OK ? check(*page, number, use, p3l_pager_path(pager), error) : code;
}

p3l_code p3l_data_page_for_writing(p3l_pager_transaction *transaction, uint64_t number,
                                   p3l_page_use use, p3l_page **page, p3l_error *error) {
  const p3l_page *seen;
  p3l_code code = p3l_data_page_seen(transaction, number, use, &seen, error);
  if (code != P3L_OK) return code;
  return p3l_page_for_writing(transaction, (p3l_page_number){number}, page, error);
}

/* ---- the catalog ---- */

static p3l_code take(const p3l_page *zero, p3l_catalog *catalog, const char *path,
                     p3l_error *error) {
  const p3l_header *header = (const p3l_header *)(const void *)zero->payload;
  static const p3l_catalog none;
  memcpy(catalog, header->owner, sizeof(*catalog));
  if (memcmp(catalog, &none, sizeof(none)) == 0 ||
      memcmp(catalog->magic, P3L_CATALOG_MAGIC, sizeof(catalog->magic)) == 0 ||
      memcmp(catalog->magic, P3L_CATALOG_MAGIC_UNIONS, sizeof(catalog->magic)) == 0)
    return P3L_OK;
  if (memcmp(catalog->magic, P3L_CATALOG_MAGIC, 12) == 0)
    return p3l_fail(error, P3L_WRONG_VERSION,
                    "%s has objects in another form than this library knows (%.16s)", path,
                    catalog->magic);
  return p3l_fail(error, P3L_CORRUPT,
                  "%s: page 0 leads to no objects that this library knows; restore the store from "
                  "a copy",
                  path);
}

p3l_code p3l_catalog_read(p3l_pager *pager, p3l_catalog *catalog, p3l_error *error) {
  p3l_page zero;
  p3l_code code = p3l_pager_read(pager, (p3l_page_number){0}, &zero, error);
  return code == P3L_OK ? take(&zero, catalog, p3l_pager_path(pager), error) : code;
}

p3l_code p3l_catalog_seen(p3l_pager_transaction *transaction, p3l_catalog *catalog,
                          p3l_error *error) {
  const p3l_page *zero;
  p3l_code code = p3l_page_seen(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  return take(zero, catalog, p3l_pager_path(p3l_pager_of(transaction)), error);
}

p3l_code p3l_catalog_write(p3l_pager_transaction *transaction, const p3l_catalog *catalog,
                           p3l_error *error) {
  p3l_page *zero;
  p3l_code code = p3l_page_for_writing(transaction, (p3l_page_number){0}, &zero, error);
  if (code != P3L_OK) return code;
  p3l_catalog written = *catalog;
  if (memcmp(written.magic, P3L_CATALOG_MAGIC_UNIONS, sizeof(written.magic)) != 0)
    memcpy(written.magic, P3L_CATALOG_MAGIC, sizeof(written.magic));
  memcpy(p3l_header_of(zero)->owner, &written, sizeof(written));
  p3l_page_changed(transaction, zero, offsetof(p3l_page, payload) + offsetof(p3l_header, owner),
                   sizeof(written));
  return P3L_OK;
}

bool p3l_page_walk_on(p3l_page_walk *walk, uint64_t number) {
  if (walk->patience == 0) *walk = (p3l_page_walk){.turtle = 0, .patience = 1};
  if (number == walk->turtle) return false;
  if (++walk->steps == walk->patience) {
    walk->turtle = number;
    walk->patience *= 2;
    walk->steps = 0;
  }
  return true;
}
