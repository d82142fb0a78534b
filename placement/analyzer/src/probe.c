/* What the analyzer tells of the published probe: the header of probe.segment as a flat structure, so that probe.h alone knows how it
 * lies there. */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct split_probe_summary {
  uint64_t generation;
  uint32_t ways, colours, random_lines, cost_cycles, points;
  struct split_probe_point point[SPLIT_PROBE_POINTS];
};

/* 0, or -1: nothing is published that can be read. */
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
