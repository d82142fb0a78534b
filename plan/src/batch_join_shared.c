/*
 * BatchHashJoin, execution: one hash table for all processes of a parallel plan.
 *
 *   READ ─> ALLOCATE ─> FILL ─> BUILT        phases of the barrier
 *
 *   READ      each process packs inner rows into a table of its own: the pages of the inner side
 *             are divided (JOIN_DIVIDED), or one process reads all and the others wait (JOIN_ONCE)
 *   ALLOCATE  one process allocates the block for all rows, whose number is known now
 *   FILL      each moves its rows to the block, and puts them into the buckets
 *   BUILT     all probe the block, in which nothing changes
 *
 * If the rows are too many for the memory of all processes, or for what the system has as shared
 * memory, each writes its rows into a file that the others can read. Then each builds a table of its
 * own from all files, as if it had read the inner side alone (batch_join_spill.c).
 *
 * Invariants:
 *  1. A process hands on no row between BarrierAttach() and BarrierDetach(): one that waits here waits
 *     only for processes that read the inner side, never for one whose rows it would have to take.
 *  2. A process attaches at any phase, and takes part in what is left. One that finds BUILT has read
 *     nothing: all inner rows were read by those that took part in READ.
 *  3. The rows of all processes and the block together stay within `limit`. That is exceeded by a batch
 *     of each process at most.
 *  4. The files are those of processes 0 .. nfiles - 1, complete from BUILT on.
 */
#include "batch_join.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/barrier.h"
#include "storage/sharedfileset.h"
#include "utils/dsa.h"

typedef enum SharedPhase { SHARED_READ, SHARED_ALLOCATE, SHARED_FILL, SHARED_BUILT } SharedPhase;

struct SharedJoin {
  Barrier barrier;
  dsm_handle segment;        /* that it is in */
  SharedFileSet files;       /* of rows for which there is no memory */
  pg_atomic_uint32 nfiles;   /* number of files so far */
  pg_atomic_uint32 shortage; /* JoinShortage */
  pg_atomic_uint32
      readers; /* processes that wanted to read the inner side; JOIN_ONCE: the first does */
  Size limit;  /* of the memory of all processes together */
  pg_atomic_uint64 memory; /* of the tables of all processes */
  pg_atomic_uint64 inner_rows;
  pg_atomic_uint64 nlinked; /* sums of the tables' */
  pg_atomic_uint64 filled;
  pg_atomic_uint64 placed; /* bytes of the block for which rows have come */
  dsa_pointer block;
};

/* What a process does while it builds. */
typedef struct Builder {
  BatchJoinState *state;
  SharedJoin *shared;
  BufFile *file; /* its own rows, if memory is short */
  Size counted;  /* of its memory in shared->memory */
} Builder;

/* ---- files ---- */

#define FILE_NAME_LENGTH 32

static void write_rows(Builder *builder) {
  SharedJoin *shared = builder->shared;
  JoinTable *table = builder->state->table;
  JoinRowScan scan;
  JoinRow *row;

  if (table->nrows == 0) return;
  if (builder->file == NULL) {
    char name[FILE_NAME_LENGTH];
    snprintf(name, sizeof(name), "rows%u", pg_atomic_fetch_add_u32(&shared->nfiles, 1));
    builder->file = BufFileCreateFileSet(&shared->files.fs, name);
  }
  join_row_scan_begin(&scan, table);
  while ((row = join_row_scan_next(&scan)) != NULL) join_spill_write_row(builder->file, row);
  join_table_clear(table);
}

/* All inner rows, from the files of all processes, as those of a private table. */
static void read_files(BatchJoinState *state, SharedJoin *shared) {
  uint32 nfiles = pg_atomic_read_u32(&shared->nfiles);

  for (uint32 i = 0; i < nfiles; i++) {
    char name[FILE_NAME_LENGTH];
    BufFile *file;
    snprintf(name, sizeof(name), "rows%u", i);
    file = BufFileOpenFileSet(&shared->files.fs, name, O_RDONLY, false);
    for (bool more = true; more; batch_join_check_memory(state)) {
      CHECK_FOR_INTERRUPTS();
      for (int n = 0; more && n < BATCH_ROWS; n++) more = join_spill_read_row(file, state->table);
    }
    BufFileClose(file);
  }
}

/* ---- the phases ---- */

/* Counts what the process has, and makes space if all have too much. */
static void check_memory(Builder *builder) {
  SharedJoin *shared = builder->shared;
  Size memory = join_table_memory(builder->state->table);
  uint64 sum;

  sum = pg_atomic_add_fetch_u64(&shared->memory, (int64)memory - (int64)builder->counted);
  builder->counted = memory;
  /* Rows are in a process's own table and in the block for a moment. */
  if (2 * sum > shared->limit) pg_atomic_write_u32(&shared->shortage, SHORT_OF_WORK_MEM);
  if (pg_atomic_read_u32(&shared->shortage) == SHORT_OF_NOTHING) return;
  write_rows(builder);
  memory = join_table_memory(builder->state->table);
  pg_atomic_fetch_add_u64(&shared->memory, (int64)memory - (int64)builder->counted);
  builder->counted = memory;
}

static void read_share(Builder *builder) {
  BatchJoinState *state = builder->state;
  SharedJoin *shared = builder->shared;
  Batch *batch;

  if (pg_atomic_fetch_add_u32(&shared->readers, 1) > 0 && state->sharing == JOIN_ONCE) return;
  while ((batch = batch_source_next(state->inner)) != NULL) {
    batch_join_add_inner(state, batch);
    check_memory(builder);
  }
  pg_atomic_fetch_add_u64(&shared->inner_rows, state->inner_rows);
  pg_atomic_fetch_add_u64(&shared->nlinked, state->table->nlinked);
  pg_atomic_fetch_add_u64(&shared->filled, join_table_filled(state->table));
}

