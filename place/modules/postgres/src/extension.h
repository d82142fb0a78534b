/*
 * The extension's own settings and parts.
 */
#ifndef SPLIT_POSTGRES_EXTENSION_H
#define SPLIT_POSTGRES_EXTENSION_H

#include "compat.h"

/* split.engine is on, and so is the library: checked for each statement. */
extern bool split_engine;
extern bool split_ready;

/* split.place, split.probe_budget: set in the library by the worker, which reads the
 * configuration for all. */
extern bool split_place;
extern int split_probe_budget;

/* Hooks of statements (sections.c). */
void sections_install(void);

/* The worker that restores threads' affinities after an analyzer's death (worker.c). */
void worker_register(void);

#endif
