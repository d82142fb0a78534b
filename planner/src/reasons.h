/*
 * Why an operator was not used: what reasons.c gathered during a planning, for explain.c.
 */
#ifndef CCOPT_REASONS_H
#define CCOPT_REASONS_H

#include "ccopt.h"

typedef struct Refusal {
  const char *relation; /* alias of a table, a join's aliases, or NULL: the statement */
  const char *node;     /* BATCH_SCAN_NAME, ... */
  const char *reason;
  bool is_table;      /* a table, not a join or the statement */
  bool concerns_plan; /* the plan has a node of core's where this one would have been */
} Refusal;

/*
 * Asks for the refusals of the next statement that is planned: at most one watch at a time is open,
 * and it takes the first planning that ends at the level where it was opened, not those nested
 * within (functions evaluated while planning) nor later ones (EXPLAIN ANALYZE runs the statement).
 */
typedef struct ReasonsWatch {
  MemoryContext context; /* where the list is made */
  int level;
  bool done;
  List *refusals; /* of Refusal */
  struct ReasonsWatch *outer;
} ReasonsWatch;

extern void reasons_watch(ReasonsWatch *watch);
extern void reasons_unwatch(ReasonsWatch *watch);

/*
 * A path with `node` for `rel` (NULL: the statement) was made and competes. If it is not in the
 * finished plan, its cost was the reason.
 */
extern void note_offer(PlannerInfo *root, RelOptInfo *rel, const char *node);

/* The statement's plan with our nodes was not taken: it was not the cost of a path that decided. */
extern void forget_offers(void);

/* Whether a node of ours is anywhere in a finished plan, subplans too. */
extern bool plan_has_node(PlannedStmt *statement, const char *node);

#endif
