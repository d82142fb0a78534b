/*
 * BatchHashJoin, execution: both sides in temporary files when the table does not fit in hash_mem.
 *
 * Rows of both sides are divided by bits of their hash (Grace hash join: Kitsuregawa 1983) and
 * joined part by part. A part whose inner rows still do not fit is divided again by further bits.
 * If that cannot help (all have the same key), the table takes as many of its inner rows as fit,
 * and the part's outer rows are read once for each such piece. A byte for each outer row then
 * records between pieces whether it has matched.
 *
 * Files are BufFiles owned by the statement's resource owner, so an error removes them.
 */
#include "batch_join.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "utils/memdebug.h"
#include "utils/memutils.h"

/* A file has a buffer of 8 KB: the buffers of more parts would take more memory than they save. */
#define MOST_PARTS 64
#define LEAST_PARTS 4
/* The low bits choose the table's own buckets. */
#define MOST_HASH_BITS 24

typedef struct JoinPart {
  BufFile *inner, *outer; /* NULL: no rows */
  int64 inner_rows, outer_rows;
  Size inner_bytes;
  int bits;   /* number of top bits of the hash that its rows share */
  bool whole; /* dividing it again has not made it smaller */
} JoinPart;

struct JoinSpill {
  MemoryContext memory;
  RowLayout *outer_layout;
  JoinTable *outer_rows; /* rows being written to and read from files */
  JoinTable *inner_rows; /* the same, while a part is divided again */
  Batch outer_batch;

  /* the division under way */
  int nparts;
  int shift;
  JoinPart **parts;
  List *todo; /* of JoinPart */

  /* the part being joined */
  JoinPart *current;
  bool in_pieces;
  bool inner_left;      /* its inner file has more rows */
  int64 outer_read;     /* rows read in this pass */
  uint8 *outer_matched; /* for all its outer rows; NULL unless joined in pieces */
};

/* ---- records ---- */

void join_spill_write_row(BufFile *file, JoinRow *row) {
  /* For memcheck: the gaps between a row's parts are undefined, and never read. */
  VALGRIND_MAKE_MEM_DEFINED(row, join_row_size(row));
  BufFileWrite(file, row, join_row_size(row));
}

static void write_row(BufFile **file, JoinRow *row) {
  if (*file == NULL) *file = BufFileCreateTemp(false);
  join_spill_write_row(*file, row);
}

static void ends_early(void) {
  ereport(ERROR, (errcode_for_file_access(),
                  errmsg("could not read a BatchHashJoin's temporary file: it ends early")));
}

bool join_spill_read_row(BufFile *file, JoinTable *table) {
  JoinRow header;
  JoinRow *row;
  Size rest, read = BufFileRead(file, &header, sizeof(header));

  if (read == 0) return false;
  if (read != sizeof(header)) ends_early();
  row = join_table_room(table, join_row_size(&header));
  *row = header;
  row->size &= ~ROW_MATCHED;
  if (!(row->size & ROW_KEY_IS_NULL)) table->nlinked++;
  rest = join_row_size(&header) - sizeof(header);
  if (BufFileRead(file, row + 1, rest) != rest) ends_early();
  return true;
}

static void read_row(BufFile *file, JoinTable *table) {
  if (!join_spill_read_row(file, table)) ends_early();
}

static void rewind_file(BufFile *file) {
  if (file != NULL && BufFileSeek(file, 0, 0, SEEK_SET) != 0)
    ereport(ERROR, (errcode_for_file_access(),
                    errmsg("could not rewind a BatchHashJoin's temporary file")));
}

static void close_part(JoinPart *part) {
  if (part->inner != NULL) BufFileClose(part->inner);
  if (part->outer != NULL) BufFileClose(part->outer);
  pfree(part);
}

/* ---- dividing into parts ---- */

/* The number of parts with which each should fit; `bytes` are expected in total. */
static int part_count(double bytes, Size limit) {
  double wanted = bytes / (limit * 0.7) + 1;

  if (wanted >= MOST_PARTS) return MOST_PARTS;
  return Max(LEAST_PARTS, (int)pg_nextpower2_32((uint32)wanted));
}

static void begin_parting(JoinSpill *spill, int nparts, int bits_before) {
  int bits = pg_leftmost_one_pos32(nparts);
  MemoryContext caller = MemoryContextSwitchTo(spill->memory);

  spill->nparts = nparts;
  spill->shift = 32 - bits_before - bits;
  spill->parts = palloc(sizeof(*spill->parts) * nparts);
  for (int i = 0; i < nparts; i++) {
    spill->parts[i] = palloc0(sizeof(JoinPart));
    spill->parts[i]->bits = bits_before + bits;
  }
  MemoryContextSwitchTo(caller);
}

static JoinPart *part_of(const JoinSpill *spill, const JoinRow *row) {
  return spill->parts[row->hash >> spill->shift & (spill->nparts - 1)];
}

