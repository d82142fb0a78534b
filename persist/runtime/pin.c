/*
 * Pins: objects whose addresses a program keeps where no sweep finds them. The segment is pinned, a
 * megabyte for an object, so that a sweep checks once for all objects in it. A program with
 * pointers all over a large store keeps much of it in memory.
 */
#include "fault.h"
#include "segment.h"
#include "store.h"
#include "unread.h"

static _Noreturn void refuse(const char *call, const void *object, const char *what) {
  p3l_error error;
  p3l_fail(&error, P3L_MISUSE, "%s of %p, %s", call, object, what);
  p3l_raise(&error);
}

/*
 * Returns the segment of an object and locks its store's slow path; NULL: not an object, nothing is
 * locked.
 */
static p3l_segment *lock_segment(const void *object) {
  p3l_segment *segment = p3l_segment_of(object);
  if (segment != NULL) pthread_mutex_lock(&segment->store->slow);
  return segment;
}

void p3l_pin(const void *object) {
  p3l_place place;
  p3l_error error;
  p3l_segment *segment = p3l_segment_of(object);
  if (segment != NULL && p3l_unread_read_all(segment, &error) != P3L_OK) p3l_raise(&error);
  segment = lock_segment(object);
  bool there = segment != NULL && p3l_place_of(object, &place);
  if (there) segment->pins++;
  if (segment != NULL) pthread_mutex_unlock(&segment->store->slow);
  if (!there) refuse("p3l_pin()", object, "which is not a persistent object in memory");
}

/*
 * True for a large object that was deleted while it was pinned: its memory can be freed at the last
 * unpin.
 */
static bool is_left_over(const p3l_segment *segment) {
  return segment->kind == P3L_LARGE && segment->pins == 0 &&
         (segment->large.object.flags & P3L_RESIDENT_DEAD) != 0;
}

/* A pinned object may have been deleted meanwhile: only its memory matters here. */
void p3l_unpin(const void *object) {
  p3l_segment *segment = lock_segment(object);
  p3l_store *store = segment != NULL ? segment->store : NULL;
  bool pinned = segment != NULL && segment->pins > 0;
  if (pinned) segment->pins--;
  if (pinned && is_left_over(segment)) p3l_segment_release(segment);
  if (store != NULL) pthread_mutex_unlock(&store->slow);
  if (!pinned) refuse("p3l_unpin()", object, "which is not pinned");
}
