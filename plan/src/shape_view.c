/*
 * ccopt_shapes: the view of this database's shapes.
 */
#include "shape_memory.h"

#include <math.h>

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

enum {
  SHAPE,
  STATEMENT_ID,
  QUERY_ID,
  STATE,
  RATIO,
  PAIRS,
  RUNS,
  MS,
  STOCK_RUNS,
  STOCK_MS,
  STOCK_PREDICTED_MS,
  QUERY,
  SCOPE,
  COLUMNS
};

static void put(Datum *values, bool *nulls, int column, bool known, Datum value) {
  values[column] = value;
  nulls[column] = !known;
}

static double milliseconds(const ShapeTimes *times) { return exp(times->mean) / 1e6; }

/*
 * As in pg_stat_statements: one's own statements, and all statements for roles that may read
 * statistics.
 */
static bool may_read_text(const Shape *shape) {
  return shape->role == GetUserId() || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
}

static void fill(const Shape *shape, Datum *values, bool *nulls) {
  const ShapeTimes *ours = &shape->times[WAY_OURS];
  const ShapeTimes *stock = &shape->times[WAY_STOCK];
  bool readable = may_read_text(shape);

  put(values, nulls, SHAPE, true,
      CStringGetTextDatum(psprintf("%016llx", (unsigned long long)shape->key)));
  put(values, nulls, STATEMENT_ID, shape->statement_id != 0,
      CStringGetTextDatum(psprintf("%016llx", (unsigned long long)shape->statement_id)));
  put(values, nulls, QUERY_ID, shape->query_id != 0, Int64GetDatum((int64)shape->query_id));
  put(values, nulls, STATE, true, CStringGetTextDatum(shape->pinned ? "stock" : "ours"));
  put(values, nulls, RATIO, shape->pairs > 0, Float8GetDatum(shape_ratio(shape)));
  put(values, nulls, PAIRS, true, Int32GetDatum(shape->pairs));
  put(values, nulls, RUNS, true, Int64GetDatum((int64)ours->runs));
  put(values, nulls, MS, ours->samples > 0, Float8GetDatum(milliseconds(ours)));
  put(values, nulls, STOCK_RUNS, true, Int64GetDatum((int64)stock->runs));
  put(values, nulls, STOCK_MS, stock->samples > 0, Float8GetDatum(milliseconds(stock)));
  put(values, nulls, STOCK_PREDICTED_MS, shape->stock_cost > 0,
      Float8GetDatum(shape->predicted_ns / 1e6));
  put(values, nulls, QUERY, readable && shape->query[0] != '\0', CStringGetTextDatum(shape->query));
  put(values, nulls, SCOPE, true,
      CStringGetTextDatum(shape_memory_is_shared() ? "server" : "session"));
}

PGDLLEXPORT Datum ccopt_shapes_list(PG_FUNCTION_ARGS);
PGDLLEXPORT Datum ccopt_shapes_reset(PG_FUNCTION_ARGS);
PG_FUNCTION_INFO_V1(ccopt_shapes_list);
PG_FUNCTION_INFO_V1(ccopt_shapes_reset);

Datum ccopt_shapes_list(PG_FUNCTION_ARGS) {
  ReturnSetInfo *result = (ReturnSetInfo *)fcinfo->resultinfo;

  InitMaterializedSRF(fcinfo, 0);
  for (int i = 0; i < SHAPE_PLACES; i++) {
    Datum values[COLUMNS] = {0};
    bool nulls[COLUMNS];
    Shape shape;

    shape_memory_lock();
    shape = *shape_at(i);
    shape_memory_unlock();
    if (shape.key == 0 || shape.database != MyDatabaseId) continue;
    fill(&shape, values, nulls);
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return (Datum)0;
}

Datum ccopt_shapes_reset(PG_FUNCTION_ARGS) { PG_RETURN_INT32(shapes_forget()); }
