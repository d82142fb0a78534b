/*
 * The library's clock: the processor's time stamp counter, which is common to all CPUs of a machine
 * and needs no system call.
 */
#ifndef SPLIT_CYCLES_H
#define SPLIT_CYCLES_H

#include <stdint.h>
#include <time.h>

static inline uint64_t split_cycles(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
#error "no time stamp counter is known on this processor"
#endif
}

static inline uint64_t split_clock_ns(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The number of cycles per second; the measurement takes some milliseconds. */
uint64_t split_cycles_per_second(void);

#endif
