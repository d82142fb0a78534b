/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

/* Sparse: only used pages exist. */
#define SEGMENT_SIZE (1ull << 33)
#define RING_SIZE (1ull << 16)

struct hm_config small_machine(void) {
  struct hm_config config = {.cores = 1,
                             .clock_mhz = 1000,
                             .milli_cpi = 1000,
                             .memory_latency = 200,
                             .walk_latency = 30,
                             .set_sampling = 1,
                             .l1i = {1024, 4, 4, 0},
                             .l1d = {1024, 4, 4, 0},
                             .l2 = {4096, 4, 14, 0},
                             .l3 = {16384, 4, 40, 0},
                             .itlb = {4, 4, 0, 0},
                             .dtlb = {4, 4, 0, 0},
                             .stlb = {16, 4, 7, 0}};
  return config;
}

struct hm_header *make_segment(const struct hm_config *config) {
  struct hm_header *header = mmap(NULL, SEGMENT_SIZE, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (header == MAP_FAILED) abort();
  memcpy(header->magic, HM_MAGIC, sizeof header->magic);
  header->version = HM_VERSION;
  header->header_size = sizeof *header;
  header->segment_size = SEGMENT_SIZE;
  header->ring_size = RING_SIZE;
  header->config = *config;
  header->measuring = 1;
  return header;
}

void drop_segment(struct hm_header *header) { munmap(header, SEGMENT_SIZE); }

void start_process(struct hm_header *header, uint32_t pid) {
  memset(&hm_sim, 0, sizeof hm_sim);
  assert_null(hm_attach(header, pid));
  hm_enter_core();
}

struct hm_header *start(const struct hm_config *config) {
  struct hm_header *header = make_segment(config);
  host_sample_count = 0;
  host_forget_pages();
  start_process(header, (uint32_t)getpid());
  return header;
}

void stop(struct hm_header *header) {
  hm_leave_core();
  drop_segment(header);
}

void put_aside(struct hm_simulator *process) {
  hm_leave_core();
  *process = hm_sim;
}

void take_up(const struct hm_simulator *process) {
  hm_sim = *process;
  hm_sim.filters_stale = 1; /* the filters in place are the other process's */
  hm_enter_core();
}

/* As in the generated code. */
static void data(uint64_t address, uint64_t site) {
  if (hm_sim.config.set_sampling > 1)
    hm_data_sampled(address, site);
  else
    hm_data(address, site);
}

void load_sized(uint64_t address, uint32_t size) {
  data(address, HM_SITE(address, size, HM_LOAD, 0));
}

void load(uint64_t address) { load_sized(address, 8); }
void store(uint64_t address) { data(address, HM_SITE(address, 8, HM_STORE, 0)); }

void fetch(uint64_t line_address) { hm_fetch(HM_FETCH_SITE(line_address, line_address)); }

uint64_t events(enum hm_event event) { return hm_sim.counts->events[event]; }

uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}
