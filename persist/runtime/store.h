/*
 * A store as the runtime has it. Private to runtime/; which room a field belongs to is said beside.
 *
 * Locks, in the order in which they are taken:
 *   scopes       shared by readers, exclusive for the writer and for eviction (p3l.h, Isolation)
 *   slow         whoever makes objects resident: page states, segments, pool. Held for short
 *   the pager's own
 */
#ifndef P3L_STORE_H
#define P3L_STORE_H

#include <pthread.h>

#include "allocate.h"
#include "residency.h"

struct p3l_changes; /* transaction.h */
struct p3l_pool;    /* pool.h */

struct p3l_store {
  char *path;
  p3l_pager *pager;
  p3l_options options;
  struct p3l_store *next; /* of the stores that are open */

  /* types.c: the store's types and the program's. */
  p3l_type_table types;
  const p3l_type **program_types; /* [store's id]: what the program calls it; NULL: nothing */
  p3l_type_id *current; /* [store's id]: id of the program's layout of that name; 0: as stored */

  /* residency.c, pool.c, segment.c: under `slow`. */
  pthread_mutex_t slow;
  p3l_page_states *pages;
  struct p3l_pool *pool;
  p3l_segment *oldest, *youngest; /* segments, in order of birth */
  p3l_segment *filling;           /* the arena that grows */
  uint64_t births;
  p3l_statistics statistics;

  /* transaction.c */
  pthread_rwlock_t scopes;
  struct p3l_changes *changes; /* of the transaction under way, or NULL */
  pthread_t writer;            /* valid while changes != NULL */
  p3l_error failure;           /* p3l_failure() */
};

/* fault.c: tells the handler; does not return. */
__attribute__((noreturn)) void p3l_raise(const p3l_error *error);

/* types.c */
/* Checks the store's types against those registered. */
p3l_code p3l_types_open(p3l_store *store, p3l_error *error);
/* The store's id of a type of the program; adds it within the transaction if it is not there. */
p3l_code p3l_types_id(p3l_store *store, const p3l_type *type, p3l_type_id *id, p3l_error *error);
/* How objects of an id look in memory; NULL: no such type. */
const p3l_stored_type *p3l_types_of(const p3l_store *store, p3l_type_id id);
/* The upgrade to the program's layout, if objects of this id need one. */
bool p3l_types_upgrade(const p3l_store *store, p3l_type_id id, p3l_type_id *to,
                       p3l_upgrade *upgrade);
void p3l_types_close(p3l_store *store);

/* convert.c: between what memory has and what the store has. */
/*
 * Copies bytes [from, to) of an object as the store has them: swizzled slots become surrogates.
 * P3L_MISUSE: a slot points to what is no persistent object of this store; the message names type
 * and field.
 */
p3l_code p3l_unswizzle(const p3l_place *place, uint64_t from, uint64_t to, uint8_t *bytes,
                       p3l_error *error);
/* The surrogate for a pointer as a slot may have it (NULL, surrogate, address). */
p3l_code p3l_surrogate_of(const p3l_store *store, const void *pointer, uint64_t *surrogate,
                          p3l_error *error);

/* evict.c */
/* At a safe point: evicts if the store is above its limit. Takes the locks itself, and gives up if
 * somebody is within. */
void p3l_evict_if_needed(p3l_store *store);

#endif
