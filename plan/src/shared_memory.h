/*
 * Dynamic shared memory for the tables of a parallel plan, where there is enough of it.
 *
 * The bytes of all tables in a query's area are counted, under a key in the plan's table of contents.
 * Each node with such a table calls shared_memory_estimate() when core asks for its size, and
 * shared_memory_begin() when it gets its memory, in each process.
 */
#ifndef CCOPT_SHARED_MEMORY_H
#define CCOPT_SHARED_MEMORY_H

#include "postgres.h"

#include "access/parallel.h"
#include "port/atomics.h"
#include "utils/dsa.h"

typedef struct SharedBytes {
  pg_atomic_uint64 sum;
} SharedBytes;

extern void shared_memory_estimate(ParallelContext *context);
extern SharedBytes *shared_memory_begin(shm_toc *toc);

/*
 * InvalidDsaPointer if the allocation would certainly fail, as in containers with a small /dev/shm.
 * Where that cannot be known PostgreSQL's error ends the statement.
 */
extern dsa_pointer shared_memory_allocate(dsa_area *area, SharedBytes *bytes_of_area, Size bytes);
extern void shared_memory_free(dsa_area *area, SharedBytes *bytes_of_area, dsa_pointer block,
                               Size bytes);

#endif
