/*
 * Finds pages that share sets of L2, by group reduction (Vila, Koepf, Morales: Theory and practice
 * of finding eviction sets, 2019): from pages that evict a target, remove groups as long as the
 * rest still evicts it. The rest then shows which other pages have the target's colour; among
 * these, a smallest group that does not fit into its set has exactly one page more than there are
 * ways.
 *
 * All tests are repeated: other work on the processor can only add misses, and the replacement
 * policy is not LRU.
 *
 * If single loads cannot be timed, all tests use whole pages: probe_discover_pages.c.
 */
#include "probe_discover.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Most pages among which an overflowing group is searched. */
enum { MEMBERS_MOST = 2 * SPLIT_PROBE_WAYS_MAX };

/* The pages of a pool that have no known colour yet. */
struct search {
  struct split_pool *pool;
  uint16_t *free;
  uint32_t free_count;
  uint16_t *set;     /* pages that evict a target */
  uint16_t *members; /* pages of the target's colour */
};

static bool late(const struct split_pool *pool) {
  return split_discover_now_ns() >= pool->deadline_ns;
}

static inline const unsigned char *line_of(const struct split_pool *pool, uint16_t page) {
  return pool->pages + (uint64_t)page * SPLIT_PROBE_PAGE + pool->line * SPLIT_LINE;
}

/* True if loading `set` evicts `target` repeatedly. The first passes do not count: lines left in
 * the cache by earlier tests make a set that is too small look large enough. One or two misses
 * may be caused by other load; a set that overflows by one line makes each of its lines miss in
 * about every third pass. */
static bool evicts(const struct split_pool *pool, const uint16_t *set, uint32_t count,
                   uint16_t target) {
  enum { WARM = 2, PASSES = 12, ENOUGH = 3 };
  if (pool->step != 0) return split_discover_pages_evict(pool, set, count, target);
  const unsigned char *line = line_of(pool, target);
  uint32_t gone = 0;
  for (uint32_t pass = 0; pass < WARM + PASSES && gone < ENOUGH; pass++) {
    for (uint32_t i = 0; i < count; i++) split_probe_load(line_of(pool, set[i]));
    split_probe_fence();
    gone += split_probe_timed_load_alone(line) > pool->timing.limit && pass >= WARM;
  }
  return gone == ENOUGH;
}

/* In at least `enough` of this number of tries. */
static bool evicts_often(const struct split_pool *pool, const uint16_t *set, uint32_t count,
                         uint16_t target, uint32_t enough, uint32_t tries) {
  uint32_t yes = 0;
  for (uint32_t try = 0; try < tries && yes < enough && yes + tries >= enough + try; try++)
    yes += evicts(pool, set, count, target);
  return yes == enough;
}

static void move_to_end(uint16_t *set, uint32_t count, uint32_t from, uint32_t length) {
  for (uint32_t i = 0; i < length; i++) { /* swaps: nothing is lost if the group has to stay */
    const uint32_t a = from + length - 1 - i, b = count - 1 - i;
    const uint16_t kept = set[a];
    set[a] = set[b];
    set[b] = kept;
  }
}

/* Size at which the reduction of evicting pages ends: a few pages too many do no harm, and the
 * last ones are the hardest to test. */
static uint32_t small_enough(const struct split_pool *pool) {
  return pool->ways * 3 < MEMBERS_MOST ? pool->ways * 3 : MEMBERS_MOST - 4;
}

/* Reduces `set` while it evicts `target`; returns its size. Removed pages stay at the end of
 * `set`, so that they can be added again after a wrong test. */
static uint32_t reduce(struct split_pool *pool, uint16_t *set, uint32_t count, uint16_t target) {
  enum { STEPS = 1024, BACK = 20 };
  uint32_t before[STEPS], steps = 0, back = 0, groups = pool->ways + 1;
  while (count > small_enough(pool) && steps < STEPS && !late(pool)) {
    if (groups > count) groups = count;
    const uint32_t length = (count + groups - 1) / groups;
    const uint32_t parts = (count + length - 1) / length;
    const uint32_t first = (uint32_t)(split_random_next(&pool->random) % parts);
    bool smaller = false;
    for (uint32_t i = 0; i < parts && !smaller && !late(pool); i++) {
      const uint32_t from = (first + i) % parts * length;
      const uint32_t size = from + length > count ? count - from : length;
      move_to_end(set, count, from, size);
      /* Tested twice: among many tests, other load would spoil some. */
      smaller = evicts_often(pool, set, count - size, target, 2, 2);
      if (!smaller) continue;
      before[steps++] = count;
      count -= size;
    }
    if (smaller) continue;
    if (!evicts_often(pool, set, count, target, 2, 3)) {
      if (steps == 0 || back++ == BACK) break;
      count = before[--steps];
    } else if (length == 1) {
      break;
    } else {
      groups *= 2;
    }
  }
  return count;
}

