/*
 * ORDER BY ... LIMIT n: finds the nodes below a sort that can drop rows, and connects them with it.
 */
#include "postgres.h"

#include "top_n_attach.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

#include "batch_agg.h"
#include "batch_join.h"
#include "batch_scan.h"
#include "settings.h"
#include "top_n.h"

static void visit(void *state, Batch *batch) { top_n_filter(state, batch); }

static void restart(void *state) { top_n_restart(state); }

static void explain(const void *state, ExplainState *es) { top_n_explain(state, es); }

/* Whether the sort's first operator orders values of the type as their numbers are; and how. */
static bool orders_numbers(const Sort *sort, Oid type, bool *descending) {
  Oid family, input;
  OperatorOrder order;

  switch (type) {
    case INT2OID:
    case INT4OID:
    case INT8OID:
    case NUMERICOID:
    case DATEOID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID: break;
    default: return false;
  }
  if (!get_ordering_op_properties(sort->sortOperators[0], &family, &input, &order) ||
      family >= FirstGenbkiObjectId || input != type)
    return false;
  *descending = order == ORDERS_DESCENDING;
  return true;
}

static void attach_scan(TopN *top, PlanState *scan, AttrNumber resno) {
  const Batch *batch = batch_scan_handed_on(scan);
  int column;

  if (batch == NULL) return;
  column = batch_scan_column_of_resno(scan, resno);
  if (column < 0 || !top_n_set_column(top, batch, column)) return;
  batch_scan_add_visitor(scan, visit, explain, top);
  batch_scan_on_restart(scan, restart);
}

static void attach_sort(SortState *state) {
  const Sort *sort = (const Sort *)state->ss.ps.plan;
  PlanState *child = outerPlanState(state);
  AttrNumber resno = sort->sortColIdx[0];
  bool descending;
  TopN *top;

  if (!orders_numbers(sort, TupleDescAttr(ExecGetResultType(child), resno - 1)->atttypid,
                      &descending))
    return;
  top = top_n_create(state, descending);
  if (is_batch_scan(child))
    attach_scan(top, child, resno);
  else if (!batch_join_set_top_n(child, top, resno))
    batch_agg_set_top_n(child, top, resno);
}

void top_n_attach(PlanState *node) {
  if (!ccopt_enable_top_n) return;
  switch (nodeTag(node)) {
    case T_SortState: attach_sort((SortState *)node); break;
    case T_AppendState:
      for (int i = 0; i < ((AppendState *)node)->as_nplans; i++)
        top_n_attach(((AppendState *)node)->appendplans[i]);
      break;
    case T_MergeAppendState:
      for (int i = 0; i < ((MergeAppendState *)node)->ms_nplans; i++)
        top_n_attach(((MergeAppendState *)node)->mergeplans[i]);
      break;
    case T_SubqueryScanState:
      if (node->qual == NULL) top_n_attach(((SubqueryScanState *)node)->subplan);
      break;
    case T_ResultState:
    case T_GatherState:
    case T_GatherMergeState:
      if (outerPlanState(node)) top_n_attach(outerPlanState(node));
      break;
    default: break;
  }
}
