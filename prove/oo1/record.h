/* A part as a record: the result of a fetch in records.h. */
#ifndef OO1_RECORD_H
#define OO1_RECORD_H

#include "graph.h"

typedef struct oo1_record {
  uint32_t id, x, y;
  char type[OO1_TYPE_BYTES];
  uint32_t to[OO1_OUT]; /* ids; not filled in if only the part was requested */
} oo1_record;

#endif
