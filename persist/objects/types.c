/* The type table: pages of records, and its copy in memory. */
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "type_page.h"

/* ---- in memory ---- */

/* Those of unions included. */
static size_t fields_bytes(const p3l_stored_type *type) {
  return ((size_t)type->field_count + type->union_count) * sizeof(*type->fields);
}

/* One block of memory with the type, its fields and its name. */
static p3l_stored_type *copy_of(const p3l_stored_type *type) {
  size_t fields = fields_bytes(type), name = strlen(type->name) + 1;
  p3l_stored_type *copy = malloc(sizeof(*copy) + fields + name);
  if (copy == NULL) return NULL;
  *copy = *type;
  void *behind = copy + 1;
  if (fields > 0) memcpy(behind, type->fields, fields);
  memcpy((uint8_t *)behind + fields, type->name, name);
  copy->fields = behind;
  copy->name = (const char *)behind + fields;
  copy->union_words = 0;
  for (uint32_t i = 0; i < copy->union_count; i++)
    copy->union_words += copy->fields[copy->field_count + i].count;
  return copy;
}

/* `type->id` is not below the table's limit. */
static bool table_add(p3l_type_table *table, const p3l_stored_type *type) {
  uint32_t limit = type->id + 1u;
  p3l_stored_type **types = realloc(table->types, limit * sizeof(*types));
  if (types == NULL) return false;
  table->types = types;
  p3l_stored_type *copy = copy_of(type);
  if (copy == NULL) return false;
  memset(types + table->limit, 0, (limit - table->limit) * sizeof(*types));
  types[type->id] = copy;
  table->limit = limit;
  return true;
}

void p3l_type_table_forget(p3l_type_table *table, uint32_t limit) {
  for (uint32_t id = limit; id < table->limit; id++) free(table->types[id]);
  if (limit < table->limit) table->limit = limit;
}

void p3l_type_table_free(p3l_type_table *table) {
  p3l_type_table_forget(table, 0);
  free(table->types);
  *table = (p3l_type_table){0};
}

const p3l_stored_type *p3l_type_find(const p3l_type_table *table, const char *name, uint64_t hash) {
  for (uint32_t id = table->limit; id-- > 1;) {
    const p3l_stored_type *type = table->types[id];
    if (type != NULL && type->hash == hash && strcmp(type->name, name) == 0) return type;
  }
  return NULL;
}

static p3l_code no_memory(const char *path, p3l_error *error) {
  return p3l_fail(error, P3L_NO_MEMORY, "%s: no memory for its types", path);
}

static p3l_code take_page(const p3l_page *page, p3l_type_table *table, const char *path,
                          p3l_error *error) {
  const p3l_type_page *types = (const void *)page;
  size_t at = P3L_TYPE_RECORDS;
  for (uint32_t i = 0; i < types->count; i++) {
    const p3l_type_record *record = (const void *)((const uint8_t *)page + at);
    if (record->id < table->limit) /* so that a cyclic list ends */
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: page %llu has types out of order; restore the store from a copy", path,
                      (unsigned long long)page->number);
    p3l_stored_type type = {.id = record->id,
                            .version = record->version,
                            .bytes = record->bytes,
                            .hash = record->hash,
                            .name = p3l_type_name_of(record),
                            .field_count = record->field_count,
                            .fields = p3l_type_fields_of(record),
                            .union_count = record->union_count};
    if (!table_add(table, &type)) return no_memory(path, error);
    at += p3l_type_record_bytes(record);
  }
  return P3L_OK;
}

p3l_code p3l_type_table_read(p3l_pager *pager, p3l_type_table *table, p3l_error *error) {
  p3l_catalog catalog;
  p3l_page page;
  *table = (p3l_type_table){.limit = 0};
  p3l_code code = p3l_catalog_read(pager, &catalog, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = catalog.types; number != 0 && code == P3L_OK; number = page.next) {
    code = p3l_data_page_read(pager, number, P3L_USE_TYPES, &page, error);
    if (code == P3L_OK) code = take_page(&page, table, p3l_pager_path(pager), error);
  }
  if (code != P3L_OK) p3l_type_table_free(table);
  return code;
}

/* ---- adding ---- */

static void put_record(p3l_page *page, const p3l_stored_type *type, size_t length) {
  p3l_type_page *types = (void *)page;
  uint8_t *at = (uint8_t *)page + types->end;
  p3l_type_record record = {.id = type->id,
                            .field_count = (uint16_t)type->field_count,
                            .name_bytes = (uint16_t)p3l_type_name_bytes(type->name),
                            .union_count = (uint16_t)type->union_count,
                            .version = type->version,
                            .bytes = type->bytes,
                            .hash = type->hash};
  size_t fields = fields_bytes(type);
  memcpy(at, &record, sizeof(record));
  if (fields > 0) memcpy(at + sizeof(record), type->fields, fields);
  memcpy(at + sizeof(record) + fields, type->name, strlen(type->name)); /* zeros follow */
  types->count++;
  types->end = (uint16_t)(types->end + length);
}

