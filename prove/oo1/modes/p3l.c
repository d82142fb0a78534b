/*
 * P3L in C: with the compiler plugin (P3L_QUALIFIED, which p3l-clang defines), pointers are
 * plain and the compiler inserts checks; without it, P3L_LD checks.
 */
#include <string.h>

#ifdef P3L_QUALIFIED
#include <p3l_qualifier.h>
#define OO1_REF(T) struct T persistent *
#define OO1_PTR(T) struct T persistent *
#define OO1_GET(T, slot) (slot)
#define OO1_SET(slot, p) ((slot) = (p))
#define OO1_DIRTY(T, p) ((void)(p)) /* the compiler marks its writes */
#else
#include <p3l.h>
#define OO1_REF(T) struct T *
#define OO1_PTR(T) struct T *
#define OO1_GET(T, slot) P3L_LD(slot)
#define OO1_SET(slot, p) P3L_SET(slot, p)
#define OO1_DIRTY(T, p) p3l_dirty(p, sizeof(struct T))
#endif

#define OO1_AT(T, p) (p)
#define OO1_GET_OR_NULL(T, slot) OO1_GET(T, slot)
#define OO1_DROP(p) ((void)(p))
#define OO1_EMPTY(slot) ((slot) == NULL)
/* Copied unchanged, surrogate or not: the pointer is not followed, so its object need not be
 * loaded. */
#define OO1_COPY(to, from) \
  (p3l_dirty(&(to), sizeof(to)), memcpy((void *)&(to), (const void *)&(from), sizeof(to)))
#define OO1_NEW(T, near, from) \
  ((OO1_PTR(T))made((void *)p3l_allocate(the_store, &DESCRIPTION(T), 1, (const void *)(near))))
#define DESCRIPTION(T) DESCRIPTION_OF(T)
#define DESCRIPTION_OF(T) p3l_type_of_##T

#include "schema.h"

#ifdef P3L_QUALIFIED
#define DESCRIBE(T, ...) P3L_PERSISTENT(T, struct T, 1)
#else
#define DESCRIBE(T, ...) P3L_TYPE(T, struct T, 1, __VA_ARGS__)
#endif
#ifdef OO1_PAPER
DESCRIBE(oo1_part, P3L_POINTERS(struct oo1_part, to));
#else
DESCRIBE(oo1_part, P3L_POINTERS(struct oo1_part, to), P3L_POINTERS(struct oo1_part, from));
DESCRIBE(oo1_connection, P3L_POINTERS(struct oo1_connection, from),
         P3L_POINTERS(struct oo1_connection, to), P3L_POINTERS(struct oo1_connection, next));
#endif
DESCRIBE(oo1_leaf, P3L_POINTERS(struct oo1_leaf, part));
DESCRIBE(oo1_branch, P3L_POINTERS(struct oo1_branch, leaf));
DESCRIBE(oo1_root, P3L_POINTERS(struct oo1_root, branch));

#include "p3l_store.h"

#include "database.h"
