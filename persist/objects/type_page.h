/* A page of types: positions of records, and rules for types. Private to objects/. */
#ifndef P3L_TYPE_PAGE_H
#define P3L_TYPE_PAGE_H

#include <string.h>

#include "catalog.h"

/* Start of the records. */
#define P3L_TYPE_RECORDS (offsetof(p3l_type_page, records))

static inline size_t p3l_type_name_bytes(const char *name) {
  return (strlen(name) + 1 + 7) / 8 * 8;
}

static inline size_t p3l_type_record_bytes(const p3l_type_record *record) {
  size_t fields = (size_t)record->field_count + record->union_count;
  return sizeof(*record) + fields * sizeof(struct p3l_stored_field) + record->name_bytes;
}

static inline const struct p3l_stored_field *p3l_type_fields_of(const p3l_type_record *record) {
  return (const void *)(record + 1);
}

static inline const char *p3l_type_name_of(const p3l_type_record *record) {
  return (const char *)(p3l_type_fields_of(record) + record->field_count + record->union_count);
}

/* NULL, or the reason why fields, and those of unions behind them, cannot belong to a type. */
const char *p3l_type_fields_fault(const struct p3l_stored_field *fields, uint32_t count,
                                  uint32_t union_count, uint32_t bytes);

#endif
