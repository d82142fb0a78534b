/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * The tables that a statement names, by its fingerprint.
 *
 *     select i.name from shop.items i join users u on i.seller=u.id where u.id in(?)   ->   shop.items, users
 *
 * Used where the server does not report the tables. Names are in lower case, as in the fingerprint, and end where it ends. Known limits: the
 * tables of views, procedures and functions are not in their caller's text; a name defined by WITH is taken for a table; tables of a list
 * that continues after a JOIN's condition are missed.
 */
#ifndef SPLIT_SQL_TABLES_H
#define SPLIT_SQL_TABLES_H

#include <stddef.h>

/* Both point into the fingerprint, without quotes. */
struct sql_table {
  const char *database, *name;
  size_t database_length /* 0: not named */, name_length;
};

/* Writes the first tables, at most `most`, in the order of the text, each as often as it is
 * named; returns their number. */
size_t sql_tables(const char *fingerprint, size_t length, struct sql_table *tables, size_t most);

#endif
