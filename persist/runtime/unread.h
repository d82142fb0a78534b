/*
 * Large objects with pointers are read 2 MB at a time, when the program first touches them: the first answer
 * out of a table of 72 MB does not wait for all of it. Private to runtime/.
 *
 *   memory of the object   | stretch 0 | stretch 1 | stretch 2 | ... |
 *                            readable    PROT_NONE   PROT_NONE
 *                                        │ the program touches it: SIGSEGV
 *                                        └──> its pages are read and checked ──> moved there (mremap) ──> the
 *                                             instruction is repeated
 *
 * Invariants:
 *  1. A stretch is unread and inaccessible, or read, checked and writable. Its bytes appear at once: no
 *     thread sees a part of them.
 *  2. What is unread is as the pager has it committed, in the version that the store shows: a change is
 *     reported before it is made, and reporting reads. So it may be read at any later time.
 *  3. The object begins with a pair of segments and ends with one (segment.c), so that nothing makes a
 *     stretch accessible but its reading.
 *  4. Reading takes no lock of the runtime but its own: the library itself may touch what is unread
 *     while it holds any of them. The pager's locks are never held then.
 *  5. Not for objects without pointers, which programs pass to the kernel: a system call does not read a
 *     stretch, it fails with EFAULT. Nor with a memory limit, for unions, for upgraded objects, in the debug
 *     library, or if the thread that comes to it first blocks the signal.
 *  6. A pinned object is read whole, since it outlives its deletion.
 */
#ifndef P3L_UNREAD_H
#define P3L_UNREAD_H

#include "catalog.h"
#include "segment.h"

/* Shorter objects are read whole: the time for them is short, and the kernel's areas of memory are few. */
#define P3L_UNREAD_LEAST (2 * P3L_STRETCH_BYTES)

/* True if an object of that type and length is to be read by stretches. */
bool p3l_unread_wanted(const p3l_store *store, const p3l_stored_type *type, uint64_t bytes);
/* Takes the signal, unless it has it: a program may have set a handler meanwhile. Before an object is
 * unread. */
void p3l_unread_catch(void);
/* Reads what is unread of an object. */
p3l_code p3l_unread_read_all(p3l_segment *segment, p3l_error *error);

/* The next bytes [*from, *to) of the object, from *from on, that are in memory; false: there are none.
 * for (uint64_t from = 0, to; p3l_read_part(place, &from, &to); from = to) */
static inline bool p3l_read_part(const p3l_place *place, uint64_t *from, uint64_t *to) {
  while (*from < place->bytes && !p3l_is_read(place->segment, *from))
    *from = (*from / P3L_STRETCH_BYTES + 1) * P3L_STRETCH_BYTES;
  *to = *from;
  if (place->segment->kind != P3L_LARGE || place->segment->large.unread == NULL) *to = place->bytes;
  while (*to < place->bytes && p3l_is_read(place->segment, *to))
    *to = (*to / P3L_STRETCH_BYTES + 1) * P3L_STRETCH_BYTES;
  if (*to > place->bytes) *to = place->bytes;
  return *from < *to;
}

#endif
