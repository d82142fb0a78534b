/*
 * Decides when to sweep: at a safe point of a store above its limit. evict_sweep.h has the
 * invariants.
 */
#include "evict.h"

#include "evict_sweep.h"
#include "store.h"
#include "visits.h"

/* Bytes to keep: half of the limit, since the cost of a sweep depends on what stays. */
static uint64_t goal(const p3l_store *store) { return store->options.memory_bytes / 2; }

/* Held bytes that trigger the next sweep: the limit, or, if the last sweep could not get below
 * it (pins, page states), well above what that sweep left. Otherwise every safe point would
 * sweep in vain. */
static uint64_t threshold(const p3l_store *store) {
  uint64_t limit = store->options.memory_bytes;
  return store->sweep_at > limit ? store->sweep_at : limit;
}

static void sweep_by_limit(p3l_store *store) {
  pthread_mutex_lock(&store->slow);
  if (store->statistics.memory_bytes > threshold(store) &&
      p3l_sweep(store, goal(store), NULL, NULL) == P3L_OK)
    store->sweep_at = store->statistics.memory_bytes + store->options.memory_bytes / 4;
  pthread_mutex_unlock(&store->slow);
}

/*
 * Scopes of many threads may overlap for ever, so that no thread that leaves finds the store empty.
 * Then one thread has to wait, and threads that enter wait behind it. This is done only well above
 * the limit, because a reader in a long scope makes all of them wait, and never by a thread that is
 * within another store, where other threads may wait for it.
 */
static bool worth_waiting(const p3l_store *store, uint64_t held) {
  return held > threshold(store) + store->options.memory_bytes / 2 && !p3l_scope_anywhere();
}

void p3l_evict_if_needed(p3l_store *store) {
  if (store->options.memory_bytes == 0) return;
  /* The thread that holds `slow` is within a scope and calls this when it leaves. */
  if (pthread_mutex_trylock(&store->slow) != 0) return;
  uint64_t held = store->statistics.memory_bytes;
  bool above = held > threshold(store), wait = worth_waiting(store, held);
  pthread_mutex_unlock(&store->slow);
  if (!above) return;
  if (wait)
    pthread_rwlock_wrlock(&store->scopes);
  else if (pthread_rwlock_trywrlock(&store->scopes) != 0)
    return;
  sweep_by_limit(store);
  pthread_rwlock_unlock(&store->scopes);
}

p3l_code p3l_evict(p3l_store *store, uint64_t bytes, p3l_error *error) {
  if (p3l_scope_writing(store) || p3l_scope_depth(store) > 0)
    return p3l_fail(error, P3L_MISUSE,
                    "%s: p3l_evict() within a scope or transaction of this thread, which may hold "
                    "pointers; leave it first",
                    store->path);
  pthread_rwlock_wrlock(&store->scopes);
  pthread_mutex_lock(&store->slow);
  p3l_code code = P3L_OK;
  if (store->statistics.memory_bytes > bytes) code = p3l_sweep(store, bytes, NULL, error);
  store->sweep_at = 0;
  pthread_mutex_unlock(&store->slow);
  pthread_rwlock_unlock(&store->scopes);
  return code;
}
