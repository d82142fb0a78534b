/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The server's instrumentation interface (mysql/psi/psi.h), made for the performance schema: the server calls through a table of
 * functions at the beginning and the end of each statement, by default functions that do nothing. While nobody else has that table,
 * ours is there instead.
 *
 * Why not the audit interface alone: for each statement that one writes a user's name out three times and calls three times, which is
 * three quarters of all that our part in a small statement costs. This one is called anyway.
 */
#ifndef SPLIT_MARIADB_INSTRUMENTATION_H
#define SPLIT_MARIADB_INSTRUMENTATION_H

#include <stdbool.h>

/* From now on statements are told of by this interface. NULL, or why not: the performance schema has it, or the server is another
 * release than this plugin was built for. Not for two threads at a time. */
const char *instrumentation_open(void);

/* Gives the table back. Threads may be within our functions still: the plugin stays in memory (split_init sees to that). */
void instrumentation_close(void);

#endif
