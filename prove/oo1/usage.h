/* Clocks, and what the kernel counts of this process. */
#ifndef OO1_USAGE_H
#define OO1_USAGE_H

#include <stdint.h>
#include <time.h>

static inline uint64_t oo1_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef struct oo1_usage {
  uint64_t minor_faults, major_faults;
  uint64_t read_calls, read_bytes; /* bytes: from the device */
} oo1_usage;

oo1_usage oo1_usage_now(void);
void oo1_memory_now(uint64_t *resident, uint64_t *peak);

#endif
