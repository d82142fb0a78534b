#include "calm.h"

#include "probe_discover.h"

#include <sched.h>
#include <stdlib.h>

enum { LOOKS = 3, CPUS_MAX = 64 };

static int by_size(const void *left, const void *right) {
  const float a = *(const float *)left, b = *(const float *)right;
  return (a > b) - (a < b);
}

static double median(float *shares, uint32_t count) {
  qsort(shares, count, sizeof(*shares), by_size);
  return count > 0 ? (double)shares[count / 2] : 1;
}

static double larger(double left, double right) { return left > right ? left : right; }

struct section_calm section_calm(const struct split_probe *probe) {
  struct section_calm calm = {0};
  uint32_t cpus[CPUS_MAX], count = 0;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return (struct section_calm){1, 1};
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < CPUS_MAX; cpu++)
    if (CPU_ISSET(cpu, &allowed)) cpus[count++] = cpu;
  for (uint32_t which = 0; which < count; which++) {
    /* The one that is looked at comes first, the others behind it. */
    const uint32_t looked_at = cpus[which];
    cpus[which] = cpus[0];
    cpus[0] = looked_at;
    struct split_looks found;
    if (!split_discover_look(probe, looked_at, cpus + 1, count - 1, LOOKS, &found))
      return (struct section_calm){1, 1};
    calm.by_strangers = larger(calm.by_strangers, median(found.while_resting, found.resting));
    if (count > 1)
      calm.by_ours = larger(calm.by_ours, median(found.while_streaming, found.streaming));
  }
  return calm;
}
