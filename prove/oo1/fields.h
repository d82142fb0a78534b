/* The slots in the benchmark's structures, for image.h. Include after schema.h. */
#include <stddef.h>

#include "image.h"
#include "schema.h"

#define FIELD(T, field)                                               \
  {                                                                   \
    (uint32_t) offsetof(struct T, field),                             \
        (uint32_t)(sizeof(((struct T *)0)->field) / sizeof(uint64_t)) \
  }
#define FIELDS(T, ...) \
  __attribute__((unused)) static const image_field fields_of_##T[] = {__VA_ARGS__, {0, 0}}

#ifdef OO1_PAPER
FIELDS(oo1_part, FIELD(oo1_part, to));
#else
FIELDS(oo1_part, FIELD(oo1_part, to), FIELD(oo1_part, from));
FIELDS(oo1_connection, FIELD(oo1_connection, from), FIELD(oo1_connection, to),
       FIELD(oo1_connection, next));
#endif
FIELDS(oo1_leaf, FIELD(oo1_leaf, part));
FIELDS(oo1_branch, FIELD(oo1_branch, leaf));
FIELDS(oo1_root, FIELD(oo1_root, branch));
#undef FIELD
#undef FIELDS
