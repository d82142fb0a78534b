/*
 * Replaces the segment and the analyzer in tests of the class queues: keys are one byte, the code;
 * the test sets decisions.
 */
#ifndef FAKE_DECIDED_H
#define FAKE_DECIDED_H

#include "decided.h"

enum { FAKE_CODES = 64 };

void fake_reset(void);
void fake_place(bool on);
/* Routes kind `code` to `queue`, on the CPUs of `mask`. */
void fake_decide(uint8_t code, uint32_t queue, uint64_t mask);
void fake_decide_as(uint8_t code, uint8_t actuation, uint32_t queue, uint64_t mask);
/* The kernel refuses these CPUs. */
void fake_refuse(uint64_t mask);

#endif