/* Moves a table's rows to the files of their parts. */
static void inner_to_parts(JoinSpill *spill, JoinTable *table) {
  MemoryContext caller = MemoryContextSwitchTo(spill->memory);
  JoinRowScan scan;
  JoinRow *row;

  join_row_scan_begin(&scan, table);
  while ((row = join_row_scan_next(&scan)) != NULL) {
    JoinPart *part = part_of(spill, row);
    write_row(&part->inner, row);
    part->inner_rows++;
    part->inner_bytes += join_row_size(row);
  }
  join_table_clear(table);
  MemoryContextSwitchTo(caller);
}

/* The same for outer rows; rows that cannot be part of the result are left out. */
static void outer_to_parts(JoinSpill *spill, const BatchJoinTraits *traits) {
  MemoryContext caller = MemoryContextSwitchTo(spill->memory);
  JoinRowScan scan;
  JoinRow *row;

  join_row_scan_begin(&scan, spill->outer_rows);
  while ((row = join_row_scan_next(&scan)) != NULL) {
    JoinPart *part = part_of(spill, row);
    if (part->inner == NULL && !traits->fill_outer) continue;
    write_row(&part->outer, row);
    part->outer_rows++;
  }
  join_table_clear(spill->outer_rows);
  MemoryContextSwitchTo(caller);
}

static void end_parting(BatchJoinState *state) {
  JoinSpill *spill = state->spill;
  MemoryContext caller = MemoryContextSwitchTo(spill->memory);

  for (int i = 0; i < spill->nparts; i++) spill->todo = lappend(spill->todo, spill->parts[i]);
  pfree(spill->parts);
  spill->parts = NULL;
  state->partitions = Max(state->partitions, list_length(spill->todo));
  MemoryContextSwitchTo(caller);
}

