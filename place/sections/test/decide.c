/*
 * split-decide: writes decisions into a segment in the analyzer's place. For tests and comparisons
 * that need a known decision: it writes each 20 ms a heartbeat, and the decisions for those kinds
 * that exist by then.
 *
 *   split-decide --directory DIR --app 7 --as soft --seconds 10 /clean/C=sensitive:0:1 /dirty/C=polluter:1:2
 *
 * A kind's label, its class, its queue, and its processors as a hexadecimal mask (of the first 64).
 */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct wanted {
  const char *label;
  size_t length;
  enum split_class class_;
  uint32_t queue;
  uint64_t mask;
};

static const char *const classes[SPLIT_CLASSES] = {"unknown", "short", "polluter", "sensitive",
                                                   "neutral"};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool parse_wanted(char *text, struct wanted *wanted) {
  char *equals = strrchr(text, '='), name[16];
  unsigned queue;
  unsigned long long mask;
  if (equals == NULL || sscanf(equals, "=%15[a-z]:%u:%llx", name, &queue, &mask) != 3) return false;
  *wanted = (struct wanted){
      .label = text, .length = (size_t)(equals - text), .queue = queue, .mask = mask};
  for (unsigned i = 0; i < SPLIT_CLASSES; i++) {
    if (strcmp(name, classes[i]) != 0) continue;
    wanted->class_ = (enum split_class)i;
    return true;
  }
  return false;
}

static void decide(struct split_decision *decision, const struct wanted *wanted,
                   enum split_actuation actuation) {
  const bool same = decision->class_ == wanted->class_ && decision->actuation == actuation &&
                    decision->queue == wanted->queue && decision->cpu_mask[0] == wanted->mask;
  if (same) return;
  const uint32_t sequence = atomic_load(&decision->sequence);
  atomic_store(&decision->sequence, sequence | 1);
  decision->class_ = (uint8_t)wanted->class_;
  decision->actuation = (uint8_t)actuation;
  decision->queue = wanted->queue;
  decision->cpu_mask[0] = wanted->mask;
  for (unsigned i = 1; i < SPLIT_CPUS_MAX / 64; i++) decision->cpu_mask[i] = 0;
  atomic_store(&decision->sequence, (sequence | 1) + 1);
}

static void decide_all(char *segment, const struct wanted *wanted, int wanteds,
                       enum split_actuation actuation) {
  struct split_header *header = (struct split_header *)segment;
  struct split_kind *kinds = (struct split_kind *)(segment + header->kinds_at);
  struct split_decision *decisions = (struct split_decision *)(segment + header->decisions_at);
  for (uint32_t code = 2; code < header->kinds; code++) {
    const struct split_kind *kind = &kinds[code];
    if (atomic_load(&kind->state) != SPLIT_KIND_READY) continue;
    for (int i = 0; i < wanteds; i++)
      if (kind->label_length == wanted[i].length &&
          memcmp(kind->label, wanted[i].label, wanted[i].length) == 0)
        decide(&decisions[code], &wanted[i], actuation);
  }
  atomic_store(&header->placement_on, 1);
  atomic_store(&header->heartbeat_ns, now_ns());
}

/* NULL: it does not exist yet, or is not a segment of libsplit. */
static char *map_segment(const char *directory, unsigned app) {
  char path[4096];
  struct stat status;
  const int length = snprintf(path, sizeof(path), "%s/app-%x.segment", directory, app);
  if (length < 0 || (size_t)length >= sizeof(path)) return NULL;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  char *mapped = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size > SPLIT_HEADER_SIZE)
    mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return NULL;
  const struct split_header *header = (const struct split_header *)mapped;
  const uint64_t size = (uint64_t)status.st_size;
  if (header->magic == SPLIT_SEGMENT_MAGIC && header->version == SPLIT_SEGMENT_VERSION &&
      header->kinds <= SPLIT_KINDS_MAX && header->kinds_at < size && header->decisions_at < size &&
      header->decisions_at + header->kinds * sizeof(struct split_decision) <= size)
    return mapped;
  (void)munmap(mapped, (size_t)status.st_size);
  return NULL;
}

static int wrong(const char *what) {
  fprintf(stderr,
          "split-decide: %s\n  split-decide --directory DIR --app N [--as soft|lazy|paper] "
          "[--seconds S] LABEL=CLASS:QUEUE:MASK ...\n",
          what);
  return 2;
}

int main(int argc, char **argv) {
  enum { DIRECTORY = 1, APP, AS, SECONDS };
  static const struct option names[] = {{"directory", 1, NULL, DIRECTORY},
                                        {"app", 1, NULL, APP},
                                        {"as", 1, NULL, AS},
                                        {"seconds", 1, NULL, SECONDS},
                                        {NULL, 0, NULL, 0}};
  const char *directory = NULL;
  unsigned app = 0;
  double seconds = 1e9;
  enum split_actuation actuation = SPLIT_ACT_SOFT;
  struct wanted wanted[16];
  for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    switch (option) {
      case DIRECTORY: directory = optarg; break;
      case APP: app = (unsigned)strtoul(optarg, NULL, 10); break;
      case SECONDS: seconds = strtod(optarg, NULL); break;
      case AS:
        if (strcmp(optarg, "soft") == 0)
          actuation = SPLIT_ACT_SOFT;
        else if (strcmp(optarg, "lazy") == 0)
          actuation = SPLIT_ACT_LAZY;
        else if (strcmp(optarg, "paper") == 0)
          actuation = SPLIT_ACT_PAPER;
        else
          return wrong("there is no such way");
        break;
      default: return wrong("what is that?");
    }
  }
  const int wanteds = argc - optind;
  if (directory == NULL || app == 0 || wanteds < 1 || wanteds > 16)
    return wrong("a folder, an application and one to 16 kinds are needed");
  for (int i = 0; i < wanteds; i++)
    if (!parse_wanted(argv[optind + i], &wanted[i])) return wrong(argv[optind + i]);
  const uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
  char *segment = NULL;
  while (now_ns() < end) {
    if (segment == NULL) segment = map_segment(directory, app);
    if (segment != NULL) decide_all(segment, wanted, wanteds, actuation);
    const struct timespec pause = {.tv_nsec = 20000000};
    (void)nanosleep(&pause, NULL);
  }
  return 0;
}
