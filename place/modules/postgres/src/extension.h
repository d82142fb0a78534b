/*
 * The extension's own settings and parts.
 */
#ifndef SPLIT_POSTGRES_EXTENSION_H
#define SPLIT_POSTGRES_EXTENSION_H

#include "compat.h"

/* split.engine, and the library is on: what statements ask. */
extern bool split_engine;
extern bool split_ready;

/* split.place, split.probe_budget: told to the library by the worker, who reads the configuration for all. */
extern bool split_place;
extern int split_probe_budget;

/* Hooks of statements (sections.c). */
void sections_install(void);

/* The worker that gives threads their affinity back, where an analyzer died (worker.c). */
void worker_register(void);

#endif
