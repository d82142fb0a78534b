/* The ring of the latest sections of a CPU. */
#ifndef SPLIT_TRACE_H
#define SPLIT_TRACE_H

#include "process.h"
#include "record.h"

/* Adds a section to the ring of the CPU on which it ended. */
void split_trace_write(struct split_mapping *mapping, uint32_t cpu, const struct split_open *open,
                       const struct split_sample *sample, uint64_t now, bool nested);

#endif