static uint32_t misses(const struct split_pool *pool, const uint32_t *offsets, uint32_t count,
                       uint32_t line) {
  return split_discover_misses(pool->pages, offsets, count, line, pool->timing.limit);
}

/* Tested twice: pages removed by a wrong answer do not come back. The first page has the colour. */
static bool overflows(const struct split_pool *pool, const uint16_t *set, uint32_t count) {
  if (pool->step != 0) return evicts_often(pool, set + 1, count - 1, set[0], 2, 2);
  uint32_t offsets[MEMBERS_MOST];
  for (uint32_t i = 0; i < count; i++) offsets[i] = (uint32_t)set[i] * SPLIT_PROBE_PAGE;
  return split_discover_overflows(misses(pool, offsets, count, pool->line)) &&
         split_discover_overflows(misses(pool, offsets, count, pool->line));
}

/* Finds a smallest group of `members` that does not fit: all of one colour, one more than there
 * are ways. */
static bool smallest_overflow(struct split_pool *pool, uint16_t *members, uint32_t count,
                              struct split_colour *colour) {
  uint16_t set[MEMBERS_MOST];
  const uint32_t fixed = pool->step != 0; /* whole pages are tested against the first */
  split_random_shuffle(&pool->random, members + fixed, count - fixed);
  uint32_t size = 0;
  bool over = false;
  while (!over && size < count && size < MEMBERS_MOST) {
    set[size] = members[size];
    size++;
    over = size > 2 && overflows(pool, set, size);
  }
  if (!over) return false;
  /* A page without which the group still overflows has another colour, or is not needed. */
  for (bool dropped = true; dropped && !late(pool);) {
    dropped = false;
    for (uint32_t i = size; i-- > fixed && size > 2;) {
      uint16_t rest[MEMBERS_MOST];
      memcpy(rest, set, size * sizeof(set[0]));
      memmove(rest + i, rest + i + 1, (size - i - 1) * sizeof(set[0]));
      if (!overflows(pool, rest, size - 1)) continue;
      dropped = true;
      size--;
      memcpy(set, rest, size * sizeof(set[0]));
    }
  }
  const uint32_t fewest = pool->step != 0 ? SPLIT_PROBE_CHAIN + 1 : 3;
  if (size < fewest || size > SPLIT_PROBE_WAYS_MAX + 1) return false;
  *colour = (struct split_colour){.ways = size - 1};
  memcpy(colour->page, set, size * sizeof(set[0]));
  return true;
}

/* True if one page less also fits at other lines of the pages, and all together do not. */
static bool holds_at_other_lines(struct split_pool *pool, const struct split_colour *colour) {
  uint32_t offsets[SPLIT_PROBE_WAYS_MAX + 1];
  for (uint32_t way = 0; way <= colour->ways; way++)
    offsets[way] =
        (uint32_t)colour->page[way] * SPLIT_PROBE_PAGE + (uint32_t)colour->line[way] * SPLIT_LINE;
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t line = (uint32_t)(split_random_next(&pool->random) % SPLIT_PROBE_LINES);
    if (pool->step != 0) {
      if (!split_discover_pages_full(pool->pages, offsets, colour->ways, line, pool->elsewhere,
                                     &pool->timing))
        return false;
      continue;
    }
    if (!split_discover_fits(misses(pool, offsets, colour->ways, line)) ||
        !split_discover_overflows(misses(pool, offsets, colour->ways + 1, line)))
      return false;
  }
  return true;
}

/* Removes the pages of a colour from the free ones. */
static void take_out(struct search *search, const struct split_colour *colour) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < search->free_count; i++) {
    const uint16_t page = search->free[i];
    bool of_it = false;
    for (uint32_t way = 0; way <= colour->ways; way++) of_it |= colour->page[way] == page;
    if (late(search->pool)) return; /* the search has ended */
    if (!of_it && !evicts_often(search->pool, colour->page, colour->ways + 1, page, 1, 4))
      search->free[kept++] = page;
  }
  search->free_count = kept;
}

