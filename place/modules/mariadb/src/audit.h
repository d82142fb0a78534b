/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The server's audit interface: which of its events begins a statement's section, which one ends it. It works with every server, and
 * costs the server about 1,950 instructions a statement with any listener: instrumentation.c is tried first.
 */
#ifndef SPLIT_MARIADB_AUDIT_H
#define SPLIT_MARIADB_AUDIT_H

#include "server.h"

/* An event, on the thread that works on the statement. */
void audit_event(MYSQL_THD thd, unsigned event_class, const void *event);

#endif
