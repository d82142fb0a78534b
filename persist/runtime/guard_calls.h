/*
 * What the debug library prints. In a signal handler, too. Private to guard*.c.
 */
#ifndef P3L_GUARD_CALLS_H
#define P3L_GUARD_CALLS_H

#include <stdint.h>

/* Prints to standard error. */
__attribute__((format(printf, 1, 2))) void p3l_guard_print(const char *format, ...);
/* Prints the calls that led to instruction `at`, one a line: function, file and line where there is debug
 * information and addr2line, else what addr2line needs. */
void p3l_guard_print_calls(uintptr_t at);

#endif
