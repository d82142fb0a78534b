/*
 * Admission: a table of the long requests that run or wait, in the application's segment.
 *
 *   free ── claim ──> waits ── again: a place, its limit, placement off; insist ──> runs ── leave ──> free
 *     ^                 │ leave: an error, a cancelled request                         │
 *     └─────────────────┴── its thread died: reclaim, by another one that waits ──────┘
 *
 * Invariants:
 *   1. A waiting request takes a place only under the lock, and only if there are more places than
 *      requests that run or wait with an earlier deadline. So two cannot take the same place.
 *   2. Nothing else needs the lock: leaving only adds places, and requests that run in any case
 *      (at_once, insist, the limit) do not look at them.
 *   3. No thread waits for the lock: it tries for some microseconds and otherwise remains waiting.
 *      A lock older than LOCK_NS was left by a thread that died or was suspended, and is taken
 *      over. If that thread continues, a request too many may run; no table is damaged.
 *   4. An entry is freed by its owner, or once /proc shows that the owner is dead (its thread
 *      number and start time), by an exchange of `owner`. Its other fields are set after it is
 *      claimed, and ignored while it is free. A thread that cannot read its own start time gets no
 *      entry: others could not see whether it lives.
 *   5. A thread that waits is not in the background: it must look for those that wait for it, also
 *      while others use all processors. Its section's slice and class apply once it runs.
 *   6. Waiting ends when placement ends: split_fresh_for_slices, the same limit as for time slices.
 *      A request's limit is kept in its own memory, not in the segment that other processes write.
 */
#include "admission.h"

#include "split_admission.h"

#include "cycles.h"
#include "fresh.h"
#include "process.h"
#include "release.h"
#include "slice.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(SPLIT_ADMISSION_REQUESTS == SPLIT_REQUESTS, "hosts know the size of the table");

/* The lock is held for the time of reading the table: some microseconds. */
#define LOCK_NS UINT64_C(50000000)
#define LOCK_TRIES 200
/* How often one of the waiting threads checks whether those in the table live: 10 us for each. */
#define CHECK_NS UINT64_C(100000000)
/* A request that waits for longer than its limit by this much does not ask any more (its thread is
 * suspended), and holds up no other. */
#define SUSPENDED_NS UINT64_C(500000000)

static const memory_order relaxed = memory_order_relaxed;

uint64_t split_admission_lock_ns = LOCK_NS;

static uint64_t now_ns(void) { return split_clock_ns(CLOCK_MONOTONIC); }

static uint64_t owner_of(uint32_t tid) { return split_started_ticks(tid) << 32 | tid; }

static bool has_start(uint64_t owner) { return owner >> 32 != 0; }

static bool is_dead(uint64_t owner) {
  errno = 0;
  const uint64_t there = owner_of((uint32_t)owner);
  return has_start(there) ? there != owner : split_has_ended();
}

static uint64_t own_owner(const split_admission *admission) {
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  return (uint32_t)admission->owner == tid ? admission->owner : owner_of(tid);
}

static bool limits(struct split_mapping *mapping, uint32_t code) {
  return code < mapping->kind_count &&
         atomic_load_explicit(&mapping->decisions[code].admit, relaxed) != 0 &&
         atomic_load_explicit(&mapping->header->places, relaxed) != 0;
}

bool split_admission_limits(split_code_id code) {
  struct split_mapping *mapping = split_mapping_in_use();
  return mapping && limits(mapping, code);
}

/* The lock ---------------------------------------------------------------------------------- */

static uint64_t try_lock(struct split_header *header) {
  for (int i = 0; i < LOCK_TRIES; i++) {
    uint64_t since = atomic_load_explicit(&header->admission_lock, relaxed);
    uint64_t now = now_ns();
    if ((since == 0 || now < since || now - since > split_admission_lock_ns) &&
        atomic_compare_exchange_weak(&header->admission_lock, &since, now)) {
      return now;
    }
  }
  return 0;
}

static void unlock(struct split_header *header, uint64_t since) {
  atomic_compare_exchange_strong(&header->admission_lock, &since, 0);
}

/* The table --------------------------------------------------------------------------------- */

static bool claim(struct split_mapping *mapping, split_admission *admission) {
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) {
    uint64_t nobody = 0;
    if (atomic_load_explicit(&mapping->requests[i].owner, relaxed) == 0 &&
        atomic_compare_exchange_strong(&mapping->requests[i].owner, &nobody, admission->owner)) {
      admission->entry = i;
      return true;
    }
  }
  return false;
}