static JoinBlock block_of(SharedJoin *shared) {
  JoinBlock block = {.nlinked = (int64)pg_atomic_read_u64(&shared->nlinked),
                     .bytes = pg_atomic_read_u64(&shared->filled)};
  return block;
}

static bool in_files(SharedJoin *shared) {
  return pg_atomic_read_u32(&shared->shortage) != SHORT_OF_NOTHING;
}

/* By the one process that is elected. Without memory for the block, the rows go to files. */
static void allocate(Builder *builder) {
  SharedJoin *shared = builder->shared;
  dsa_area *area = builder->state->css.ss.ps.state->es_query_dsa;
  JoinBlock block = block_of(shared);

  if (in_files(shared)) return;
  shared->block =
      shared_memory_allocate(area, builder->state->bytes_of_area, join_block_size(&block));
  if (DsaPointerIsValid(shared->block))
    join_block_format(dsa_get_address(area, shared->block), &block);
  else
    pg_atomic_write_u32(&shared->shortage, SHORT_OF_SHM);
}

static void fill(Builder *builder) {
  BatchJoinState *state = builder->state;
  SharedJoin *shared = builder->shared;

  if (in_files(shared)) {
    write_rows(builder);
    if (builder->file != NULL) BufFileClose(builder->file);
    join_table_clear(state->table);
  } else if (state->table->nrows > 0) {
    JoinBlock block = block_of(shared);
    Size at = pg_atomic_fetch_add_u64(&shared->placed, join_table_filled(state->table));
    join_table_move_rows(state->table,
                         dsa_get_address(state->css.ss.ps.state->es_query_dsa, shared->block),
                         &block, at);
  }
}

void join_shared_build(BatchJoinState *state) {
  SharedJoin *shared = state->shared;
  Builder builder = {.state = state, .shared = shared};
  bool elected = false;

  join_table_clear(state->table);
  switch (BarrierAttach(&shared->barrier)) {
    case SHARED_READ:
      read_share(&builder);
      elected = BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
      /* FALLTHROUGH */
    case SHARED_ALLOCATE:
      if (elected) allocate(&builder);
      BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
      /* FALLTHROUGH */
    case SHARED_FILL:
      fill(&builder);
      BarrierArriveAndWait(&shared->barrier, PG_WAIT_EXTENSION);
      /* FALLTHROUGH */
    default: BarrierDetach(&shared->barrier);
  }
  state->inner_rows = (int64)pg_atomic_read_u64(&shared->inner_rows);
  if (in_files(shared)) {
    read_files(state, shared);
  } else {
    JoinBlock block = block_of(shared);
    join_table_attach(state->table,
                      dsa_get_address(state->css.ss.ps.state->es_query_dsa, shared->block), &block);
  }
}

void join_shared_note(BatchJoinState *state) {
  SharedJoin *shared = state->shared;
  JoinBlock block = block_of(shared);

  state->inner_rows = Max(state->inner_rows, (int64)pg_atomic_read_u64(&shared->inner_rows));
  state->shortage = (JoinShortage)pg_atomic_read_u32(&shared->shortage);
  if (DsaPointerIsValid(shared->block)) state->peak = Max(state->peak, join_block_size(&block));
}

/* ---- callbacks ---- */

static void reset(SharedJoin *shared) {
  BarrierInit(&shared->barrier, 0);
  pg_atomic_init_u32(&shared->nfiles, 0);
  pg_atomic_init_u32(&shared->shortage, SHORT_OF_NOTHING);
  pg_atomic_init_u32(&shared->readers, 0);
  pg_atomic_init_u64(&shared->memory, 0);
  pg_atomic_init_u64(&shared->inner_rows, 0);
  pg_atomic_init_u64(&shared->nlinked, 0);
  pg_atomic_init_u64(&shared->filled, 0);
  pg_atomic_init_u64(&shared->placed, 0);
  shared->block = InvalidDsaPointer;
}

Size join_shared_estimate(CustomScanState *node, ParallelContext *context) {
  shared_memory_estimate(context);
  return sizeof(SharedJoin);
}

void join_shared_initialize(CustomScanState *node, ParallelContext *context, void *memory) {
  SharedJoin *shared = memory;

  /* Without a segment there are no workers: the table is private. */
  if (context->seg == NULL) return;
  reset(shared);
  shared->segment = dsm_segment_handle(context->seg);
  shared->limit = get_hash_memory_limit() * (context->nworkers + 1);
  SharedFileSetInit(&shared->files, context->seg);
  ((BatchJoinState *)node)->bytes_of_area = shared_memory_begin(context->toc);
  ((BatchJoinState *)node)->shared = shared;
}

void join_shared_reinitialize(CustomScanState *node, ParallelContext *context, void *memory) {
  SharedJoin *shared = memory;

  if (context->seg == NULL) return;
  if (DsaPointerIsValid(shared->block)) {
    JoinBlock block = block_of(shared);
    shared_memory_free(node->ss.ps.state->es_query_dsa, ((BatchJoinState *)node)->bytes_of_area,
                       shared->block, join_block_size(&block));
  }
  SharedFileSetDeleteAll(&shared->files);
  reset(shared);
}

void join_shared_worker(CustomScanState *node, shm_toc *toc, void *memory) {
  SharedJoin *shared = memory;

  SharedFileSetAttach(&shared->files, dsm_find_mapping(shared->segment));
  ((BatchJoinState *)node)->bytes_of_area = shared_memory_begin(toc);
  ((BatchJoinState *)node)->shared = shared;
}
