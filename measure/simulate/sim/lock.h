/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Locks in the shared segment.  A word holds the owner's pid, 0 when free, so
 * that the lock of a killed process can be taken over: a simulated server must
 * survive `kill -9` of one backend as the real one does.
 */
#ifndef HM_LOCK_H
#define HM_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "host.h"

#define HM_SPINS_BEFORE_YIELD 64
#define HM_YIELDS_BEFORE_CHECK 256

static inline int hm_lock_try(_Atomic uint32_t *word, uint32_t me) {
  uint32_t free = 0;
  return atomic_compare_exchange_strong_explicit(word, &free, me, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* Takes the lock from an owner that no longer exists. */
static inline int hm_lock_take_over(_Atomic uint32_t *word, uint32_t me) {
  uint32_t owner = atomic_load_explicit(word, memory_order_relaxed);
  if (owner == 0 || hm_host_process_exists(owner)) return 0;
  return atomic_compare_exchange_strong_explicit(word, &owner, me, memory_order_acquire,
                                                 memory_order_relaxed);
}

/* For short critical sections: spins, then yields. */
static inline void hm_lock_acquire(_Atomic uint32_t *word, uint32_t me) {
  for (uint32_t tries = 1; !hm_lock_try(word, me); tries++) {
    if (tries % HM_SPINS_BEFORE_YIELD != 0) {
      __builtin_ia32_pause();
    } else if (tries % (HM_SPINS_BEFORE_YIELD * HM_YIELDS_BEFORE_CHECK) == 0) {
      if (hm_lock_take_over(word, me)) return;
    } else {
      hm_host_yield();
    }
  }
}

static inline void hm_lock_release(_Atomic uint32_t *word) {
  atomic_store_explicit(word, 0, memory_order_release);
}

#endif
