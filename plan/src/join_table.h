/*
 * The hash table of a BatchHashJoin: rows packed one after the other, found by the hash of their
 * keys, a batch of keys at a time.
 *
 *   buckets[hash & mask]           a packed row
 *   ┌──────┬─────────────────┐     ┌──────┬──────┬────────────┬─────────┬───────┬───────────┐
 *   │ tags │ first row    ·──┼──>  │ next │ hash │ size,flags │ numbers │ fixed │ var. part │
 *   └──────┴─────────────────┘     └──────┴──────┴────────────┴─────────┴───────┴───────────┘
 *     16        48 bits                                         int64 per key
 *
 * The tags are a small Bloom filter of the chain's hashes: most keys that match nothing never touch
 * a row (Birler, Schmidt, Fent, Neumann: Simple, Efficient, and Robust Hash Tables for Join
 * Processing, DaMoN 2024). Values in a row have the form that they have in a tuple, so that a
 * batch's columns can point to them. A table that processes share has distances from its start in
 * place of addresses.
 *
 *     join_table_row.c    the layout of rows, packing
 *     join_table_keys.c   keys of a batch as numbers and bytes, their hashes
 *     join_table.c        memory, buckets, probing
 *     join_table_bloom.c  a filter of its keys for the scan that probes it
 */
#ifndef CCOPT_JOIN_TABLE_H
#define CCOPT_JOIN_TABLE_H

#include "batch.h"

typedef struct JoinRow {
  uint64 next; /* of the chain: distance from the table's base; 0: the last */
  uint32 hash;
  uint32 size; /* a multiple of 8; the three bits below are flags */
} JoinRow;

#define ROW_MATCHED 1u
#define ROW_KEY_IS_NULL 2u /* in no bucket: the row matches nothing */
#define ROW_FLAGS 7u

static inline uint32 join_row_size(const JoinRow *row) { return row->size & ~ROW_FLAGS; }

/*
 * A column that clauses compare for equality. Integers and decimals are compared as numbers, text
 * by its bytes. A decimal without a number (NaN) gets NUMBER_SUSPECT, which no decimal of 18 digits
 * is: core compares two of those.
 */
typedef struct JoinKey {
  int column; /* of the batch */
  bool is_text;
  bool blank_padded; /* text: trailing blanks do not count */
  bool is_decimal;
} JoinKey;
#define NUMBER_SUSPECT PG_INT64_MIN

/* The bytes of a text key, without trailing blanks if those do not count. */
typedef struct KeyBytes {
  const char *data;
  int length;
} KeyBytes;

/* ---- keys of a batch (join_table_keys.c) ---- */

typedef struct KeyVector {
  int nkeys;
  const JoinKey *keys;
  int n; /* number of rows without a NULL in their keys */
  uint16 *rows;
  int nnull; /* number of selected rows with a NULL key */
  uint16 *null_rows;
  int nsuspect; /* number of rows with a NUMBER_SUSPECT */
  /* by row of the batch */
  uint32 *hash;
  const int64 **number; /* [nkeys], for keys with numbers */
  KeyBytes **bytes;     /* [nkeys], for text keys */
  /* memory of the vector itself */
  int64 **own_number;
  uint64 *mixed;
  MemoryContext detoasted; /* values that were compressed or external; until the next batch */
} KeyVector;

extern KeyVector *key_vector_create(int nkeys, const JoinKey *keys);
/* Reads the keys of the selected rows. Decodes the batch's key columns. */
extern void key_vector_fill(KeyVector *vector, Batch *batch);
extern KeyBytes key_bytes(const char *value, bool blank_padded);

/* ---- rows (join_table_row.c) ---- */

typedef enum ValueStorage {
  STORED_AS_NUMBER, /* the key's int64 is also the value: its low bytes */
  STORED_FIXED,     /* the bytes of a value of fixed length */
  STORED_VARIABLE   /* a uint32 with the value's offset in the row; 0: NULL */
} ValueStorage;

typedef struct StoredColumn {
  int column; /* of the batch */
  ValueStorage storage;
  uint32 offset;
  int null_bit; /* of numbers and fixed */
  int16 length; /* attlen */
  char align;
  bool plain; /* neither compressed nor external: a text key */
} StoredColumn;

typedef struct RowLayout {
  int nkeys;
  const JoinKey *keys;
  uint32 *key_offset; /* [nkeys]: offset of the number, or of a variable column's uint32 */
  int ncolumns;
  StoredColumn *columns;
  int nbatch_columns;
  int *stored_of; /* [nbatch_columns]: index into columns, or -1 */
  uint32 nulls;   /* offset of the null bits */
  uint32 fixed;   /* bytes before the variable part */
  bool has_variable;
} RowLayout;

/* `columns`: the batch's columns to store; keys whose value is needed are added. */
extern RowLayout *row_layout_create(const Batch *batch, const Bitmapset *columns, int nkeys,
                                    const JoinKey *keys);

