/*
 * AdaptiveJoin, execution: one hash table for all processes of a parallel plan.
 *
 *   NONE ─> BUILDING ─> READY        all processes attach between two of their outer rows
 *               ├─────> TOO_LARGE    does not fit into work_mem: all look up
 *               └─────> NO_MEMORY    no shared memory: the builder keeps its table, others build theirs
 *
 * The first process that decides to build does so alone. No process waits: the others look rows up
 * until the table is ready.
 *
 * Invariants:
 *  1. Only the process that changed NONE to BUILDING writes `block`, `bytes` and `nrows`, before it
 *     changes BUILDING.
 *  2. A block does not change once it is READY, and depends on no outer row: it stays valid if the
 *     workers are started again.
 *  3. A builder that fails ends the statement.
 */
#include "adaptive_join.h"

#include "costs.h"
#include "port/atomics.h"

typedef enum SharedPhase {
  SHARED_NONE,
  SHARED_BUILDING,
  SHARED_READY,
  SHARED_TOO_LARGE,
  SHARED_NO_MEMORY
} SharedPhase;

struct AdaptiveShared {
  pg_atomic_uint32 phase;
  int workers; /* that the plan asks for */
  dsa_pointer block;
  Size bytes;
  uint64 nrows;
};

Size adaptive_shared_size(void) { return sizeof(AdaptiveShared); }

void adaptive_shared_init(AdaptiveShared *shared, int workers) {
  pg_atomic_init_u32(&shared->phase, SHARED_NONE);
  shared->workers = workers;
}

void adaptive_shared_reset(AdaptiveShared *shared) {
  if (!adaptive_shared_is_ready(shared)) pg_atomic_write_u32(&shared->phase, SHARED_NONE);
}

double adaptive_shared_processes(const AdaptiveShared *shared) {
  return process_divisor(shared->workers);
}

bool adaptive_shared_is_ready(AdaptiveShared *shared) {
  return pg_atomic_read_u32(&shared->phase) == SHARED_READY;
}

bool adaptive_shared_has_failed(AdaptiveShared *shared) {
  uint32 phase = pg_atomic_read_u32(&shared->phase);
  return phase == SHARED_TOO_LARGE || phase == SHARED_NO_MEMORY;
}

AdaptiveTask adaptive_shared_claim(AdaptiveShared *shared) {
  uint32 phase = SHARED_NONE;

  if (pg_atomic_compare_exchange_u32(&shared->phase, &phase, SHARED_BUILDING))
    return ADAPTIVE_BUILD_SHARED;
  switch ((SharedPhase)phase) {
    case SHARED_TOO_LARGE: return ADAPTIVE_GIVE_UP;
    case SHARED_NO_MEMORY: return ADAPTIVE_BUILD_PRIVATE;
    default: return ADAPTIVE_LOOK_UP;
  }
}

/* What was written before is seen by those that see the phase. */
static void finish(AdaptiveShared *shared, SharedPhase phase) {
  pg_write_barrier();
  pg_atomic_write_u32(&shared->phase, phase);
}

bool adaptive_shared_publish(AdaptiveShared *shared, const AdaptiveTable *table, dsa_area *area,
                             SharedBytes *bytes_of_area) {
  Size bytes = table == NULL ? 0 : adaptive_table_block_size(table);

  if (table != NULL) shared->block = shared_memory_allocate(area, bytes_of_area, bytes);
  if (table == NULL || !DsaPointerIsValid(shared->block)) {
    finish(shared, table == NULL ? SHARED_TOO_LARGE : SHARED_NO_MEMORY);
    return false;
  }
  adaptive_table_copy(table, dsa_get_address(area, shared->block));
  shared->bytes = bytes;
  shared->nrows = adaptive_table_rows(table);
  finish(shared, SHARED_READY);
  return true;
}

AdaptiveTable *adaptive_shared_attach(AdaptiveShared *shared, int nkeys, dsa_area *area) {
  pg_read_barrier();
  return adaptive_table_attach(nkeys, dsa_get_address(area, shared->block), shared->bytes,
                               shared->nrows);
}
