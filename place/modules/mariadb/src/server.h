/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The parts of the server that are used: its headers, and functions that it exports without a header.
 */
#ifndef SPLIT_MARIADB_SERVER_H
#define SPLIT_MARIADB_SERVER_H

#include <stddef.h>

/* Suppresses warnings in the server's headers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <mysql/plugin.h>
#include <mysql/plugin_audit.h>
#pragma GCC diagnostic pop

#if MYSQL_AUDIT_INTERFACE_VERSION != 0x0302
#error "this plugin is made for MariaDB's audit interface 0x0302 (MariaDB 10.2 to 11)"
#endif

/* State of the thread pool, if the server has one: number of groups, and whether it is in use
 * (2). Weak: not every server exports them. */
extern unsigned threadpool_size __attribute__((weak));
extern unsigned long thread_handling __attribute__((weak));
#define SERVER_THREAD_POOL 2

#endif
