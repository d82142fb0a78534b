/* Internals of admission, for its test. */
#ifndef SPLIT_ADMISSION_INSIDE_H
#define SPLIT_ADMISSION_INSIDE_H

#include <stdint.h>

/* A lock that is older, in ns, is taken over: its thread died or was suspended. A test in which no
 * thread dies makes it longer than any suspension. */
extern uint64_t split_admission_lock_ns;

#endif
