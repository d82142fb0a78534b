/*
 * The servers' side of the occupancy probe: opens the published sets, primes and counts lines.
 * probe.h has the method.
 */
#include "probe_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

/* Number of passes that load the lines, so that they settle in their set: the replacement policy
 * is not LRU. After 3 passes, a tenth of the shots finds more than 12 % of the lines gone, after
 * 8 it is 3 %; the further passes hit, and cost 40 ns each. (Intel. On AMD, where chains are
 * timed, lines that are loaded in turn fill a set at once.) */
enum { PASSES = 8, PASSES_OF_CHAINS = 2 };
enum { CYCLES_BELIEVED = 100000 /* plausible limit of a load */ };

void split_probe_boot_id(char boot_id[40]) {
  memset(boot_id, 0, 40);
  const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  if (read(file, boot_id, 36) != 36) memset(boot_id, 0, 40);
  (void)close(file);
}

static const char *points_problem(const struct split_probe_header *header) {
  if (header->points > SPLIT_PROBE_POINTS)
    return "probe.segment: its calibration is out of bounds; let the analyzer publish again";
  uint32_t before = 0;
  for (uint32_t i = 0; i < header->points; i++) {
    const struct split_probe_point *point = &header->point[i];
    const float low = point->displaced_p10, middle = point->displaced_median,
                high = point->displaced_p90;
    /* Written so that NaN fails. */
    if (!(low >= 0 && low <= middle && middle <= high && high <= 1) || point->kilobytes <= before)
      return "probe.segment: its calibration is out of range; let the analyzer publish again";
    before = point->kilobytes;
  }
  return NULL;
}

const char *split_probe_header_problem(const struct split_probe_header *header,
                                       uint64_t file_size) {
  if (header->magic != SPLIT_PROBE_MAGIC)
    return "probe.segment is not a probe segment; remove it, and let the analyzer publish again";
  if (header->version != SPLIT_PROBE_VERSION || header->header_size != SPLIT_PROBE_HEADER_SIZE)
    return "probe.segment is of another version; use the analyzer that belongs to this libsplit";
  if (header->generation == 0 || header->generation % 2 != 0)
    return "probe.segment was not finished; let the analyzer publish again";
  if (header->pages == 0 || header->pages > SPLIT_PROBE_PAGES_MAX ||
      file_size != SPLIT_PROBE_HEADER_SIZE + (uint64_t)header->pages * SPLIT_PROBE_PAGE)
    return "probe.segment has a size that differs from its header; let the analyzer publish again";
  if (header->ways == 0 || header->ways > SPLIT_PROBE_WAYS_MAX || header->colours == 0 ||
      header->colours > SPLIT_PROBE_COLOURS_MAX || header->lines_per_set == 0 ||
      header->lines_per_set > header->ways || header->sets == 0 ||
      header->sets > SPLIT_PROBE_SETS_MAX || header->random_lines > 1)
    return "probe.segment: its geometry is out of bounds; let the analyzer publish again";
  if (header->timing.most != 0 && header->lines_per_set < SPLIT_PROBE_CHAIN)
    return "probe.segment: its geometry is out of bounds; let the analyzer publish again";
  const struct split_probe_timing *timing = &header->timing;
  if (timing->limit == 0 || timing->limit > CYCLES_BELIEVED || timing->most > CYCLES_BELIEVED ||
      (timing->most != 0 &&
       !(timing->hit >= 0 && timing->hit < timing->miss && timing->miss <= (float)timing->most)))
    return "probe.segment: its times are out of range; let the analyzer publish again";
  for (uint32_t colour = 0; colour < header->colours; colour++)
    for (uint32_t way = 0; way <= header->ways; way++)
      if (header->page[colour][way] >= header->pages ||
          header->line[colour][way] >= SPLIT_PROBE_LINES)
        return "probe.segment names pages beyond its end; let the analyzer publish again";
  char boot_id[40];
  split_probe_boot_id(boot_id);
  if (memcmp(boot_id, header->boot_id, sizeof(boot_id)) != 0)
    return "probe.segment is of another boot of this machine; start the analyzer";
  return points_problem(header);
}

void split_probe_view(struct split_probe *probe, const struct split_probe_header *header,
                      const unsigned char *pages) {
  *probe = (struct split_probe){.pages = pages, .header = *header};
  for (uint32_t colour = 0; colour < header->colours; colour++)
    for (uint32_t way = 0; way <= header->ways; way++)
      probe->offset[colour][way] = (uint32_t)header->page[colour][way] * SPLIT_PROBE_PAGE +
                                   (uint32_t)header->line[colour][way] * SPLIT_LINE;
}

