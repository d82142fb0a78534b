/*
 * Checks whether single loads can be timed here at all, before any of it is tried: an illegal
 * instruction would end the process.
 */
#include "probe_private.h"

#if defined(__x86_64__)
#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *split_probe_clock_problem(void) {
  const int before = errno;
  int mode = PR_TSC_ENABLE;
  const char *problem = NULL;
  /* A sandbox may have disabled CPUID or the time stamp counter: they then raise SIGSEGV. */
  if (syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 0)
    problem = "this process may not use CPUID; the probe is off";
  else if (prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode != PR_TSC_ENABLE)
    problem = "this process may not read the time stamp counter; the probe is off";
  errno = before;
  if (problem != NULL) return problem;
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (d & 1u << 4) == 0)
    return "this processor has no time stamp counter; the probe is off";
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & 1u << 8) == 0)
    return "the time stamp counter of this processor changes its pace; the probe is off";
  return NULL;
}

/* Fences on both sides: nothing earlier is counted, nothing later starts. A separate function,
 * not inline: the same instructions at the same address time all lines. */
uint32_t split_probe_timed_load(const unsigned char *line) {
  uint32_t started, ended, high, value;
  __asm__ volatile(
      "lfence\n\trdtsc\n\tlfence\n\t"
      "movl %%eax, %[started]\n\t"
      "movl (%[line]), %[value]\n\t"
      "lfence\n\trdtsc"
      : [started] "=&r"(started), [value] "=&r"(value), "=&a"(ended), "=&d"(high)
      : [line] "r"(line)
      : "memory");
  (void)value;
  (void)high;
  return ended - started;
}

/* The loaded value, with all its bits masked out, is the index of the next one: each load waits
 * for the previous one, whatever the lines contain. */
uint32_t split_probe_timed_chain(const unsigned char *const line[SPLIT_PROBE_CHAIN]) {
  uint32_t started, ended, high;
  uint64_t value;
  _Static_assert(SPLIT_PROBE_CHAIN == 4, "as many loads");
  __asm__ volatile(
      "lfence\n\trdtsc\n\tlfence\n\t"
      "movl %%eax, %[started]\n\t"
      "movl (%[a]), %k[value]\n\t"
      "andl $0, %k[value]\n\t"
      "movl (%[b],%[value]), %k[value]\n\t"
      "andl $0, %k[value]\n\t"
      "movl (%[c],%[value]), %k[value]\n\t"
      "andl $0, %k[value]\n\t"
      "movl (%[d],%[value]), %k[value]\n\t"
      "lfence\n\trdtsc"
      : [started] "=&r"(started), [value] "=&r"(value), "=&a"(ended), "=&d"(high)
      : [a] "r"(line[0]), [b] "r"(line[1]), [c] "r"(line[2]), [d] "r"(line[3])
      : "memory", "cc");
  (void)value;
  (void)high;
  return ended - started;
}

uint32_t split_probe_timed_nothing(void) {
  static const unsigned char zeros[SPLIT_LINE];
  return split_probe_timed_chain((const unsigned char *[]){zeros, zeros, zeros, zeros});
}
#else
uint32_t split_probe_timed_nothing(void) { return 0; }
uint32_t split_probe_timed_chain(const unsigned char *const line[SPLIT_PROBE_CHAIN]) {
  for (uint32_t i = 0; i < SPLIT_PROBE_CHAIN; i++) split_probe_load(line[i]);
  return 0;
}
uint32_t split_probe_timed_load(const unsigned char *line) {
  split_probe_load(line);
  return 0;
}
const char *split_probe_clock_problem(void) { return "the probe knows x86-64 processors only"; }
#endif
