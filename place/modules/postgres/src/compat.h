/* The differences between PostgreSQL 15, 16, 17 and 18: no other file uses PG_VERSION_NUM. */
#ifndef SPLIT_POSTGRES_COMPAT_H
#define SPLIT_POSTGRES_COMPAT_H

#include "postgres.h"

#include "executor/executor.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "split is made for PostgreSQL 15 to 18"
#endif

/* Up to 17 the caller declares that it runs a plan only once. */
#if PG_VERSION_NUM >= 180000
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS query, direction, count
#else
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define RUN_ARGUMENTS query, direction, count, execute_once
#endif

/* This process among all: its number, and the number of its transaction. */
#if PG_VERSION_NUM >= 170000
#define OWN_PROC_NUMBER MyProcNumber
#define OWN_LXID MyProc->vxid.lxid
#else
#define OWN_PROC_NUMBER MyProc->pgprocno
#define OWN_LXID MyProc->lxid
#endif

/* The locks of this process in a partition of the shared lock table, one after the other. `mine`:
 * the one before; NULL: none. NULL: there are no more. */
static inline PROCLOCK *next_proclock(int partition, PROCLOCK *mine) {
#if PG_VERSION_NUM >= 160000
  dlist_head *all = &MyProc->myProcLocks[partition];
  dlist_node *next = NULL;
  if (mine == NULL && !dlist_is_empty(all))
    next = dlist_head_node(all);
  else if (mine != NULL && dlist_has_next(all, &mine->procLink))
    next = dlist_next_node(all, &mine->procLink);
  return next == NULL ? NULL : dlist_container(PROCLOCK, procLink, next);
#else
  SHM_QUEUE *all = &MyProc->myProcLocks[partition];
  return (PROCLOCK *)SHMQueueNext(all, mine == NULL ? all : &mine->procLink,
                                  offsetof(PROCLOCK, procLink));
#endif
}

static inline bool no_proclocks(int partition) {
#if PG_VERSION_NUM >= 160000
  return dlist_is_empty(&MyProc->myProcLocks[partition]);
#else
  return SHMQueueEmpty(&MyProc->myProcLocks[partition]);
#endif
}

/* In pg_stat_activity the wait is of type Extension; from 17 on it has a name. */
static inline uint32 admission_wait_event(void) {
#if PG_VERSION_NUM >= 170000
  static uint32 event = 0;
  if (event == 0) event = WaitEventExtensionNew("SplitAdmission");
  return event;
#else
  return PG_WAIT_EXTENSION;
#endif
}

#endif
