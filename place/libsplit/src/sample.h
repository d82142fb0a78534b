/* What only some sections need. */
#ifndef SPLIT_SAMPLE_H
#define SPLIT_SAMPLE_H

#include "process.h"

void split_sample_begin(struct split_self *self, struct split_open *open);
struct split_sample;
void split_sample_end(struct split_self *self, struct split_open *open,
                      struct split_sample *sample);
void split_sample_probes(struct split_mapping *mapping); /* opens what is published, once */

/* Around a fork, so that the child finds no lock taken by a thread that it does not have. */
void split_sample_hold(void);
void split_sample_let_go(void);

#endif
