/* The settings made by split_set before there was a segment. */
#ifndef SPLIT_SETTINGS_H
#define SPLIT_SETTINGS_H

#include "mapping.h"

#include <stdbool.h>
#include <stdint.h>

struct split_settings {
  uint32_t kinds;
  bool kinds_asked;
  uint32_t backend; /* enum split_backend */
};
extern struct split_settings split_settings __attribute__((visibility("hidden")));

/* Stores earlier settings in the segment. */
void split_settings_apply(struct split_mapping *mapping);

#endif
