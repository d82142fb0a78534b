/* Measurements that only some sections need. */
#ifndef SPLIT_SAMPLE_H
#define SPLIT_SAMPLE_H

#include "process.h"

void split_sample_begin(struct split_self *self, struct split_open *open);
struct split_sample;
void split_sample_end(struct split_self *self, struct split_open *open,
                      struct split_sample *sample);
void split_sample_probes(struct split_mapping *mapping); /* opens the published sets, once */

/*
 * Called around a fork, so that no lock in the child is held by a thread that does not exist there.
 */
void split_sample_hold(void);
void split_sample_let_go(void);

#endif
