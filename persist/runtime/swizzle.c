/*
 * The slow path of a load: from a surrogate to an address. A traversal of untouched objects takes
 * it for every pointer, so its speed matters.
 *
 *   slot: surrogate ── p3l_swizzle: in place, or p3l_resolve ──> address (healed) ── eviction ──> surrogate
 *
 * Invariants:
 *  1. A slot is healed only if it still holds what was loaded, and only in persistent memory.
 *  2. `used` is an open store or NULL: closing a store clears it in the closing thread.
 *  3. No lock is held when p3l_raise() is called.
 */
#include "swizzle.h"

#include "fault.h"
#include "guard.h"
#include "open_stores.h"
#include "residency.h"
#include "residency_load.h"
#include "segment.h"
#include "store.h"
#include "swizzle_page.h"

/* Per thread: the store for slots outside of persistent memory. */
static _Thread_local p3l_store *used;

void p3l_use(p3l_store *store) { used = store; }
void p3l_use_no_longer(const p3l_store *store) {
  if (used == store) used = NULL;
}

static _Noreturn __attribute__((cold)) void no_store(const void *surrogate) {
  uint64_t address = (uint64_t)(uintptr_t)surrogate & P3L_ADDRESS_MASK;
  p3l_error error;
  p3l_fail(&error, P3L_MISUSE,
           "a pointer to page %llu, offset %llu lies outside of persistent memory, and %s: it does "
           "not say of which store it is; call p3l_use()",
           (unsigned long long)(address / P3L_PAGE_SIZE),
           (unsigned long long)(address % P3L_PAGE_SIZE),
           __atomic_load_n(&p3l_open_stores, __ATOMIC_ACQUIRE) == NULL ? "no store is open"
                                                                       : "several stores are open");
  p3l_raise(&error);
}

static p3l_store *store_elsewhere(const void *surrogate) {
  if (used != NULL) return used;
  p3l_store *only = __atomic_load_n(&p3l_open_stores, __ATOMIC_ACQUIRE);
  if (only == NULL || __atomic_load_n(&only->next, __ATOMIC_RELAXED) != NULL) no_store(surrogate);
  return only;
}

static __attribute__((noinline)) void *resolve(p3l_store *store, const void *slot,
                                               uint64_t surrogate) {
  p3l_error error;
  void *memory;
  pthread_mutex_lock(&store->slow);
  store->slot = slot;
  p3l_code code = p3l_resolve(store, surrogate, &memory, &error);
  store->slot = NULL;
  pthread_mutex_unlock(&store->slow);
  if (__builtin_expect(code != P3L_OK, 0)) p3l_raise(&error);
  return memory;
}

void *p3l_swizzle(void *slot, const void *surrogate) {
  uint64_t value = (uint64_t)(uintptr_t)surrogate;
  uint64_t address = value & P3L_ADDRESS_MASK;
  /* Not a surrogate: an address, a negative value with another meaning in the program ((void
   * *)-1), or a value that reads as page 0 (-0.0, INT64_MIN), since plugins check words that may
   * not be pointers. */
  if (__builtin_expect(!p3l_surrogate_possible(value) || p3l_upgrading, 0))
    return (void *)(uintptr_t)surrogate;

  p3l_segment *segment = p3l_segment_of(slot);
  p3l_store *store = segment != NULL ? segment->store : store_elsewhere(surrogate);
  /* A counter that may lose increments of concurrent threads; exact with one thread. */
  uint64_t *count = &store->statistics.swizzled;
  __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);

  /* Objects in place are found without the lock: half the cost of an uncontended lock, and
   * readers of a store that is in memory do not wait for each other. */
  uint64_t offset = address % P3L_PAGE_SIZE;
  p3l_page_state *state = p3l_page_state_find(store->pages, address / P3L_PAGE_SIZE);
  bool in_place = state != NULL && p3l_is_in_place_as(state, value);
  void *memory = in_place ? (uint8_t *)state->frame + offset
                          : resolve(store, segment != NULL ? slot : NULL, value);

  /*
   * Heals the slot if it still holds what was loaded. Load, compare, store is enough: only the
   * transaction's thread changes slots, and it is then alone (p3l.h, Isolation); other readers
   * write the same value. Release: a thread that reads the address sees the object. An unaligned
   * slot cannot exist: no type has one.
   */
  if (segment != NULL && ((uintptr_t)slot & (sizeof(void *) - 1)) == 0 &&
      __atomic_load_n((uintptr_t *)slot, __ATOMIC_RELAXED) == (uintptr_t)surrogate) {
    p3l_guard_begin(slot, sizeof(void *));
    __atomic_store_n((uintptr_t *)slot, (uintptr_t)memory, __ATOMIC_RELEASE);
    p3l_guard_end(slot, sizeof(void *));
  }
  if (in_place && __atomic_load_n(&state->found, __ATOMIC_RELAXED) != P3L_FOUND_ENOUGH)
    p3l_page_found(store, state);
  return memory;
}

p3l_store *p3l_store_of(const void *address) {
  const p3l_segment *segment = p3l_segment_of(address);
  return segment != NULL ? segment->store : NULL;
}
