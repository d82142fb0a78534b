/*
 * A folder with this machine's published sets: found once per program, since that takes a second or
 * two.
 */
#ifndef PROBE_FIXTURE_H
#define PROBE_FIXTURE_H

#include "probe_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct published {
  char folder[64];
  enum split_probe_outcome outcome;
  const char *reason;
};

/* In memory if there is such a folder: like /run on most machines. */
static inline int make_folder(struct published *published) {
  snprintf(published->folder, sizeof(published->folder), "%s/split-probe-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  return mkdtemp(published->folder) == NULL ? -1 : 0;
}

static inline int publish_once(struct published *published, uint32_t seconds) {
  if (make_folder(published) != 0) return -1;
  const struct split_probe_options options = {.seconds = seconds, .seed = 7};
  published->outcome = split_probe_publish(published->folder, &options, &published->reason);
  return 0;
}

static inline void remove_folder(const struct published *published) {
  char name[128];
  snprintf(name, sizeof(name), "%s/%s", published->folder, SPLIT_PROBE_FILE);
  unlink(name);
  rmdir(published->folder);
}

#endif
