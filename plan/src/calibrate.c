/*
 * ccopt_calibrate(): measures the constants of costs.h on this machine, in about five seconds, and
 * stores them in ccopt.calibration.
 *
 * Processor time, not wall time; stock plans and batches alternate; minima of several runs. The
 * same query is measured twice under two names: if these differ by more than max_spread no other
 * result is reliable, and more runs are added. The remaining difference widens the margin.
 */
#include "calibrate.h"

#include <math.h>

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/cost.h"
#include "shapes.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"

#define ATTEMPTS 4

/* ---- from times to constants ---- */

/* A constant is computed from the difference of two times: keeps noise from making it absurd. */
static double sane(double value, double built_in) {
  return Min(Max(value, built_in / 10), built_in * 20);
}

static double difference(const double *times, CalibrationQuery more, CalibrationQuery less) {
  return times[more] - times[less];
}

/* The scan's constants for stock plans or for batches. */
typedef struct ScanConstants {
  double page, row, attribute, qual;
} ScanConstants;

static ScanConstants solve_scan(const QueryTimes *times, const double *ns,
                                const ScanConstants *built_in) {
  ScanConstants scan;
  double rows = times->rows;
  /*
   * Two tables, two unknowns: the cost of a page, and the cost of a row with its column and
   * comparison.
   */
  double determinant = times->pages * times->sparse_rows - times->sparse_pages * rows;

  scan.page = (ns[QUERY_BASE] * times->sparse_rows - ns[QUERY_SPARSE] * rows) / determinant;
  scan.page = sane(scan.page, built_in->page);
  scan.qual = sane(difference(ns, QUERY_FOUR_QUALS, QUERY_BASE) / (3 * rows), built_in->qual);
  scan.attribute = sane(difference(ns, QUERY_FAR_COLUMN, QUERY_BASE) / (FAR_COLUMNS * rows),
                        built_in->attribute);
  scan.row = sane((ns[QUERY_BASE] - scan.page * times->pages) / rows - scan.attribute - scan.qual,
                  built_in->row);
  return scan;
}

static void solve_stock(const QueryTimes *times, CostConstants *c) {
  const CostConstants *b = &built_in_cost_constants;
  const ScanConstants built_in = {b->stock_page, b->stock_row, b->stock_attribute, b->stock_qual};
  ScanConstants scan = solve_scan(times, times->stock, &built_in);
  const double *ns = times->stock;
  double rows = times->rows;

  c->stock_page = scan.page;
  c->stock_row = scan.row;
  c->stock_attribute = scan.attribute;
  c->stock_qual = scan.qual;
  /* One column more than the base query, and a comparison of numerics instead of integers. */
  c->stock_numeric =
      sane(difference(ns, QUERY_DECIMAL, QUERY_BASE) / rows - scan.attribute + scan.qual,
           b->stock_numeric);
  c->stock_transition = sane(
      difference(ns, QUERY_FOUR_AGGREGATES, QUERY_ONE_AGGREGATE) / (3 * rows), b->stock_transition);
  c->stock_group = sane(difference(ns, QUERY_GROUPED, QUERY_ONE_AGGREGATE) / rows, b->stock_group);
  c->ns_per_unit = sane((scan.row + scan.attribute + scan.qual) /
                            (DEFAULT_CPU_TUPLE_COST + DEFAULT_CPU_OPERATOR_COST),
                        b->ns_per_unit);
}

static void solve_batch(const QueryTimes *times, CostConstants *c) {
  const CostConstants *b = &built_in_cost_constants;
  const bool *has = times->has_batch;
  const double *ns = times->batch;
  double rows = times->rows;

  if (!has[QUERY_BASE] || !has[QUERY_SPARSE] || !has[QUERY_FOUR_QUALS] || !has[QUERY_FAR_COLUMN])
    return;
  {
    const ScanConstants built_in = {b->batch_page, b->batch_row, b->batch_attribute, b->batch_qual};
    ScanConstants scan = solve_scan(times, ns, &built_in);
    c->batch_page = scan.page;
    c->batch_row = scan.row;
    c->batch_attribute = scan.attribute;
    c->batch_qual = scan.qual;
  }
  c->batch_decimal =
      sane(difference(ns, QUERY_DECIMAL, QUERY_BASE) / rows - c->batch_attribute, b->batch_decimal);
  if (has[QUERY_TEXT])
    c->batch_text_qual =
        sane(difference(ns, QUERY_TEXT, QUERY_BASE) / rows - 2 * c->batch_attribute + c->batch_qual,
             b->batch_text_qual);
  if (has[QUERY_ONE_AGGREGATE] && has[QUERY_FOUR_AGGREGATES] && has[QUERY_GROUPED]) {
    c->batch_transition =
        sane(difference(ns, QUERY_FOUR_AGGREGATES, QUERY_ONE_AGGREGATE) / (3 * rows),
             b->batch_transition);
    c->batch_group =
        sane(difference(ns, QUERY_GROUPED, QUERY_ONE_AGGREGATE) / rows, b->batch_group);
  }
  if (has[QUERY_EMIT])
    c->batch_emit = sane((ns[QUERY_EMIT] - c->batch_page * times->pages) / rows - c->batch_row -
                             c->batch_attribute - c->stock_transition,
                         b->batch_emit);
  /* Every row of one side probes a table that fits L2; almost none finds a match. */
  if (has[QUERY_JOIN])
    c->batch_probe =
        sane((ns[QUERY_JOIN] - ns[QUERY_FAR_COLUMN] - (c->batch_page * times->pages)) / rows -
                 c->batch_row - FAR_COLUMNS * c->batch_attribute,
             b->batch_probe);
}

