/*
 * Where failures go that no return value can carry. Private to runtime/.
 */
#ifndef P3L_FAULT_H
#define P3L_FAULT_H

#include "p3l.h"

/* Calls the handler; does not return. The caller holds no lock and no memory. */
__attribute__((noreturn)) void p3l_raise(const p3l_error *error);

#endif