static void reclaim(struct split_mapping *mapping, uint64_t own) {
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) {
    uint64_t owner = atomic_load(&mapping->requests[i].owner);
    if (owner != 0 && owner != own && is_dead(owner))
      atomic_compare_exchange_strong(&mapping->requests[i].owner, &owner, 0);
  }
}

/* True for one thread of all processes each CHECK_NS. */
static bool check_is_due(struct split_header *header, uint64_t now) {
  uint64_t checked = atomic_load_explicit(&header->checked_ns, relaxed);
  return (now < checked || now - checked > CHECK_NS) &&
         atomic_compare_exchange_strong(&header->checked_ns, &checked, now);
}

/* The entry, if it is still this request's. */
static struct split_request *entry_of(const split_admission *admission) {
  if (!admission->open || admission->entry >= SPLIT_REQUESTS) return NULL;
  struct split_mapping *mapping = admission->private_;
  struct split_request *entry = &mapping->requests[admission->entry];
  return atomic_load_explicit(&entry->owner, relaxed) == admission->owner ? entry : NULL;
}

/* One that asks no more holds up no other. */
static bool is_waiting(const struct split_request *entry, uint64_t now) {
  return atomic_load_explicit(&entry->state, memory_order_acquire) == SPLIT_REQUEST_WAITS &&
         now < atomic_load_explicit(&entry->until_ns, relaxed) + SUSPENDED_NS;
}

static bool is_before(const struct split_request *one, const struct split_request *other) {
  const uint64_t a = atomic_load_explicit(&one->deadline_ns, relaxed);
  const uint64_t b = atomic_load_explicit(&other->deadline_ns, relaxed);
  return a < b || (a == b && one < other);
}

/* Requests that run, and those that wait and come before this one (NULL: all that wait). */
static void count(struct split_mapping *mapping, const struct split_request *own, uint64_t now,
                  uint32_t *running, uint32_t *before) {
  *running = *before = 0;
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) {
    const struct split_request *entry = &mapping->requests[i];
    if (entry == own || atomic_load_explicit(&entry->owner, memory_order_acquire) == 0) continue;
    if (atomic_load_explicit(&entry->state, memory_order_acquire) == SPLIT_REQUEST_RUNS)
      ++*running;
    else if (is_waiting(entry, now) && (!own || is_before(entry, own)))
      ++*before;
  }
}

/* Counters ---------------------------------------------------------------------------------- */

static void add(_Atomic uint64_t *counter, uint64_t value) {
  atomic_fetch_add_explicit(counter, value, relaxed);
}

static void wait_ended(struct split_mapping *mapping, split_admission *admission,
                       const struct split_request *entry) {
  if (!admission->held) return;
  admission->held = false;
  const uint64_t asked = atomic_load_explicit(&entry->asked_ns, relaxed), now = now_ns();
  const uint64_t waited = now > asked ? now - asked : 0;
  struct split_header *header = mapping->header;
  add(&header->waits, 1);
  add(&header->waited_ns, waited);
  uint64_t longest = atomic_load_explicit(&header->longest_wait_ns, relaxed);
  while (longest < waited &&
         !atomic_compare_exchange_weak(&header->longest_wait_ns, &longest, waited)) {
  }
}

/* The outermost section of this thread, which decides its slice; NULL: none is open. */
static struct split_open *own_section(const struct split_mapping *mapping) {
  const struct split_self *self = split_self_here;
  struct split_open *open = self && self->mapping == mapping ? self->innermost : NULL;
  return open && !open->outer ? open : NULL;
}

static void run(struct split_mapping *mapping, split_admission *admission,
                struct split_request *entry) {
  atomic_store(&entry->state, SPLIT_REQUEST_RUNS);
  wait_ended(mapping, admission, entry);
}

static enum split_admission_answer admit(struct split_mapping *mapping, split_admission *admission,
                                         struct split_request *entry) {
  struct split_open *open = admission->held ? own_section(mapping) : NULL;
  run(mapping, admission, entry);
  if (open) split_slice_section(split_self_here, open);
  return SPLIT_ADMISSION_ADMITTED;
}

