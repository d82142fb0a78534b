/*
 * Names of ccopt's nodes, as EXPLAIN prints them and ccopt.require takes them.
 */
#ifndef CCOPT_NODE_NAMES_H
#define CCOPT_NODE_NAMES_H

#define BATCH_SCAN_NAME "BatchScan"
#define BATCH_AGG_NAME "BatchAgg"
#define BATCH_JOIN_NAME "BatchHashJoin"
#define BATCH_WINDOW_NAME "BatchWindow"
#define BUFFER_NAME "Buffer"
#define ADAPTIVE_JOIN_NAME "AdaptiveJoin"

#endif
