/*
 * Walking a finished plan: PostgreSQL has a walker for expressions and one for plan states, but
 * none for plans.
 */
#ifndef CCOPT_PLAN_TREE_H
#define CCOPT_PLAN_TREE_H

#include "buffer.h"

typedef void (*PlanChildVisitor)(Plan *parent, Plan **link, ChildRole role, void *argument);
/* Calls `visit` for each child that exists. */
extern void plan_for_each_child(Plan *plan, PlanChildVisitor visit, void *argument);

typedef bool (*PlanVisitor)(Plan *plan, void *argument);
/* Preorder, until `visit` returns true; returns true if it did. Subplans are not visited. */
extern bool plan_tree_any(Plan *plan, PlanVisitor visit, void *argument);
/* The same over the main plan and all subplans. */
extern bool statement_any(const PlannedStmt *statement, PlanVisitor visit, void *argument);

/* The highest plan_node_id in use: an inserted node takes the next. */
extern int statement_last_id(const PlannedStmt *statement);

/* A target list that passes on the columns of another: Vars of `varno`, in its order. */
extern List *plan_identity_list(List *entries, int varno);

/* All expressions that the node itself evaluates, as a list of lists and expressions. */
extern List *plan_expressions(const Plan *plan);

/*
 * Follows a Var of an upper node down to the expression that computes it, in the target list of the
 * node where it is not a plain Var of a child; sets *where to that node.
 */
extern Node *plan_resolve(Node *expression, const Plan *plan, const Plan **where);

#endif