/* The address of a value, NULL for SQL NULL. */
static inline const char *stored_value(const RowLayout *layout, const StoredColumn *column,
                                       const JoinRow *row) {
  const char *base = (const char *)row;
  if (column->storage == STORED_VARIABLE) {
    uint32 at = *(const uint32 *)(base + column->offset);
    return at ? base + at : NULL;
  }
  if (base[layout->nulls + (column->null_bit >> 3)] & (1 << (column->null_bit & 7))) return NULL;
  return base + column->offset;
}

/* ---- the table (join_table.c) ---- */

typedef struct JoinChunk JoinChunk;

typedef struct JoinTable {
  const RowLayout *layout;
  MemoryContext memory; /* chunks and buckets */
  JoinChunk *first, *last;
  int64 nrows;
  int64 nlinked; /* rows in a bucket */
  Size used;     /* bytes of chunks */
  char *base;    /* of buckets' and rows' distances: NULL, they are addresses; or a shared block */
  uint64 *buckets;
  uint32 mask; /* number of buckets - 1 */
  Size peak;   /* largest size, for EXPLAIN */
} JoinTable;

extern JoinTable *join_table_create(const RowLayout *layout);
/* Removes all rows; frees all memory except one chunk. */
extern void join_table_clear(JoinTable *table);
/* Space for a row of `size` bytes (a multiple of 8). The caller fills in hash, size and the
 * rest. */
extern JoinRow *join_table_room(JoinTable *table, uint32 size);
/* Adds the batch's rows whose keys are in `vector`, and if `with_nulls` also those with a NULL
 * key. */
extern void join_table_add(JoinTable *table, const Batch *batch, const KeyVector *vector,
                           bool with_nulls);
/* Memory that the table needs once it is linked. */
extern Size join_table_memory(const JoinTable *table);
/* Puts all rows into buckets: no row can be added afterwards. */
extern void join_table_link(JoinTable *table);
extern void join_table_forget_matches(JoinTable *table);

/*
 * A table in a block of memory that several processes have mapped, each at its own address. One of
 * them formats the block, each moves the rows of its own table there, then all use it; none
 * changes it from then on.
 */
typedef struct JoinBlock {
  int64 nlinked; /* rows of all processes */
  Size bytes;    /* of these rows */
} JoinBlock;

/* Bytes of a table's rows. */
extern Size join_table_filled(const JoinTable *table);
extern Size join_block_size(const JoinBlock *block);
extern void join_block_format(char *base, const JoinBlock *block);
/* Moves the rows to the block, from byte `at` of its rows on, and puts them into its buckets. */
extern void join_table_move_rows(JoinTable *table, char *base, const JoinBlock *block, Size at);
/* The table, which has no rows, becomes the block's. */
extern void join_table_attach(JoinTable *table, char *base, const JoinBlock *block);

/* An iteration over all rows, in the order in which they were added. */
typedef struct JoinRowScan {
  JoinChunk *chunk;
  Size offset;
} JoinRowScan;
extern void join_row_scan_begin(JoinRowScan *scan, const JoinTable *table);
extern JoinRow *join_row_scan_next(JoinRowScan *scan);

/* Which matches a probe returns. */
typedef enum ProbeMode {
  PROBE_ALL,            /* every pair */
  PROBE_FIRST,          /* one match for each probing row is enough */
  PROBE_NEW_OUTER_ROWS, /* marked rows of the batch need no further match */
  PROBE_NEW_INNER_ROWS, /* marked rows of the table need no further match */
  PROBE_MARK_INNER_ROWS /* the same, and marks them: for joins without further conditions */
} ProbeMode;

typedef struct JoinProbe {
  const KeyVector *keys;
  /* the pairs found by the last call */
  int npairs;
  uint16 *outer; /* [BATCH_ROWS]: row of the batch */
  JoinRow **inner;
  /* state of the probe */
  int nactive, position, kept;
  uint16 *active;
  JoinRow **at; /* by index into active */
} JoinProbe;

extern JoinProbe *join_probe_create(void);
/* `marked` (may be NULL) has the rows to skip. */
extern void join_probe_begin(JoinProbe *probe, const JoinTable *table, const KeyVector *keys,
                             const uint8 *marked);
/* Fetches the next pairs, at most BATCH_ROWS; false: there are no more. */
extern bool join_probe_next(JoinProbe *probe, const JoinTable *table, ProbeMode mode,
                            const uint8 *marked);

/* ---- the filter (join_table_bloom.c) ---- */

typedef struct KeyFilter KeyFilter;
/* A filter for the probing rows: target entries `resnos` of `node` are its keys. NULL if it
 * cannot be added to the scan that they come from. */
extern KeyFilter *key_filter_attach(PlanState *node, int nkeys, const int *resnos,
                                    const JoinKey *keys);
/* Starts the filter: rows that are not in the table are dropped from now on. */
extern void key_filter_start(KeyFilter *filter, const JoinTable *table);
extern void key_filter_stop(KeyFilter *filter);
extern void key_filter_counts(const KeyFilter *filter, int64 *seen, int64 *passed);

#endif
