/*
 * The differences between PostgreSQL 15, 16, 17 and 18, in one place: no other file asks for
 * PG_VERSION_NUM.
 */
#ifndef CCOPT_COMPAT_H
#define CCOPT_COMPAT_H

#include "postgres.h"

#include "access/heapam.h"
#include "access/stratnum.h"
#include "commands/explain.h"
#include "nodes/extensible.h"
#include "pgstat.h"
#if PG_VERSION_NUM >= 180000
#include "access/cmptype.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "rewrite/rewriteManip.h"
#endif

/* Up to 16 an old snapshot could be refused as too old. */
#if PG_VERSION_NUM >= 170000
#define check_snapshot_age(snapshot, rel, page) ((void)0)
#else
#define check_snapshot_age(snapshot, rel, page) TestForOldSnapshot(snapshot, rel, page)
#endif

/* Up to 16 with that setting: a scan must read the LSN of each page that it uses. */
#if PG_VERSION_NUM >= 170000
#define SNAPSHOTS_MAY_AGE false
#else
#define SNAPSHOTS_MAY_AGE (old_snapshot_threshold >= 0)
#endif

/* The file of a table, and whether this transaction gave it a new one. */
#if PG_VERSION_NUM >= 160000
#define FILE_TABLESPACE(relation) ((relation)->rd_locator.spcOid)
#define FILE_DATABASE(relation) ((relation)->rd_locator.dbOid)
#define FILE_NUMBER(relation) ((relation)->rd_locator.relNumber)
#define HAS_NEW_FILE(relation)                                         \
  ((relation)->rd_newRelfilelocatorSubid != InvalidSubTransactionId || \
   (relation)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define FILE_TABLESPACE(relation) ((relation)->rd_node.spcNode)
#define FILE_DATABASE(relation) ((relation)->rd_node.dbNode)
#define FILE_NUMBER(relation) ((relation)->rd_node.relNode)
#define HAS_NEW_FILE(relation)                                      \
  ((relation)->rd_newRelfilenodeSubid != InvalidSubTransactionId || \
   (relation)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* Since 17 a heap scan gets its pages from a read stream, and heapgetpage() is gone. */
#if PG_VERSION_NUM >= 170000
#define HEAP_SCAN_HAS_STREAM
#endif

/* Since 17 an ExplainOneQuery_hook can call what it replaces. */
#if PG_VERSION_NUM >= 170000
#define CCOPT_STANDARD_EXPLAIN 1
#endif
/* Since 18 paths count disabled nodes instead of adding a huge cost; cost functions take the
 * input's. */
#if PG_VERSION_NUM >= 180000
#define CCOPT_DISABLED_NODES(path) (path)->disabled_nodes,
#define set_disabled_nodes(path, n) ((path)->disabled_nodes = (n))
#define disabled_nodes_of(path) ((path)->disabled_nodes)
#else
#define CCOPT_DISABLED_NODES(path)
#define set_disabled_nodes(path, n) ((void)0)
#define disabled_nodes_of(path) 0
#endif

/*
 * What one major version has and another has not. Weak, a library that was built for one can be
 * opened by another, which then finds the wrong version in its magic block and says that, instead of
 * naming an unknown symbol.
 */
#if PG_VERSION_NUM >= 160000
#pragma weak GetMemoryChunkContext
#pragma weak expression_tree_mutator_impl
#pragma weak expression_tree_walker_impl
#pragma weak planstate_tree_walker_impl
#else
#pragma weak expression_tree_mutator
#pragma weak expression_tree_walker
#pragma weak planstate_tree_walker
#endif
#if PG_VERSION_NUM >= 170000
#pragma weak heap_prepare_pagescan
#pragma weak read_stream_next_buffer
#pragma weak standard_ExplainOneQuery
#else
#pragma weak MemoryContextAllocZeroAligned
#pragma weak TestForOldSnapshot_impl
#pragma weak bms_is_empty
#pragma weak heapgetpage
#pragma weak old_snapshot_threshold
#endif

#if PG_VERSION_NUM < 180000
#pragma weak lc_collate_is_c
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "ccopt is made for PostgreSQL 15 to 18"
#endif

/*
 * Since 18 the planner marks what grouping sets can make NULL in all expressions above the grouping, and
 * the nodes below it have them without the mark.
 */
#if PG_VERSION_NUM >= 180000
#define BELOW_GROUPING_SETS(root, node) \
  ((root)->parse->groupingSets == NIL   \
       ? (node)                         \
       : remove_nulling_relids(node, bms_make_singleton((root)->group_rtindex), NULL))
#else
#define BELOW_GROUPING_SETS(root, node) (node)
#endif

/* How many tables EXPLAIN names: since 18 the grouping step is an entry of the range table, too. */
#if PG_VERSION_NUM >= 180000
#define EXPLAIN_TABLES(es) ((es)->rtable_size)
#else
#define EXPLAIN_TABLES(es) list_length((es)->rtable)
#endif

/* How an operator orders values: by the strategies of a B-tree up to 17. */
#if PG_VERSION_NUM >= 180000
typedef CompareType OperatorOrder;
#define ORDERS_DESCENDING COMPARE_GT
#else
typedef int16 OperatorOrder;
#define ORDERS_DESCENDING BTGreaterStrategyNumber
#endif

/* The condition under which a window computes no further rows of a partition. */
#if PG_VERSION_NUM >= 170000
#define WINDOW_RUN_CONDITION(path) ((path)->runCondition)
#define FORGET_RUN_CONDITION(function) ((function)->runCondition = NIL)
#else
#define WINDOW_RUN_CONDITION(path) ((path)->winclause->runCondition)
#define FORGET_RUN_CONDITION(function) ((void)0)
#endif

/* A collation that compares bytes. */
#if PG_VERSION_NUM >= 180000
#define COLLATION_IS_C(collation) (pg_newlocale_from_collation(collation)->collate_is_c)
#else
#define COLLATION_IS_C(collation) lc_collate_is_c(collation)
#endif

/* GROUP BY without what the planner found to follow from the rest. */
#if PG_VERSION_NUM >= 160000
#define GROUP_CLAUSES(root) ((root)->processed_groupClause)
#else
#define GROUP_CLAUSES(root) ((root)->parse->groupClause)
#endif

#endif
