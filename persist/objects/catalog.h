/*
 * The object layer's data in the header page (`owner`), and the tables that it refers to: types,
 * roots. Lists of pages are linked by the page head's `next`.
 */
#ifndef P3L_CATALOG_H
#define P3L_CATALOG_H

#include "object_page.h"
#include "pager.h"

#define P3L_CATALOG_MAGIC "P3L objects 1\0\0" /* 16 bytes, including the terminator */
/* Of a store that has a type with unions: libraries that do not know unions refuse it. */
#define P3L_CATALOG_MAGIC_UNIONS "P3L objects 2\0\0"

typedef struct p3l_catalog {
  char magic[16];  /* all zero: a store without objects, as created by `p3l create` */
  uint64_t types;  /* page number of the first page of the table; 0: none */
  uint64_t roots;  /* likewise */
  uint64_t holes;  /* first of the object pages with free space; see allocate.h */
  uint64_t filled; /* the page that received the latest objects */
} p3l_catalog;
_Static_assert(sizeof(p3l_catalog) == 48, "no padding in the file");

/* Reads the catalog; it is all zero before the first object. May return P3L_WRONG_VERSION or
 * P3L_CORRUPT. */
p3l_code p3l_catalog_read(p3l_pager *pager, p3l_catalog *catalog, p3l_error *error);
/* Reads the catalog in the transaction's view. */
p3l_code p3l_catalog_seen(p3l_pager_transaction *transaction, p3l_catalog *catalog,
                          p3l_error *error);
/* Replaces the catalog, and sets its magic. */
p3l_code p3l_catalog_write(p3l_pager_transaction *transaction, const p3l_catalog *catalog,
                           p3l_error *error);

/*
 * A list of pages comes from a file, and may be cyclic. Brent's algorithm detects cycles: the
 * reference stays while the walk takes 1, 2, 4 ... steps, then moves to the walk's position.
 */
typedef struct p3l_page_walk {
  uint64_t turtle, steps, patience;
} p3l_page_walk;
/* Moves to the page `number`, which is not 0. Returns false on a cycle. */
bool p3l_page_walk_on(p3l_page_walk *walk, uint64_t number);

/* ---- types ---- */

/* A page of use P3L_USE_TYPES: records one after another, with ids ascending along the list. */
typedef struct p3l_type_page {
  uint8_t head[32]; /* p3l_page; its `next`: the next page of the table */
  uint16_t use;
  uint16_t count; /* records */
  uint16_t end;   /* offset in the page; zeros follow */
  uint16_t zero;
  uint8_t records[P3L_PAGE_SIZE - 40];
} p3l_type_page;
_Static_assert(sizeof(p3l_type_page) == P3L_PAGE_SIZE, "a view of a whole page");

/* Followed by the fields, those of unions last, and the name, which zeros extend to a multiple of
 * eight. */
typedef struct p3l_type_record {
  uint16_t id;
  uint16_t field_count;
  uint16_t name_bytes; /* including the zeros, of which there is at least one */
  uint16_t union_count;
  uint32_t version;
  uint32_t bytes;
  uint64_t hash;
} p3l_type_record;
_Static_assert(sizeof(p3l_type_record) == 24, "no padding in the file");

/* A type as recorded in the store. */
typedef struct p3l_stored_type {
  p3l_type_id id; /* 1 .. 0xfffe, never used twice */
  uint32_t version;
  uint32_t bytes; /* size of one instance */
  uint64_t hash;  /* of name, version, bytes and fields */
  const char *name;
  uint32_t field_count;
  const struct p3l_stored_field { uint32_t offset, count; /* as p3l_field */ } * fields;
  /* Behind `fields`: words that are pointers in some arms of unions. slots.h says in which
   * objects. */
  uint32_t union_count;
  uint32_t union_words; /* of all these fields; in memory only */
} p3l_stored_type;
_Static_assert(sizeof(struct p3l_stored_field) == 8, "no padding in the file");

