/*
 * Carries out requests with io_uring. The kernel has up to 64 requests at a time; one system call
 * submits all that were collected.
 */
#include "read_many_engines.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

struct p3l_ring {
  struct io_uring ring;
  p3l_read_slot *gathered[P3L_READ_DEPTH]; /* not yet submitted, in order */
  unsigned count;                          /* number of these */
  unsigned inside;                         /* number of requests in the kernel */
  int broken; /* errno of a submission that failed for good: later requests fail, too */
};

p3l_ring *p3l_ring_open(void) {
  p3l_ring *ring = calloc(1, sizeof(*ring));
  if (ring == NULL) return NULL;
  if (io_uring_queue_init(P3L_READ_DEPTH, &ring->ring, 0) == 0) return ring;
  free(ring);
  return NULL;
}

void p3l_ring_close(p3l_ring *ring) {
  if (ring == NULL) return;
  io_uring_queue_exit(&ring->ring);
  free(ring);
}

void p3l_ring_start(p3l_ring *ring, int descriptor, p3l_read_slot *slot) {
  ring->gathered[ring->count++] = slot;
  if (ring->broken != 0) return;
  struct io_uring_sqe *request = io_uring_get_sqe(&ring->ring);
  io_uring_prep_read(request, descriptor, slot->pages, (unsigned)slot->length, slot->at.byte);
  io_uring_sqe_set_data(request, slot);
}

static void hand_over(p3l_ring *ring) {
  int taken = io_uring_submit(&ring->ring);
  if (taken > 0) {
    ring->inside += (unsigned)taken;
    ring->count -= (unsigned)taken;
    memmove(ring->gathered, ring->gathered + taken, ring->count * sizeof(ring->gathered[0]));
  } else if (taken != -EINTR && ring->inside == 0) {
    ring->broken = taken < 0 ? -taken : EIO;
  } /* else: the kernel is short of memory, and takes more when something is done */
}

p3l_read_slot *p3l_ring_finish(p3l_ring *ring) {
  struct io_uring_cqe *done = NULL;
  while (done == NULL) {
    if (ring->count > 0 && ring->broken == 0) hand_over(ring);
    if (ring->inside > 0) {
      io_uring_wait_cqe(&ring->ring, &done); /* done stays NULL if a signal arrived */
    } else if (ring->broken != 0) {
      p3l_read_slot *slot = ring->gathered[--ring->count];
      slot->failed = ring->broken;
      return slot;
    }
  }
  p3l_read_slot *slot = io_uring_cqe_get_data(done);
  if (done->res < 0)
    slot->failed = -done->res;
  else
    slot->failed = (size_t)done->res == slot->length ? 0 : ENODATA;
  io_uring_cqe_seen(&ring->ring, done);
  ring->inside--;
  return slot;
}
