/*
 * ccopt_stats: counts of each node's runs, batches, rows, and fallback rows.
 *
 * One table of atomic counters: in shared memory if the library was preloaded by
 * shared_preload_libraries, otherwise the session's own. There is no lock: the counts of one node
 * are added one by one, so a reader may see part of an addition, and a reset may miss one; sums are
 * correct in the end.
 */
#include "stats.h"

#include "access/parallel.h"
#include "doors.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "node_names.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

static const char *const node_names[STATS_NODES] = {
    [STATS_BATCH_SCAN] = BATCH_SCAN_NAME,     [STATS_BATCH_AGG] = BATCH_AGG_NAME,
    [STATS_BATCH_JOIN] = BATCH_JOIN_NAME,     [STATS_BUFFER] = BUFFER_NAME,
    [STATS_BATCH_WINDOW] = BATCH_WINDOW_NAME, [STATS_ADAPTIVE_JOIN] = ADAPTIVE_JOIN_NAME,
};

/* Counters of a node, in the order of the view's columns. */
enum {
  USES,
  BATCHES,
  ROWS_IN,
  ROWS_OUT,
  ODD_ROWS,
  FALLBACKS,
  SPILLS,
  CACHE_HITS,
  CACHE_FILLS,
  COUNTERS
};

typedef struct StatsTable {
  pg_atomic_uint64 counter[STATS_NODES][COUNTERS];
} StatsTable;

static StatsTable session_table;
static StatsTable *table = &session_table;

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

static void table_init(StatsTable *new_table) {
  for (int node = 0; node < STATS_NODES; node++)
    for (int i = 0; i < COUNTERS; i++) pg_atomic_init_u64(&new_table->counter[node][i], 0);
}

static void shmem_request(void) {
  if (previous_shmem_request) previous_shmem_request();
  RequestAddinShmemSpace(MAXALIGN(sizeof(StatsTable)));
}

static void shmem_startup(void) {
  bool found;
  StatsTable *shared;

  if (previous_shmem_startup) previous_shmem_startup();
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  shared = ShmemInitStruct("ccopt_stats", sizeof(StatsTable), &found);
  if (!found) table_init(shared);
  LWLockRelease(AddinShmemInitLock);
  table = shared;
}

void stats_add(StatsNode node, const NodeCounts *counts) {
  const uint64 added[COUNTERS] = {
      /* A parallel worker runs a share of the leader's node, not a node of its own. */
      [USES] = IsParallelWorker() ? 0 : 1, [BATCHES] = counts->batches,
      [ROWS_IN] = counts->rows_in,         [ROWS_OUT] = counts->rows_out,
      [ODD_ROWS] = counts->odd_rows,       [FALLBACKS] = counts->fallbacks,
      [SPILLS] = counts->spills,           [CACHE_HITS] = counts->cache_hits,
      [CACHE_FILLS] = counts->cache_fills,
  };
  bool ran = false;

  Assert(node >= 0 && node < STATS_NODES);
  for (int i = BATCHES; i < COUNTERS; i++) ran = ran || added[i] > 0;
  if (!ran) return;
  for (int i = 0; i < COUNTERS; i++)
    if (added[i] > 0) pg_atomic_fetch_add_u64(&table->counter[node][i], added[i]);
}

/* Version 15's macro declares them without visibility. */
PGDLLEXPORT Datum ccopt_stats(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum ccopt_stats_reset(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(ccopt_stats);
PG_FUNCTION_INFO_V1(ccopt_stats_reset);

/* One row a node: its name, its counters, and whether they are the server's or the session's. */
Datum ccopt_stats(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;

  InitMaterializedSRF(fcinfo, 0);
  for (int node = 0; node < STATS_NODES; node++) {
    Datum values[COUNTERS + 2];
    bool nulls[COUNTERS + 2] = {false};

    values[0] = CStringGetTextDatum(node_names[node]);
    for (int i = 0; i < COUNTERS; i++)
      values[1 + i] = Int64GetDatum((int64)pg_atomic_read_u64(&table->counter[node][i]));
    values[1 + COUNTERS] = CStringGetTextDatum(table == &session_table ? "session" : "server");
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return (Datum)0;
}

Datum ccopt_stats_reset(PG_FUNCTION_ARGS) {
  for (int node = 0; node < STATS_NODES; node++)
    for (int i = 0; i < COUNTERS; i++) pg_atomic_write_u64(&table->counter[node][i], 0);
  PG_RETURN_VOID();
}

void stats_register(void) {
  table_init(&session_table);
  if (!process_shared_preload_libraries_in_progress) return;
  previous_shmem_request = shmem_request_hook;
  shmem_request_hook = shmem_request;
  previous_shmem_startup = shmem_startup_hook;
  shmem_startup_hook = shmem_startup;
}
