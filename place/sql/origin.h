/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
 *
 * Who sent a statement: the comment at its end, as sqlcommenter writes it.
 *
 *     SELECT ... /\*split_id='a1b2c3.1f'*\/          (without the backslashes)
 *     SELECT ... /\*route='%2Fitems',split_id='a1b2c3.1f'*\/
 *
 * Every client that can send SQL can write this, so it is only a hint for statistics.
 */
#ifndef SPLIT_SQL_ORIGIN_H
#define SPLIT_SQL_ORIGIN_H

#include <stddef.h>

/* The limit of the text between the quotes, which is neither copied nor checked; a longer text
 * is ignored. */
#define SQL_ORIGIN_LENGTH 23

/* Points `origin` into the text and returns its length; 0: there is none. Reads the last
 * SQL_ORIGIN_READ bytes only. */
#define SQL_ORIGIN_READ 512
size_t sql_origin(const char *text, size_t length, const char **origin);

#endif