static enum split_admission_answer hold(struct split_mapping *mapping, split_admission *admission) {
  struct split_open *open = admission->held ? NULL : own_section(mapping);
  admission->held = true;
  if (open && open->flags & SPLIT_OPEN_YIELDS) split_slice_section_ends(split_self_here, open);
  return SPLIT_ADMISSION_HELD;
}

/* Asking ------------------------------------------------------------------------------------ */

static bool takes_a_place(struct split_mapping *mapping, struct split_request *entry,
                          uint32_t idle) {
  uint64_t since = try_lock(mapping->header);
  if (since == 0) return false;
  uint32_t running, before;
  count(mapping, entry, since, &running, &before);
  const uint32_t places = atomic_load_explicit(&mapping->header->places, relaxed);
  const bool free_one = (running > idle ? running - idle : 0) + before < places;
  if (free_one) atomic_store(&entry->state, SPLIT_REQUEST_RUNS);
  unlock(mapping->header, since);
  return free_one;
}

static enum split_admission_answer look(struct split_mapping *mapping, split_admission *admission,
                                        struct split_request *entry, uint32_t idle) {
  const uint64_t now = now_ns();
  if (!split_fresh_for_slices(mapping) ||
      !limits(mapping, atomic_load_explicit(&entry->code, relaxed))) {
    return admit(mapping, admission, entry);
  }
  if (now >= admission->until_ns) {
    add(&mapping->header->late, 1);
    return admit(mapping, admission, entry);
  }
  if (takes_a_place(mapping, entry, idle)) return admit(mapping, admission, entry);
  if (check_is_due(mapping->header, now)) {
    reclaim(mapping, admission->owner);
    if (takes_a_place(mapping, entry, idle)) return admit(mapping, admission, entry);
  }
  return hold(mapping, admission);
}

static bool claim_or_reclaim(struct split_mapping *mapping, split_admission *admission,
                             uint64_t now) {
  if (claim(mapping, admission)) return true;
  if (check_is_due(mapping->header, now)) {
    reclaim(mapping, admission->owner);
    if (claim(mapping, admission)) return true;
  }
  add(&mapping->header->unlimited, 1);
  return false;
}

/* What a request of this kind is expected to take, at most its limit: any number may be there. */
static uint64_t expected_ns(const struct split_mapping *mapping,
                            const struct split_admission_request *request) {
  const uint64_t cycles =
      atomic_load_explicit(&mapping->decisions[request->code].expected_cycles, relaxed);
  const double expected = (double)cycles / mapping->cycles_per_ns;
  return expected < (double)request->limit_ns ? (uint64_t)expected : request->limit_ns;
}

static enum split_admission_answer ask(struct split_mapping *mapping, split_admission *admission,
                                       const struct split_admission_request *request) {
  const uint64_t now = now_ns();
  admission->owner = own_owner(admission);
  if (!has_start(admission->owner)) {
    admission->owner = 0;
    return SPLIT_ADMISSION_NOT_NEEDED;
  }
  if (!claim_or_reclaim(mapping, admission, now)) return SPLIT_ADMISSION_NOT_NEEDED;
  struct split_request *entry = &mapping->requests[admission->entry];
  atomic_store_explicit(&entry->code, request->code, relaxed);
  atomic_store_explicit(&entry->asked_ns, now, relaxed);
  atomic_store_explicit(&entry->deadline_ns, now + expected_ns(mapping, request), relaxed);
  atomic_store_explicit(&entry->until_ns, now + request->limit_ns, relaxed);
  atomic_store_explicit(&entry->waker, request->waker, relaxed);
  admission->private_ = mapping;
  admission->until_ns = now + request->limit_ns;
  admission->open = true;
  admission->held = false;
  if (request->at_once || request->limit_ns == 0) {
    add(&mapping->header->exempt, 1);
    return admit(mapping, admission, entry);
  }
  atomic_store(&entry->state, SPLIT_REQUEST_WAITS);
  return look(mapping, admission, entry, 0);
}

enum split_admission_answer split_admission_ask(split_admission *admission,
                                                const struct split_admission_request *request) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (admission->open) split_admission_leave(admission, NULL, 0);
  if (!mapping || !limits(mapping, request->code) || !split_fresh_for_slices(mapping))
    return SPLIT_ADMISSION_NOT_NEEDED;
  const int before = errno;
  enum split_admission_answer answer = ask(mapping, admission, request);
  errno = before;
  return answer;
}

