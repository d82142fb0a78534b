/*
 * The unit that batch operators pass to each other: up to BATCH_ROWS rows, by column.
 *
 *           column 0              column 1                 selected
 *           where[]   number[]    where[]                  [1, 3, 4]   nselected = 3
 *    row 0  ·──> page    --       ·──> page
 *    row 1  ·──> page   1750      ·──> hash table
 *    row 2  ·──> page    --       ·──> page
 *    row 3  NULL         --       ·──> hash table          NULL is SQL's NULL
 *    row 4  ·──> copy    320      ·──> page
 *
 * Only selected rows are valid; a predicate shortens `selected` and moves no values.
 *
 * `where` points to a value in its place: a pinned heap page, a hash table, or a copy. It points to
 * the first byte of the value in the form that it has in a tuple, so that fetch_att() gives its
 * Datum; varlena may have short headers, be compressed or external. The eight bytes before it can
 * be read: decoders load words that end where a value ends. Columns whose kind has numbers can be
 * decoded to int64, once per batch and for the selected rows only.
 */
#ifndef CCOPT_BATCH_H
#define CCOPT_BATCH_H

#include "compat.h"

#include "access/tupmacs.h"
#include "executor/executor.h"
#include "nodes/execnodes.h"

/*
 * 1024 rows: a column's pointers take 8 KB, so the few columns in use at a time fit a 48 KB L1D
 * together with their numbers; the prototype showed no difference between 512 and 4096.
 */
#define BATCH_ROWS 1024

typedef enum ColumnKind {
  COLUMN_OPAQUE,  /* can be passed on, but not computed with */
  COLUMN_INTEGER, /* int2, int4, int8, date, timestamp, timestamptz, oid, bool, "char": number =
                     value */
  COLUMN_DECIMAL, /* numeric(p,s) of at most 18 digits: number = value * 10^scale */
  COLUMN_TEXT,    /* text, varchar of a deterministic collation: equal if the bytes are equal */
  COLUMN_BPCHAR   /* the same without trailing blanks */
} ColumnKind;

/* How a column's values lie side by side. */
typedef enum LaneKind {
  LANE_VALUES, /* as the type's values: COLUMN_INTEGER */
  LANE_INT32,  /* numbers */
  LANE_INT64
} LaneKind;

typedef struct BatchColumn {
  /* type; constant */
  ColumnKind kind;
  Oid type;
  int32 typmod;
  Oid collation;
  int16 length; /* attlen */
  bool by_value;
  char align;            /* attalign */
  int scale;             /* COLUMN_DECIMAL: decimal digits after the point */
  AttrNumber slot_attno; /* attribute that batch_store_slot() fills; 0: none */

  /* values of the current batch */
  const char **where; /* [BATCH_ROWS]; NULL is SQL NULL. Valid for selected rows */
  bool has_nulls;     /* false: no selected row is NULL; true: some may be */
  bool decoded;       /* number[] is valid for selected rows without NULL that fit */
  int64 *number;      /* [BATCH_ROWS]; NULL until decoded */
  uint64 magnitude;   /* if decoded: the absolute values, or-ed: a bound of their bits */

  /*
   * From the column cache: the values of rows 0 .. nrows-1, in order, those of NULL undefined; NULL
   * if they do not lie like that. With numbers_only, where[] says what is NULL and nothing else: only
   * those get such columns that said that numbers suffice (batch_source_numbers_suffice()).
   */
  const void *lane;
  LaneKind lane_kind;
  bool numbers_only;
  uint64 lane_magnitude; /* LANE_INT32, LANE_INT64: of all its numbers */
} BatchColumn;

typedef struct Batch {
  int nrows; /* number of rows, selected or not */
  int nselected;
  uint16 *selected; /* [nselected], ascending */
  int ncolumns;
  BatchColumn *columns;
  /*
   * Fallback rows: rows with a value that their column's numbers cannot hold: NaN, infinity, more
   * digits. Kernels skip them, the operator evaluates them by core's functions (batch_store_slot,
   * ExecEvalExpr). Set by batch_decode().
   */
  int nodd;   /* number of fallback rows; 0: odd[] need not be read */
  uint8 *odd; /* [BATCH_ROWS] */
} Batch;

