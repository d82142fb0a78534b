/*
 * BatchHashJoin, execution: the inner side becomes the hash table.
 */
#include "batch_join.h"

#include "miscadmin.h"

void batch_join_add_inner(BatchJoinState *state, Batch *batch) {
  CHECK_FOR_INTERRUPTS();
  key_vector_fill(state->inner_vector, batch);
  join_table_add(state->table, batch, state->inner_vector, state->traits->fill_inner);
  state->inner_rows += batch->nselected;
  state->counts.batches++;
  state->counts.rows_in += batch->nselected;
}

void batch_join_check_memory(BatchJoinState *state) {
  if (state->spill == NULL && join_table_memory(state->table) > state->memory_limit)
    join_spill_begin(state);
  else if (state->spill != NULL)
    join_spill_inner(state);
}

void batch_join_build(BatchJoinState *state) {
  Batch *batch;

  state->memory_limit = get_hash_memory_limit();
  state->inner_rows = 0;
  if (state->shared != NULL) {
    join_shared_build(state);
  } else {
    while ((batch = batch_source_next(state->inner)) != NULL) {
      batch_join_add_inner(state, batch);
      batch_join_check_memory(state);
    }
  }
  if (state->spill != NULL) return;
  if (state->table->buckets == NULL) join_table_link(state->table);
  state->table_ready = true;
}
