/*
 * Reasons why an operator was not used: collected by reasons.c during a planning, for explain.c.
 */
#ifndef CCOPT_REASONS_H
#define CCOPT_REASONS_H

#include "compat.h"

#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

typedef struct Refusal {
  const char *relation; /* alias of a table, a join's aliases, or NULL: the statement */
  const char *node;     /* BATCH_SCAN_NAME, ... */
  const char *reason;
  bool is_table;      /* a table, not a join or the statement */
  bool concerns_plan; /* the plan has the node of core's that this one would have replaced */
} Refusal;

/*
 * Records why `node` is not among the paths of `rel` (NULL: of the whole statement). Kept until the
 * statement is planned; EXPLAIN prints it, ccopt.require quotes it. If the relation is planned
 * twice, it is recorded once.
 */
extern void note_refusal(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason);

/*
 * Requests the refusals of the next statement that is planned. At most one watch at a time is open.
 * It takes the first planning that ends at the level where it was opened, not nested ones
 * (functions evaluated while planning) nor later ones (EXPLAIN ANALYZE runs the statement).
 */
typedef struct ReasonsWatch {
  MemoryContext context; /* context of the list */
  int level;
  bool done;
  List *refusals; /* of Refusal */
  char *remark;   /* on the whole statement, or NULL */
  struct ReasonsWatch *outer;
} ReasonsWatch;

/*
 * One planning; plannings nest when a function is evaluated while planning. The caller allocates it
 * on its stack.
 */
typedef struct Planning {
  struct Planning *outer;
  MemoryContext parent;
  MemoryContext context; /* NULL until the first reason */
  bool wanted;
  List *notes; /* of Note */
  const char *remark;
} Planning;

/* Called around each planning. `end` throws if the plan does not meet ccopt.require. */
extern void reasons_begin(Planning *planning);
extern void reasons_end(PlannedStmt *plan);
/* Planning failed: removes the innermost planning. */
extern void reasons_abandon(void);

/* True if the reasons of the current planning will be read; otherwise nothing is recorded. */
extern bool reasons_are_wanted(void);
/* True if the plan is being made for EXPLAIN. */
extern bool reasons_are_watched(void);
/* Sets EXPLAIN's line on the whole statement; the last call counts. */
extern void reasons_remark(const char *remark);

extern void reasons_watch(ReasonsWatch *watch);
extern void reasons_unwatch(ReasonsWatch *watch);

/*
 * Records that a path with `node` for `rel` (NULL: the statement) was created and competes. If it
 * is not in the finished plan, its cost was the reason.
 */
extern void note_offer(PlannerInfo *root, RelOptInfo *rel, const char *node);

/* The statement's plan with ccopt's nodes was not taken: the reason was not the cost of a path. */
extern void forget_offers(void);

/* True if a node of ccopt is anywhere in a finished plan, including subplans. */
extern bool plan_has_node(PlannedStmt *statement, const char *node);

#endif
