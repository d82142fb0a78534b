/*
 * Class queues: for a server that can choose which request a thread takes next. The request goes to a core that suits it, and no
 * thread is moved.
 *
 *     put(kind A) ──> queue of A's class ──┐
 *     put(kind B) ──> queue of B's class ──┴─> take(worker): its own queue first; if that is empty, soft stealing
 *
 * Every worker has a home: the queue whose cores it runs on (it is bound to one of them by the library). Soft stealing keeps all cores
 * at work: a polluter's worker that has nothing to do takes any request; a worker for clean kinds takes polluting ones only if more
 * than one waits (a core that is spoilt for one request is worth less than the wait of one). Without an analyzer, or while its
 * placement is off, there is one queue, first come first served, and workers run wherever the kernel wants.
 *
 * Any number of threads may put and take. Nothing is allocated after split_queue_open.
 */
#ifndef SPLIT_QUEUE_H
#define SPLIT_QUEUE_H

#include "split.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct split_queue split_queue;

/* For at most `capacity` waiting requests and `workers` threads; split_init first. NULL: no memory. */
SPLIT_API split_queue *split_queue_open(size_t capacity, unsigned workers);
SPLIT_API void split_queue_close(split_queue *queue);

/* A request of this kind waits; `key` and `length` as for split_begin. false: the queue is full (or shut). */
SPLIT_API bool split_queue_put(split_queue *queue, const void *key, size_t length, void *request);

/* Worker number `worker` asks for work and waits for it. NULL: the queue was shut and is empty. */
SPLIT_API void *split_queue_take(split_queue *queue, unsigned worker);

/* No more is put; takers get what is left, then NULL. */
SPLIT_API void split_queue_shut(split_queue *queue);

struct split_queue_counts {
  uint64_t put, taken_at_home, stolen, refused;
};
SPLIT_API void split_queue_counts(const split_queue *queue, struct split_queue_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
