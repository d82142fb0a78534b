/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The prefetchers of a core. prefetch.h has their rules and the invariants.
 */
#include "prefetch.h"

#include "host.h"

#define REQUESTS 1024u
#define STREAMS 64u
#define STRIDES 64u
#define PAGE_LINES (1u << (HM_PAGE_BITS - HM_LINE_BITS))
#define LONGEST_STRIDE 2048
/* A stream may skip lines that hit in the first level. */
#define LONGEST_STEP 4
#define LINES_AT_A_TIME 2
#define REPETITIONS 2 /* number of equal steps before a prefetch */

struct request {
  uint32_t line;
  uint32_t number; /* number of the miss that caused it */
  uint64_t time;
  enum hm_prefetched into;
};

struct stream {
  uint32_t frame;
  int32_t last, head; /* lines of the page: last miss, last prefetch */
  int32_t direction;
  uint32_t repeated;
};

struct stride {
  uint64_t ip, last;
  int64_t distance;
  uint32_t repeated;
};

/* One for each core that the process has threads on. */
static struct prefetch {
  struct request request[REQUESTS];
  struct stream stream[STREAMS];
  struct stride stride[STRIDES];
  uint32_t misses, last_line;
} * core, *of_core[HM_MAX_CORES];

void hm_prefetch_select(uint32_t cpu) {
  if (of_core[cpu] == NULL) of_core[cpu] = hm_host_allocate(sizeof *core);
  core = of_core[cpu];
}

void hm_prefetch_begin(void) {
  for (uint32_t i = 0; i < REQUESTS; i++) core->request[i].line = 0;
  for (uint32_t i = 0; i < STREAMS; i++) core->stream[i].frame = 0;
  for (uint32_t i = 0; i < STRIDES; i++) core->stride[i].ip = 0;
  core->last_line = 0;
}

static struct request *place_of(uint32_t line) {
  return &core->request[(line ^ line >> 10) % REQUESTS];
}

static int is_alive(const struct request *one, uint32_t line) {
  return one->line == line && core->misses - one->number < HM_REQUEST_LIFE;
}

enum hm_prefetched hm_prefetch_take(uint32_t line, uint64_t *since) {
  struct request *one = place_of(line);
  if (!is_alive(one, line)) return HM_NOT_PREFETCHED;
  one->line = 0;
  *since = one->time;
  return one->into;
}

static void ask_for(uint32_t line, uint64_t time, enum hm_prefetched into) {
  struct request *one = place_of(line);
  if (is_alive(one, line)) {
    if (into > one->into) one->into = into;
    return;
  }
  *one = (struct request){line, core->misses, time, into};
}

/* The line at this distance if it is on the same page, else 0. */
static uint32_t within_page(uint32_t line, int64_t lines) {
  int64_t place = (int64_t)(line % PAGE_LINES) + lines;
  return place < 0 || place >= (int64_t)PAGE_LINES ? 0 : (uint32_t)(line + lines);
}

static void follow_stream(uint32_t line, uint64_t time) {
  uint32_t frame = line / PAGE_LINES;
  struct stream *one = &core->stream[(frame ^ frame >> 6) % STREAMS];
  int32_t place = (int32_t)(line % PAGE_LINES);
  if (one->frame != frame) {
    *one = (struct stream){frame, place, place, 0, 0};
    return;
  }
  int32_t step = place - one->last;
  if (step == 0) return;
  one->last = place;
  int32_t direction = step > 0 ? 1 : -1;
  if (step * direction > LONGEST_STEP) {
    one->repeated = 0;
    return;
  }
  one->repeated = one->direction == direction ? one->repeated + 1 : 1;
  if (one->direction != direction || (one->head - place) * direction < 0) one->head = place;
  one->direction = direction;
  if (one->repeated < REPETITIONS) return;
  int32_t furthest = place + direction * (int32_t)hm_sim.config.core.stream_distance;
  for (int i = 0; i < LINES_AT_A_TIME && (furthest - one->head) * direction > 0; i++) {
    int32_t next = one->head + direction;
    if (next < 0 || next >= (int32_t)PAGE_LINES) return;
    one->head = next;
    ask_for(frame * PAGE_LINES + (uint32_t)next, time, HM_INTO_L2);
  }
}

static void follow_stride(const struct hm_access *access, uint64_t time) {
  uint64_t ip = HM_SITE_IP(access->site);
  struct stride *one = &core->stride[(ip ^ ip >> 6) % STRIDES];
  if (one->ip != ip) {
    *one = (struct stride){ip, access->address, 0, 0};
    return;
  }
  int64_t distance = (int64_t)(access->address - one->last);
  one->repeated = distance == one->distance ? one->repeated + 1 : 0;
  one->distance = distance;
  one->last = access->address;
  if (one->repeated < REPETITIONS - 1 || distance > LONGEST_STRIDE || distance < -LONGEST_STRIDE)
    return;
  uint64_t next = access->address + (uint64_t)distance;
  uint32_t line =
      within_page(access->physical_line,
                  (int64_t)(next >> HM_LINE_BITS) - (int64_t)(access->address >> HM_LINE_BITS));
  if (line != 0 && line != access->physical_line) ask_for(line, time, HM_INTO_L1);
}

void hm_prefetch_observe(const struct hm_access *access, uint64_t time) {
  uint32_t line = access->physical_line, which = hm_sim.config.core.prefetchers;
  enum hm_kind kind = HM_SITE_KIND(access->site);
  uint32_t next = within_page(line, 1);
  core->misses++;
  if (kind == HM_FETCH) {
    if (next != 0 && (which & HM_PREFETCH_NEXT_LINE) != 0) ask_for(next, time, HM_INTO_L1);
    return;
  }
  if (kind != HM_STORE) {
    if ((which & HM_PREFETCH_NEXT_LINE) != 0 && next != 0 && line == core->last_line + 1)
      ask_for(next, time, HM_INTO_L1);
    if ((which & HM_PREFETCH_STRIDE) != 0) follow_stride(access, time);
    core->last_line = line;
  }
  if ((which & HM_PREFETCH_ADJACENT) != 0 && (access->events & 1u << HM_L2_MISS) != 0)
    ask_for(line ^ 1, time, HM_INTO_L2);
  if ((which & HM_PREFETCH_STREAM) != 0) follow_stream(line, time);
}
