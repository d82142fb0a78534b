/*
 * The table of named objects: a list of pages with 63 entries each. The names are few and seldom
 * change, so the search is linear.
 */
#include <string.h>

#include "catalog.h"
#include "root_page.h"

static p3l_code bad_name(const char *path, const char *name, p3l_error *error) {
  return p3l_fail(error, P3L_MISUSE, "%s: \"%.80s\" is not a name of a root: 1 to %u bytes", path,
                  name, P3L_ROOT_NAME_BYTES - 1);
}

static p3l_code goes_round(const char *path, uint64_t number, p3l_error *error) {
  return p3l_fail(error, P3L_CORRUPT,
                  "%s: the list of roots has a cycle at page %llu; restore the store from a copy",
                  path, (unsigned long long)number);
}

/* Index of the entry with that name, of a free entry for "", or -1. */
static int entry_of(const p3l_page *page, const char *name) {
  const p3l_root_page *roots = (const void *)page;
  for (size_t i = 0; i < P3L_ROOT_ENTRIES; i++)
    if (strcmp(roots->entries[i].name, name) == 0) return (int)i;
  return -1;
}

p3l_code p3l_root_each(p3l_pager *pager, p3l_root_visitor visit, void *state, p3l_error *error) {
  p3l_catalog catalog;
  p3l_page page;
  p3l_page_walk walk = {0};
  p3l_code code = p3l_catalog_read(pager, &catalog, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = catalog.roots; number != 0; number = page.next) {
    if (!p3l_page_walk_on(&walk, number)) return goes_round(p3l_pager_path(pager), number, error);
    code = p3l_data_page_read(pager, number, P3L_USE_ROOTS, &page, error);
    const p3l_root_page *roots = (const void *)&page;
    for (size_t i = 0; i < P3L_ROOT_ENTRIES && code == P3L_OK; i++)
      if (roots->entries[i].address != 0) code = visit(state, &roots->entries[i], error);
    if (code != P3L_OK) return code;
  }
  return P3L_OK;
}

p3l_code p3l_root_find(p3l_pager *pager, const char *name, p3l_address *address, p3l_error *error) {
  p3l_catalog catalog;
  p3l_page page;
  p3l_page_walk walk = {0};
  *address = (p3l_address){0};
  if (!p3l_root_name_possible(name)) return P3L_OK; /* such a name cannot exist */
  p3l_code code = p3l_catalog_read(pager, &catalog, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = catalog.roots; number != 0; number = page.next) {
    if (!p3l_page_walk_on(&walk, number)) return goes_round(p3l_pager_path(pager), number, error);
    code = p3l_data_page_read(pager, number, P3L_USE_ROOTS, &page, error);
    if (code != P3L_OK) return code;
    int index = entry_of(&page, name);
    if (index < 0) continue;
    *address = (p3l_address){((const p3l_root_page *)(const void *)&page)->entries[index].address};
    return P3L_OK;
  }
  return P3L_OK;
}

/* The position of an entry in the transaction's view; page 0: none. */
typedef struct place {
  uint64_t page;
  int index;
  p3l_address address;
} place;

static p3l_code find(p3l_pager_transaction *transaction, const char *name, place *of_name,
                     place *of_free, p3l_error *error) {
  p3l_catalog catalog;
  p3l_page_walk walk = {0};
  *of_name = *of_free = (place){0};
  p3l_code code = p3l_catalog_seen(transaction, &catalog, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = catalog.roots; number != 0;) {
    const p3l_page *page;
    if (!p3l_page_walk_on(&walk, number))
      return goes_round(p3l_pager_path(p3l_pager_of(transaction)), number, error);
    code = p3l_data_page_seen(transaction, number, P3L_USE_ROOTS, &page, error);
    if (code != P3L_OK) return code;
    const p3l_root_page *roots = (const void *)page;
    int index = entry_of(page, name), free_index = entry_of(page, "");
    if (free_index >= 0 && of_free->page == 0) *of_free = (place){number, free_index, {0}};
    if (index >= 0) {
      *of_name = (place){number, index, {roots->entries[index].address}};
      return P3L_OK;
    }
    number = page->next;
  }
  return P3L_OK;
}

p3l_code p3l_root_find_in(p3l_pager_transaction *transaction, const char *name,
                          p3l_address *address, p3l_error *error) {
  place of_name, of_free;
  *address = (p3l_address){0};
  if (!p3l_root_name_possible(name)) return P3L_OK;
  p3l_code code = find(transaction, name, &of_name, &of_free, error);
  if (code == P3L_OK && of_name.page != 0) *address = of_name.address;
  return code;
}

/* Adds a page at the head of the list. */
static p3l_code new_page(p3l_pager_transaction *transaction, place *free_entry, p3l_error *error) {
  p3l_catalog catalog;
  p3l_page_number number;
  p3l_page *page;
  p3l_code code = p3l_catalog_seen(transaction, &catalog, error);
  if (code == P3L_OK) code = p3l_page_allocate(transaction, &number, &page, error);
  if (code != P3L_OK) return code;
  ((p3l_root_page *)(void *)page)->use = P3L_USE_ROOTS;
  page->next = catalog.roots;
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  catalog.roots = number.n;
  *free_entry = (place){.page = number.n};
  return p3l_catalog_write(transaction, &catalog, error);
}

p3l_code p3l_root_set(p3l_pager_transaction *transaction, const char *name, p3l_address address,
                      p3l_error *error) {
  place at, of_free;
  p3l_page *page;
  if (!p3l_root_name_possible(name))
    return bad_name(p3l_pager_path(p3l_pager_of(transaction)), name, error);
  p3l_code code = find(transaction, name, &at, &of_free, error);
  if (code != P3L_OK) return code;
  if (at.page == 0 && address.byte == 0) return P3L_OK;
  if (at.page == 0 && of_free.page == 0) code = new_page(transaction, &of_free, error);
  if (at.page == 0) at = of_free;
  if (code == P3L_OK)
    code = p3l_data_page_for_writing(transaction, at.page, P3L_USE_ROOTS, &page, error);
  if (code != P3L_OK) return code;
  p3l_root_entry *entry = &((p3l_root_page *)(void *)page)->entries[at.index];
  *entry = (p3l_root_entry){.address = address.byte};
  if (address.byte != 0) memcpy(entry->name, name, strlen(name));
  p3l_page_changed(transaction, page, (uint32_t)((uint8_t *)entry - (uint8_t *)page),
                   sizeof(*entry));
  return P3L_OK;
}
