/*
 * The remembered shapes: a table of fixed size, shared by the server if the library was preloaded
 * by shared_preload_libraries, otherwise the session's own. When it is full, the shape that was
 * used longest ago is replaced.
 *
 * One lock guards the whole table. It is taken once for each planning and each execution of a
 * statement with ccopt's nodes, which take a millisecond or more; under it only arithmetic is done,
 * and no error is thrown.
 */
#ifndef CCOPT_SHAPE_MEMORY_H
#define CCOPT_SHAPE_MEMORY_H

#include "shape_verdict.h"

#define SHAPE_PLACES 256

extern void shape_memory_register(void);

extern void shape_memory_lock(void);
extern void shape_memory_unlock(void);

/*
 * Finds a shape; the result is valid while the lock is held. If it is missing: NULL, or with `make`
 * a new one.
 */
extern Shape *shape_find(uint64 key, bool make);
/* Entry `i` of SHAPE_PLACES, free or used. */
extern Shape *shape_at(int i);
extern void shape_drop(Shape *shape);

/*
 * Signs of queries that had a shape. Used without the lock: a sign that is lost is added the next
 * time.
 */
extern bool sign_is_known(uint32 sign);
extern void sign_add(uint32 sign);
extern void shape_memory_in_use(void);

extern bool shape_memory_is_shared(void);

#endif