void join_spill_begin(BatchJoinState *state) {
  MemoryContext memory = AllocSetContextCreate(state->css.ss.ps.state->es_query_cxt,
                                               "BatchHashJoin files", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(memory);
  JoinSpill *spill = palloc0(sizeof(*spill));
  const Batch *outer = state->outer->batch;
  double average = (double)state->table->used / Max(state->table->nrows, 1);
  /* Of rows that all processes have read, the number is known; a plan's is that of one process. */
  double expected = Max(Max(state->inner_node->plan->plan_rows, (double)state->inner_rows),
                        state->table->nrows * 2.0);
  Bitmapset *stored = NULL;

  spill->memory = memory;
  for (int i = 0; i < state->out.ncolumns; i++)
    if (!state->columns[i].of_inner && state->columns[i].needed)
      stored = bms_add_member(stored, state->columns[i].column);
  spill->outer_layout = row_layout_create(outer, stored, state->nkeys, state->outer_keys);
  spill->outer_rows = join_table_create(spill->outer_layout);
  spill->inner_rows = join_table_create(state->layout);
  batch_init(&spill->outer_batch, outer->ncolumns);
  state->peak = Max(state->peak, join_table_memory(state->table));
  begin_parting(spill, part_count(expected * average, state->memory_limit), 0);
  MemoryContextSwitchTo(caller);
  state->spill = spill;
  state->counts.spills++;
  join_spill_inner(state);
}

void join_spill_inner(BatchJoinState *state) { inner_to_parts(state->spill, state->table); }

void join_spill_outer(BatchJoinState *state, Batch *batch) {
  key_vector_fill(state->outer_vector, batch);
  join_table_add(state->spill->outer_rows, batch, state->outer_vector, state->traits->fill_outer);
  outer_to_parts(state->spill, state->traits);
}

/* Divides a part that does not fit. */
static void part_again(BatchJoinState *state, JoinPart *part) {
  JoinSpill *spill = state->spill;
  int nparts = part_count(part->inner_bytes, state->memory_limit);

  begin_parting(spill, nparts, part->bits);
  rewind_file(part->inner);
  for (int64 i = 0; i < part->inner_rows; i++) {
    read_row(part->inner, spill->inner_rows);
    if (spill->inner_rows->nrows == BATCH_ROWS) inner_to_parts(spill, spill->inner_rows);
    CHECK_FOR_INTERRUPTS();
  }
  inner_to_parts(spill, spill->inner_rows);
  rewind_file(part->outer);
  for (int64 i = 0; i < part->outer_rows; i++) {
    read_row(part->outer, spill->outer_rows);
    if (spill->outer_rows->nrows == BATCH_ROWS) outer_to_parts(spill, state->traits);
    CHECK_FOR_INTERRUPTS();
  }
  outer_to_parts(spill, state->traits);
  for (int i = 0; i < nparts; i++)
    spill->parts[i]->whole = spill->parts[i]->inner_rows == part->inner_rows;
  close_part(part);
  end_parting(state);
}

/* ---- passes ---- */

/* Loads as many inner rows of the current part into the table as fit. */
static void load_piece(BatchJoinState *state) {
  JoinSpill *spill = state->spill;
  JoinPart *part = spill->current;

  join_table_clear(state->table);
  while (part->inner_rows > 0) {
    /* At least one row. A chunk is allocated whole, so check before adding the row. */
    if (state->table->nrows > 0 && join_table_memory(state->table) > state->memory_limit) break;
    read_row(part->inner, state->table);
    part->inner_rows--;
  }
  spill->inner_left = part->inner_rows > 0;
  join_table_link(state->table);
  state->peak = Max(state->peak, state->table->peak);
  if (spill->inner_left && !spill->in_pieces) {
    spill->in_pieces = true;
    if (state->traits->fill_outer || state->traits->once_outer)
      spill->outer_matched = MemoryContextAllocExtended(spill->memory, Max(part->outer_rows, 1),
                                                        MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
  }
  rewind_file(part->outer);
  spill->outer_read = 0;
  state->final_pass = !spill->inner_left;
}

static void leave_part(BatchJoinState *state) {
  JoinSpill *spill = state->spill;

  if (spill->current == NULL) return;
  close_part(spill->current);
  spill->current = NULL;
  spill->in_pieces = false;
  if (spill->outer_matched != NULL) pfree(spill->outer_matched);
  spill->outer_matched = NULL;
}

bool join_spill_next_pass(BatchJoinState *state) {
  JoinSpill *spill = state->spill;
  const BatchJoinTraits *traits = state->traits;

  if (spill->parts != NULL) end_parting(state);
  if (spill->current != NULL && spill->inner_left) {
    load_piece(state);
    return true;
  }
  leave_part(state);
  while (spill->todo != NIL) {
    JoinPart *part = llast(spill->todo);

    spill->todo = list_delete_last(spill->todo);
    if ((part->inner == NULL && !traits->fill_outer) ||
        (part->outer == NULL && !traits->fill_inner)) {
      close_part(part);
      continue;
    }
    if (part->inner_bytes > state->memory_limit && !part->whole &&
        part->bits + pg_leftmost_one_pos32(MOST_PARTS) <= MOST_HASH_BITS) {
      part_again(state, part);
      continue;
    }
    spill->current = part;
    rewind_file(part->inner);
    load_piece(state);
    return true;
  }
  return false;
}

/* ---- the outer rows of a pass ---- */

/* Row i of the batch is a packed row: its keys are stored in it, computed when it was written. */
static void take_keys(KeyVector *vector, const RowLayout *layout, int i, const JoinRow *row) {
  vector->hash[i] = row->hash;
  if (row->size & ROW_KEY_IS_NULL) {
    vector->null_rows[vector->nnull++] = i;
    return;
  }
  vector->rows[vector->n++] = i;
  for (int k = 0; k < layout->nkeys; k++) {
    const char *stored = (const char *)row + layout->key_offset[k];

    if (layout->keys[k].is_text) {
      vector->bytes[k][i] =
          key_bytes((const char *)row + *(const uint32 *)stored, layout->keys[k].blank_padded);
    } else {
      vector->own_number[k][i] = *(const int64 *)stored;
      vector->nsuspect += layout->keys[k].is_decimal && vector->own_number[k][i] == NUMBER_SUSPECT;
    }
  }
}

bool join_spill_next_outer(BatchJoinState *state) {
  JoinSpill *spill = state->spill;
  JoinPart *part = spill->current;
  const RowLayout *layout = spill->outer_layout;
  KeyVector *vector = state->outer_vector;
  Batch *batch = &spill->outer_batch;
  int n = (int)Min(part->outer_rows - spill->outer_read, BATCH_ROWS);
  JoinRowScan scan;

  join_table_clear(spill->outer_rows);
  if (n == 0) return false;
  for (int i = 0; i < n; i++) read_row(part->outer, spill->outer_rows);
  batch_reset(batch);
  batch_select_all(batch, n);
  vector->n = vector->nnull = vector->nsuspect = 0;
  for (int k = 0; k < vector->nkeys; k++) vector->number[k] = vector->own_number[k];
  join_row_scan_begin(&scan, spill->outer_rows);
  for (int i = 0; i < n; i++) {
    const JoinRow *row = join_row_scan_next(&scan);

    take_keys(vector, layout, i, row);
    for (int c = 0; c < layout->ncolumns; c++) {
      const StoredColumn *stored = &layout->columns[c];
      BatchColumn *column = &batch->columns[stored->column];

      column->where[i] = stored_value(layout, stored, row);
      column->has_nulls |= column->where[i] == NULL;
    }
  }
  state->batch = batch;
  state->matched =
      spill->outer_matched ? spill->outer_matched + spill->outer_read : state->own_matched;
  spill->outer_read += n;
  return true;
}

void join_spill_end(BatchJoinState *state) {
  JoinSpill *spill = state->spill;
  ListCell *cell;

  if (spill->parts != NULL) end_parting(state);
  leave_part(state);
  foreach (cell, spill->todo) close_part(lfirst(cell));
  /* The tables' contexts are children of this one. */
  MemoryContextDelete(spill->memory);
  state->spill = NULL;
}
