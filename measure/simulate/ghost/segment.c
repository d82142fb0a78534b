/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Opens the shared segment: the recorder's, or a private one that only counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ghost.h"
#include "segment.h"

#define OWN_SIZE (8ull << 30) /* sparse */
#define OWN_RING (1u << 16)

struct hm_header *hm_open_segment(const char *path, const char **problem) {
  struct stat status;
  int file = open(path, O_RDWR | O_CLOEXEC);
  *problem = "it cannot be opened (is the recorder still running?)";
  if (file < 0) return NULL;
  struct hm_header *header = MAP_FAILED;
  if (fstat(file, &status) == 0 && status.st_size >= (off_t)HM_RING_OFFSET)
    header = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  *problem = "it cannot be mapped";
  if (header == MAP_FAILED) return NULL;
  *problem = "its size differs from its header";
  return header->segment_size == (uint64_t)status.st_size ? header : NULL;
}

/* Describes a cache level as the processor reports it, or as processors of 2020 have it. */
static struct hm_cache_config cache(int size_name, int ways_name, uint32_t size, uint32_t ways,
                                    uint32_t latency) {
  long found_size = sysconf(size_name), found_ways = sysconf(ways_name);
  if (found_size > 0 && found_ways > 0 && found_ways <= 32 && found_size < (1l << 31) &&
      found_size % (HM_LINE_SIZE * found_ways) == 0) {
    size = (uint32_t)found_size;
    ways = (uint32_t)found_ways;
  }
  return (struct hm_cache_config){size, ways, latency, 0};
}

struct hm_header *hm_own_segment(const char **problem) {
  struct hm_header *header = mmap(NULL, OWN_SIZE, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *problem = "there is no memory for it";
  if (header == MAP_FAILED) return NULL;
  memcpy(header->magic, HM_MAGIC, sizeof header->magic);
  header->version = HM_VERSION;
  header->header_size = sizeof *header;
  header->segment_size = OWN_SIZE;
  header->ring_size = OWN_RING;
  header->config = (struct hm_config){
      .cores = 4,
      .clock_mhz = 2000,
      .milli_cpi = 500,
      .memory_latency = 300,
      .walk_latency = 30,
      .flags = HM_FLAG_CAUSES,
      .set_sampling = 1,
      .l1i = cache(_SC_LEVEL1_ICACHE_SIZE, _SC_LEVEL1_ICACHE_ASSOC, 32768, 8, 4),
      .l1d = cache(_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL1_DCACHE_ASSOC, 32768, 8, 4),
      .l2 = cache(_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL2_CACHE_ASSOC, 1 << 20, 16, 14),
      .itlb = {64, 8, 0, 0},
      .dtlb = {64, 4, 0, 0},
      .stlb = {1536, 12, 7, 0}};
  atomic_store(&header->measuring, 1);
  return header;
}
