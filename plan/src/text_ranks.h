/*
 * Different values of a text column, each kept once and numbered as it comes; and their order.
 */
#ifndef CCOPT_TEXT_RANKS_H
#define CCOPT_TEXT_RANKS_H

#include "batch.h"

typedef struct TextRanks TextRanks;
struct Bump;

/* Of text or bpchar, ordered by `operator` and `collation`. Values are copied by `copies`. */
extern TextRanks *text_ranks_create(ColumnKind kind, Oid operator, Oid collation,
                                    MemoryContext context, struct Bump *copies);
/* The number of a value in the form that it has in a tuple; equal values have the same. */
extern uint32 text_ranks_number(TextRanks *ranks, const char *value);
/* The kept value with a number. */
extern const char *text_ranks_value(const TextRanks *ranks, uint32 number);
/* After all values came: places in the order, by number. */
extern const uint32 *text_ranks_order(TextRanks *ranks);
/* Bytes that are not in `copies`. */
extern Size text_ranks_memory(const TextRanks *ranks);

#endif
