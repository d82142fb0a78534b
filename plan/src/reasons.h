/*
 * Why an operator was not used: what reasons.c gathered during a planning, for explain.c.
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
  bool concerns_plan; /* the plan has a node of core's where this one would have been */
} Refusal;

/*
 * Notes why `node` is not among the paths of `rel` (NULL: of the whole statement). Kept until the
 * statement is planned; EXPLAIN prints it, ccopt.require quotes it. Planning paths the same
 * relation twice notes it once.
 */
extern void note_refusal(PlannerInfo *root, RelOptInfo *rel, const char *node, const char *reason);

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
  char *remark;   /* on the whole statement, or NULL */
  struct ReasonsWatch *outer;
} ReasonsWatch;

/* One planning; they nest when a function is evaluated while planning. The caller has it on its stack. */
typedef struct Planning {
  struct Planning *outer;
  MemoryContext parent;
  MemoryContext context; /* NULL until the first note */
  bool wanted;
  List *notes; /* of Note */
  const char *remark;
} Planning;

/* Around each planning. `end` throws if the plan does not meet ccopt.require. */
extern void reasons_begin(Planning *planning);
extern void reasons_end(PlannedStmt *plan);
/* Planning failed: forget the innermost. */
extern void reasons_abandon(void);

/* Someone will read the reasons of the planning at hand; else notes are not kept. */
extern bool reasons_are_wanted(void);
/* EXPLAIN asks for the plan that is being made. */
extern bool reasons_are_watched(void);
/* A line for EXPLAIN on the whole statement; of several the last. */
extern void reasons_remark(const char *remark);

extern void reasons_watch(ReasonsWatch *watch);
extern void reasons_unwatch(ReasonsWatch *watch);

/*
 * A path with `node` for `rel` (NULL: the statement) was made and competes. If it is not in the
 * finished plan, its cost was the reason.
 */
extern void note_offer(PlannerInfo *root, RelOptInfo *rel, const char *node);

/* The statement's plan with our nodes was not taken: it was not the cost of a path that decided. */
extern void forget_offers(void);

/* True if a node of ccopt is anywhere in a finished plan, subplans too. */
extern bool plan_has_node(PlannedStmt *statement, const char *node);

#endif
