/*
 * Whether dynamic shared memory can be allocated.
 */
#ifndef CCOPT_SHARED_MEMORY_H
#define CCOPT_SHARED_MEMORY_H

#include "postgres.h"

/*
 * False if an allocation of this size in a query's area would certainly fail, as in containers with a
 * small /dev/shm. Where that cannot be known, true: then PostgreSQL's error ends the statement.
 */
extern bool shared_memory_has(Size bytes);

#endif
