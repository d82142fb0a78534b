/*
 * The p3l command: what can be done to a store from outside. One function a subcommand; each
 * returns the exit status: 0 done, 1 something is wrong with the store or the system, 2 wrong
 * arguments.
 */
#ifndef P3L_TOOL_H
#define P3L_TOOL_H

#include <argp.h>
#include <stdio.h>

#include "survey.h"

int p3l_run_create(int argc, char **argv);
int p3l_run_stat(int argc, char **argv);
int p3l_run_verify(int argc, char **argv);
int p3l_run_dump(int argc, char **argv);
int p3l_run_backup(int argc, char **argv);
int p3l_run_gc(int argc, char **argv);
int p3l_run_torture(int argc, char **argv);

/* ---- what the commands do, to any pager: for tests and the fuzzer, too ---- */

/* Prints faults and what was counted; the exit status. */
int p3l_verify_store(p3l_pager *pager, FILE *to);

typedef struct p3l_dump_options {
  const char *type; /* objects of this type only; NULL: of all */
  const char *root; /* objects that can be reached from this root only; NULL: all */
  bool json;
} p3l_dump_options;
int p3l_dump_store(p3l_pager *pager, const p3l_dump_options *options, FILE *to);

/* Copies to `copy`; prints what was copied. */
int p3l_backup_store(p3l_pager *pager, const char *copy, FILE *to);

int p3l_stat_store(p3l_pager *pager, const p3l_recovery *recovery, FILE *to);

typedef struct p3l_gc_options {
  bool dry_run;
} p3l_gc_options;
int p3l_gc_store(p3l_pager *pager, const p3l_gc_options *options, FILE *to);

/* ---- common.c ---- */

/* The one argument of all of them, for their parsers: STORE goes to *path, which is NULL before. */
error_t p3l_parse_store(int key, char *value, struct argp_state *state, const char **path);
void p3l_parse(const struct argp *argp, int argc, char **argv, void *input);

/* "p3l: " and the sentence, on standard error; returns 1. */
int p3l_told(const p3l_error *error);

/* Begins a survey for a command that must be able to trust the store: 0, or 1 after a report. The
 * survey is to be ended in any case. */
int p3l_survey_sound(p3l_survey *survey, p3l_pager *pager);

/* A bar on standard error if that is a terminal and it takes longer than two seconds; `state` of the
 * listener is not used. */
void p3l_show_progress(void *state, const char *what, uint64_t done, uint64_t total);
void p3l_end_progress(void);

/*
 * A name from a store, for a terminal and for JSON: UTF-8 without control characters; other bytes as
 * \xNN. Valid until the fourth call from then.
 */
const char *p3l_printable(const char *name);
/* An address as page:byte; likewise. */
const char *p3l_address_text(p3l_address address);
/* Of an object, "(moved)" for a forward, "(type 7)" for one that is not in the table. */
const char *p3l_type_name(const p3l_found *found);

/* ---- objects counted by type ---- */

typedef struct p3l_tally {
  uint64_t objects, bytes;
} p3l_tally;
/* One for each id below the table's limit, then forwards; NULL: no memory. */
p3l_tally *p3l_tally_new(const p3l_survey *survey);
void p3l_tally_add(p3l_tally *tally, const p3l_survey *survey, const p3l_found *found);
/* A table with a line for each type that has any; returns the sum. */
p3l_tally p3l_tally_print(const p3l_tally *tally, const p3l_survey *survey, FILE *to);

#endif
