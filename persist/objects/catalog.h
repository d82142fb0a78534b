/*
 * What the object layer keeps in the header page (`owner`), and the tables that it leads to: types,
 * roots. Lists of pages go by the page head's `next`.
 */
#ifndef P3L_CATALOG_H
#define P3L_CATALOG_H

#include "object_page.h"
#include "pager.h"

#define P3L_CATALOG_MAGIC "P3L objects 1\0\0" /* 16 bytes with its end */

typedef struct p3l_catalog {
  char magic[16];  /* all zero: a store without objects, as `p3l create` makes it */
  uint64_t types;  /* page number of the first page of the table; 0: none */
  uint64_t roots;  /* likewise */
  uint64_t holes;  /* first of the object pages that have room for more; see allocate.h */
  uint64_t filled; /* the page that new objects went to last */
} p3l_catalog;
_Static_assert(sizeof(p3l_catalog) <= 256, "fits into the header page");

/* ---- types ---- */

/* A type as the store knows it. */
typedef struct p3l_stored_type {
  p3l_type_id id; /* 1 .. 0xfffe, never given twice */
  uint32_t version;
  uint32_t bytes; /* of one instance */
  uint64_t hash;  /* of name, version, bytes and fields */
  const char *name;
  uint32_t field_count;
  const struct p3l_stored_field { uint32_t offset, count; /* as p3l_field */ } * fields;
} p3l_stored_type;

/* All types of a store, by id; in memory. */
typedef struct p3l_type_table {
  p3l_stored_type **types; /* [id]; NULL: no such type */
  uint32_t limit;          /* ids are below */
} p3l_type_table;

/* Hostile pages are told (P3L_CORRUPT), never believed. */
p3l_code p3l_type_table_read(p3l_pager *pager, p3l_type_table *table, p3l_error *error);
void p3l_type_table_free(p3l_type_table *table);
/* The newest of a name with that hash, or NULL. */
const p3l_stored_type *p3l_type_find(const p3l_type_table *table, const char *name, uint64_t hash);
uint64_t p3l_type_hash(const char *name, uint32_t version, uint32_t bytes,
                       const struct p3l_stored_field *fields, uint32_t field_count);
/* Adds a type to the store and to the table; it is taken out of the table again if the transaction
 * aborts: p3l_type_table_forget() with the limit from before. */
p3l_code p3l_type_add(p3l_pager_transaction *transaction, p3l_type_table *table,
                      const p3l_stored_type *type, p3l_type_id *id, p3l_error *error);
void p3l_type_table_forget(p3l_type_table *table, uint32_t limit);

/*
 * The pointer slots of [from, to) of an array of `type`: calls visit with the byte offset of each
 * slot that lies in it, wholly or in part, ascending. The one place that knows how fields repeat in
 * arrays.
 */
typedef void (*p3l_slot_visitor)(void *state, uint64_t offset);
void p3l_type_slots(const p3l_stored_type *type, uint64_t from, uint64_t to, p3l_slot_visitor visit,
                    void *state);

/* ---- roots ---- */

#define P3L_ROOT_NAME_BYTES 56 /* with its end */
typedef struct p3l_root_entry {
  uint64_t address; /* of the object; 0: the entry is free */
  char name[P3L_ROOT_NAME_BYTES];
} p3l_root_entry;

/* address 0: there is none. */
p3l_code p3l_root_find(p3l_pager *pager, const char *name, p3l_address *address, p3l_error *error);
/* The same as the transaction sees it. */
p3l_code p3l_root_find_in(p3l_pager_transaction *transaction, const char *name,
                          p3l_address *address, p3l_error *error);
p3l_code p3l_root_set(p3l_pager_transaction *transaction, const char *name, p3l_address address,
                      p3l_error *error);
typedef p3l_code (*p3l_root_visitor)(void *state, const p3l_root_entry *entry, p3l_error *error);
p3l_code p3l_root_each(p3l_pager *pager, p3l_root_visitor visit, void *state, p3l_error *error);

#endif