static bool find_colour(struct search *search, struct split_colour *colour) {
  struct split_pool *pool = search->pool;
  split_random_shuffle(&pool->random, search->free, search->free_count);
  const uint16_t target = search->free[0];
  uint32_t count = search->free_count - 1;
  memcpy(search->set, search->free + 1, count * sizeof(search->set[0]));
  if (!evicts(pool, search->set, count, target)) return false;
  count = reduce(pool, search->set, count, target);
  if (count >= MEMBERS_MOST) return false; /* no progress: disturbed */
  uint32_t members = 0;
  search->members[members++] = target;
  for (uint32_t i = 0; i < count; i++) search->members[members++] = search->set[i];
  /* The rest of `set`, the removed pages, follows. */
  for (uint32_t i = count; i < search->free_count - 1 && !late(pool); i++)
    if (evicts_often(pool, search->set, count, search->set[i], 1, 3))
      search->members[members++] = search->set[i];
  for (uint32_t try = 0; try < 6 && !late(pool); try++)
    if (smallest_overflow(pool, search->members, members, colour) &&
        (pool->step == 0 || split_discover_pages_lines(pool, colour)) &&
        holds_at_other_lines(pool, colour))
      return true;
  return false;
}

static bool known(const struct split_pool *pool, const struct split_colour *found, uint32_t count,
                  const struct split_colour *colour) {
  for (uint32_t i = 0; i < count; i++)
    if (evicts_often(pool, found[i].page, found[i].ways + 1, colour->page[0], 1, 4)) return true;
  return false;
}

/* Keeps the colours with the most frequent number of ways; returns their number. */
static uint32_t agreeing(struct split_colour *found, uint32_t count) {
  uint32_t votes[SPLIT_PROBE_WAYS_MAX + 1] = {0}, ways = 0;
  for (uint32_t i = 0; i < count; i++)
    if (++votes[found[i].ways] > votes[ways]) ways = found[i].ways;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (found[i].ways == ways) found[kept++] = found[i];
  return kept;
}

/* Other load usually lasts for some ten milliseconds; if it does not end, the search continues
 * anyway. */
static void await_quiet(struct split_pool *pool) {
  for (int try = 0; try < 25 && !split_discover_quiet(pool) && !late(pool); try++)
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Other load may have been at its worst when hits and misses were timed. */
static void time_anew(struct split_pool *pool) {
  if (pool->step == 0) return;
  const struct split_probe_timing timing = split_discover_timing(pool);
  if (timing.limit != 0) pool->timing = timing;
}

uint32_t split_discover_colours(struct split_pool *pool, uint32_t wanted,
                                struct split_colour *found) {
  enum { RETIME = 20 /* number of failures */ };
  struct search search = {.pool = pool};
  uint16_t *pages = malloc(3 * (size_t)pool->count * sizeof(*pages));
  if (pool->step != 0) pool->elsewhere = split_discover_elsewhere();
  if (pages == NULL || (pool->step != 0 && pool->elsewhere == NULL)) {
    split_discover_free_elsewhere(pool->elsewhere);
    pool->elsewhere = NULL;
    free(pages);
    return 0;
  }
  search.free = pages;
  search.set = pages + pool->count;
  search.members = pages + 2 * (size_t)pool->count;
  for (uint32_t i = 0; i < pool->count; i++) search.free[i] = (uint16_t)i;
  search.free_count = split_discover_pages_enough(pool);
  if (wanted > SPLIT_PROBE_COLOURS_MAX) wanted = SPLIT_PROBE_COLOURS_MAX;

  uint32_t count = 0, failures = 0;
  while (failures < 200 && search.free_count > pool->ways + 1 && !late(pool)) {
    struct split_colour colour;
    pool->line = (uint32_t)(split_random_next(&pool->random) % SPLIT_PROBE_LINES);
    await_quiet(pool);
    if (!find_colour(&search, &colour)) {
      failures++;
      if (failures % RETIME == 0) time_anew(pool);
      continue;
    }
    if (!known(pool, found, count, &colour)) found[count++] = colour;
    take_out(&search, &colour);
    if (count < wanted) continue;
    count = agreeing(found, count);
    if (count == wanted) break;
  }
  free(pages);
  split_discover_free_elsewhere(pool->elsewhere);
  pool->elsewhere = NULL;
  return agreeing(found, count);
}
