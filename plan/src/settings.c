/*
 * Definitions of the settings for the server.
 */
#include "settings.h"

#include <limits.h>

#include "access/parallel.h"
#include "miscadmin.h"
#include "utils/guc.h"

bool ccopt_enabled = true;
bool ccopt_enable_batch_scan = true;
bool ccopt_enable_batch_agg = true;
bool ccopt_enable_batch_join = true;
bool ccopt_enable_batch_window = true;
bool ccopt_enable_adaptive_join = true;
bool ccopt_enable_bloom = true;
bool ccopt_enable_top_n = true;
int ccopt_buffer = BUFFER_AUTO;
int ccopt_buffer_mode = BUFFER_RING;
int ccopt_buffer_rows = 0;
bool ccopt_force = false;
char *ccopt_require = NULL;
int ccopt_shapes = SHAPES_SUSPECTS;
int ccopt_cache_mb = 0;
bool ccopt_enable_cache = true;

static const struct config_enum_entry buffer_settings[] = {{"off", BUFFER_OFF, false},
                                                           {"auto", BUFFER_AUTO, false},
                                                           {"paper", BUFFER_PAPER, false},
                                                           {"force", BUFFER_FORCE, false},
                                                           {NULL, 0, false}};
static const struct config_enum_entry buffer_modes[] = {
    {"ring", BUFFER_RING, false}, {"copy", BUFFER_COPY, false}, {NULL, 0, false}};
static const struct config_enum_entry shapes_settings[] = {{"off", SHAPES_OFF, false},
                                                           {"suspects", SHAPES_SUSPECTS, false},
                                                           {"every", SHAPES_EVERY, false},
                                                           {NULL, 0, false}};

/*
 * The limit is fixed when the server starts. A library that is loaded later finds the value that the
 * server's configuration has, and cannot follow it.
 */
#define CACHE_MAX_MB (1024 * 1024)
static void define_cache(void) {
  bool preloading = process_shared_preload_libraries_in_progress;

  DefineCustomIntVariable(
      "ccopt.cache_mb", "Shared memory for the column cache; 0 is off.",
      "Decoded columns of pages that did not change are kept, within this limit. It needs "
      "shared_preload_libraries, and a restart.",
      &ccopt_cache_mb, 0, 0, CACHE_MAX_MB, preloading ? PGC_POSTMASTER : PGC_SIGHUP, GUC_UNIT_MB,
      NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_cache", "Lets BatchScan use the column cache.", NULL,
                           &ccopt_enable_cache, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  if (ccopt_cache_mb > 0 && !preloading && !IsParallelWorker())
    ereport(NOTICE, (errmsg("the column cache is off: ccopt is not in shared_preload_libraries"),
                     errhint("Add it there and restart the server, or set ccopt.cache_mb to 0.")));
}

void settings_define(void) {
  define_cache();
  DefineCustomBoolVariable("ccopt.enabled", "Lets ccopt take part in planning.", NULL,
                           &ccopt_enabled, true, PGC_USERSET, 0, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_scan", "Lets the planner use BatchScan.", NULL,
                           &ccopt_enable_batch_scan, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_agg", "Lets the planner use BatchAgg.", NULL,
                           &ccopt_enable_batch_agg, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_window", "Lets the planner use BatchWindow.", NULL,
                           &ccopt_enable_batch_window, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable("ccopt.enable_batch_join", "Lets the planner use BatchHashJoin.", NULL,
                           &ccopt_enable_batch_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL,
                           NULL);
  DefineCustomBoolVariable(
      "ccopt.enable_adaptive_join", "Lets nested loops change to a hash table while they run.",
      NULL, &ccopt_enable_adaptive_join, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_bloom",
                           "Lets a finished hash table filter the scan that probes it.", NULL,
                           &ccopt_enable_bloom, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.enable_top_n",
                           "Lets a sort below LIMIT drop rows before they are handed on.", NULL,
                           &ccopt_enable_top_n, true, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomEnumVariable(
      "ccopt.buffer", "Where buffer nodes are put into plans.",
      "auto: where they prefetch or sort keys; paper: by the rule of CC-Optimizer 2008; force: "
      "wherever it is legal; off: nowhere.",
      &ccopt_buffer, BUFFER_AUTO, buffer_settings, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomEnumVariable("ccopt.buffer_mode", "How the paper's buffers keep rows.", NULL,
                           &ccopt_buffer_mode, BUFFER_RING, buffer_modes, PGC_USERSET, GUC_EXPLAIN,
                           NULL, NULL, NULL);
  DefineCustomIntVariable("ccopt.buffer_rows", "Rows that a buffer holds; 0 lets the rule decide.",
                          NULL, &ccopt_buffer_rows, 0, 0, 1000000, PGC_USERSET, GUC_EXPLAIN, NULL,
                          NULL, NULL);
  DefineCustomEnumVariable(
      "ccopt.shapes",
      "Which plans are compared with PostgreSQL's own when they are executed again.",
      "suspects: those that take longer than PostgreSQL's was predicted to; every: others too, for "
      "little of the time; off: none, and earlier verdicts do not apply.",
      &ccopt_shapes, SHAPES_SUSPECTS, shapes_settings, PGC_USERSET, GUC_EXPLAIN, NULL, NULL, NULL);
  DefineCustomBoolVariable("ccopt.force",
                           "Takes batch paths wherever they are legal, whatever they cost.",
                           "For tests: answers must be the same.", &ccopt_force, false, PGC_USERSET,
                           GUC_EXPLAIN | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
  DefineCustomStringVariable("ccopt.require",
                             "Names of nodes that a plan must have, or planning fails.",
                             "For tests: a list such as 'BatchScan, BatchAgg'; the error names the "
                             "reason why one is missing.",
                             &ccopt_require, "", PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}
