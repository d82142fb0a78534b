/**
 * @file Class queues, for a server that can choose the next request of a thread. Requests are given
 * to suitable cores; no thread is moved.
 *
 *     put(kind A) ──> queue of A's group ──┐
 *     put(kind B) ──> queue of B's group ──┴─> take(worker): the oldest at home, else soft stealing
 *
 * The analyzer makes the groups (its plan gives each kind a queue and processors): it separates
 * kinds that pollute from those that suffer, and two kinds whose data do not fit into one cache
 * together. Workers are distributed over the processors of the groups and bound to them: these are
 * their homes. A kind without a decision is at home with every worker, in order of arrival.
 *
 * Soft stealing keeps all cores at work. A worker whose home has no work takes another home's
 * oldest request after its core has been idle for as long as stealing costs. That cost is learned
 * from the requests' CPU times: the extra time of a stolen request, and that of the thief's next
 * request at home. If it is zero (short requests, prefetched data), or if its home has hardly any
 * work, a worker does not wait; no worker waits more than 2 ms. A core that continues stealing from
 * the same group does not wait again, and returns home when the oldest request there is older than
 * the next one to steal: it changes less often, and no request waits longer than in one queue.
 * While another worker runs on the same core, stealing gains nothing: then only requests that have
 * waited for 2 ms are taken, because that worker may be blocked.
 *
 * Without an analyzer, or while its placement is off, there is one queue, first come first served,
 * and the kernel places the workers. When placement ends, sleeping workers get their affinity back
 * within half a second, others with their next take.
 *
 * Any number of threads may put and take. No memory is allocated after split_queue_open. No call
 * changes errno.
 */
#ifndef SPLIT_QUEUE_H
#define SPLIT_QUEUE_H

#include "split.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct split_queue split_queue;

/** Opens a queue for at most `capacity` waiting requests and `workers` threads (at most 65535);
 * call split_init first. Close it after all threads have stopped using it. @return NULL: no
 * memory. */
SPLIT_API split_queue *split_queue_open(size_t capacity, unsigned workers);
SPLIT_API void split_queue_close(split_queue *queue);

/** Adds a request (not NULL) of a kind; `key` and `length` (bytes) as for split_begin. @return
 * false: the queue is full or shut. */
SPLIT_API bool split_queue_put(split_queue *queue, const void *key, size_t length, void *request);

/** Worker number `worker` (from 0; one thread each) waits for a request and takes it. @return
 * NULL: the queue was shut and is empty; the thread's original affinity is restored. */
SPLIT_API void *split_queue_take(split_queue *queue, unsigned worker);

/** Shuts the queue: put fails, takers get the remaining requests, then NULL. */
SPLIT_API void split_queue_shut(split_queue *queue);

/** Counts of requests. `placed`: those taken while the analyzer placed the queue. */
struct split_queue_counts {
  uint64_t put, taken_at_home, stolen, refused, placed;
};
SPLIT_API void split_queue_counts(const split_queue *queue, struct split_queue_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
