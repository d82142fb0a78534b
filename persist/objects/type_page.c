/* Checks the invariants of a page of types, and computes the hash of each type. */
#include "type_page.h"

enum { SLOT = 8 };

/*
 * FNV-1a. Names are few and not chosen by an attacker; equal hashes are followed by a comparison of
 * the layouts.
 */
static uint64_t hash_on(uint64_t hash, const void *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

uint64_t p3l_type_hash(const char *name, uint32_t version, uint32_t bytes,
                       const struct p3l_stored_field *fields, uint32_t field_count,
                       uint32_t union_count) {
  uint64_t hash = hash_on(UINT64_C(0xcbf29ce484222325), name, strlen(name) + 1);
  hash = hash_on(hash, &version, sizeof(version));
  hash = hash_on(hash, &bytes, sizeof(bytes));
  hash = hash_on(hash, fields, (field_count + union_count) * sizeof(*fields));
  return union_count == 0 ? hash : hash_on(hash, &union_count, sizeof(union_count));
}

static bool overlap(const struct p3l_stored_field *a, const struct p3l_stored_field *b) {
  return a->offset < b->offset + (uint64_t)b->count * SLOT &&
         b->offset < a->offset + (uint64_t)a->count * SLOT;
}

static const char *list_fault(const struct p3l_stored_field *fields, uint32_t count,
                              uint32_t bytes) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (fields[i].offset % SLOT != 0) return "has a pointer that is not aligned";
    if (fields[i].count == 0 || fields[i].offset < end)
      return "has pointer fields that are not in order";
    end = fields[i].offset + (uint64_t)fields[i].count * SLOT;
    if (end > bytes) return "has a pointer field behind its end";
  }
  return NULL;
}

const char *p3l_type_fields_fault(const struct p3l_stored_field *fields, uint32_t count,
                                  uint32_t union_count, uint32_t bytes) {
  const struct p3l_stored_field *unions = union_count == 0 ? NULL : fields + count;
  if (bytes == 0) return "has no size";
  if (count + union_count > 0 && bytes % SLOT != 0)
    return "has pointers, and a size that is not a multiple of 8";
  const char *fault = list_fault(fields, count, bytes);
  if (fault == NULL) fault = list_fault(unions, union_count, bytes);
  for (uint32_t i = 0, j = 0; fault == NULL && i < count && j < union_count;) {
    if (overlap(&fields[i], &unions[j])) return "has a pointer field within a union";
    if (fields[i].offset < unions[j].offset)
      i++;
    else
      j++;
  }
  return fault;
}

static const char *record_fault(const p3l_type_record *record) {
  const char *name = p3l_type_name_of(record);
  if (record->id == P3L_HOLE || record->id >= P3L_TYPE_LIMIT || record->name_bytes == 0 ||
      name[0] == 0 || name[record->name_bytes - 1] != 0 ||
      p3l_type_name_bytes(name) != record->name_bytes)
    return "has a record that is not a type";
  for (size_t i = strlen(name); i < record->name_bytes; i++)
    if (name[i] != 0) return "has a record that is not a type";
  if (p3l_type_fields_fault(p3l_type_fields_of(record), record->field_count, record->union_count,
                            record->bytes) != NULL)
    return "has a type with impossible offsets of pointers";
  if (record->hash != p3l_type_hash(name, record->version, record->bytes,
                                    p3l_type_fields_of(record), record->field_count,
                                    record->union_count))
    return "has a type that does not match its hash";
  return NULL;
}

const char *p3l_type_page_fault(const p3l_type_page *page) {
  const uint8_t *bytes = (const uint8_t *)page;
  size_t at = P3L_TYPE_RECORDS;
  uint32_t last = 0;
  if (page->zero != 0 || page->count == 0 || page->end > P3L_PAGE_SIZE)
    return "has a head that was never written so";
  for (uint32_t i = 0; i < page->count; i++) {
    const p3l_type_record *record = (const void *)(bytes + at);
    if (at + sizeof(*record) > page->end || at + p3l_type_record_bytes(record) > page->end)
      return "has types that go beyond its end";
    const char *fault = record_fault(record);
    if (fault != NULL) return fault;
    if (record->id <= last) return "has types out of order";
    last = record->id;
    at += p3l_type_record_bytes(record);
  }
  if (at != page->end) return "miscounts its types";
  for (; at < P3L_PAGE_SIZE; at++)
    if (bytes[at] != 0) return "has something behind its types";
  return NULL;
}
