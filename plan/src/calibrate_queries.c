/*
 * Queries on scratch tables, timed alternately with core's nodes and with ccopt's.
 *
 * The tables are unlogged, small enough to stay in shared buffers and to be read by core without
 * its ring, and frozen, like a table that was loaded and vacuumed. The measuring transaction
 * creates them, so no other session sees them.
 */
#include "calibrate.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "node_names.h"
#include "reasons.h"
#include "storage/bufmgr.h"
#include "thread_time.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"

#define DENSE "ccopt.calibration_dense"
#define SPARSE "ccopt.calibration_sparse"
#define COLUMNS 15
#define GROUPS 100
#define REPETITIONS 7
#define ROWS 300000
#define MIN_ROWS 5000

/* Settings that vary; all others are set once for the session. */
typedef struct Variant {
  bool ours;
  bool aggregate; /* with ccopt's node too */
} Variant;

typedef struct QueryText {
  const char *sql;
  const char *node; /* the batch plan must have it */
  bool aggregate;   /* BatchAgg allowed in the batch plan */
  bool stock_only;
} QueryText;

static const QueryText queries[CALIBRATION_QUERIES] = {
    [QUERY_BASE] = {"SELECT 1 FROM " DENSE " WHERE k < 0", BATCH_SCAN_NAME, false, false},
    [QUERY_BASE_AGAIN] = {"SELECT 1 FROM " DENSE " WHERE k < 0", NULL, false, true},
    [QUERY_SPARSE] = {"SELECT 1 FROM " SPARSE " WHERE k < 0", BATCH_SCAN_NAME, false, false},
    [QUERY_FOUR_QUALS] = {"SELECT 1 FROM " DENSE
                          " WHERE k >= 0 AND k <> -1 AND k < 2000000000 AND k < 0",
                          BATCH_SCAN_NAME, false, false},
    [QUERY_FAR_COLUMN] = {"SELECT 1 FROM " DENSE " WHERE c15 < 0", BATCH_SCAN_NAME, false, false},
    [QUERY_DECIMAL] = {"SELECT 1 FROM " DENSE " WHERE n < 0", BATCH_SCAN_NAME, false, false},
    [QUERY_TEXT] = {"SELECT 1 FROM " DENSE " WHERE s = 'none of these'", BATCH_SCAN_NAME, false,
                    false},
    [QUERY_ONE_AGGREGATE] = {"SELECT count(k) FROM " DENSE, BATCH_AGG_NAME, true, false},
    [QUERY_FOUR_AGGREGATES] = {"SELECT count(k), sum(k), min(k), max(k) FROM " DENSE,
                               BATCH_AGG_NAME, true, false},
    [QUERY_GROUPED] = {"SELECT k, count(k) FROM " DENSE " GROUP BY k", BATCH_AGG_NAME, true, false},
    [QUERY_EMIT] = {"SELECT count(k) FROM " DENSE, BATCH_SCAN_NAME, false, false},
    [QUERY_JOIN] = {"SELECT 1 FROM " DENSE " d JOIN (SELECT k FROM " DENSE
                    " WHERE c15 < 1000) AS few ON few.k = d.c14",
                    BATCH_JOIN_NAME, false, false},
};

const char *calibration_query_node(CalibrationQuery query) { return queries[query].node; }

const char *calibration_query_text(CalibrationQuery query) { return queries[query].sql; }

/* ---- tables ---- */

static void run(const char *sql) {
  int result = SPI_execute(sql, false, 0);
  if (result < 0)
    ereport(ERROR,
            (errmsg("calibration could not run \"%s\": %s", sql, SPI_result_code_string(result))));
}

/*
 * k: one of GROUPS values; n: two decimals; s: twelve bytes; c4 .. c15 follow these, so that their
 * offsets vary. c14 is the row's number beyond k's range, c15 the number.
 */
static void fill_slot(TupleTableSlot *slot, int row) {
  Datum number = DirectFunctionCall1(int8_numeric, Int64GetDatum((int64)row * 7 % 100000));

  ExecClearTuple(slot);
  memset(slot->tts_isnull, false, sizeof(bool) * COLUMNS);
  slot->tts_values[0] = Int32GetDatum(row % GROUPS);
  slot->tts_values[1] = DirectFunctionCall2(
      numeric, DirectFunctionCall2(numeric_div, number, DirectFunctionCall1(int8_numeric, 100)),
      Int32GetDatum(((12 << 16) | 2) + VARHDRSZ));
  slot->tts_values[2] = CStringGetTextDatum(psprintf("row %08d", row));
  for (int i = 3; i < COLUMNS; i++) slot->tts_values[i] = Int32GetDatum(row + i);
  slot->tts_values[COLUMNS - 2] = Int32GetDatum(row + GROUPS);
  slot->tts_values[COLUMNS - 1] = Int32GetDatum(row);
  ExecStoreVirtualTuple(slot);
}

