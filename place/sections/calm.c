#include "calm.h"

#include "probe_discover.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 3, CACHES_MAX = 16, NAME_MAX_BYTES = 256 };

/* The kernel's name of the L2 cache of this processor; the processor's own number if the kernel
 * has none. */
static void name_of_cache(uint32_t cpu, char *name) {
  char path[128], level[8] = "";
  snprintf(name, NAME_MAX_BYTES, "%u", (unsigned)cpu);
  for (unsigned index = 0; index < 8; index++) {
    static const char *const format = "/sys/devices/system/cpu/cpu%u/cache/index%u/%s";
    snprintf(path, sizeof(path), format, (unsigned)cpu, index, "level");
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    const bool l2 = fgets(level, sizeof(level), file) != NULL && strcmp(level, "2\n") == 0;
    fclose(file);
    if (!l2) continue;
    snprintf(path, sizeof(path), format, (unsigned)cpu, index, "shared_cpu_list");
    file = fopen(path, "re");
    if (file == NULL) return;
    if (fgets(name, NAME_MAX_BYTES, file) == NULL)
      snprintf(name, NAME_MAX_BYTES, "%u", (unsigned)cpu);
    fclose(file);
    return;
  }
}

/* A processor of each L2 that this thread may use. */
static uint32_t one_of_each_cache(uint32_t *cpus) {
  char names[CACHES_MAX][NAME_MAX_BYTES];
  uint32_t count = 0;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  for (uint32_t cpu = 0; cpu < CPU_SETSIZE && count < CACHES_MAX; cpu++) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    uint32_t same = 0;
    name_of_cache(cpu, names[count]);
    while (strcmp(names[same], names[count]) != 0) same++;
    if (same == count) cpus[count++] = cpu;
  }
  return count;
}

static int by_size(const void *left, const void *right) {
  const float a = *(const float *)left, b = *(const float *)right;
  return (a > b) - (a < b);
}

static void raise_to_median(double *share, float *shares, uint32_t count) {
  qsort(shares, count, sizeof(*shares), by_size);
  const double median = count > 0 ? (double)shares[count / 2] : 1;
  if (median > *share) *share = median;
}

struct section_calm section_calm(const struct split_probe *probe) {
  uint32_t cpus[CACHES_MAX];
  const uint32_t count = one_of_each_cache(cpus);
  struct section_calm calm = {0};
  for (uint32_t which = 0; which < count; which++) {
    /* The measured processor comes first, then the others. */
    const uint32_t looked_at = cpus[which];
    cpus[which] = cpus[0];
    cpus[0] = looked_at;
    struct split_looks found;
    if (!split_discover_look(probe, looked_at, cpus + 1, count - 1, LOOKS, &found))
      return (struct section_calm){1, 1};
    raise_to_median(&calm.by_strangers, found.while_resting, found.resting);
    if (count > 1) raise_to_median(&calm.by_ours, found.while_streaming, found.streaming);
  }
  return count > 0 ? calm : (struct section_calm){1, 1};
}
