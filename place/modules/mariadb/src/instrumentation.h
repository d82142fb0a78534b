/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The server's instrumentation interface (mysql/psi/psi.h), made for the performance schema: the
 * server calls through a table of functions at the beginning and the end of each statement, by
 * default functions that do nothing. Unless another component uses the table, the plugin installs
 * its own.
 *
 * Why not the audit interface alone: for each statement it makes three calls and formats a user's
 * name three times, which is three quarters of the plugin's cost in a small statement. The calls of
 * this interface are made in any case.
 */
#ifndef SPLIT_MARIADB_INSTRUMENTATION_H
#define SPLIT_MARIADB_INSTRUMENTATION_H

#include <stdbool.h>

/* Collects statements through this interface from now on. Returns NULL, or why it cannot: the
 * performance schema uses it, or the plugin was built for another release. Not thread-safe. */
const char *instrumentation_open(void);

/* Restores the server's table. Threads may still be in the plugin's functions: it stays in
 * memory (see split_init). */
void instrumentation_close(void);

#endif