enum split_admission_answer split_admission_again(split_admission *admission, uint32_t idle) {
  struct split_request *entry = entry_of(admission);
  if (!entry || atomic_load_explicit(&entry->state, relaxed) != SPLIT_REQUEST_WAITS)
    return entry ? SPLIT_ADMISSION_ADMITTED : SPLIT_ADMISSION_NOT_NEEDED;
  const int before = errno;
  enum split_admission_answer answer = look(admission->private_, admission, entry, idle);
  errno = before;
  return answer;
}

/* Without its section's slice and class: those that wait for it should not wait for a thread in the
 * background. */
void split_admission_insist(split_admission *admission) {
  struct split_request *entry = entry_of(admission);
  if (!entry || atomic_load_explicit(&entry->state, relaxed) != SPLIT_REQUEST_WAITS) return;
  struct split_mapping *mapping = admission->private_;
  const int before = errno;
  add(&mapping->header->for_others, 1);
  run(mapping, admission, entry);
  errno = before;
}

static uint64_t counted(const _Atomic uint64_t *counter) {
  return atomic_load_explicit(counter, relaxed);
}

bool split_admission_count(struct split_admission_counts *counts) {
  struct split_mapping *mapping = split_mapping_in_use();
  *counts = (struct split_admission_counts){0};
  if (!mapping) return false;
  const struct split_header *header = mapping->header;
  count(mapping, NULL, now_ns(), &counts->running, &counts->waiting);
  counts->waits = counted(&header->waits);
  counts->waited_ns = counted(&header->waited_ns);
  counts->longest_wait_ns = counted(&header->longest_wait_ns);
  counts->late = counted(&header->late);
  counts->for_others = counted(&header->for_others);
  counts->exempt = counted(&header->exempt);
  counts->unlimited = counted(&header->unlimited);
  return true;
}

/* Leaving ----------------------------------------------------------------------------------- */

/* The waiting request that comes next after this one (NULL: the first); NULL: there is none. */
static const struct split_request *next_after(struct split_mapping *mapping,
                                              const struct split_request *last, uint64_t now) {
  const struct split_request *next = NULL;
  for (uint32_t i = 0; i < SPLIT_REQUESTS; i++) {
    const struct split_request *entry = &mapping->requests[i];
    if (atomic_load(&entry->owner) != 0 && is_waiting(entry, now) &&
        (!last || is_before(last, entry)) && (!next || is_before(entry, next)))
      next = entry;
  }
  return next;
}

/* Wakers of the requests that wait, in their order; the first as many as there are places. */
static uint32_t next_ones(struct split_mapping *mapping, uint32_t *wakers, uint32_t room) {
  const uint64_t now = now_ns();
  uint32_t running, waiting, written = 0;
  count(mapping, NULL, now, &running, &waiting);
  const uint32_t places = atomic_load_explicit(&mapping->header->places, relaxed);
  if (waiting == 0 || running >= places) return 0;
  if (room > places - running) room = places - running;
  const struct split_request *next = NULL;
  while (written < room && (next = next_after(mapping, next, now)) != NULL)
    wakers[written++] = atomic_load_explicit(&next->waker, relaxed);
  return written;
}

uint32_t split_admission_leave(split_admission *admission, uint32_t *wakers, uint32_t room) {
  if (!admission->open) return 0;
  const int before = errno;
  struct split_mapping *mapping = admission->private_;
  struct split_request *entry = entry_of(admission);
  uint32_t written = 0;
  admission->open = false;
  if (entry) {
    wait_ended(mapping, admission, entry);
    atomic_store(&entry->state, 0);
    atomic_store(&entry->owner, 0);
    if (mapping == split_mapping_in_use()) written = next_ones(mapping, wakers, room);
  }
  errno = before;
  return written;
}

uint32_t split_admission_running(const split_admission *admission,
                                 struct split_admission_thread *threads, uint32_t room) {
  struct split_mapping *mapping = split_mapping_in_use();
  uint32_t written = 0;
  for (uint32_t i = 0; mapping && i < SPLIT_REQUESTS && written < room; i++) {
    const struct split_request *entry = &mapping->requests[i];
    const uint64_t owner = atomic_load(&entry->owner);
    if (owner == 0 || (admission->open && i == admission->entry)) continue;
    if (atomic_load(&entry->state) == SPLIT_REQUEST_RUNS)
      threads[written++] = (struct split_admission_thread){
          .waker = atomic_load_explicit(&entry->waker, relaxed), .tid = (uint32_t)owner};
  }
  return written;
}
