/* Placement is active: the analyzer runs, and placement is not switched off. */
#ifndef SPLIT_FRESH_H
#define SPLIT_FRESH_H

#include "mapping.h"

bool split_fresh(struct split_mapping *mapping, uint64_t now_ns);
/* The same for time slices, for which a silent analyzer has a shorter limit. */
bool split_fresh_for_slices(struct split_mapping *mapping);

#endif
