/*
 * The shapes that are remembered: a table of fixed size, the server's if the library was preloaded
 * by shared_preload_libraries, else the session's own. When it is full, the shape that was used
 * longest ago gives way.
 *
 * One lock for all of it. It is taken once for each planning and each execution of a statement with
 * nodes of ours, which are statements of a millisecond and more; nothing is computed under it but
 * arithmetic, and no error is thrown.
 */
#ifndef CCOPT_SHAPE_MEMORY_H
#define CCOPT_SHAPE_MEMORY_H

#include "shape_verdict.h"

#define SHAPE_PLACES 256

extern void shape_memory_register(void);

extern void shape_memory_lock(void);
extern void shape_memory_unlock(void);

/* Valid while the lock is held. NULL if it is not there; `make` puts a new one there. */
extern Shape *shape_find(uint64 key, bool make);
/* Place `i` of SHAPE_PLACES, free or not. */
extern Shape *shape_at(int i);
extern void shape_drop(Shape *shape);

/* Signs of queries that had a shape. Without the lock: a sign that is missed is added the next time. */
extern bool sign_is_known(uint32 sign);
extern void sign_add(uint32 sign);
extern void shape_memory_in_use(void);

extern bool shape_memory_is_shared(void);

#endif