/* The last page of the list, or 0 if there is none, and the number of free bytes on it. */
static p3l_code last_page(p3l_pager_transaction *transaction, uint64_t first, uint64_t *last,
                          size_t *room, p3l_error *error) {
  p3l_page_walk walk = {0};
  *last = 0;
  *room = 0;
  for (uint64_t number = first; number != 0;) {
    const p3l_page *page;
    if (!p3l_page_walk_on(&walk, number))
      return p3l_fail(error, P3L_CORRUPT, "%s: the list of types has a cycle at page %llu",
                      p3l_pager_path(p3l_pager_of(transaction)), (unsigned long long)number);
    p3l_code code = p3l_data_page_seen(transaction, number, P3L_USE_TYPES, &page, error);
    if (code != P3L_OK) return code;
    *room = P3L_PAGE_SIZE - ((const p3l_type_page *)(const void *)page)->end;
    *last = number;
    number = page->next;
  }
  return P3L_OK;
}

/* Adds a page at the end of the list. */
static p3l_code new_page(p3l_pager_transaction *transaction, p3l_catalog *catalog, uint64_t last,
                         p3l_page **page, p3l_error *error) {
  p3l_page_number number;
  p3l_page *before;
  p3l_code code = p3l_page_allocate(transaction, &number, page, error);
  if (code != P3L_OK) return code;
  p3l_type_page *types = (void *)*page;
  types->use = P3L_USE_TYPES;
  types->end = P3L_TYPE_RECORDS;
  p3l_page_changed(transaction, *page, 0, P3L_PAGE_SIZE);
  if (last == 0) {
    catalog->types = number.n;
    return p3l_catalog_write(transaction, catalog, error);
  }
  code = p3l_data_page_for_writing(transaction, last, P3L_USE_TYPES, &before, error);
  if (code != P3L_OK) return code;
  before->next = number.n;
  p3l_page_changed(transaction, before, 0, offsetof(p3l_page, payload));
  return P3L_OK;
}

p3l_code p3l_type_add(p3l_pager_transaction *transaction, p3l_type_table *table,
                      const p3l_stored_type *type, p3l_type_id *id, p3l_error *error) {
  const char *path = p3l_pager_path(p3l_pager_of(transaction));
  size_t length = sizeof(p3l_type_record) + p3l_type_name_bytes(type->name) + fields_bytes(type);
  const char *fault =
      p3l_type_fields_fault(type->fields, type->field_count, type->union_count, type->bytes);
  if (type->name[0] == 0) fault = "has no name";
  if (length > P3L_PAGE_SIZE - P3L_TYPE_RECORDS)
    fault = "has too many pointer fields, or too long a name; make an array of the fields";
  if (table->limit >= P3L_TYPE_LIMIT) fault = "is one more than the 2046 that a store has room for";
  if (fault != NULL)
    return p3l_fail(error, P3L_MISUSE, "%s: the type \"%.80s\" %s", path, type->name, fault);

  p3l_catalog catalog;
  uint64_t last = 0;
  size_t room = 0;
  p3l_page *page;
  p3l_code code = p3l_catalog_seen(transaction, &catalog, error);
  if (code == P3L_OK && type->union_count > 0 &&
      memcmp(catalog.magic, P3L_CATALOG_MAGIC_UNIONS, sizeof(catalog.magic)) != 0) {
    memcpy(catalog.magic, P3L_CATALOG_MAGIC_UNIONS, sizeof(catalog.magic));
    code = p3l_catalog_write(transaction, &catalog, error);
  }
  if (code == P3L_OK) code = last_page(transaction, catalog.types, &last, &room, error);
  if (code != P3L_OK) return code;
  code = room >= length ? p3l_data_page_for_writing(transaction, last, P3L_USE_TYPES, &page, error)
                        : new_page(transaction, &catalog, last, &page, error);
  if (code != P3L_OK) return code;

  p3l_stored_type added = *type;
  added.id = (p3l_type_id)(table->limit == 0 ? 1 : table->limit);
  added.hash = p3l_type_hash(type->name, type->version, type->bytes, type->fields,
                             type->field_count, type->union_count);
  if (!table_add(table, &added)) return no_memory(path, error);
  put_record(page, &added, length);
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  *id = added.id;
  return P3L_OK;
}
