/* The analyzer's use of the published probe after its discovery.
 *
 * The header of probe.segment is returned as a flat structure, so that only probe.h knows its
 * layout. */
#include "probe.h"
#include "probe_discover.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct split_probe_summary {
  uint64_t generation;
  uint32_t ways, colours, random_lines, cost_cycles, points;
  struct split_probe_point point[SPLIT_PROBE_POINTS];
};

/* Returns 0, or -1 if no readable probe is published. */
int split_probe_summarize(const char *directory, struct split_probe_summary *summary) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/probe.segment", directory) >= (int)sizeof path) return -1;
  int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return -1;
  struct split_probe_header header;
  ssize_t length = pread(file, &header, sizeof header, 0);
  close(file);
  if (length != (ssize_t)sizeof header || header.magic != SPLIT_PROBE_MAGIC ||
      header.version != SPLIT_PROBE_VERSION || header.points > SPLIT_PROBE_POINTS)
    return -1;
  summary->generation = atomic_load(&header.generation);
  summary->ways = header.ways;
  summary->colours = header.colours;
  summary->random_lines = header.random_lines;
  summary->cost_cycles = header.cost_cycles;
  summary->points = header.points;
  for (uint32_t point = 0; point < header.points; point++)
    summary->point[point] = header.point[point];
  return 0;
}

/* The shots of one length: their number, the sums of their shares, of the squares, and of their
 * cycles. */
struct split_probe_idle {
  uint32_t shots;
  double shares, squares, cycles;
};

/* Measures the evictions while only a loop that reads the clock runs: they are caused by other
 * work. Two lengths alternate, because some lines always count as evicted, however short the
 * wait; shots across a context switch are dropped. */
void split_probe_idle(const struct split_probe *probe, uint32_t shots,
                      const uint32_t nanoseconds[2], struct split_probe_idle idle[2]) {
  for (uint32_t shot = 0; shot < shots; shot++)
    for (int which = 0; which < 2; which++) {
      uint64_t cycles;
      const double share = split_discover_gone_meanwhile(probe, 2 * shot + (uint32_t)which,
                                                         nanoseconds[which], &cycles);
      if (share < 0) continue;
      idle[which].shots++;
      idle[which].shares += share;
      idle[which].squares += share * share;
      idle[which].cycles += (double)cycles;
    }
}