static double spread_of(const QueryTimes *times) {
  double once = times->stock[QUERY_BASE];
  double again = times->stock[QUERY_BASE_AGAIN];
  return fabs(once - again) / Min(once, again);
}

/* ---- storing ---- */

/* A constant that was not measured (NaN) keeps its built-in value. */
static void store(const CostConstants *constants) {
  Oid types[] = {TEXTOID, TEXTOID, TEXTOID, TEXTOID, FLOAT8OID};
  Datum values[] = {CStringGetTextDatum(processor_name()),
                    CStringGetTextDatum(server_version_name()), CStringGetTextDatum(CCOPT_VERSION),
                    (Datum)0, (Datum)0};
  CostConstants stored = *constants;
  int result;

  result = SPI_execute_with_args(
      "DELETE FROM ccopt.calibration WHERE processor = $1 AND server = $2 AND library = $3", 3,
      types, values, NULL, false, 0);
  if (result != SPI_OK_DELETE)
    elog(ERROR, "calibration could not be replaced: %s", SPI_result_code_string(result));
  for (int i = 0; i < cost_constant_count; i++) {
    if (isnan(*cost_constant(&stored, i))) continue;
    values[3] = CStringGetTextDatum(cost_constant_names[i].name);
    values[4] = Float8GetDatum(*cost_constant(&stored, i));
    result = SPI_execute_with_args(
        "INSERT INTO ccopt.calibration (processor, server, library, name, value) "
        "VALUES ($1, $2, $3, $4, $5)",
        5, types, values, NULL, false, 0);
    if (result != SPI_OK_INSERT)
      elog(ERROR, "calibration could not be stored: %s", SPI_result_code_string(result));
  }
}

/* ---- the function ---- */

/* Prints one warning for each node with missing constants. */
static void warn_of_missing(const QueryTimes *times) {
  for (int i = 0; i < CALIBRATION_QUERIES; i++) {
    const char *node = calibration_query_node(i);
    bool warned = false;

    if (node == NULL || times->has_batch[i]) continue;
    for (int earlier = 0; earlier < i; earlier++)
      warned = warned || (!times->has_batch[earlier] && calibration_query_node(earlier) != NULL &&
                          strcmp(calibration_query_node(earlier), node) == 0);
    if (!warned)
      ereport(
          WARNING,
          (errmsg("%s was not used where it should be measured, and keeps built-in costs", node),
           errdetail("Query: %s", calibration_query_text(i))));
  }
}

PGDLLEXPORT Datum ccopt_calibrate(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(ccopt_calibrate);

Datum ccopt_calibrate(PG_FUNCTION_ARGS) {
  CostConstants constants;
  QueryTimes times = {0};
  Oid table = calibration_table();
  double max_spread = PG_GETARG_FLOAT8(0);
  double spread;
  int attempt = 0;
  int settings;

  if (!OidIsValid(table))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("there is no table ccopt.calibration of the extension ccopt"),
                    errhint("CREATE EXTENSION ccopt;")));
  if (!(max_spread > 0 && max_spread <= 1))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("max_spread is %g, and has to be above 0 and at most 1", max_spread)));
  PreventCommandIfReadOnly("ccopt_calibrate()");
  PreventCommandIfParallelMode("ccopt_calibrate()");

  /* Restores the caller's settings at the end, also after an error. */
  settings = NewGUCNestLevel();
  set_config_option("search_path", "pg_catalog", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
                    0, false);
  if (SPI_connect() != SPI_OK_CONNECT) elog(ERROR, "calibration could not connect to SPI");

  calibrate_make_tables(&times);
  do {
    calibrate_run_queries(&times);
    spread = spread_of(&times);
  } while (spread > max_spread && ++attempt < ATTEMPTS);
  if (spread > max_spread)
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("the machine is too busy to calibrate: the same query took %.0f %% more "
                "when it ran again",
                100 * spread),
         errhint(
             "Try again when the machine is less busy, or allow more by max_spread (it was %.2f); "
             "the margin grows with it. Nothing was changed.",
             max_spread)));
  calibrate_drop_tables();

  for (int i = 0; i < cost_constant_count; i++) *cost_constant(&constants, i) = NAN;
  solve_stock(&times, &constants);
  solve_batch(&times, &constants);
  calibrate_memory(&constants);
  constants.margin = built_in_cost_constants.margin * (1 + spread);
  store(&constants);

  if (SPI_finish() != SPI_OK_FINISH) elog(ERROR, "calibration could not leave SPI");
  AtEOXact_GUC(true, settings);
  /* Changed rows alone do not notify other sessions. */
  CacheInvalidateRelcacheByRelid(table);
  /* Plans that lost with the old costs may not be chosen with the new ones. */
  shapes_forget();

  warn_of_missing(&times);
  PG_RETURN_TEXT_P(cstring_to_text(
      psprintf("calibrated for %s, PostgreSQL %s: spread %.1f %%, margin %.2f", processor_name(),
               server_version_name(), 100 * spread, constants.margin)));
}
