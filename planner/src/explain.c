/*
 * EXPLAIN's lines on what was refused.
 */
#include "ccopt.h"

void explain_register(void) {}
