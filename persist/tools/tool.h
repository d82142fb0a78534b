/*
 * The p3l command: operations on a store from the command line. There is one function per
 * subcommand; each returns the exit status: 0 done, 1 the store or the system failed, 2 wrong
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
int p3l_run_restore(int argc, char **argv);
int p3l_run_follow(int argc, char **argv);
int p3l_run_gc(int argc, char **argv);
int p3l_run_torture(int argc, char **argv);

/* ---- the commands on any pager: also for tests and the fuzzer ---- */

/* Prints faults and counts; returns the exit status. */
int p3l_verify_store(p3l_pager *pager, FILE *to);

typedef struct p3l_dump_options {
  const char *type; /* objects of this type only; NULL: of all */
  const char *root; /* objects that can be reached from this root only; NULL: all */
  bool json;
} p3l_dump_options;
int p3l_dump_store(p3l_pager *pager, const p3l_dump_options *options, FILE *to);

/* Copies the store to `copy` and prints what was copied. */
int p3l_backup_store(p3l_pager *pager, const char *copy, FILE *to);
/* p3l_backup.check: objects, lists and pointers, like p3l verify. `state` is a p3l_object_verification. */
p3l_code p3l_check_copied_objects(void *state, p3l_pager *copy, p3l_error *error);

int p3l_stat_store(p3l_pager *pager, const p3l_recovery *recovery, FILE *to);

typedef struct p3l_gc_options {
  bool dry_run;
} p3l_gc_options;
int p3l_gc_store(p3l_pager *pager, const p3l_gc_options *options, FILE *to);

/* ---- common.c ---- */

/* Parses the one argument that all subcommands have: STORE is stored in *path, which is NULL
 * before. */
error_t p3l_parse_store(int key, char *value, struct argp_state *state, const char **path);
void p3l_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Prints "p3l: " and the sentence on standard error; returns 1. */
int p3l_told(const p3l_error *error);

/* Begins a survey for a command that needs an undamaged store: 0, or 1 after a report. The
 * caller must end the survey in both cases. */
int p3l_survey_sound(p3l_survey *survey, p3l_pager *pager);

/* Prints a progress bar on standard error if that is a terminal and the work takes more than two
 * seconds; `state` of the listener is not used. */
void p3l_show_progress(void *state, const char *what, uint64_t done, uint64_t total);
void p3l_end_progress(void);

/*
 * Makes a name from a store printable on a terminal and in JSON: UTF-8 without control
 * characters; other bytes as \xNN. Valid until the fourth call after this one.
 */
const char *p3l_printable(const char *name);
/* Formats an address as page:byte. Valid as long as p3l_printable()'s result. */
const char *p3l_address_text(p3l_address address);
/* Returns the name of an object's type, "(moved)" for a forward, "(type 7)" for a type that is
 * not in the table. */
const char *p3l_type_name(const p3l_found *found);

/* ---- objects counted by type ---- */

typedef struct p3l_tally {
  uint64_t objects, bytes;
} p3l_tally;
/* One counter for each id below the table's limit, then one for forwards; NULL: no memory. */
p3l_tally *p3l_tally_new(const p3l_survey *survey);
void p3l_tally_add(p3l_tally *tally, const p3l_survey *survey, const p3l_found *found);
/* Prints a table with a line for each type that occurs; returns the sum. */
p3l_tally p3l_tally_print(const p3l_tally *tally, const p3l_survey *survey, FILE *to);

#endif
