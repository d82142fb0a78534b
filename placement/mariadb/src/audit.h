/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Events of the server become sections of the library: which event begins a statement's section, which one ends it.
 */
#ifndef SPLIT_MARIADB_SECTIONS_H
#define SPLIT_MARIADB_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "server.h"

/* Whether statements are sections now. A section that is open when this changes is ended as usual. */
void sections_switch(bool on);

/* An event, on the thread that works on the statement. */
void sections_event(MYSQL_THD thd, unsigned event_class, const void *event);

/* Sections that another thread went on with (asynchronous commit in the thread pool), or that never ended. */
uint64_t sections_abandoned(void);

#endif
