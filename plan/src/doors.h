/*
 * Entry points of ccopt's operators that ccopt.c calls: at loading, and from the planner's hooks.
 */
#ifndef CCOPT_DOORS_H
#define CCOPT_DOORS_H

#include "compat.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* ---- planning ---- */

extern void batch_scan_add_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
extern void batch_join_add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
                                 RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra);
extern void batch_agg_add_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                                RelOptInfo *output_rel, void *extra);
extern void batch_agg_add_distinct_paths(PlannerInfo *root, RelOptInfo *input_rel,
                                         RelOptInfo *output_rel);
extern void batch_window_add_paths(PlannerInfo *root, RelOptInfo *input_rel,
                                   RelOptInfo *output_rel);
/* With ccopt.force: nested loops read a child that starts workers only once. */
extern void force_add_materials(RelOptInfo *joinrel);
/* The first pass after planning: inserts buffer nodes into a finished plan, without changing an
 * order of rows that matters. */
extern void buffers_insert(PlannedStmt *plan, int cursor_options);
/* The second pass after planning: replaces nested loops by ones that can become hash joins while
 * they run. */
extern void adaptive_joins_insert(PlannedStmt *plan, int cursor_options);

/* ---- loading ---- */

extern void batch_scan_register(void);
extern void batch_join_register(void);
extern void batch_agg_register(void);
extern void batch_window_register(void);
extern void buffer_register(void);
extern void adaptive_join_register(void);
extern void explain_register(void);      /* EXPLAIN's lines on operators that were not used */
extern void stats_register(void);        /* ccopt_stats, shared memory when preloaded */
extern void column_cache_register(void); /* the column cache, when preloaded */
extern void costs_register(void);        /* ccopt.cost_* settings, and the calibration in force */

#endif