/* How to compute with values of this type and modifier; fills *scale for COLUMN_DECIMAL. */
extern ColumnKind column_kind(Oid type, int32 typmod, Oid collation, int *scale);

/*
 * Initializes a batch of ncolumns columns in the current memory context; number[] is allocated only
 * when needed.
 */
extern void batch_init(Batch *batch, int ncolumns);
/* Sets the type of column `index`. */
extern void batch_column_init(Batch *batch, int index, Oid type, int32 typmod, Oid collation,
                              AttrNumber slot_attno);

/* Begins a new batch: no rows, nothing decoded, no fallback rows. */
extern void batch_reset(Batch *batch);
/* Selects rows 0 .. nrows-1. */
extern void batch_select_all(Batch *batch, int nrows);

/*
 * Decodes a column's selected rows (decode.c) and marks fallback rows. The column's kind must have
 * numbers.
 */
extern void batch_decode(Batch *batch, int column);

/* The Datum of a value of which there is a number only, in the current memory context. */
extern Datum batch_datum_of_lane(const BatchColumn *column, int row);

/*
 * The Datum of a value that is not NULL. It is in its place, or, if numbers suffice for the column,
 * in the current memory context.
 */
static inline Datum batch_datum(const BatchColumn *column, int row) {
  if (unlikely(column->numbers_only)) return batch_datum_of_lane(column, row);
  return fetch_att(column->where[row], column->by_value, column->length);
}

/*
 * Fills a virtual slot with a row: each column's value goes to its slot_attno, all other attributes
 * are NULL. By-reference values point into the batch's memory and live as long as the batch.
 */
extern void batch_store_slot(const Batch *batch, int row, TupleTableSlot *slot);

/* ---- sources ---- */

/*
 * A producer of batches. The batch and all it points to is valid until the next call of next(),
 * rescan of the node, or its end. next() returns NULL at the end, and a batch with nselected > 0
 * otherwise.
 */
typedef struct BatchSource BatchSource;
struct BatchSource {
  Batch *(*next)(BatchSource *source);
  PlanState *node; /* whose rows these are: for instrumentation, and for ExecReScan */
  Batch *batch;    /* filled repeatedly; its columns' types are known from the start */
  int nresnos;     /* length of the node's target list */
  int *column_of;  /* [nresnos]: the batch's column with entry i+1 of the target list, or -1 */
  /* NULL, or takes note that numbers suffice for a column. */
  void (*numbers_suffice)(BatchSource *source, int column);
};

/*
 * The consumer uses a column by batch_decode(), batch_datum(), batch_store_slot() and where[] ==
 * NULL only. To be called before the first batch.
 */
static inline void batch_source_numbers_suffice(BatchSource *source, int column) {
  if (source->numbers_suffice) source->numbers_suffice(source, column);
}

/*
 * The child of a batch operator as a source: its own source if it is one of ccopt's nodes and its
 * target list is plain columns, otherwise one that gathers the rows of ExecProcNode
 * (slot_source.c). `resnos` are the entries of the child's target list that will be used. Call it
 * once, in BeginCustomScan after ExecInitNode; rescan by ExecReScan(child) and then
 * batch_source_rescan().
 */
extern BatchSource *batch_source_open(PlanState *child, const Bitmapset *resnos);
extern void batch_source_rescan(BatchSource *source);

/*
 * Each of ccopt's nodes that can return batches has this as its methods, which batch_source_open()
 * recognizes. `source` returns NULL if the node must be read row by row (its target list has
 * expressions).
 */
typedef struct BatchExecMethods {
  CustomExecMethods base;
  BatchSource *(*source)(CustomScanState *node);
} BatchExecMethods;
/* At loading: registers methods of nodes that can return batches (slot_source.c). */
extern void batch_source_register(const BatchExecMethods *methods);

/* The next batch, with the instrumentation that ExecProcNode would have done. */
static inline Batch *batch_source_next(BatchSource *source) {
  Batch *batch;
  Instrumentation *instrument = source->node->instrument;
  if (source->node->chgParam != NULL) ExecReScan(source->node);
  if (likely(instrument == NULL)) return source->next(source);
  InstrStartNode(instrument);
  batch = source->next(source);
  InstrStopNode(instrument, batch ? batch->nselected : 0);
  return batch;
}

#endif
