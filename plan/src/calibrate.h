/*
 * The parts of ccopt_calibrate(): queries on scratch tables, and memory probes.
 */
#ifndef CCOPT_CALIBRATE_H
#define CCOPT_CALIBRATE_H

#include "costs_in_force.h"

/* Measures probe_plain and probe_prefetched. */
extern void calibrate_memory(CostConstants *constants);

/* ---- queries ---- */

/* Each measures one operation; their differences are the constants. */
typedef enum CalibrationQuery {
  QUERY_BASE,       /* one comparison of the first column that no row passes */
  QUERY_BASE_AGAIN, /* the same again, for the spread */
  QUERY_SPARSE,     /* the same on a table with few rows a page */
  QUERY_FOUR_QUALS,
  QUERY_FAR_COLUMN,
  QUERY_DECIMAL,
  QUERY_TEXT,
  QUERY_ONE_AGGREGATE,
  QUERY_FOUR_AGGREGATES,
  QUERY_GROUPED,
  QUERY_EMIT, /* one aggregate, by core's Agg over a BatchScan */
  QUERY_JOIN,
  CALIBRATION_QUERIES
} CalibrationQuery;

/* Columns that QUERY_FAR_COLUMN walks over and QUERY_BASE does not. */
#define FAR_COLUMNS 14

typedef struct QueryTimes {
  double rows, pages;                /* of the table of all queries except QUERY_SPARSE */
  double sparse_rows, sparse_pages;  /* of the table of QUERY_SPARSE */
  double stock[CALIBRATION_QUERIES]; /* minima, in ns */
  double batch[CALIBRATION_QUERIES];
  bool has_batch[CALIBRATION_QUERIES]; /* the plan had the node that the query measures */
} QueryTimes;

/* Creates the scratch tables, within an open SPI connection; calibrate_drop_tables() or the
 * transaction's abort removes them. */
extern void calibrate_make_tables(QueryTimes *times);
extern void calibrate_drop_tables(void);
/* Runs all queries several times with both kinds of plans; smaller times of an earlier call are
 * kept. */
extern void calibrate_run_queries(QueryTimes *times);

/* The ccopt node that a query measures, or NULL; and its text. */
extern const char *calibration_query_node(CalibrationQuery query);
extern const char *calibration_query_text(CalibrationQuery query);

#endif
