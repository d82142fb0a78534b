/*
 * Carries out requests with threads that each wait for one read, if the kernel refuses rings.
 * Threads are started one by one while requests wait, and end with the crew.
 */
#include "read_many_engines.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

typedef struct queue {
  p3l_read_slot *first, *last;
} queue;

struct p3l_crew {
  pthread_mutex_t lock;
  pthread_cond_t work; /* a request waits, or the crew ends */
  pthread_cond_t news; /* a request is done */
  queue waiting, done;
  p3l_device *device;
  int limit, threads, idle;
  bool end;
  pthread_t ids[P3L_READ_MANY_THREADS];
};

static void put(queue *queue, p3l_read_slot *slot) {
  slot->next = NULL;
  if (queue->first == NULL)
    queue->first = slot;
  else
    queue->last->next = slot;
  queue->last = slot;
}

static p3l_read_slot *take(queue *queue) {
  p3l_read_slot *slot = queue->first;
  if (slot != NULL) queue->first = slot->next;
  return slot;
}

static void read_slot(p3l_device *device, p3l_read_slot *slot) {
  slot->failed = device->read(device, slot->pages, slot->length, slot->at);
}

static void *work(void *state) {
  p3l_crew *crew = state;
  pthread_mutex_lock(&crew->lock);
  while (!crew->end) {
    p3l_read_slot *slot = take(&crew->waiting);
    if (slot == NULL) {
      crew->idle++;
      pthread_cond_wait(&crew->work, &crew->lock);
      crew->idle--;
      continue;
    }
    p3l_device *device = crew->device;
    pthread_mutex_unlock(&crew->lock);
    read_slot(device, slot);
    pthread_mutex_lock(&crew->lock);
    put(&crew->done, slot);
    pthread_cond_signal(&crew->news);
  }
  pthread_mutex_unlock(&crew->lock);
  return NULL;
}

p3l_crew *p3l_crew_open(int threads) {
  p3l_crew *crew = calloc(1, sizeof(*crew));
  if (crew == NULL) return NULL;
  crew->limit = threads < P3L_READ_MANY_THREADS ? threads : P3L_READ_MANY_THREADS;
  pthread_mutex_init(&crew->lock, NULL);
  pthread_cond_init(&crew->work, NULL);
  pthread_cond_init(&crew->news, NULL);
  return crew;
}

void p3l_crew_close(p3l_crew *crew) {
  if (crew == NULL) return;
  pthread_mutex_lock(&crew->lock);
  crew->end = true;
  pthread_cond_broadcast(&crew->work);
  pthread_mutex_unlock(&crew->lock);
  for (int i = 0; i < crew->threads; i++) pthread_join(crew->ids[i], NULL);
  pthread_mutex_destroy(&crew->lock);
  pthread_cond_destroy(&crew->work);
  pthread_cond_destroy(&crew->news);
  free(crew);
}

/* Signals are for the program's own threads, so the library's threads block all of them. */
static void add_thread(p3l_crew *crew) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&crew->ids[crew->threads], NULL, work, crew) == 0) crew->threads++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void p3l_crew_start(p3l_crew *crew, p3l_device *device, p3l_read_slot *slot) {
  pthread_mutex_lock(&crew->lock);
  crew->device = device;
  if (crew->idle == 0 && crew->threads < crew->limit) add_thread(crew);
  if (crew->threads > 0) {
    put(&crew->waiting, slot);
    pthread_cond_signal(&crew->work);
  } else { /* no thread was requested, or none could be started */
    read_slot(device, slot);
    put(&crew->done, slot);
  }
  pthread_mutex_unlock(&crew->lock);
}

p3l_read_slot *p3l_crew_finish(p3l_crew *crew) {
  pthread_mutex_lock(&crew->lock);
  p3l_read_slot *slot;
  while ((slot = take(&crew->done)) == NULL) pthread_cond_wait(&crew->news, &crew->lock);
  pthread_mutex_unlock(&crew->lock);
  return slot;
}
