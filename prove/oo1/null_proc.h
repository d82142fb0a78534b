/*
 * What a visit does. In a translation unit of its own, so that no compiler can see that the timed
 * one does nothing.
 */
#ifndef OO1_NULL_PROC_H
#define OO1_NULL_PROC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the timed pass. `type` has ten bytes. */
void oo1_null_proc(uint32_t x, uint32_t y, const char *type);

/* Of the pass that looks: adds to the tally. */
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
