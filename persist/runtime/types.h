/*
 * The layouts of a store's objects: its types and the program's. types.c has the drawing. Private
 * to runtime/.
 */
#ifndef P3L_TYPES_H
#define P3L_TYPES_H

#include "catalog.h"
#include "p3l.h"

/* Checks the store's types against those registered. */
p3l_code p3l_types_open(p3l_store *store, p3l_error *error);
/* For a store open for reading: reads the types that another process added in the next version. */
p3l_code p3l_types_refresh(p3l_store *store, p3l_error *error);
/* The store's id of a type of the program; adds the type in the transaction if it is missing. */
p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error);
/* Removes the types that a transaction added: those with ids from `limit` on. */
void p3l_types_forget(p3l_store *store, uint32_t limit);
/* The layout in memory of objects with this id; NULL: no such type. */
const p3l_stored_type *p3l_types_of(const p3l_store *store, p3l_type_id id);
/* The program's type for an id; NULL: none. */
const p3l_type *p3l_types_program(const p3l_store *store, p3l_type_id id);
/* The upgrade to the program's layout, if objects of this id need one. */
bool p3l_types_upgrade(const p3l_store *store, p3l_type_id id, p3l_type_id *to,
                       p3l_upgrade *upgrade);
/* The unions of a type of the program, or NULL. */
const p3l_union *p3l_types_unions(const p3l_type *type);
/* True if the field lies in a union, whose arms say whether it is there. */
bool p3l_types_in_union(const p3l_type *type, const p3l_field *field);
void p3l_types_close(p3l_store *store);

#endif