/* All types of a store by id, in memory. */
typedef struct p3l_type_table {
  p3l_stored_type **types; /* [id]; NULL: no such type */
  uint32_t limit;          /* ids are below */
} p3l_type_table;

/* Reads all pages of types. Damaged pages are reported (P3L_CORRUPT), never used. */
p3l_code p3l_type_table_read(p3l_pager *pager, p3l_type_table *table, p3l_error *error);
void p3l_type_table_free(p3l_type_table *table);
/* The newest type with that name and hash, or NULL. */
const p3l_stored_type *p3l_type_find(const p3l_type_table *table, const char *name, uint64_t hash);
/* `fields` has the fields and then those of unions. */
uint64_t p3l_type_hash(const char *name, uint32_t version, uint32_t bytes,
                       const struct p3l_stored_field *fields, uint32_t field_count,
                       uint32_t union_count);
/* Adds a type to the store and to the table. After an abort, remove it by
 * p3l_type_table_forget() with the earlier limit. The record must fit into a page (about 500
 * fields) and slots must be aligned (P3L_MISUSE). type->id and type->hash are ignored. */
p3l_code p3l_type_add(p3l_pager_transaction *transaction, p3l_type_table *table,
                      const p3l_stored_type *type, p3l_type_id *id, p3l_error *error);
void p3l_type_table_forget(p3l_type_table *table, uint32_t limit);

/* ---- roots ---- */

#define P3L_ROOT_NAME_BYTES 56 /* including the terminator */
typedef struct p3l_root_entry {
  uint64_t address; /* surrogate of the object without bit 63; 0: the entry is free, all zero */
  char name[P3L_ROOT_NAME_BYTES];
} p3l_root_entry;
_Static_assert(sizeof(p3l_root_entry) == 64, "no padding in the file");

#define P3L_ROOT_ENTRIES ((P3L_PAGE_SIZE - 64) / sizeof(p3l_root_entry))
typedef struct p3l_root_page {
  uint8_t head[32]; /* p3l_page; its `next`: the next page of the table */
  uint16_t use;     /* P3L_USE_ROOTS */
  uint16_t zeros[15];
  p3l_root_entry entries[P3L_ROOT_ENTRIES];
} p3l_root_page;
_Static_assert(sizeof(p3l_root_page) == P3L_PAGE_SIZE, "a view of a whole page");

/* Looks up a root. The address includes the object's generation, as in p3l_root_entry. 0: no
 * such root. */
p3l_code p3l_root_find(p3l_pager *pager, const char *name, p3l_address *address, p3l_error *error);
/* The same in the transaction's view. */
p3l_code p3l_root_find_in(p3l_pager_transaction *transaction, const char *name,
                          p3l_address *address, p3l_error *error);
p3l_code p3l_root_set(p3l_pager_transaction *transaction, const char *name, p3l_address address,
                      p3l_error *error);
typedef p3l_code (*p3l_root_visitor)(void *state, const p3l_root_entry *entry, p3l_error *error);
p3l_code p3l_root_each(p3l_pager *pager, p3l_root_visitor visit, void *state, p3l_error *error);

/* ---- pages of the object layer ---- */

/* Parts of p3l_data_page_fault() for these tables. */
const char *p3l_type_page_fault(const p3l_type_page *page);
const char *p3l_root_page_fault(const p3l_root_page *page);

/* Reads a page and checks it by p3l_data_page_fault(). Also returns P3L_CORRUPT if its use
 * differs from `use`; 0: any use. */
p3l_code p3l_data_page_read(p3l_pager *pager, uint64_t number, p3l_page_use use, p3l_page *page,
                            p3l_error *error);
/* The same in the transaction's view. The page is valid until the next call with this
 * transaction. */
p3l_code p3l_data_page_seen(p3l_pager_transaction *transaction, uint64_t number, p3l_page_use use,
                            const p3l_page **page, p3l_error *error);
/* Returns a private copy for writing. The page is checked when the copy is made. */
p3l_code p3l_data_page_for_writing(p3l_pager_transaction *transaction, uint64_t number,
                                   p3l_page_use use, p3l_page **page, p3l_error *error);

#endif
