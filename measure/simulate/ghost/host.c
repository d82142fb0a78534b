/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions of the host program that the simulator (sim/host.h) and the tool's files call.
 */
#define _GNU_SOURCE
#include "host.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ghost.h"
#include "ring.h"
#include "simulator.h"
#include "state.h"

static int followed;
static uint64_t wall, cycles_began;

/* --- Time and waiting -------------------------------------------------------------------- */

uint64_t hm_now(void) {
  struct timespec now = {0, 0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void hm_wait_for_change(_Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds) {
  struct timespec patience = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &patience, NULL, 0);
}

void hm_wake_waiter(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void hm_host_wait(_Atomic uint32_t *word, uint32_t expected) {
  hm_wait_for_change(word, expected, 50000000);
}

void hm_host_wake(_Atomic uint32_t *word) { hm_wake_waiter(word); }
void hm_host_yield(void) { sched_yield(); }
void hm_host_end_turn(void) {} /* a ghost has one thread */
int hm_host_process_exists(uint32_t pid) { return !(kill((pid_t)pid, 0) != 0 && errno == ESRCH); }

/* --- The followed process ------------------------------------------------------------------ */

void hm_set_thread(unsigned thread); /* tool/records.c, whose header needs Valgrind's types */

void hm_host_stretch(int process, uint64_t began) {
  followed = process;
  wall = began;
  hm_sim.pid = (uint32_t)process;
  hm_set_thread(1);
}

int hm_host_process(void) { return followed; }

/* The time at which the server ran this code, not the time of its emulation. */
uint64_t hm_wall_nanoseconds(void);
uint64_t hm_wall_nanoseconds(void) { return wall != 0 ? wall : hm_now(); }

/* Records carry the server's time, too: simulated time goes on from the moment at which the stretch
 * began. */
uint64_t hm_record_nanoseconds(uint64_t cycles);
uint64_t hm_record_nanoseconds(uint64_t cycles) {
  uint64_t since = cycles > cycles_began ? cycles - cycles_began : 0;
  if (wall == 0) return hm_now();
  return wall + since * 1000 / hm_sim.config.clock_mhz;
}

static int is_full(const struct hm_shadow *of) {
  return of->capacity != 0 && of->state->used == of->capacity;
}

/* The first use of a line among the stretches that were followed is hardly its first use. What is
 * known of it: since its last use, at least as many other lines were used as there are in the
 * stretches. Once these have filled the cache, that is a capacity miss, if the line can have been used
 * before: so in memory that the server had when it was met, but perhaps not in its heap. */
uint8_t hm_cause_to_record(const struct hm_access *access, enum hm_event event);
uint8_t hm_cause_to_record(const struct hm_access *access, enum hm_event event) {
  uint8_t cause = hm_cause_of(access, event);
  if (cause != HM_CAUSE_COLD) return cause;
  const struct hm_shadow *first =
      HM_SITE_KIND(access->site) == HM_FETCH ? &hm_sim.l1i_shadow : &hm_sim.l1d_shadow;
  const struct hm_shadow *level[] = {first, &hm_sim.l2_shadow, &hm_sim.l3_shadow};
  const struct hm_mapping *mapping = hm_find_mapping(access->address);
  int old = mapping != NULL && (mapping->shared || hm_is_constant(mapping));
  return old && is_full(level[hm_level_of(event)]) ? HM_CAUSE_CAPACITY : HM_CAUSE_UNKNOWN;
}

void hm_host_clock_begins(uint64_t cycles) { cycles_began = cycles; }

int hm_state_readable(uint64_t address, uint64_t length) {
  return !hm_is_own(address) && hm_need_range(address, length);
}

void hm_host_read_line(uint64_t address, void *line) {
  if (!hm_is_own(address) && hm_need_page(address))
    memcpy(line, (const void *)address, HM_LINE_SIZE);
  else
    memset(line, 0, HM_LINE_SIZE);
}

static uint64_t mix(uint64_t value) {
  value *= 0x9e3779b97f4a7c15ull;
  return value ^ value >> 32;
}

/* As in tool/mappings.c: shared memory is identified by file and page. */
struct hm_page_identity hm_host_identify_page(uint64_t virtual_page) {
  uint64_t address = virtual_page << HM_PAGE_BITS;
  const struct hm_mapping *mapping = hm_find_mapping(address);
  struct hm_page_identity identity = {HM_PAGE_PRIVATE, 0};
  if (mapping == NULL || mapping->inode == 0) return identity;
  uint64_t page = (mapping->offset + (address - mapping->start)) >> HM_PAGE_BITS;
  identity.kind = mapping->shared ? HM_PAGE_SHARED : HM_PAGE_FILE_PRIVATE;
  identity.key = mix(mix(mapping->device) + mapping->inode) + page * 2;
  return identity;
}

void *hm_host_allocate(size_t size) {
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fprintf(stderr, "hardmeter-ghost: no memory for %zu bytes of page tables\n", size);
    exit(1);
  }
  return memory;
}

/* --- Records ---------------------------------------------------------------------------------- */

static struct pending {
  uint8_t *kept;
  size_t bytes, room, stretch_bytes;
} pending[HM_LANES], *of = pending; /* of the window on each lane */
static int keeping;

enum { RECORD_SAMPLE = 9, PERIOD_WORD = 7 }; /* of tool/records.c */

/* Records wait for the verdict on their stretch, then for the end of their window: only then is it
 * known how much each stands for. */
void hm_deliver_record(const uint64_t *words, uint64_t bytes) {
  if (!keeping) {
    hm_append_to_ring(hm_sim.header, (uint32_t)getpid(), words, bytes);
    return;
  }
  if (of->bytes + bytes > of->room) {
    size_t room = of->room == 0 ? 1 << 20 : of->room * 2;
    uint8_t *larger = realloc(of->kept, room);
    if (larger == NULL) return;
    of->kept = larger;
    of->room = room;
  }
  memcpy(of->kept + of->bytes, words, bytes);
  of->bytes += bytes;
}

void hm_pending_begin(uint32_t lane) {
  keeping = 1;
  of = &pending[lane];
  of->stretch_bytes = of->bytes;
}

void hm_pending_drop(void) {
  keeping = 0;
  of->bytes = of->stretch_bytes;
}

void hm_pending_keep(void) { keeping = 0; }

void hm_pending_commit(uint32_t lane, double weight) {
  struct pending *window = &pending[lane];
  for (size_t at = 0; at < window->bytes;) {
    uint64_t *words = (uint64_t *)(window->kept + at);
    uint64_t bytes = words[0] >> 48;
    if ((uint32_t)words[0] == RECORD_SAMPLE)
      words[PERIOD_WORD] = (uint64_t)((double)words[PERIOD_WORD] * weight + 0.5);
    hm_append_to_ring(hm_sim.header, (uint32_t)getpid(), words, bytes);
    at += bytes;
  }
  window->bytes = 0;
}

/* tool/records.c, whose header needs Valgrind's types. */
void hm_record_exec(const char *name);
void hm_record_mapping(unsigned long address, unsigned long length);
void hm_record_shared_memory(unsigned long address, unsigned long length);

void hm_announce_process(int process) {
  char path[40], name[32] = "unknown";
  uint32_t count;
  hm_host_stretch(process, 0);
  snprintf(path, sizeof path, "/proc/%d/comm", process);
  FILE *comm = fopen(path, "re");
  if (comm != NULL) {
    if (fgets(name, sizeof name, comm) != NULL) name[strcspn(name, "\n")] = 0;
    fclose(comm);
  }
  hm_record_exec(name);
  const struct hm_mapping *mapping = hm_all_mappings(&count);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t length = mapping[i].end - mapping[i].start;
    if (mapping[i].shared && strcmp(mapping[i].name, "/dev/zero (deleted)") == 0)
      hm_record_shared_memory(mapping[i].start, length);
    else
      hm_record_mapping(mapping[i].start, length);
  }
}
