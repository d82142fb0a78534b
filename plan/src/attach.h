/*
 * Connects nodes that depend on each other after the executor has started.
 */
#ifndef CCOPT_ATTACH_H
#define CCOPT_ATTACH_H

#include "compat.h"

/* Registers the hook at the executor's start. */
extern void attach_register(void);

#endif
