/*
 * Admission: a long statement waits here until it is its turn (split_admission.h). The queue is in
 * the library's segment; a process sleeps on its latch.
 *
 *   run ── admission_ask ── free place, or may not be held back ──────────> executes ── admission_leave
 *             │ held                                                          ^            │ SetLatch
 *             └─> WaitLatch (10 ms) ── a place, its limit, placement off ─────┤            v
 *                   │    ^    │ another process waits for its locks ──────────┘        the next one
 *                   │    └────┘
 *                   └ cancel, statement_timeout, termination, postmaster's death: ERROR, FATAL
 *
 * No process may wait for a statement that is held back:
 *   1. Not on a hot standby: replay may wait for a snapshot there, which is in no lock table.
 *   2. Only the first statement of a transaction without an xid is held back, and only if its
 *      process has no other locks than the weak ones of relations that its own parser and planner
 *      took. A session that has advisory locks is never held back.
 *   3. It may hold up a process that needs a strong lock (DDL, LOCK TABLE) or waits for its virtual
 *      transaction (CREATE INDEX CONCURRENTLY). Such a waiter puts the lock into the shared table;
 *      it is found there at the next look, 10 ms later, and the statement runs at once.
 *   4. A place whose statement waits for a lock or for its client does not count meanwhile.
 *   5. What is not visible here (an application that waits with another connection, dblink) is
 *      bounded by split.admission_timeout.
 *
 * A place belongs to the section of its statement: sections.c leaves it where the section ends,
 * and when a transaction aborts. Places of killed processes are found by those who wait.
 */
#include "admission.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "split_admission.h"

int split_admission_timeout = 1000;

#define NS_IN_MS UINT64CONST(1000000)
#define WEAK_LOCKS \
  (LOCKBIT_ON(AccessShareLock) | LOCKBIT_ON(RowShareLock) | LOCKBIT_ON(RowExclusiveLock))
#define WAKE_AT_ONCE 8
#define WAIT_CLASS 0xFF000000U

static split_admission own;
/* The transaction that has executed a statement. */
static LocalTransactionId began = InvalidLocalTransactionId;

void admission_transaction_began(void) { began = OWN_LXID; }

/* Locks ------------------------------------------------------------------------------------- */

struct found {
  bool strong;  /* this process has locks other than weak ones of relations */
  bool awaited; /* another process waits for one of them */
};

static void look_at_lock(const PROCLOCK *mine, struct found *found) {
  const LOCK *lock = mine->tag.myLock;
  if (lock->waitMask != 0) found->awaited = true;
  if (lock->tag.locktag_type != LOCKTAG_RELATION || (mine->holdMask & ~WEAK_LOCKS) != 0)
    found->strong = true;
}

/* The shared lock table: weak locks of relations are not in there, unless there are many or
 * another process waits for them. A list that is empty now may be filled by another process; the
 * next look sees it. */
static struct found look_at_locks(void) {
  struct found found = {false, false};
  for (int i = 0; i < NUM_LOCK_PARTITIONS; i++) {
    if (no_proclocks(i)) continue;
    LWLockAcquire(LockHashPartitionLockByIndex(i), LW_SHARED);
    for (PROCLOCK *mine = next_proclock(i, NULL); mine != NULL; mine = next_proclock(i, mine))
      look_at_lock(mine, &found);
    LWLockRelease(LockHashPartitionLockByIndex(i));
  }
  return found;
}

static bool may_be_held_back(void) {
  if (split_admission_timeout == 0 || RecoveryInProgress() || began == OWN_LXID ||
      IsSubTransaction() || IsInParallelMode() || IsolationIsSerializable() ||
      TransactionIdIsValid(GetTopTransactionIdIfAny()) || InterruptHoldoffCount != 0 ||
      QueryCancelHoldoffCount != 0 || CritSectionCount != 0) {
    return false;
  }
  struct found found = look_at_locks();
  return !found.strong && !found.awaited;
}

/* Other processes --------------------------------------------------------------------------- */

/* The number comes from shared memory that others write. */
static PGPROC *process_of(uint32_t waker) {
  return waker < ProcGlobal->allProcCount ? &ProcGlobal->allProcs[waker] : NULL;
}

static bool is_idle(const struct split_admission_thread *thread) {
  const PGPROC *process = process_of(thread->waker);
  if (process == NULL || process->pid != (int)thread->tid) return false;
  const uint32 waits = *(const volatile uint32 *)&process->wait_event_info & WAIT_CLASS;
  return waits == PG_WAIT_LOCK || waits == PG_WAIT_CLIENT;
}

/* Statements that run but wait for a lock or their client: their places are free meanwhile. */
static uint32_t idle_ones(void) {
  struct split_admission_thread threads[SPLIT_ADMISSION_REQUESTS];
  uint32_t running = split_admission_running(&own, threads, lengthof(threads)), idle = 0;
  for (uint32_t i = 0; i < running; i++) idle += is_idle(&threads[i]);
  return idle;
}

void admission_leave(void) {
  uint32_t wakers[WAKE_AT_ONCE];
  uint32_t count = split_admission_leave(&own, wakers, WAKE_AT_ONCE);
  for (uint32_t i = 0; i < count; i++) {
    PGPROC *process = process_of(wakers[i]);
    if (process != NULL) SetLatch(&process->procLatch);
  }
}

/* Waiting ----------------------------------------------------------------------------------- */

static void wait_for_turn(void) {
  do {
    int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                           SPLIT_ADMISSION_ASK_AGAIN_MS, admission_wait_event());
    if (events & WL_LATCH_SET) ResetLatch(MyLatch);
    CHECK_FOR_INTERRUPTS();
    if (look_at_locks().awaited) split_admission_insist(&own);
  } while (split_admission_again(&own, idle_ones()) == SPLIT_ADMISSION_HELD);
}

void admission_ask(split_code_id code, bool restrained) {
  if (!split_admission_limits(code)) return;
  const struct split_admission_request request = {
      .code = code,
      .limit_ns = (uint64_t)split_admission_timeout * NS_IN_MS,
      .waker = (uint32_t)OWN_PROC_NUMBER,
      .at_once = !restrained || !may_be_held_back(),
  };
  if (split_admission_ask(&own, &request) == SPLIT_ADMISSION_HELD) wait_for_turn();
}
