/*
 * What the files of BatchWindow's planning share.
 */
#ifndef CCOPT_BATCH_WINDOW_PATH_H
#define CCOPT_BATCH_WINDOW_PATH_H

#include "batch_window.h"
#include "nodes/pathnodes.h"

/*
 * Windows of a query that need one order of rows: what core does with one Sort, or without, as the input
 * may be in order already.
 */
typedef struct WindowGroup {
  List *paths;     /* of WindowAggPath, core's, the lowest first */
  List *functions; /* of each a List of WindowFunc */
  List *clauses;   /* of SortGroupClause: those of PARTITION BY and ORDER BY of the lowest */
} WindowGroup;

/* The same over expressions `child`; its fields are as WindowPrivate has them. */
typedef struct WindowLayout {
  List *columns;
  List *keys;
  List *operators;
  List *windows;
} WindowLayout;

/* Fills `layout`, or says why this is not possible. */
extern const char *window_layout_make(PlannerInfo *root, const WindowGroup *group, List *child,
                                      WindowLayout *layout);
/* The column with entry `resno` of the child's target list; it is added if it is not there. */
extern int window_layout_column(WindowLayout *layout, List *child, int resno);

/* A path of a group over a child. `core`: what core's plan costs beside its input. */
extern CustomPath *batch_window_make_path(PlannerInfo *root, RelOptInfo *rel, Path *child,
                                          const WindowGroup *group, const WindowLayout *layout,
                                          Cost core, bool core_sorts);

#endif
