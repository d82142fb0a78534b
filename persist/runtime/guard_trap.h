/*
 * What the debug library says of an access that traps, and how the process ends. Private to guard*.c.
 */
#ifndef P3L_GUARD_TRAP_H
#define P3L_GUARD_TRAP_H

#include <stdint.h>

/* Takes SIGSEGV. What does not concern persistent memory goes to the handler that was there. */
void p3l_guard_trap_install(void);
/* Prints to standard error, in a signal handler, too. */
__attribute__((format(printf, 1, 2))) void p3l_guard_print(const char *format, ...);
/* Prints the calls that led to instruction `at`, one a line: function, file and line where there is debug
 * information and addr2line, else what addr2line needs. */
void p3l_guard_print_calls(uintptr_t at);

#endif
