/*
 * What the files of BatchAgg's planning share.
 */
#ifndef CCOPT_BATCH_AGG_PATH_H
#define CCOPT_BATCH_AGG_PATH_H

#include "batch_agg.h"
#include "costs.h"
#include "nodes/pathnodes.h"

/* What a grouping needs, as the planner has it, and the same over a child's target list. */
typedef struct Grouping {
  List *keys;
  List *carried;    /* Vars that follow from the keys */
  List *aggregates; /* Aggref */
  List *having;
  List *functions; /* GroupingFunc */
} Grouping;

/* GROUP BY as BatchAgg groups: NIL makes one group. */
extern List *group_clauses(const PlannerInfo *root);
/* What rows of `target`, and HAVING, need of a grouping; or why that is not possible. */
extern const char *grouping_collect(PlannerInfo *root, const PathTarget *target, Node *having,
                                    Grouping *grouping);
/* Over expressions `child`; NULL if these do not give all that is needed. */
extern Grouping *grouping_over(const PlannerInfo *root, const Grouping *grouping, List *child,
                               AggStep step);
/* Whether some aggregate has DISTINCT. */
extern bool grouping_has_distinct(const Grouping *grouping);
/* What a grouping over a child asks of each row, and of memory for each group. */
extern AggWork grouping_work(const Grouping *grouping);

/* A BatchAgg that is possible. */
typedef struct AggOffer {
  Path *child;
  AggWork work;
  double groups; /* of the child's rows */
} AggOffer;

/* Fills `offer`, or says why a BatchAgg of `child` cannot be. */
extern const char *batch_agg_offer(PlannerInfo *root, Path *child, const Grouping *grouping,
                                   AggStep step, AggOffer *offer);
/* A group count in a path or plan. */
extern Node *batch_agg_group_count(double groups);
/* Its path. `sets` as AGG_PRIVATE_SETS. Not added to the relation's paths. */
extern CustomPath *batch_agg_make_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target,
                                       const Grouping *grouping, List *sets, const AggOffer *offer,
                                       double rows);
/* Rows that are left after HAVING, as core estimates it. */
extern double batch_agg_result_rows(const RelOptInfo *output_rel, double groups);
/*
 * Whether core's plan costs less than what a BatchAgg reads, and the making of its node: a few rows by
 * index, or an empty table. Asked first, for to plan a path takes as long as such statements run.
 */
extern bool batch_agg_is_beaten(const RelOptInfo *input_rel, const RelOptInfo *output_rel);
/* Core's cheapest path that groups rows in the order in which they come. */
extern Cost batch_agg_cheapest_stream(const RelOptInfo *output_rel);

/* Adds a path in two steps for aggregates with DISTINCT, or says why there is none. */
extern const char *batch_agg_add_distinct_path(PlannerInfo *root, RelOptInfo *output_rel,
                                               Path *child, const Grouping *grouping);
/* Adds a path for GROUPING SETS, or says why there is none. */
extern const char *batch_agg_add_sets_path(PlannerInfo *root, RelOptInfo *output_rel, Path *child,
                                           const Grouping *grouping);
/* Adds a path that aggregates in workers, for the leader to combine; false if there is none. */
extern bool batch_agg_add_parallel_path(PlannerInfo *root, RelOptInfo *input_rel,
                                        RelOptInfo *output_rel, GroupPathExtraData *extra);

#endif
