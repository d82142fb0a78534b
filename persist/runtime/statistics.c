/* A consistent copy of the counters. */
#include <string.h>

#include "store.h"

void p3l_get_statistics(p3l_store *store, p3l_statistics *statistics) {
  /* The first counter is written without the lock: swizzle.c. */
  const size_t rest = offsetof(p3l_statistics, objects_copied);
  _Static_assert(offsetof(p3l_statistics, swizzled) == 0, "it is the first");
  statistics->swizzled = __atomic_load_n(&store->statistics.swizzled, __ATOMIC_RELAXED);
  pthread_mutex_lock(&store->slow);
  memcpy((uint8_t *)statistics + rest, (const uint8_t *)&store->statistics + rest,
         sizeof(*statistics) - rest);
  pthread_mutex_unlock(&store->slow);
  statistics->reads += __atomic_load_n(&store->unread_reads, __ATOMIC_RELAXED);
  statistics->pages_read += __atomic_load_n(&store->unread_pages, __ATOMIC_RELAXED);
}
