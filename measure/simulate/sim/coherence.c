/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What an access to a line that other cores may have does to it. coherence.h has the rules.
 */
#include "coherence.h"

#include "access.h"
#include "host.h"
#include "lock.h"
#include "turns.h"

uint64_t hm_directory_size(void) {
  return (uint64_t)HM_MAX_FRAMES * HM_LINES_A_PAGE * sizeof(struct hm_line_state);
}

/* --- Other cores' caches ---------------------------------------------------- */

/* Whether core `cpu` has a tag of the line. It may be running: the result may be slightly out of
 * date. L1 is indexed by virtual addresses, whose bits above the page offset are unknown here:
 * all sets that agree in the other bits are searched. */
static int core_has(uint32_t cpu, uint32_t line) {
  const struct hm_cache *l1 = &hm_sim.l1d, *l2 = &hm_sim.l2;
  const char *core = (const char *)hm_sim.header + hm_sim.shared->core[cpu];
  const uint32_t *tags = (const uint32_t *)(core + hm_sim.l1d_offset);
  uint32_t step = l1->sets < HM_LINES_A_PAGE ? l1->sets : HM_LINES_A_PAGE;
  for (uint32_t set = line & (step - 1); set < l1->sets; set += step)
    if (hm_find_way(tags + (uint64_t)set * l1->ways, l1->ways, line) >= 0) return 1;
  if (l2->sets == 0) return 0;
  tags = (const uint32_t *)(core + hm_sim.l2_offset);
  return hm_find_way(tags + (uint64_t)hm_cache_set(l2, line) * l2->ways, l2->ways, line) >= 0;
}

/* The subset of cores that still have the line: evictions are not reported to the directory. */
static uint64_t having(uint64_t cores, uint32_t line) {
  uint64_t found = 0;
  for (; cores != 0; cores &= cores - 1) {
    uint32_t cpu = (uint32_t)__builtin_ctzll(cores);
    if (core_has(cpu, line)) found |= 1ull << cpu;
  }
  return found;
}

/* Requests cores to remove the line from their filters. */
static void call_upon(uint64_t cores, uint32_t line) {
  for (; cores != 0; cores &= cores - 1) {
    uint64_t core = hm_sim.shared->core[__builtin_ctzll(cores)];
    struct hm_core *other = (struct hm_core *)((char *)hm_sim.header + core);
    atomic_fetch_or_explicit(&other->attention, 1ull << (line % HM_LINES_A_PAGE),
                             memory_order_relaxed);
  }
}

/* --- Records of contended lines ------------------------------------------------ */

static _Atomic uint32_t *lock_of(uint32_t line) {
  return &hm_sim.coherence->lock[line % HM_COHERENCE_LOCKS];
}

/* Allocates a record for the line, whose lock is held; NULL if the next ones are in use. The
 * pool is cyclic: the record's previous line is no longer contended. */
static struct hm_contended_line *new_record(struct hm_line_state *state, uint32_t line) {
  for (int tries = 0; tries < 4; tries++) {
    uint32_t used = atomic_fetch_add(&hm_sim.coherence->records_used, 1);
    uint32_t number = 1 + used % HM_CONTENDED_LINES;
    struct hm_contended_line *record = &hm_sim.coherence->record[number];
    uint32_t old = record->line;
    _Atomic uint32_t *lock = old == 0 || lock_of(old) == lock_of(line) ? NULL : lock_of(old);
    if (lock != NULL && !hm_lock_try(lock, hm_sim.pid)) continue;
    if (old != 0 && hm_line_state(old)->record == number) hm_line_state(old)->record = 0;
    if (lock != NULL) hm_lock_release(lock);
    *record = (struct hm_contended_line){.line = line};
    state->record = number;
    return record;
  }
  return NULL;
}

/* The part of an access within the line of `address`. */
static struct hm_touch touch_of(const struct hm_access *access, uint64_t address) {
  uint64_t base = address & ~(uint64_t)(HM_LINE_SIZE - 1), end = base + HM_LINE_SIZE;
  uint64_t first = access->address > base ? access->address : base;
  uint64_t last = access->address + HM_SITE_SIZE(access->site);
  if (last > end) last = end;
  return (struct hm_touch){.ip = HM_SITE_IP(access->site),
                           .pid = hm_sim.pid,
                           .core = (uint8_t)hm_sim.cpu,
                           .offset = (uint8_t)(first - base),
                           .size = (uint8_t)(last - first),
                           .stored = HM_SITE_KIND(access->site) != HM_LOAD};
}

static uint16_t words_of(const struct hm_touch *touch) {
  uint32_t first = touch->offset / 4u, last = (touch->offset + touch->size - 1u) / 4;
  return (uint16_t)((2u << last) - (1u << first));
}

