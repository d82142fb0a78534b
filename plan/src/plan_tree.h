/*
 * Walking a finished plan: PostgreSQL has a walker for expressions and one for plan states, but
 * none for plans.
 */
#ifndef CCOPT_PLAN_TREE_H
#define CCOPT_PLAN_TREE_H

#include "buffer.h"

typedef void (*PlanChildVisitor)(Plan *parent, Plan **link, ChildRole role, void *argument);
/* Calls `visit` for each child that is there. */
extern void plan_for_each_child(Plan *plan, PlanChildVisitor visit, void *argument);

typedef bool (*PlanVisitor)(Plan *plan, void *argument);
/* Preorder, until `visit` says true; true if it did. Subplans are not entered. */
extern bool plan_tree_any(Plan *plan, PlanVisitor visit, void *argument);
/* The same over the main plan and all subplans. */
extern bool statement_any(const PlannedStmt *statement, PlanVisitor visit, void *argument);

/* The highest plan_node_id there is: a node that is put in takes the next. */
extern int statement_last_id(const PlannedStmt *statement);

/* A target list that hands on the columns of another: Vars of `varno`, in its order. */
extern List *plan_identity_list(List *entries, int varno);

/* All expressions that the node itself evaluates, as a list of lists and expressions. */
extern List *plan_expressions(const Plan *plan);

/*
 * Follows a Var of an upper node down to what computes it: the expression in the target list of the
 * node where it is no plain Var of a child, and that node in *where.
 */
extern Node *plan_resolve(Node *expression, const Plan *plan, const Plan **where);

#endif
