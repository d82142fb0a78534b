/*
 * The operation of a visit. In a separate translation unit, so that compilers cannot see that
 * the timed one is empty.
 */
#ifndef OO1_NULL_PROC_H
#define OO1_NULL_PROC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Visits a part in the timed pass. `type` has ten bytes. */
void oo1_null_proc(uint32_t x, uint32_t y, const char *type);

/* Visits a part in the checking pass: adds to the tally. */
void oo1_look(uint32_t id, uint32_t x, uint32_t y, const char *type);

typedef struct oo1_tally {
  uint64_t checksum;
  uint64_t visited;
} oo1_tally;
extern oo1_tally oo1_seen;

#ifdef __cplusplus
}
#endif

#endif