static struct hm_sharing other_side(const struct hm_touch *touch, enum hm_verdict verdict) {
  return (struct hm_sharing){(uint8_t)verdict, touch->offset, touch->size,
                             touch->stored,    touch->pid,    touch->ip};
}

static enum hm_verdict verdict_of(const struct hm_contended_line *record,
                                  const struct hm_touch *touch) {
  if ((record->unknown >> hm_sim.cpu & 1) != 0) return HM_VERDICT_UNKNOWN;
  return (record->written_since[hm_sim.cpu] & words_of(touch)) != 0 ? HM_VERDICT_TRUE
                                                                    : HM_VERDICT_FALSE;
}

static void note(struct hm_contended_line *record, const struct hm_touch *touch) {
  record->unknown &= ~(1ull << hm_sim.cpu);
  record->written_since[hm_sim.cpu] = 0;
  if (record->last.core != touch->core) record->elsewhere = record->last;
  record->last = *touch;
  if (!touch->stored) return;
  record->write = *touch;
  uint16_t words = words_of(touch);
  for (uint32_t cpu = 0; cpu < hm_sim.config.cores; cpu++)
    if (cpu != hm_sim.cpu) record->written_since[cpu] |= words;
}

/* --- The directory --------------------------------------------------------------- */

/* A store waits until the copies of other cores are invalidated, for as long as the way to the
 * shared level. */
static uint32_t upgrade_latency(void) {
  return hm_sim.l3.sets != 0 ? hm_sim.l3.latency : hm_sim.config.memory_latency;
}

/* With the line's lock held. */
static void share(struct hm_access *access, uint32_t line, uint64_t address, uint32_t held,
                  int writes) {
  struct hm_line_state *state = hm_line_state(line);
  struct hm_touch touch = touch_of(access, address);
  uint64_t me = 1ull << hm_sim.cpu;
  uint64_t sharers = state->sharers;
  uint32_t written = state->written;
  struct hm_contended_line *record =
      state->record != 0 ? &hm_sim.coherence->record[state->record] : NULL;
  if (written == HM_LINE_NEW) written = 0;
  if (record != NULL && hm_interleaves()) {
    access->contended = 1;
    if ((sharers & me) == 0 && held != 0 && hm_still_has_line(record, access, words_of(&touch)))
      return;
  }
  int lost = (sharers & me) == 0 && written != 0;
  if (lost && held != 0) {
    access->events |= 1u << HM_COHERENCE_MISS;
    access->line_found |= held;
    if (record != NULL && record->write.pid != 0)
      access->lost_to = other_side(&record->write, verdict_of(record, &touch));
  }
  uint32_t owner = (written & ~HM_LINE_MODIFIED) - 1; /* if it was written */
  int theirs = (written & HM_LINE_MODIFIED) != 0 && owner != hm_sim.cpu;
  uint64_t others = writes ? sharers & ~me : theirs ? 1ull << owner : 0;
  uint64_t having_it = having(others, line);
  if (theirs && having_it != 0) {
    access->line_found |= HM_IN_OTHER_CORE;
    access->modified_elsewhere = 1;
  }
  int contended_before = record != NULL;
  if (writes && having_it != 0) {
    access->events |= 1u << HM_INVALIDATION;
    if (held != 0 && !lost) access->latency = max32(access->latency, upgrade_latency());
    if (record == NULL) {
      record = new_record(state, line);
      if (record != NULL) record->unknown = ~sharers;
    }
    if (contended_before)
      access->taken_from = other_side(
          record->last.core != hm_sim.cpu ? &record->last : &record->elsewhere, HM_VERDICT_UNKNOWN);
  }
  if (record != NULL) {
    note(record, &touch);
    if (hm_interleaves()) {
      access->contended = 1;
      if (having_it != 0)
        hm_move_line(record, access, having_it);
      else
        record->used = hm_cycles();
    }
  }
  if (writes) {
    state->sharers = me;
    state->written = HM_LINE_MODIFIED | (hm_sim.cpu + 1);
  } else {
    state->sharers = sharers | me;
    state->written = theirs ? written & ~HM_LINE_MODIFIED : written;
  }
  if (!contended_before) call_upon(having_it, line);
}

void hm_share_line(struct hm_access *access, uint32_t line, uint64_t address, uint32_t held,
                   int writes) {
  hm_lock_acquire(lock_of(line), hm_sim.pid);
  share(access, line, address, held, writes);
  hm_lock_release(lock_of(line));
}

void hm_share_own_line(struct hm_access *access, uint32_t line, uint64_t address, uint32_t held,
                       int writes) {
  struct hm_line_state *state = hm_line_state(line);
  hm_lock_acquire(lock_of(line), hm_sim.pid);
  if (state->sharers == 0 && state->written == 0)
    state->sharers = having((2ull << (hm_sim.config.cores - 1)) - 1, line);
  share(access, line, address, held, writes);
  hm_lock_release(lock_of(line));
}
