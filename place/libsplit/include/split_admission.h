/**
 * @file Admission: at most N long requests run at once, the others wait for their turn. The
 * analyzer decides which kinds are long, and N (`hardmeter split analyze --policy admit`).
 *
 *     split_admission_ask ── admitted ─────────────────────────────┐
 *        │ held                                                    ├─> run ── split_admission_leave
 *        └─> sleep ── split_admission_again ── held: sleep again   │            │ wake these
 *                        └ admitted ───────────────────────────────┘            └─> sleepers
 *
 * The library never waits: the host sleeps, in a way that its own interrupts end, for at most
 * SPLIT_ADMISSION_ASK_AGAIN_MS at a time, because nothing wakes a thread when the analyzer dies.
 * split_admission_leave returns the threads that the host should wake.
 *
 * Order: the earliest deadline first. A request's deadline is the time at which it asked plus its
 * kind's expected duration, so that only requests that ask within that time can overtake it. After
 * its limit it is admitted in any case.
 *
 * A host must not hold back a request for which others may wait: one that has locks, or is inside
 * a transaction (`at_once`, split_admission_insist).
 *
 * Any thread may make any call; a split_admission belongs to the thread that asked. No call blocks
 * or changes errno. The place of a thread that died is given to another one by those who wait.
 */
#ifndef SPLIT_ADMISSION_H
#define SPLIT_ADMISSION_H

#include "split.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPLIT_ADMISSION_ASK_AGAIN_MS 10
/** Requests of limited kinds that may run or wait at once; those beyond are not limited. */
#define SPLIT_ADMISSION_REQUESTS 1024

enum split_admission_answer {
  SPLIT_ADMISSION_NOT_NEEDED, /* the kind is not limited, or nothing is placed now; or there is no
                                 room for it in the table, or no /proc: it runs unseen */
  SPLIT_ADMISSION_HELD,       /* wait, and ask again */
  SPLIT_ADMISSION_ADMITTED,   /* run, then leave */
};

/** A request's state, in memory of its host; zero before its first use. */
typedef struct split_admission {
  void *private_;
  uint64_t owner;
  uint64_t until_ns;
  uint32_t entry;
  bool open, held;
} split_admission;

struct split_admission_request {
  split_code_id code; /* its kind */
  uint64_t limit_ns;  /* the longest wait; 0: as `at_once` */
  uint32_t waker;     /* a number by which the host finds the thread to wake */
  bool at_once;       /* it may not be held back: it runs, and counts */
};

/** Whether requests of this kind are limited now: a quick check, to be followed by
 * split_admission_ask. */
SPLIT_API bool split_admission_limits(split_code_id code);

/** Asks for a place. A request that `admission` still has is left first. */
SPLIT_API enum split_admission_answer split_admission_ask(
    split_admission *admission, const struct split_admission_request *request);

/** Asks again, after SPLIT_ADMISSION_HELD.
 * @param idle the number of admitted requests (split_admission_running) that wait for something
 * else than a processor: their places may be used meanwhile. */
SPLIT_API enum split_admission_answer split_admission_again(split_admission *admission,
                                                            uint32_t idle);

/** Others wait for what this request holds: it runs at once, whether there is a place or not, and
 * not in the background. */
SPLIT_API void split_admission_insist(split_admission *admission);

/** The request has ended, or no longer waits. @param wakers receives the numbers of threads that
 * can be admitted now, at most `room`. @return how many; 0 if it had not asked. Read from memory
 * that other processes write: check each before it is used as an index. */
SPLIT_API uint32_t split_admission_leave(split_admission *admission, uint32_t *wakers,
                                         uint32_t room);

/** Requests now, and counters since the segment was made. */
struct split_admission_counts {
  uint32_t running, waiting;
  uint64_t waits, waited_ns, longest_wait_ns; /* of requests that waited for a place */
  uint64_t late;                              /* admitted without a place: after their limit, */
  uint64_t for_others; /* because others waited for them (split_admission_insist), */
  uint64_t exempt;     /* or because they may not be held back (at_once) */
  uint64_t unlimited;  /* not limited: more than SPLIT_ADMISSION_REQUESTS at once */
};
/** @return false if the library is off; then all counts are 0. */
SPLIT_API bool split_admission_count(struct split_admission_counts *counts);

/** The thread of a request, both numbers unchecked. */
struct split_admission_thread {
  uint32_t waker; /* split_admission_request.waker */
  uint32_t tid;   /* the kernel's */
};
/** The threads of admitted requests, except the caller's own; at most `room`.
 * @return how many were written. */
SPLIT_API uint32_t split_admission_running(const split_admission *admission,
                                           struct split_admission_thread *threads, uint32_t room);

#ifdef __cplusplus
}
#endif
#endif
