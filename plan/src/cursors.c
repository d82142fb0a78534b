/*
 * Cursors that were declared neither SCROLL nor NO SCROLL.
 *
 * Such a cursor can move backwards if its plan can, and programs rely on that where PostgreSQL's
 * plan can: a scan, or a sort on top. ccopt's nodes cannot. So if a plan with ccopt's nodes cannot
 * move backwards, core's plan is made, too, and taken if it can. Core's joins and aggregations
 * cannot either; then ccopt's plan stays.
 */
#include "cursors.h"

#include "costs_second_opinion.h"
#include "executor/executor.h"
#include "node_names.h"
#include "reasons.h"

bool cursor_may_go_backwards(int cursor_options) {
  return (cursor_options & CURSOR_OPT_FAST_PLAN) &&
         !(cursor_options & (CURSOR_OPT_SCROLL | CURSOR_OPT_NO_SCROLL));
}

PlannedStmt *cursor_keep_backwards(PlannedStmt *ours, Query *copy, planner_hook_type planner,
                                   const char *query_string, int cursor_options,
                                   ParamListInfo bound_params) {
  static const char *const nodes[] = {BATCH_SCAN_NAME, BATCH_AGG_NAME, BATCH_JOIN_NAME,
                                      BATCH_WINDOW_NAME};
  PlannedStmt *stock;
  bool has_ours = false;

  for (int i = 0; i < (int)lengthof(nodes); i++)
    has_ours = has_ours || plan_has_node(ours, nodes[i]);
  if (!has_ours || ExecSupportsBackwardScan(ours->planTree)) return ours;
  stock = plan_without_us(planner, copy, query_string, cursor_options, bound_params);
  if (!ExecSupportsBackwardScan(stock->planTree)) return ours;
  forget_offers();
  for (int i = 0; i < (int)lengthof(nodes); i++)
    if (plan_has_node(ours, nodes[i]))
      note_refusal(NULL, NULL, nodes[i], "a cursor without NO SCROLL may go backwards");
  return stock;
}
