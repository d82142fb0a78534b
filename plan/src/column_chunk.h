/*
 * Chunks of the column cache: from batches to bytes, and back.
 */
#ifndef CCOPT_COLUMN_CHUNK_H
#define CCOPT_COLUMN_CHUNK_H

#include "batch.h"
#include "column_cache.h"

#include "access/htup_details.h"

/* Rows of a run. */
#define CHUNK_MOST_ROWS (CACHE_RUN_PAGES * MaxHeapTuplesPerPage)

/* Gathers the values of one column from the batches of a run. */
typedef struct ChunkBuilder {
  CacheForm form;
  int16 length; /* attlen */
  uint8 alignment;
  bool unfit; /* some value cannot be kept */
  bool has_nulls;
  bool same_size; /* variable length: all values have `stride` bytes and need no alignment */
  uint32 stride;
  uint32 nrows;
  uint32 used, capacity; /* of bytes */
  char *bytes;
  uint32 *places; /* variable length: offsets in bytes + 1, 0: NULL; else 1, 0: NULL */
  uint64 magnitude;
} ChunkBuilder;

/* In the current memory context; `column` NULL: only rows are counted. */
extern void chunk_builder_init(ChunkBuilder *builder, const BatchColumn *column, CacheForm form);
/* Begins a run. */
extern void chunk_builder_reset(ChunkBuilder *builder);
/* Adds rows 0 .. nrows-1 of a batch; CACHE_NUMBERS: they are decoded. */
extern void chunk_builder_add(ChunkBuilder *builder, const BatchColumn *column, int nrows);
/* Bytes of the chunk. */
extern Size chunk_builder_size(const ChunkBuilder *builder);
/* Fills in all but map_lsn and heap_lsns. */
extern void chunk_builder_write(const ChunkBuilder *builder, ColumnChunk *chunk, Size size);

/* Fills a column's selected rows from the chunk's rows that begin at `first`. */
extern void chunk_load(const ColumnChunk *chunk, uint32 first, BatchColumn *column,
                       const uint16 *selected, int nselected, int nrows);

#endif
