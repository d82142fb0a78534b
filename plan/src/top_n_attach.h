/*
 * ORDER BY ... LIMIT n: finds the nodes below a sort that can drop rows, and connects them with it.
 */
#ifndef CCOPT_TOP_N_ATTACH_H
#define CCOPT_TOP_N_ATTACH_H

#include "nodes/execnodes.h"

/*
 * Connects the sorts that get the bound of `node` from core (ExecSetTupleBound) with what is below
 * them: `node` is the child of a Limit, or the top node of a worker. When the executor has started.
 */
extern void top_n_attach(PlanState *node);

#endif
