/*
 * Nodes that need to know of each other are told when the executor has started.
 */
#ifndef CCOPT_ATTACH_H
#define CCOPT_ATTACH_H

#include "compat.h"

#include "nodes/execnodes.h"

/* EXPLAIN's lines on what was attached to a BatchScan. To be called by its ExplainCustomScan. */
extern void attach_explain(const PlanState *scan, ExplainState *es);

#endif
