/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For tests: what a server would have, and what was counted.
 */
#ifndef SPLIT_MARIADB_COUNTING_H
#define SPLIT_MARIADB_COUNTING_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "groups.h"
#include "split.h"
#include "statement.h"

unsigned threadpool_size = 2;
unsigned long thread_handling;
unsigned long thd_get_thread_id(const MYSQL_THD thd) { return (unsigned long)(uintptr_t)thd; }

static MYSQL_THD connection(unsigned number) { return (MYSQL_THD)(uintptr_t)number; }

static struct split_kind_counts found;

/* Number of counted statements with this fingerprint; their other properties are in `found`. */
static uint64_t count(const char *label) {
  for (split_code_id code = 1; code < 65536; code++)
    if (split_kind_counts(code, &found) && strcmp(found.label, label) == 0) return found.count;
  memset(&found, 0, sizeof found);
  return 0;
}

static uint64_t sections(void) {
  struct split_counts counts;
  split_counts(&counts);
  return counts.sections;
}

static int open_library(void **state) {
  static char folder[] = "/tmp/split-mariadb-XXXXXX";
  *state = mkdtemp(folder);
  split_configure(*state);
  groups_switch(true);
  statement_switch(true);
  return split_init_named("test", 0xdb, 0xa1, SPLIT_KEY_TEXT) == 0xdb ? 0 : -1;
}

static int close_library(void **state) {
  char command[64];
  split_close();
  snprintf(command, sizeof command, "rm -r %s", (const char *)*state);
  return system(command);
}

#endif
