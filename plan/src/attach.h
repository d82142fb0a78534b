/*
 * Nodes that need to know of each other are connected when the executor has started.
 */
#ifndef CCOPT_ATTACH_H
#define CCOPT_ATTACH_H

#include "compat.h"

/* Hooks the executor's start. */
extern void attach_register(void);

#endif
