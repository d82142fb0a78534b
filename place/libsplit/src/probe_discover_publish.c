/*
 * The file of the probe. Sets are searched among its own pages, since a page keeps its place in the cache only
 * as long as it is the same page: the file is created first, without a name; useless pages are
 * punched out, and the rest gets its name.
 */
#include "probe_discover.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  /* Sets of a probe; 256 lines with 16 ways, about 28 us (with chains 7). A section's pages have
   * random colours (a cache of 2 MB has 32): the displacement of 1 MB has a standard deviation
   * of 0.12 over 4 colours, 0.05 over 8, 0.02 over 16. */
  SETS = 16,
  COLOURS = SPLIT_PROBE_COLOURS_MAX, /* as many as sets: otherwise two sets share pages */
  SECONDS =
      /* one or two on a quiet machine, three to six with chains; at a load of 20 on two processors,
       * 10 s often brought no calm shots for the calibration */
  20,
  MOST_PAGES = 16384 /* 64 MB: if no load is slow among these, timing is impossible here */
};

struct publication {
  int folder;
  int file;
  char name[40]; /* temporary name; "": the file has none yet */
  unsigned char *mapped;
  size_t size;
  struct split_pool pool;
  struct split_probe_header header;
};

bool split_discover_stay_on(uint32_t cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return sched_setaffinity(0, sizeof(cpus), &cpus) == 0;
}

/* On another core, the search would mix two caches. */
static bool pin(cpu_set_t *before) {
  if (sched_getaffinity(0, sizeof(*before), before) != 0) return false;
  const int cpu = sched_getcpu();
  return cpu >= 0 && cpu < CPU_SETSIZE && split_discover_stay_on((uint32_t)cpu);
}

