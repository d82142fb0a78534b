/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Accesses the followed process from outside: reads its mappings, and copies its memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ghost.h"

#define MOST_MAPPINGS 8192

/* Of the process on each lane. */
static struct known {
  struct hm_mapping mapping[MOST_MAPPINGS];
  uint32_t mappings;
  uint64_t layout, constants;
} known[HM_LANES], *now = known;

void hm_use_mappings(uint32_t lane) { now = &known[lane]; }

static uint64_t mix(uint64_t value) {
  value *= 0x9e3779b97f4a7c15ull;
  return value ^ value >> 32;
}

/* One line of /proc/PID/maps. */
static int parse(const char *line, struct hm_mapping *into) {
  unsigned long start, end, offset, inode;
  unsigned major, minor;
  char rights[5];
  int name_at = 0;
  if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, rights, &offset, &major, &minor,
             &inode, &name_at) < 7)
    return 0;
  *into = (struct hm_mapping){.start = start,
                              .end = end,
                              .offset = offset,
                              .device = (uint64_t)major << 8 | (minor & 0xff),
                              .inode = inode,
                              .read = rights[0] == 'r',
                              .write = rights[1] == 'w',
                              .execute = rights[2] == 'x',
                              .shared = rights[3] == 's'};
  if (name_at > 0) {
    size_t length = strcspn(line + name_at, "\n");
    if (length >= sizeof into->name) length = sizeof into->name - 1;
    memcpy(into->name, line + name_at, length);
    into->name[length] = 0;
  }
  return 1;
}

static uint64_t with(uint64_t hash, const struct hm_mapping *of) {
  return mix(hash ^ of->start) + mix(of->end ^ of->inode << 20 ^ of->offset);
}

int hm_is_constant(const struct hm_mapping *mapping) {
  return !mapping->write && !mapping->shared && mapping->inode != 0;
}

const char hm_overlap[] = "its memory overlaps this program's: start the follower again";

const char *hm_read_mappings(int process) {
  char path[32], line[4608];
  snprintf(path, sizeof path, "/proc/%d/maps", process);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return errno == ENOENT ? "it has ended"
                           : "its mappings cannot be read: run as its user or as root";
  const char *problem = NULL;
  now->mappings = 0;
  now->layout = now->constants = 0;
  while (problem == NULL && fgets(line, sizeof line, file) != NULL) {
    struct hm_mapping *next = &now->mapping[now->mappings];
    if (now->mappings == MOST_MAPPINGS || !parse(line, next) || next->start >> 47 != 0) continue;
    if (hm_overlaps_own(next->start, next->end)) problem = hm_overlap;
    if (next->execute) now->layout = with(now->layout, next);
    if (hm_is_constant(next)) now->constants = with(now->constants, next);
    now->mappings++;
  }
  fclose(file);
  return problem != NULL ? problem : now->mappings == 0 ? "it has ended" : NULL;
}

const struct hm_mapping *hm_find_mapping(uint64_t address) {
  const struct hm_mapping *mapping = now->mapping;
  uint32_t low = 0, high = now->mappings;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (mapping[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < now->mappings && mapping[low].start <= address ? &mapping[low] : NULL;
}

const struct hm_mapping *hm_all_mappings(uint32_t *count) {
  *count = now->mappings;
  return now->mapping;
}

uint64_t hm_code_layout(void) { return now->layout; }
uint64_t hm_constants(void) { return now->constants; }

int hm_read_process(int process, uint64_t address, void *into, size_t length) {
  struct iovec local = {into, length}, remote = {(void *)address, length};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)length;
}
