/* Helpers of a section: threads and processes that work for a section of another thread. */
#include "affinity.h"
#include "slice.h"
#include "thread.h"

#include <errno.h>

bool split_help(const void *key, size_t length) {
  struct split_mapping *mapping = split_mapping_in_use();
  if (!mapping || !split_collects(mapping)) return false;
  struct split_self *self = split_self_ready(mapping);
  if (!self || self->innermost) return false;
  int before = errno;
  bool given = split_slice_for(self, split_kind_of_key(mapping, key, length));
  errno = before;
  return given;
}

void split_help_ends(void) {
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_self *self = split_self_here;
  if (!mapping || !self || self->mapping != mapping || self->innermost) return;
  int before = errno;
  split_affinity_forget(self); /* its entry, too: helpers come and go */
  errno = before;
}
