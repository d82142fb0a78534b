/*
 * The clock of ccopt's own measurements.
 */
#ifndef CCOPT_THREAD_TIME_H
#define CCOPT_THREAD_TIME_H

#include <time.h>

/* Processor time of this thread in ns: time of other processes does not count. */
static inline double thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

#endif