/* Fills a new table up to this number of rows or pages; returns the number of rows. */
static int fill(const char *name, int rows, BlockNumber pages, double *pages_made) {
  Relation relation =
      table_open(get_relname_relid(name, get_namespace_oid("ccopt", false)), RowExclusiveLock);
  TupleTableSlot *source = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual);
  BulkInsertState bulk = GetBulkInsertState();
  MemoryContext row_context =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt calibration row", ALLOCSET_DEFAULT_SIZES);
  int row = 0;
  BlockNumber made = 0;

  while (row < rows && made < pages) {
    enum { AT_ONCE = 100 };
    TupleTableSlot *slots[AT_ONCE];
    MemoryContext outer = MemoryContextSwitchTo(row_context);

    for (int i = 0; i < AT_ONCE; i++) {
      slots[i] = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsHeapTuple);
      fill_slot(source, row++);
      ExecCopySlot(slots[i], source);
    }
    table_multi_insert(relation, slots, AT_ONCE, GetCurrentCommandId(true),
                       TABLE_INSERT_SKIP_FSM | TABLE_INSERT_FROZEN, bulk);
    for (int i = 0; i < AT_ONCE; i++) ExecDropSingleTupleTableSlot(slots[i]);
    made = RelationGetNumberOfBlocks(relation);
    MemoryContextSwitchTo(outer);
    ExecClearTuple(source);
    MemoryContextReset(row_context);
    CHECK_FOR_INTERRUPTS();
  }
  FreeBulkInsertState(bulk);
  ExecDropSingleTupleTableSlot(source);
  MemoryContextDelete(row_context);
  table_close(relation, NoLock);
  *pages_made = made;
  return row;
}

void calibrate_make_tables(QueryTimes *times) {
  /* More than L2 holds, so that rows come from the same caches as in a large table. At a quarter
   * of shared buffers core's scans begin to use a ring. */
  BlockNumber pages = Min(4000, NBuffers / 6);

#define COLUMN_LIST                                                                          \
  "(k int4, n numeric(12,2), s text, c4 int4, c5 int4, c6 int4, c7 int4, c8 int4, c9 int4, " \
  "c10 int4, c11 int4, c12 int4, c13 int4, c14 int4, c15 int4)"
  run("CREATE UNLOGGED TABLE " DENSE " " COLUMN_LIST " WITH (autovacuum_enabled = off)");
  run("CREATE UNLOGGED TABLE " SPARSE " " COLUMN_LIST
      " WITH (autovacuum_enabled = off, fillfactor = 10)");
  times->rows = fill("calibration_dense", ROWS, pages, &times->pages);
  times->sparse_rows = fill("calibration_sparse", ROWS, pages, &times->sparse_pages);
  if (times->rows < MIN_ROWS)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("shared_buffers are too small to calibrate in"),
                    errhint("Set shared_buffers to 16MB or more.")));
  /* Without statistics the planner would guess the numbers of groups and of rows that pass a
   * predicate. */
  run("ANALYZE " DENSE);
  run("ANALYZE " SPARSE);
}

void calibrate_drop_tables(void) { run("DROP TABLE " DENSE ", " SPARSE); }

/* ---- timing ---- */

static void set(const char *name, const char *value) {
  set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void use(Variant variant) {
  set("ccopt.enabled", variant.ours ? "on" : "off");
  set("ccopt.force", variant.ours ? "on" : "off");
  set("ccopt.enable_batch_agg", variant.aggregate ? "on" : "off");
}

/* Runs the plan once, and keeps the least time so far; 0: no time yet. */
static void run_timed(SPIPlanPtr plan, double *least) {
  double begin, end;
  int result;

  CHECK_FOR_INTERRUPTS();
  begin = thread_ns();
  result = SPI_execute_plan(plan, NULL, NULL, true, 0);
  end = thread_ns();
  if (result < 0) elog(ERROR, "calibration: %s", SPI_result_code_string(result));
  SPI_freetuptable(SPI_tuptable);
  if (*least == 0 || end - begin < *least) *least = end - begin;
}

static bool plan_is_about(SPIPlanPtr plan, const char *node) {
  CachedPlan *cached = SPI_plan_get_cached_plan(plan);
  bool found = false;
  ListCell *cell;

  foreach (cell, cached->stmt_list)
    found = found || plan_has_node(lfirst_node(PlannedStmt, cell), node);
  ReleaseCachedPlan(cached, NULL);
  return found;
}

static SPIPlanPtr prepare(const char *sql) {
  SPIPlanPtr plan = SPI_prepare(sql, 0, NULL);
  if (plan == NULL) elog(ERROR, "calibration: %s", SPI_result_code_string(SPI_result));
  return plan;
}

void calibrate_run_queries(QueryTimes *times) {
  SPIPlanPtr stock[CALIBRATION_QUERIES];
  SPIPlanPtr batch[CALIBRATION_QUERIES];
  const Variant as_stock = {false, false};

  set("jit", "off");
  set("max_parallel_workers_per_gather", "0");
  set("enable_mergejoin", "off");
  set("enable_nestloop", "off");
  set("enable_sort", "off");
  set("work_mem", "64MB");
  set("ccopt.buffer", "off");
  set("ccopt.require", "");
  set("ccopt.enable_batch_scan", "on");
  set("ccopt.enable_batch_join", "on");

  /* A plan without parameters is made at its first use and kept, independent of later settings. */
  for (int i = 0; i < CALIBRATION_QUERIES; i++) {
    const Variant as_ours = {true, queries[i].aggregate};

    stock[i] = prepare(queries[i].sql);
    use(as_stock);
    run_timed(stock[i], &times->stock[i]);
    times->has_batch[i] = false;
    if (queries[i].stock_only) continue;
    batch[i] = prepare(queries[i].sql);
    use(as_ours);
    run_timed(batch[i], &times->batch[i]);
    times->has_batch[i] = plan_is_about(batch[i], queries[i].node);
  }
  for (int repetition = 0; repetition < REPETITIONS; repetition++)
    for (int i = 0; i < CALIBRATION_QUERIES; i++) {
      const Variant as_ours = {true, queries[i].aggregate};

      use(as_stock);
      run_timed(stock[i], &times->stock[i]);
      if (!times->has_batch[i]) continue;
      use(as_ours);
      run_timed(batch[i], &times->batch[i]);
    }
}
