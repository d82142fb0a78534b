/*
 * Rows to batches.
 */
#ifndef CCOPT_SLOT_SOURCE_H
#define CCOPT_SLOT_SOURCE_H

#include "batch.h"

/* The next row, or NULL or an empty slot at the end; not called again after the end. */
typedef TupleTableSlot *(*NextRow)(void *argument);

typedef struct GatherSource GatherSource;

/*
 * A source that gathers rows. `layout` tells the columns: column i takes its values from attribute
 * layout->columns[i].slot_attno of the rows (0: it is NULL). `node` is what batch_source_next() instruments. The
 * batch, and the values it copies, live in the current memory context.
 */
extern GatherSource *gather_source_create(const Batch *layout, NextRow next_row, void *argument,
                                          PlanState *node);
extern BatchSource *gather_source_base(GatherSource *gather);
/* Forgets the rows at hand; next_row starts again. */
extern void gather_source_rescan(GatherSource *gather);

#endif
