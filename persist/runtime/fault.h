/*
 * The handler for failures that no return value can report. Private to runtime/.
 */
#ifndef P3L_FAULT_H
#define P3L_FAULT_H

#include "p3l.h"

/* Calls the handler and does not return. The caller must hold no lock and no memory to free. */
__attribute__((noreturn)) void p3l_raise(const p3l_error *error);

#endif
