/*
 * A finished hash table of core's HashJoin drops rows of the BatchScan that will probe it, before
 * any further work on them.
 */
#ifndef CCOPT_BLOOM_H
#define CCOPT_BLOOM_H

#include "compat.h"

#include "nodes/execnodes.h"

/* The outer side of `join` hashes one integer, which is the target entry `resno` of `scan`, a
 * BatchScan. */
extern void bloom_attach(HashJoinState *join, PlanState *scan, AttrNumber resno);

#endif