/* Higher than any generation of this boot, even if the file was lost: times only increase. */
static uint64_t next_generation(const struct publication *publication) {
  uint64_t generation = split_discover_now_ns() & ~UINT64_C(1);
  const int file =
      openat(publication->folder, SPLIT_PROBE_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return generation;
  struct split_probe_header before;
  if (pread(file, &before, sizeof(before), 0) == (ssize_t)sizeof(before) &&
      before.magic == SPLIT_PROBE_MAGIC &&
      memcmp(before.boot_id, publication->header.boot_id, sizeof(before.boot_id)) == 0 &&
      before.generation >= generation && before.generation < UINT64_MAX - 4)
    generation = (before.generation & ~UINT64_C(1)) + 2;
  (void)close(file);
  return generation;
}

static void discard(struct publication *publication) {
  if (publication->mapped != NULL) (void)munmap(publication->mapped, publication->size);
  if (publication->file >= 0) (void)close(publication->file);
  if (publication->name[0] != 0) (void)unlinkat(publication->folder, publication->name, 0);
  publication->mapped = NULL;
  publication->file = -1;
  publication->name[0] = 0;
}

/* A file without a name vanishes with the process, even if it is killed. Where this is not
 * supported: a file with a temporary name. */
static int new_file(struct publication *publication) {
  int file = openat(publication->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  (void)snprintf(publication->name, sizeof(publication->name), ".%s.%ld", SPLIT_PROBE_FILE,
                 (long)getpid());
  (void)unlinkat(publication->folder, publication->name, 0);
  file =
      openat(publication->folder, publication->name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) publication->name[0] = 0;
  return file;
}

/* Creates a file with `pages` pages after its header and maps it, with memory for each page. */
static bool lay_out(struct publication *publication, uint32_t pages) {
  discard(publication);
  publication->size = SPLIT_PROBE_HEADER_SIZE + (size_t)pages * SPLIT_PROBE_PAGE;
  publication->file = new_file(publication);
  if (publication->file < 0) return false;
  /* Space is reserved: no reader is killed (SIGBUS) because a disk is full. */
  int failed = posix_fallocate(publication->file, 0, (off_t)publication->size);
  void *mapped = failed != 0
                     ? MAP_FAILED
                     : mmap(NULL, publication->size, PROT_READ, MAP_SHARED, publication->file, 0);
  if (mapped == MAP_FAILED) {
    discard(publication);
    return false;
  }
  publication->mapped = mapped;
  (void)mlock(mapped, publication->size); /* if refused, they are still unlikely to move */
  const unsigned char *first = publication->mapped + SPLIT_PROBE_HEADER_SIZE;
  for (uint32_t page = 0; page < pages; page++)
    split_probe_load(first + (size_t)page * SPLIT_PROBE_PAGE);
  publication->pool.pages = first;
  publication->pool.count = pages;
  return true;
}

/* Uses more and more pages, until they do not fit into the cache: the size from CPUID is not
 * trusted. */
static const char *find_time_of_hits(struct publication *publication, uint32_t kilobytes) {
  for (uint32_t pages = kilobytes / 2; pages <= MOST_PAGES; pages *= 2) {
    if (!lay_out(publication, pages))
      return "no room for a file with the probe's pages; check the folder's rights and free space";
    if (pages == kilobytes / 2) split_discover_find_step(&publication->pool);
    publication->pool.timing = split_discover_timing(&publication->pool);
    if (publication->pool.timing.limit != 0) return NULL;
  }
  return "loads from L2 take as long as others here: their times show nothing";
}

static void punch_out_unused(const struct publication *publication) {
  static const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  const struct split_probe_header *header = &publication->header;
  uint32_t from = 0;
  while (from < header->pages) {
    uint32_t next = header->pages; /* the first page in use, not before `from` */
    for (uint32_t colour = 0; colour < header->colours; colour++)
      for (uint32_t way = 0; way <= header->ways; way++)
        if (header->page[colour][way] >= from && header->page[colour][way] < next)
          next = header->page[colour][way];
    if (next > from)
      (void)fallocate(publication->file, mode,
                      SPLIT_PROBE_HEADER_SIZE + (off_t)from * SPLIT_PROBE_PAGE,
                      (off_t)(next - from) * SPLIT_PROBE_PAGE);
    from = next + 1;
  }
}

static void full_sets(struct split_probe_header *header, const struct split_colour *colours,
                      uint32_t count) {
  header->ways = colours[0].ways;
  header->colours = count;
  for (uint32_t i = 0; i < count; i++) {
    memcpy(header->page[i], colours[i].page, sizeof(header->page[i]));
    memcpy(header->line[i], colours[i].line, sizeof(header->line[i]));
  }
}

/* Treats 16 random pages as a colour: as many lines, each alone in its set. */
static void random_lines(struct publication *publication) {
  struct split_probe_header *header = &publication->header;
  header->ways = 16;
  header->colours = COLOURS;
  header->random_lines = 1;
  for (uint32_t colour = 0; colour < header->colours; colour++)
    for (uint32_t way = 0; way <= header->ways; way++)
      header->page[colour][way] =
          (uint16_t)(split_random_next(&publication->pool.random) % publication->pool.count);
}

/* Each colour once: a second set of it adds little information and takes as long. With chains,
 * only four lines of each set are timed: then each colour twice. */
static uint32_t sets_of(const struct split_probe_header *header) {
  const uint32_t once = header->colours < SETS / 2 ? SETS / 2 : header->colours;
  return header->timing.most == 0 ? once : 2 * once;
}

static void fill_in(struct publication *publication, const struct split_geometry *geometry,
                    const struct split_colour *colours, uint32_t count) {
  struct split_probe_header *header = &publication->header;
  header->magic = SPLIT_PROBE_MAGIC;
  header->version = SPLIT_PROBE_VERSION;
  header->header_size = SPLIT_PROBE_HEADER_SIZE;
  header->made_ns = split_discover_now_ns();
  split_probe_boot_id(header->boot_id);
  header->generation = next_generation(publication);
  header->pages = publication->pool.count;
  header->timing = publication->pool.timing;
  header->l2_kilobytes = geometry->kilobytes;
  if (count > 0)
    full_sets(header, colours, count);
  else
    random_lines(publication);
  header->sets = sets_of(header);
  header->lines_per_set = header->ways;
}

static bool give_name(struct publication *publication) {
  if (fchmod(publication->file, 0644) != 0) return false;
  if (publication->name[0] == 0) {
    char self[40];
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", publication->file);
    (void)snprintf(publication->name, sizeof(publication->name), ".%s.%ld", SPLIT_PROBE_FILE,
                   (long)getpid());
    (void)unlinkat(publication->folder, publication->name, 0);
    if (linkat(AT_FDCWD, self, publication->folder, publication->name, AT_SYMLINK_FOLLOW) != 0) {
      publication->name[0] = 0;
      return false;
    }
  }
  if (renameat(publication->folder, publication->name, publication->folder, SPLIT_PROBE_FILE) != 0)
    return false;
  publication->name[0] = 0;
  return true;
}

/* *reason: the error or limitation. */
static enum split_probe_outcome publish(struct publication *publication,
                                        const struct split_probe_options *options,
                                        const char **reason) {
  const uint64_t start = split_discover_now_ns();
  const uint64_t seconds = options->seconds != 0 ? options->seconds : SECONDS;
  const uint64_t deadline = start + seconds * UINT64_C(1000000000);
  struct split_geometry geometry = split_discover_geometry();
  struct split_pool *pool = &publication->pool;
  pool->ways = options->ways != 0 ? options->ways : geometry.ways;
  if (pool->ways > SPLIT_PROBE_WAYS_MAX) pool->ways = SPLIT_PROBE_WAYS_MAX;
  pool->random.state = options->seed != 0 ? options->seed : UINT64_C(0x9e3779b97f4a7c15);
  pool->deadline_ns = deadline - seconds * UINT64_C(400000000); /* the rest is for calibration */

  *reason = find_time_of_hits(publication, geometry.kilobytes);
  if (*reason != NULL) return SPLIT_PROBE_IMPOSSIBLE;
  struct split_colour colours[COLOURS];
  const uint32_t wanted =
      options->colours == 0 || options->colours > COLOURS ? COLOURS : options->colours;
  const uint32_t count = split_discover_colours(pool, wanted, colours);
  /* If other threads worked on this core when it was measured, the limit is too high: the
   * quieter value is closer to the truth. */
  if (pool->step == 0) {
    const struct split_probe_timing later = split_discover_timing(pool);
    if (later.limit != 0 && later.limit < pool->timing.limit) pool->timing = later;
  }
  fill_in(publication, &geometry, colours, count);
  punch_out_unused(publication);

  /* The start should not be delayed for better calibration points. */
  const uint64_t patience = split_discover_now_ns() + UINT64_C(2500000000);
  struct split_probe view;
  split_probe_view(&view, &publication->header, pool->pages);
  bool undisturbed = false;
  const bool calibrated =
      split_discover_calibrate(&view, &publication->header, &pool->random,
                               patience < deadline ? patience : deadline, deadline, &undisturbed);
  const char *problem =
      split_probe_header_problem(&publication->header, (uint64_t)publication->size);
  if (!calibrated || publication->header.points < 2 || problem != NULL) {
    *reason = !calibrated       ? "no memory to calibrate the probe with"
              : problem == NULL ? "too much else ran here to calibrate the probe; try again later"
                                : problem;
    return SPLIT_PROBE_IMPOSSIBLE;
  }
  if (pwrite(publication->file, &publication->header, sizeof(publication->header), 0) !=
          (ssize_t)sizeof(publication->header) ||
      !give_name(publication)) {
    *reason = "probe.segment cannot be written; check the folder's rights and free space";
    return SPLIT_PROBE_IMPOSSIBLE;
  }
  if (count == 0) {
    *reason =
        "no full sets of L2 were found (too much else runs here, or its ways are hidden): "
        "random lines take their place, which detect only very large sections";
    return SPLIT_PROBE_RANDOM_LINES;
  }
  *reason = count < SETS / 2 ? "fewer colours of L2 were found than a probe uses: it is blunter"
            : undisturbed
                ? ""
                : "other programs used this core during calibration: sections seem smaller "
                  "than they are; publish again when the machine is less busy";
  return SPLIT_PROBE_FULL_SETS;
}

enum split_probe_outcome split_probe_publish(const char *directory,
                                             const struct split_probe_options *options,
                                             const char **reason) {
  const int before = errno;
  const char *unused;
  if (reason == NULL) reason = &unused;
  enum split_probe_outcome outcome = SPLIT_PROBE_IMPOSSIBLE;
  *reason = split_probe_clock_problem();
  struct publication publication = {.file = -1};
  publication.folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*reason == NULL && publication.folder < 0)
    *reason = "the folder for probe.segment cannot be opened; make it";
  if (*reason == NULL) {
    cpu_set_t allowed;
    const bool pinned = pin(&allowed);
    outcome = publish(&publication, options, reason);
    if (pinned) (void)sched_setaffinity(0, sizeof(allowed), &allowed);
  }
  discard(&publication);
  if (publication.folder >= 0) (void)close(publication.folder);
  errno = before;
  return outcome;
}

/* `ways` lines fit, one more does not, and this repeatedly: a disturbance would have to come and
 * go at the same times. (Chains are many loads.) */
static bool is_full(const struct split_probe *probe, uint32_t colour, uint32_t try,
                    const unsigned char *elsewhere) {
  const struct split_probe_header *header = &probe->header;
  const uint32_t line = (colour * 11 + try * 5 + 5) % SPLIT_PROBE_LINES;
  if (header->timing.most != 0)
    return split_discover_pages_full(probe->pages, probe->offset[colour], header->ways, line,
                                     elsewhere, &header->timing);
  for (int again = 0; again < 2; again++)
    for (uint32_t more = 0; more < 2; more++) {
      const uint32_t misses = split_discover_misses(
          probe->pages, probe->offset[colour], header->ways + more, line, header->timing.limit);
      if (!(more == 0 ? split_discover_fits(misses) : split_discover_overflows(misses)))
        return false;
    }
  return true;
}

double split_probe_verify(const struct split_probe *probe) {
  enum { TRIES = 8 };
  if (probe->header.random_lines != 0) return 1;
  const int before = errno;
  const bool chains = probe->header.timing.most != 0;
  const unsigned char *elsewhere = chains ? split_discover_elsewhere() : NULL;
  if (chains && elsewhere == NULL) {
    errno = before;
    return 1; /* no reason to doubt them */
  }
  cpu_set_t allowed;
  const bool pinned = pin(&allowed);
  bool full[SPLIT_PROBE_COLOURS_MAX] = {false};
  uint32_t count = 0;
  for (uint32_t try = 0; try < TRIES && count < probe->header.colours; try++) {
    /* A disturbance often lasts for some milliseconds. */
    if (try > 0) (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    for (uint32_t colour = 0; colour < probe->header.colours; colour++)
      if (!full[colour] && is_full(probe, colour, try, elsewhere)) {
        full[colour] = true;
        count++;
      }
  }
  if (pinned) (void)sched_setaffinity(0, sizeof(allowed), &allowed);
  split_discover_free_elsewhere(elsewhere);
  errno = before;
  return (double)count / probe->header.colours;
}
