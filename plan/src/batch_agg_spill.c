/*
 * Rows that are aggregated later: those whose group did not fit in memory, in partitions by hash.
 *
 * As in core's hashed aggregation: the groups in memory are finished, then one partition after the
 * other is aggregated from the start, and divided again if it has too many groups as well. A
 * group's rows are all in one place, so every group comes out once.
 */
#include "batch_agg.h"

#include "utils/tuplestore.h"

#include "group_table.h"
#include "slot_source.h"

/* Memory of each partition before it goes to disk. */
#define PARTITION_KILOBYTES 64

/*
 * Limit of partitions within partitions; with at least 4 partitions at each depth no real input
 * needs more.
 */
#define MAX_DEPTH 16

typedef struct Partition {
  Tuplestorestate *rows;
  int depth;
} Partition;

struct AggSpill {
  MemoryContext context;
  int npartitions;
  int depth;                 /* depth of the partitions that are being filled */
  Tuplestorestate **filling; /* [npartitions]; NULL: no row yet */
  List *pending;             /* Partition */
  Tuplestorestate *reading;
  GatherSource *reader;
  TupleTableSlot *slot;
  uint64 rows;
};

static TupleTableSlot *spilled_row(void *argument) {
  AggSpill *spill = argument;
  return tuplestore_gettupleslot(spill->reading, true, false, spill->slot) ? spill->slot : NULL;
}

AggSpill *agg_spill_create(const Batch *layout, const Bitmapset *columns, TupleDesc descriptor,
                           int npartitions) {
  AggSpill *spill = palloc0(sizeof(*spill));
  Batch used = {.ncolumns = layout->ncolumns};

  spill->context = CurrentMemoryContext;
  spill->npartitions = npartitions;
  spill->filling = palloc0(sizeof(*spill->filling) * npartitions);
  spill->slot = MakeSingleTupleTableSlot(descriptor, &TTSOpsMinimalTuple);
  used.columns = palloc(sizeof(*used.columns) * Max(layout->ncolumns, 1));
  memcpy(used.columns, layout->columns, sizeof(*used.columns) * layout->ncolumns);
  for (int i = 0; i < used.ncolumns; i++)
    if (!bms_is_member(i, columns)) used.columns[i].slot_attno = 0;
  spill->reader = gather_source_create(&used, spilled_row, spill, NULL);
  pfree(used.columns);
  return spill;
}

void agg_spill_put(AggSpill *spill, TupleTableSlot *slot, uint32 hash) {
  int partition = group_partition(hash, spill->depth, spill->npartitions);

  if (spill->filling[partition] == NULL) {
    MemoryContext before = MemoryContextSwitchTo(spill->context);
    spill->filling[partition] = tuplestore_begin_heap(false, false, PARTITION_KILOBYTES);
    MemoryContextSwitchTo(before);
  }
  tuplestore_puttupleslot(spill->filling[partition], slot);
  spill->rows++;
}

BatchSource *agg_spill_next(AggSpill *spill) {
  MemoryContext before = MemoryContextSwitchTo(spill->context);
  Partition *partition;

  for (int i = 0; i < spill->npartitions; i++) {
    if (spill->filling[i] == NULL) continue;
    partition = palloc(sizeof(*partition));
    partition->rows = spill->filling[i];
    partition->depth = spill->depth;
    /* Last in, first out, so that as few files as possible exist at a time. */
    spill->pending = lcons(partition, spill->pending);
    spill->filling[i] = NULL;
  }
  MemoryContextSwitchTo(before);
  if (spill->reading) tuplestore_end(spill->reading);
  spill->reading = NULL;
  ExecClearTuple(spill->slot);
  if (spill->pending == NIL) return NULL;

  partition = linitial(spill->pending);
  spill->pending = list_delete_first(spill->pending);
  spill->reading = partition->rows;
  spill->depth = partition->depth + 1;
  pfree(partition);
  tuplestore_rescan(spill->reading);
  gather_source_rescan(spill->reader);
  return gather_source_base(spill->reader);
}

bool agg_spill_is_deep(const AggSpill *spill) { return spill->depth >= MAX_DEPTH; }

void agg_spill_end(AggSpill *spill) {
  while (agg_spill_next(spill) != NULL)
    ;
  ExecDropSingleTupleTableSlot(spill->slot);
}