/* A file that other users could change or truncate could crash this process. */
static const char *file_problem(int folder, int file, struct stat *status) {
  struct stat folder_status;
  if (fstat(file, status) != 0 || fstat(folder, &folder_status) != 0)
    return "the state of probe.segment cannot be read";
  if (!S_ISREG(status->st_mode)) return "probe.segment is not a file";
  const bool trusted =
      status->st_uid == 0 || status->st_uid == geteuid() || status->st_uid == folder_status.st_uid;
  if (!trusted || (status->st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return "probe.segment can be changed by others than its owner, or belongs to another user; "
           "remove it, and let the analyzer publish again";
  if (status->st_size < SPLIT_PROBE_HEADER_SIZE)
    return "probe.segment is cut off; let the analyzer publish again";
  return NULL;
}

static const char *map(int folder, struct split_probe **mapped) {
  const int file = openat(folder, SPLIT_PROBE_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0)
    return errno == ENOENT ? "there is no probe.segment yet; start the analyzer"
                           : "probe.segment cannot be opened; see to the folder's rights";
  struct stat status;
  struct split_probe_header header;
  const char *problem = file_problem(folder, file, &status);
  if (problem == NULL && pread(file, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
    problem = "probe.segment cannot be read";
  if (problem == NULL) problem = split_probe_header_problem(&header, (uint64_t)status.st_size);
  struct split_probe *probe = NULL;
  void *pages = MAP_FAILED;
  const size_t size = (size_t)status.st_size;
  if (problem == NULL) {
    probe = malloc(sizeof(*probe));
    pages = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    if (probe == NULL || pages == MAP_FAILED) {
      problem = "no memory for the probe";
      if (pages != MAP_FAILED) (void)munmap(pages, size);
      free(probe);
    }
  }
  (void)close(file);
  if (problem != NULL) return problem;
  split_probe_view(probe, &header, (const unsigned char *)pages + SPLIT_PROBE_HEADER_SIZE);
  probe->mapped = pages;
  probe->mapped_size = size;
  *mapped = probe;
  return NULL;
}

/* Avoids page faults while a section is measured. Only for the pages in use: the others are
 * holes, and would become memory. */
static void populate(const struct split_probe *probe) {
  for (uint32_t colour = 0; colour < probe->header.colours; colour++)
    for (uint32_t way = 0; way <= probe->header.ways; way++) {
      const unsigned char *page =
          probe->pages + (size_t)probe->header.page[colour][way] * SPLIT_PROBE_PAGE;
      if (madvise((void *)(uintptr_t)page, SPLIT_PROBE_PAGE, MADV_POPULATE_READ) != 0)
        split_probe_load(page);
    }
}

struct split_probe *split_probe_open(const char *directory, const char **reason) {
  const int before = errno;
  const char *problem = split_probe_clock_problem();
  struct split_probe *probe = NULL;
  if (problem == NULL) {
    const int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    problem = folder < 0 ? "the folder of probe.segment is not there; start the analyzer"
                         : map(folder, &probe);
    if (folder >= 0) (void)close(folder);
  }
  if (probe != NULL) populate(probe);
  if (reason != NULL) *reason = problem;
  errno = before;
  return probe;
}

void split_probe_close(struct split_probe *probe) {
  if (probe == NULL) return;
  const int before = errno;
  (void)munmap(probe->mapped, probe->mapped_size);
  free(probe);
  errno = before;
}

uint64_t split_probe_generation(const struct split_probe *probe) {
  return probe->header.generation;
}
uint32_t split_probe_cost_cycles(const struct split_probe *probe) {
  return probe->header.cost_cycles;
}
const struct split_probe_header *split_probe_published(const struct split_probe *probe) {
  return &probe->header;
}

/* A set of a turn: a colour, and one of its lines. Turns go through all colours and, line by
 * line, through their pages. */
struct set {
  uint32_t line;
  const uint32_t *offset;
};
static inline struct set set_of(const struct split_probe *probe, uint32_t turn, uint32_t set) {
  const uint32_t number = turn * probe->header.sets + set, colours = probe->header.colours;
  const uint32_t colour = number % colours;
  /* 37 is odd: all 64 lines come before the first comes again. 11: lines of a turn's sets
   * differ, so that L1 has no room for them. */
  const uint32_t line = (number / colours * 37 + colour * 11) % SPLIT_PROBE_LINES;
  return (struct set){.line = line, .offset = probe->offset[colour]};
}

static inline const unsigned char *line_of(const struct split_probe *probe, const struct set *set,
                                           uint32_t way) {
  return split_probe_line(probe->pages, set->offset[way], set->line);
}

void split_probe_prime(const struct split_probe *probe, uint32_t turn) {
  const uint32_t sets = probe->header.sets, lines = probe->header.lines_per_set,
                 passes = probe->header.timing.most == 0 ? PASSES : PASSES_OF_CHAINS;
  for (uint32_t i = 0; i < sets; i++) {
    const struct set set = set_of(probe, turn, i);
    for (uint32_t pass = 0; pass < passes; pass++)
      for (uint32_t way = 0; way < lines; way++) split_probe_load(line_of(probe, &set, way));
  }
  split_probe_fence();
}

static uint32_t count_loads(const struct split_probe *probe, uint32_t turn, uint32_t *lines) {
  const uint32_t sets = probe->header.sets, per_set = probe->header.lines_per_set,
                 limit = probe->header.timing.limit;
  uint32_t gone = 0;
  for (uint32_t i = sets; i-- > 0;) {
    const struct set set = set_of(probe, turn, i);
    for (uint32_t way = per_set; way-- > 0;)
      gone += split_probe_timed_load(line_of(probe, &set, way)) > limit;
  }
  *lines = sets * per_set;
  return gone;
}

/* Times a chain for each set, of the lines that were loaded last. If all of its lines were
 * loaded, those that are gone would displace some of the others first: replacement is tree
 * pseudo-LRU, and of 8 lines 1.1 would be gone where the section replaced 0.5. */
static uint32_t count_chains(const struct split_probe *probe, uint32_t turn, uint32_t *lines) {
  const struct split_probe_timing timing = probe->header.timing;
  struct split_probe_chains chains = {0};
  for (uint32_t i = probe->header.sets; i-- > 0;) {
    const struct set set = set_of(probe, turn, i);
    const unsigned char *line[SPLIT_PROBE_CHAIN];
    for (uint32_t j = 0; j < SPLIT_PROBE_CHAIN; j++)
      line[j] = line_of(probe, &set, probe->header.lines_per_set - 1 - j);
    split_probe_chains_time(&chains, &timing, line);
  }
  *lines = chains.count * SPLIT_PROBE_CHAIN;
  return split_probe_chains_gone(&chains, &timing);
}

/* Backwards: the lines loaded last come first, so that a line that was gone displaces the fewest
 * of those still to be checked. */
uint32_t split_probe_count(const struct split_probe *probe, uint32_t turn, uint32_t *lines) {
  /* Code that has not run for a while is slow: see split_probe_timed_load_alone. */
  if (probe->header.timing.most != 0) {
    (void)split_probe_timed_nothing();
    return count_chains(probe, turn, lines);
  }
  const unsigned char warm[4] = {0};
  (void)split_probe_timed_load(warm);
  return count_loads(probe, turn, lines);
}

uint32_t split_probe_chains_gone(const struct split_probe_chains *chains,
                                 const struct split_probe_timing *timing) {
  const float count = (float)chains->count,
              longer = (float)chains->cycles - (float)chains->itself - count * timing->hit,
              share = longer / (count * (timing->miss - timing->hit));
  const uint32_t loads = chains->count * SPLIT_PROBE_CHAIN;
  return !(share > 0) ? 0 : share >= 1 ? loads : (uint32_t)(share * (float)loads + 0.5F);
}

double split_probe_kilobytes(const struct split_probe *probe, double displaced) {
  const struct split_probe_header *header = &probe->header;
  double kilobytes = 0, share = 0;
  for (uint32_t i = 0; i < header->points; i++) {
    const struct split_probe_point *point = &header->point[i];
    if (point->displaced_median >= displaced) {
      const double span = (double)point->displaced_median - share;
      const double part = span > 0 ? (displaced - share) / span : 0;
      return kilobytes + (part > 0 ? part : 0) * (point->kilobytes - kilobytes);
    }
    kilobytes = point->kilobytes;
    share = point->displaced_median > share ? point->displaced_median : share;
  }
  return kilobytes;
}

/* Nearer to the large ones: other load only adds to the lines that are gone, so small sections
 * have the longer tail. Medians, since single quantiles depend more on other load during
 * calibration. */
static double between(const struct split_probe_point *small,
                      const struct split_probe_point *large) {
  const double low = small->displaced_median, high = large->displaced_median;
  return low + (high - low) * 3 / 5;
}

double split_probe_threshold(const struct split_probe *probe, uint32_t small, uint32_t large) {
  const struct split_probe_point *found[2] = {NULL, NULL};
  for (uint32_t i = 0; i < probe->header.points; i++) {
    const struct split_probe_point *point = &probe->header.point[i];
    if (point->kilobytes == small) found[0] = point;
    if (point->kilobytes == large) found[1] = point;
  }
  return found[0] == NULL || found[1] == NULL ? -1 : between(found[0], found[1]);
}
