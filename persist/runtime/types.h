/*
 * What a store's objects look like: its types and the program's. types.c has the drawing. Private to
 * runtime/.
 */
#ifndef P3L_TYPES_H
#define P3L_TYPES_H

#include "catalog.h"
#include "p3l.h"

/* Checks the store's types against those registered. */
p3l_code p3l_types_open(p3l_store *store, p3l_error *error);
/* Types that another process added: of a store open for reading, in its next version. */
p3l_code p3l_types_refresh(p3l_store *store, p3l_error *error);
/* The store's id of a type of the program; adds it within the transaction if it is not there. */
p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error);
/* Types that a transaction added are out again: those with ids from `limit` on. */
void p3l_types_forget(p3l_store *store, uint32_t limit);
/* How objects of an id look in memory; NULL: no such type. */
const p3l_stored_type *p3l_types_of(const p3l_store *store, p3l_type_id id);
/* What the program calls an id; NULL: nothing. */
const p3l_type *p3l_types_program(const p3l_store *store, p3l_type_id id);
/* The upgrade to the program's layout, if objects of this id need one. */
bool p3l_types_upgrade(const p3l_store *store, p3l_type_id id, p3l_type_id *to,
                       p3l_upgrade *upgrade);
void p3l_types_close(p3l_store *store);

#endif
