/*
 * The runtime's state of an open store. Private to runtime/; comments name the file that owns each
 * field.
 *
 * Locks, in the order in which they are taken:
 *   scopes       shared by readers, exclusive for the writer and for eviction (p3l.h, Isolation)
 *   slow         held briefly to make objects resident: page states, segments, pool
 *   the pager's lock
 * No lock is held when p3l_raise() is called.
 */
#ifndef P3L_STORE_H
#define P3L_STORE_H

#include <pthread.h>

#include "allocate.h"
#include "p3l.h"

struct p3l_changes;     /* changes.h */
struct p3l_page_states; /* page_state.h */
struct p3l_pool;        /* pool_frames.h */
struct p3l_segment;     /* segment.h */

#define P3L_TYPE_CACHE 256

#define P3L_FOLLOWED_TYPES 256

struct p3l_store {
  char *path;
  p3l_pager *pager;
  p3l_options options;
  struct p3l_store *next; /* next open store: list p3l_open_stores */

  /* types.c: the store's types and the program's. */
  p3l_type_table types;
  const p3l_type **program_types; /* [store's id]: the program's type; NULL: none */
  p3l_type_id *current;   /* [store's id]: id of the program's layout of that name; 0: as stored */
  uint32_t type_capacity; /* capacity of both arrays */
  bool upgrades;          /* some id has an entry in `current` */
  bool unions;            /* some type has unions */
  p3l_stored_type **provisional;          /* layouts missing in a store open for reading */
  uint32_t provisional_count;             /* their ids count down from P3L_FORWARD - 1 */
  p3l_type_id type_cache[P3L_TYPE_CACHE]; /* recently used ids, by descriptor */

  /* residency*.c, pool*.c, segment.c: guarded by `slow`. */
  pthread_mutex_t slow;
  struct p3l_page_states *pages;
  struct p3l_pool *pool;
  const void *slot;                      /* slot whose pointer is being resolved; NULL: none */
  struct p3l_segment *oldest, *youngest; /* segments, in order of birth */
  struct p3l_segment *filling;           /* the arena that is being filled */
  uint64_t births;
  uint64_t page_count; /* pages of the store in the file, as of the last read */
  p3l_statistics statistics;
  uint64_t unread_reads, unread_pages; /* unread.c: atomic, parts of `reads` and `pages_read` */

  /* swizzle_page.c: heuristics, atomic */
  uint64_t followed[P3L_FOLLOWED_TYPES]; /* [type id, wrapped]: kinds of slots that are followed */
  uint64_t passes;                       /* number of pages that were swizzled whole */

  bool lost; /* refresh.c: a refresh failed after it had begun; nothing can be resolved any more */

  /* transaction.c, scope.c, evict.c */
  pthread_rwlock_t scopes;
  struct p3l_changes *changes;       /* of the transaction under way, or NULL */
  struct p3l_changes *spare_changes; /* empty, for the next transaction; or NULL */
  struct {
    uint32_t index; /* in the segment table; `born` shows whether the segment is still the same */
    uint64_t born, offset;
  } audit_hand;      /* audit.c */
  p3l_error failure; /* p3l_failure() */
  uint64_t sweep_at; /* atomic: memory_bytes that trigger the next sweep; 0: the limit */
};

/* Memory for objects, pages and their records: p3l_statistics.memory_bytes. Guarded by `slow`. */
static inline void p3l_memory_grew(p3l_store *store, uint64_t bytes) {
  p3l_statistics *statistics = &store->statistics;
  statistics->memory_bytes += bytes;
  if (statistics->memory_peak < statistics->memory_bytes)
    statistics->memory_peak = statistics->memory_bytes;
}
static inline void p3l_memory_shrank(p3l_store *store, uint64_t bytes) {
  store->statistics.memory_bytes -= bytes;
}

#endif
