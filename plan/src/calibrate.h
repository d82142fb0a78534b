/*
 * What ccopt_calibrate() is made of: queries on scratch tables, and probes of memory.
 */
#ifndef CCOPT_CALIBRATE_H
#define CCOPT_CALIBRATE_H

#include "costs_in_force.h"

/* Measures probe_plain and probe_prefetched. */
extern void calibrate_memory(CostConstants *constants);

/* ---- queries ---- */

/* One thing each; differences of them are the constants. */
typedef enum CalibrationQuery {
  QUERY_BASE,       /* one comparison of the first column, no row passes */
  QUERY_BASE_AGAIN, /* the same, for the spread */
  QUERY_SPARSE,     /* the same on a table with few rows a page */
  QUERY_FOUR_QUALS,
  QUERY_FAR_COLUMN,
  QUERY_DECIMAL,
  QUERY_TEXT,
  QUERY_ONE_AGGREGATE,
  QUERY_FOUR_AGGREGATES,
  QUERY_GROUPED,
  QUERY_EMIT, /* one aggregate, by core's Agg over our scan */
  QUERY_JOIN,
  CALIBRATION_QUERIES
} CalibrationQuery;

/* Columns that QUERY_FAR_COLUMN walks over and QUERY_BASE does not. */
#define FAR_COLUMNS 14

typedef struct QueryTimes {
  double rows, pages;                /* of the table of all queries but QUERY_SPARSE */
  double sparse_rows, sparse_pages;  /* of that */
  double stock[CALIBRATION_QUERIES]; /* minima, in ns */
  double batch[CALIBRATION_QUERIES];
  bool has_batch[CALIBRATION_QUERIES]; /* the plan had the nodes that it is about */
} QueryTimes;

/* Makes the scratch tables, within an open SPI connection; they go with calibrate_drop_tables() or
 * the transaction's abort. */
extern void calibrate_make_tables(QueryTimes *times);
extern void calibrate_drop_tables(void);
/* Runs all queries several times, both ways; times of an earlier call are kept where they were
 * less. */
extern void calibrate_run_queries(QueryTimes *times);

/* The ccopt node that a query measures, or NULL; and its text. */
extern const char *calibration_query_node(CalibrationQuery query);
extern const char *calibration_query_text(CalibrationQuery query);

#endif
