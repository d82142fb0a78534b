/*
 * What the debug library says of an access that traps, and how the process ends.
 */
#ifndef P3L_GUARD_TRAP_H
#define P3L_GUARD_TRAP_H

#ifdef P3L_DEBUG
/* Takes SIGSEGV when it is first called. What does not concern persistent memory goes to the handler
 * that was there. */
void p3l_guard_explain_traps(void);
#else
static inline void p3l_guard_explain_traps(void) {}
#endif

#endif
