/*
 * Class queues: for a server that can choose which request a thread takes next. The request goes to a core that suits it, and no
 * thread is moved.
 *
 *     put(kind A) ──> queue of A's group ──┐
 *     put(kind B) ──> queue of B's group ──┴─> take(worker): the oldest at home; if there is none, soft stealing
 *
 * Groups are the analyzer's (its plan gives each kind a queue and processors): kinds that pollute apart from those that suffer, and
 * also two kinds whose data do not fit into one cache together. Workers are shared out among the processors of the groups, and bound
 * to them: that is their home. A kind of which nothing was decided is at home with every worker, in its turn.
 *
 * Soft stealing keeps all cores at work. A worker whose home has nothing to do takes another home's oldest request, once its
 * core has been idle for as long as the theft will cost. That cost is learned from the requests' CPU times: what a stolen one takes
 * longer than at home, and what the thief's next one at home takes longer after it. Where it is nothing (short requests, data that
 * is prefetched), nobody waits, nor where there is hardly any work at home; nobody waits more than 2 ms. A core that goes on stealing
 * from the same group does not wait again, and goes home when the oldest request there is older than what it would steal next: so it
 * goes back and forth less, and nobody waits longer than in one queue.
 * While another worker runs on the same core nothing is won by a theft, nor by beside it going home: then only what has waited for
 * 2 ms is taken, for that worker may have blocked.
 *
 * Without an analyzer, or while its placement is off, there is one queue, first come first served, and workers run wherever the
 * kernel wants. When placement ends, sleeping workers get their affinity back within half a second, others with their next take.
 *
 * Any number of threads may put and take. Nothing is allocated after split_queue_open. No call changes errno.
 */
#ifndef SPLIT_QUEUE_H
#define SPLIT_QUEUE_H

#include "split.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct split_queue split_queue;

/* For at most `capacity` waiting requests and `workers` threads (65535 at most); split_init first. NULL: no memory. Close it once no
 * thread puts or takes any more. */
SPLIT_API split_queue *split_queue_open(size_t capacity, unsigned workers);
SPLIT_API void split_queue_close(split_queue *queue);

/* A request (not NULL) of this kind waits; `key` and `length` as for split_begin. false: the queue is full, or shut. */
SPLIT_API bool split_queue_put(split_queue *queue, const void *key, size_t length, void *request);

/* Worker number `worker` (from 0; one thread each) asks for work and waits for it. NULL: the queue was shut and is empty; the thread
 * has its first affinity again. */
SPLIT_API void *split_queue_take(split_queue *queue, unsigned worker);

/* No more is put; takers get what is left, then NULL. */
SPLIT_API void split_queue_shut(split_queue *queue);

/* `placed`: how many were taken while the analyzer had the queue placed. */
struct split_queue_counts {
  uint64_t put, taken_at_home, stolen, refused, placed;
};
SPLIT_API void split_queue_counts(const split_queue *queue, struct split_queue_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
