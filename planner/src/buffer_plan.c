/*
 * Buffers, planning: the pass over a finished plan.
 */
#include "ccopt.h"

void buffers_insert(PlannedStmt *plan, int cursor_options) {}

void buffer_register(void) {}
