/*
 * The type table: pages of records, and what of it is in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "catalog.h"

#define RECORDS (offsetof(p3l_type_page, records))
enum { SLOT = 8 };

static size_t name_bytes(const char *name) { return (strlen(name) + 1 + 7) / 8 * 8; }

static size_t record_bytes(const p3l_type_record *record) {
  return sizeof(*record) + record->field_count * sizeof(struct p3l_stored_field) +
         record->name_bytes;
}

static const struct p3l_stored_field *fields_of(const p3l_type_record *record) {
  return (const void *)(record + 1);
}

static const char *name_of(const p3l_type_record *record) {
  return (const char *)(fields_of(record) + record->field_count);
}

/* FNV-1a. Names are few and not hostile to each other; equality of layouts is what is asked. */
static uint64_t hash_on(uint64_t hash, const void *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t p3l_type_hash(const char *name, uint32_t version, uint32_t bytes,
                       const struct p3l_stored_field *fields, uint32_t field_count) {
  uint64_t hash = hash_on(UINT64_C(0xcbf29ce484222325), name, strlen(name) + 1);
  hash = hash_on(hash, &version, sizeof(version));
  hash = hash_on(hash, &bytes, sizeof(bytes));
  return hash_on(hash, fields, field_count * sizeof(*fields));
}

/* NULL, or why fields cannot be those of a type. */
static const char *fields_fault(const struct p3l_stored_field *fields, uint32_t count,
                                uint32_t bytes) {
  uint64_t end = 0;
  if (bytes == 0) return "has no size";
  if (count > 0 && bytes % SLOT != 0) return "has pointers, and a size that is no multiple of 8";
  for (uint32_t i = 0; i < count; i++) {
    if (fields[i].offset % SLOT != 0) return "has a pointer that is not aligned";
    if (fields[i].count == 0 || fields[i].offset < end)
      return "has pointer fields that are not in order";
    end = fields[i].offset + (uint64_t)fields[i].count * SLOT;
    if (end > bytes) return "has a pointer field behind its end";
  }
  return NULL;
}

static const char *record_fault(const p3l_type_record *record) {
  const char *name = name_of(record);
  if (record->id == P3L_HOLE || record->id == P3L_FORWARD || record->zero != 0 ||
      record->name_bytes == 0 || name[0] == 0 || name[record->name_bytes - 1] != 0 ||
      name_bytes(name) != record->name_bytes)
    return "has a record that is no type";
  for (size_t i = strlen(name); i < record->name_bytes; i++)
    if (name[i] != 0) return "has a record that is no type";
  if (fields_fault(fields_of(record), record->field_count, record->bytes) != NULL)
    return "has a type whose pointers cannot be where it says";
  if (record->hash !=
      p3l_type_hash(name, record->version, record->bytes, fields_of(record), record->field_count))
    return "has a type that is not what its hash says";
  return NULL;
}

const char *p3l_type_page_fault(const p3l_type_page *page) {
  const uint8_t *bytes = (const uint8_t *)page;
  size_t at = RECORDS;
  uint32_t last = 0;
  if (page->zero != 0 || page->count == 0 || page->end > P3L_PAGE_SIZE)
    return "has a head that was never written so";
  for (uint32_t i = 0; i < page->count; i++) {
    const p3l_type_record *record = (const void *)(bytes + at);
    if (at + sizeof(*record) > page->end || at + record_bytes(record) > page->end)
      return "has types that go beyond its end";
    const char *fault = record_fault(record);
    if (fault != NULL) return fault;
    if (record->id <= last) return "has types out of order";
    last = record->id;
    at += record_bytes(record);
  }
  if (at != page->end) return "miscounts its types";
  for (; at < P3L_PAGE_SIZE; at++)
    if (bytes[at] != 0) return "has something behind its types";
  return NULL;
}

/* ---- in memory ---- */

/* One block: the type, its fields, its name. */
static p3l_stored_type *copy_of(const p3l_stored_type *type) {
  size_t fields = type->field_count * sizeof(*type->fields), name = strlen(type->name) + 1;
  p3l_stored_type *copy = malloc(sizeof(*copy) + fields + name);
  if (copy == NULL) return NULL;
  *copy = *type;
  void *behind = copy + 1;
  if (fields > 0) memcpy(behind, type->fields, fields);
  memcpy((uint8_t *)behind + fields, type->name, name);
  copy->fields = behind;
  copy->name = (const char *)behind + fields;
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
  size_t at = RECORDS;
  for (uint32_t i = 0; i < types->count; i++) {
    const p3l_type_record *record = (const void *)((const uint8_t *)page + at);
    if (record->id < table->limit) /* so that a list which goes round ends, too */
      return p3l_fail(error, P3L_CORRUPT,
                      "%s: page %llu has types out of order; restore the store from a copy", path,
                      (unsigned long long)page->number);
    p3l_stored_type type = {record->id,      record->version,     record->bytes,    record->hash,
                            name_of(record), record->field_count, fields_of(record)};
    if (!table_add(table, &type)) return no_memory(path, error);
    at += record_bytes(record);
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
                            .name_bytes = (uint16_t)name_bytes(type->name),
                            .version = type->version,
                            .bytes = type->bytes,
                            .hash = type->hash};
  size_t fields = type->field_count * sizeof(*type->fields);
  memcpy(at, &record, sizeof(record));
  if (fields > 0) memcpy(at + sizeof(record), type->fields, fields);
  memcpy(at + sizeof(record) + fields, type->name, strlen(type->name)); /* zeros behind */
  types->count++;
  types->end = (uint16_t)(types->end + length);
}

/* The last page of the list, 0 if there is none, and how many bytes are free there. */
static p3l_code last_page(p3l_pager_transaction *transaction, uint64_t first, uint64_t *last,
                          size_t *room, p3l_error *error) {
  p3l_page_walk walk = {0};
  *last = 0;
  *room = 0;
  for (uint64_t number = first; number != 0;) {
    const p3l_page *page;
    if (!p3l_page_walk_on(&walk, number))
      return p3l_fail(error, P3L_CORRUPT, "%s: the list of types goes round at page %llu",
                      p3l_pager_path(p3l_pager_of(transaction)), (unsigned long long)number);
    p3l_code code = p3l_data_page_seen(transaction, number, P3L_USE_TYPES, &page, error);
    if (code != P3L_OK) return code;
    *room = P3L_PAGE_SIZE - ((const p3l_type_page *)(const void *)page)->end;
    *last = number;
    number = page->next;
  }
  return P3L_OK;
}

/* A page more, at the end of the list. */
static p3l_code new_page(p3l_pager_transaction *transaction, p3l_catalog *catalog, uint64_t last,
                         p3l_page **page, p3l_error *error) {
  p3l_page_number number;
  p3l_page *before;
  p3l_code code = p3l_page_allocate(transaction, &number, page, error);
  if (code != P3L_OK) return code;
  p3l_type_page *types = (void *)*page;
  types->use = P3L_USE_TYPES;
  types->end = RECORDS;
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
  size_t length =
      sizeof(p3l_type_record) + name_bytes(type->name) + type->field_count * sizeof(*type->fields);
  const char *fault = fields_fault(type->fields, type->field_count, type->bytes);
  if (type->name[0] == 0) fault = "has no name";
  if (length > P3L_PAGE_SIZE - RECORDS)
    fault = "has too many pointer fields, or too long a name; make an array of the fields";
  if (table->limit >= P3L_FORWARD) fault = "is one more than the 65534 that a store has room for";
  if (fault != NULL)
    return p3l_fail(error, P3L_MISUSE, "%s: the type \"%.80s\" %s", path, type->name, fault);

  p3l_catalog catalog;
  uint64_t last = 0;
  size_t room = 0;
  p3l_page *page;
  p3l_code code = p3l_catalog_seen(transaction, &catalog, error);
  if (code == P3L_OK) code = last_page(transaction, catalog.types, &last, &room, error);
  if (code != P3L_OK) return code;
  code = room >= length ? p3l_data_page_for_writing(transaction, last, P3L_USE_TYPES, &page, error)
                        : new_page(transaction, &catalog, last, &page, error);
  if (code != P3L_OK) return code;

  p3l_stored_type added = *type;
  added.id = (p3l_type_id)(table->limit == 0 ? 1 : table->limit);
  added.hash =
      p3l_type_hash(type->name, type->version, type->bytes, type->fields, type->field_count);
  if (!table_add(table, &added)) return no_memory(path, error);
  put_record(page, &added, length);
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  *id = added.id;
  return P3L_OK;
}
