/*
 * A store as the runtime has it. Private to runtime/; which room a field belongs to is said beside.
 *
 * Locks, in the order in which they are taken:
 *   scopes       shared by readers, exclusive for the writer and for eviction (p3l.h, Isolation)
 *   slow         whoever makes objects resident: page states, segments, pool. Held for short
 *   the pager's own
 * None is held when p3l_raise() is called.
 */
#ifndef P3L_STORE_H
#define P3L_STORE_H

#include <pthread.h>

#include "allocate.h"
#include "residency.h"

struct p3l_changes; /* transaction.h */
struct p3l_pool;    /* pool.h */

#define P3L_TYPE_CACHE 16 /* a power of two */

#define P3L_FOLLOWED_TYPES 256

struct p3l_store {
  char *path;
  p3l_pager *pager;
  p3l_options options;
  struct p3l_store *next; /* of the stores that are open: p3l_open_stores */

  /* types.c: the store's types and the program's. */
  p3l_type_table types;
  const p3l_type **program_types; /* [store's id]: what the program calls it; NULL: nothing */
  p3l_type_id *current;   /* [store's id]: id of the program's layout of that name; 0: as stored */
  uint32_t type_capacity; /* of both */
  bool upgrades;          /* some id has a `current` */
  p3l_stored_type **provisional;          /* layouts that a store open for reading does not have */
  uint32_t provisional_count;             /* their ids go down from P3L_FORWARD - 1 */
  p3l_type_id type_cache[P3L_TYPE_CACHE]; /* the ids asked for last, by descriptor */

  /* residency.c, pool.c, segment.c: under `slow`. */
  pthread_mutex_t slow;
  p3l_page_states *pages;
  struct p3l_pool *pool;
  const void *slot;               /* that leads to what is being resolved; NULL: none does */
  p3l_segment *oldest, *youngest; /* segments, in order of birth */
  p3l_segment *filling;           /* the arena that grows */
  uint64_t births;
  p3l_statistics statistics;

  /* swizzle_page.c: heuristics, atomic */
  uint64_t followed[P3L_FOLLOWED_TYPES]; /* [type id, wrapped]: kinds of slots that are followed */
  uint64_t passes;                       /* pages that were swizzled whole */

  /* transaction.c, scope.c, evict.c */
  pthread_rwlock_t scopes;
  struct p3l_changes *changes;       /* of the transaction under way, or NULL */
  struct p3l_changes *spare_changes; /* empty, for the next transaction; or NULL */
  p3l_error failure;                 /* p3l_failure() */
  uint64_t sweep_at; /* atomic: memory_bytes that makes the next sweep; 0: the limit */
};

/* ---- store.c ---- */

extern p3l_store *p3l_open_stores; /* for debuggers (gdb/p3l.py): head of `next` */
/* p3l_open() once its pager is open, which it takes over; it is closed if this fails. */
p3l_code p3l_open_pager(p3l_pager *pager, const p3l_options *options, p3l_store **store,
                        p3l_error *error);

/* Memory for objects, pages and what is known of them: p3l_statistics.memory_bytes. Under `slow`. */
static inline void p3l_memory_grew(p3l_store *store, uint64_t bytes) {
  p3l_statistics *statistics = &store->statistics;
  statistics->memory_bytes += bytes;
  if (statistics->memory_peak < statistics->memory_bytes)
    statistics->memory_peak = statistics->memory_bytes;
}
static inline void p3l_memory_shrank(p3l_store *store, uint64_t bytes) {
  store->statistics.memory_bytes -= bytes;
}

/* ---- fault.c ---- */

/* Tells the handler; does not return. The caller holds no lock and no memory. */
__attribute__((noreturn)) void p3l_raise(const p3l_error *error);

/* ---- types.c ---- */

/* Checks the store's types against those registered. */
p3l_code p3l_types_open(p3l_store *store, p3l_error *error);
/* The store's id of a type of the program; adds it within the transaction if it is not there. */
p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error);
/* Types that a transaction added are out again: those with ids from `limit` on. */
void p3l_types_forget(p3l_store *store, uint32_t limit);
/* How objects of an id look in memory; NULL: no such type. */
const p3l_stored_type *p3l_types_of(const p3l_store *store, p3l_type_id id);
/* What the program calls an id; NULL: nothing. */
const p3l_type *p3l_types_program(const p3l_store *store, p3l_type_id id);
/* The upgrade to the program's layout, if objects of this id need one. */
bool p3l_types_upgrade(const p3l_store *store, p3l_type_id id, p3l_type_id *to,
                       p3l_upgrade *upgrade);
void p3l_types_close(p3l_store *store);

/* ---- swizzle.c ---- */

/* The store closes; this thread may have chosen it. */
void p3l_use_no_longer(const p3l_store *store);
/* An upgrade function runs on this thread: it copies surrogates as they are. */
void p3l_upgrade_begins(void);
void p3l_upgrade_ends(void);

/* ---- convert.c: between what memory has and what the store has ---- */

/*
 * Copies bytes [from, to) of an object, whole words, as the store has them: swizzled slots become
 * surrogates. P3L_MISUSE: a slot points to what is no persistent object of this store; the message
 * names type and field.
 */
p3l_code p3l_unswizzle(const p3l_place *place, uint64_t from, uint64_t to, uint8_t *bytes,
                       p3l_error *error);
/* The surrogate for a pointer as a slot may have it (NULL, surrogate, address). */
p3l_code p3l_surrogate_of(const p3l_store *store, const void *pointer, uint64_t *surrogate,
                          p3l_error *error);

/* ---- evict.c ---- */

/* At a safe point: evicts if the store is above its limit. Takes the locks itself, and gives up if
 * somebody is within. */
void p3l_evict_if_needed(p3l_store *store);

#endif
