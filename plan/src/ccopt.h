/*
 * What all of the extension shares: settings, reasons, and the doors to its operators that ccopt.c
 * opens from the planner's hooks.
 */
#ifndef CCOPT_H
#define CCOPT_H

#include "compat.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"

/* ---- settings (ccopt.c defines them; README of the settings: docs/plan.md) ---- */

typedef enum BufferSetting {
  BUFFER_OFF,   /* none of our buffers */
  BUFFER_AUTO,  /* prefetching and key-sorting buffers where their rules say so */
  BUFFER_PAPER, /* the rule of CC-Optimizer 2008, and nothing else */
  BUFFER_FORCE  /* below every operator where it is legal: for tests and ablations */
} BufferSetting;

typedef enum BufferMode {
  BUFFER_RING, /* the child's rows stay where they are, one pin a page */
  BUFFER_COPY  /* rows are copied */
} BufferMode;

extern bool ccopt_enabled;              /* ccopt.enabled */
extern bool ccopt_enable_batch_scan;    /* ccopt.enable_batch_scan, as core's enable_seqscan */
extern bool ccopt_enable_batch_agg;     /* ccopt.enable_batch_agg */
extern bool ccopt_enable_batch_join;    /* ccopt.enable_batch_join */
extern bool ccopt_enable_adaptive_join; /* ccopt.enable_adaptive_join */
extern bool ccopt_enable_bloom;         /* ccopt.enable_bloom */
extern int ccopt_buffer;                /* ccopt.buffer, a BufferSetting */
extern int ccopt_buffer_mode;           /* ccopt.buffer_mode, a BufferMode */
extern int ccopt_buffer_rows;           /* ccopt.buffer_rows: 0 = by the rule */
extern bool ccopt_force;    /* ccopt.force: batch paths cost nothing: taken where legal */
extern char *ccopt_require; /* ccopt.require: names of nodes that a plan must have, or an error */

/* Names of the nodes as EXPLAIN prints them and ccopt.require takes them. */
#define BATCH_SCAN_NAME "BatchScan"
#define BATCH_AGG_NAME "BatchAgg"
#define BATCH_JOIN_NAME "BatchHashJoin"
#define BUFFER_NAME "Buffer"
#define ADAPTIVE_JOIN_NAME "AdaptiveJoin"

/* ---- reasons (reasons.c) ---- */

/*
 * Notes why `node` is not among the paths of `rel` (NULL: of the whole statement). Kept until the
 * statement is planned; EXPLAIN prints it, ccopt.require quotes it. Planning paths the same
 * relation twice notes it once.
 */
extern void note_refusal(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason);

/*
 * Why the whole statement being planned is left alone, or NULL. Only in planner hooks. The rules:
 * SELECT without row marks and data-modifying CTEs only (EvalPlanQual expects core's nodes); no
 * cursor that may be asked to go backwards (docs/design/plan.md, 4); ccopt.enabled.
 */
extern const char *statement_refusal(const PlannerInfo *root);

/* ---- doors: planning ---- */

extern void batch_scan_add_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte);
extern void batch_join_add_paths(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel,
                                 RelOptInfo *innerrel, JoinType jointype, JoinPathExtraData *extra);
extern void batch_agg_add_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
                                RelOptInfo *output_rel, void *extra);
/* The pass after planning: puts buffer nodes into a finished plan (buffers change no order of rows
 * that matters). */
extern void buffers_insert(PlannedStmt *plan, int cursor_options);
/* The pass after that: nested loops that can become hash joins while they run. */
extern void adaptive_joins_insert(PlannedStmt *plan, int cursor_options);

/* ---- doors: loading ---- */

extern void batch_scan_register(void);
extern void batch_join_register(void);
extern void batch_agg_register(void);
extern void buffer_register(void);
extern void adaptive_join_register(void);
extern void explain_register(void); /* EXPLAIN's lines on what was refused */
extern void stats_register(void);   /* ccopt_stats, shared memory when preloaded */
extern void costs_register(void);   /* ccopt.cost_* settings, the calibration that is in force */

#endif
