/* Frees records whose owner died. record.h has the statistics. */
#include "record.h"

#include <errno.h>
#include <signal.h>

bool split_record_mend(struct split_record *record) {
  uint32_t owner = atomic_load_explicit(&record->owner, memory_order_acquire);
  if (owner == 0 || owner > INT32_MAX) return false;
  int before = errno;
  bool dead = kill((pid_t)owner, 0) != 0 && errno == ESRCH;
  errno = before;
  if (!dead) return false;
  /* Made even first: once the record has no owner, another thread may write it. */
  uint32_t sequence = atomic_load_explicit(&record->sequence, memory_order_relaxed);
  if (sequence & 1) atomic_compare_exchange_strong(&record->sequence, &sequence, sequence + 1);
  return atomic_compare_exchange_strong(&record->owner, &owner, 0);
}
