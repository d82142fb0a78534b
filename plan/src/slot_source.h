/*
 * Gathers rows to batches.
 */
#ifndef CCOPT_SLOT_SOURCE_H
#define CCOPT_SLOT_SOURCE_H

#include "batch.h"

/* The next row, or NULL or an empty slot at the end; not called again after the end. */
typedef TupleTableSlot *(*NextRow)(void *argument);

typedef struct GatherSource GatherSource;

/*
 * A source that gathers rows. `layout` describes the columns: column i takes its values from
 * attribute layout->columns[i].slot_attno of the rows (0: it is NULL). batch_source_next()
 * instruments `node`. The batch and its copied values live in the current memory context.
 */
extern GatherSource *gather_source_create(const Batch *layout, NextRow next_row, void *argument,
                                          PlanState *node);
extern BatchSource *gather_source_base(GatherSource *gather);
/* Drops gathered rows; next_row starts again. */
extern void gather_source_rescan(GatherSource *gather);

#endif
