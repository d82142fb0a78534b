/*
 * Tracks how much of the log is on stable storage; one sync serves all waiting threads. Internal to
 * the pager.
 *
 *   idle ── first who waits ──> syncing ── done ──> idle, durable = what was appended at its begin
 *                                  └── fails ──> broken, for good (pager.h, invariant 4)
 *
 * Invariants:
 *  1. Under `sync`: durable <= appended; `syncing` while exactly one thread is in the device's sync.
 *  2. The device is called without the lock, so that others append meanwhile.
 */
#ifndef P3L_DURABLE_H
#define P3L_DURABLE_H

#include "pager.h"

/* Returns when the log is durable up to `position`. */
p3l_code p3l_log_make_durable(p3l_pager *pager, p3l_lsn position, p3l_error *error);
/* P3L_BROKEN if a sync failed. */
p3l_code p3l_pager_usable(p3l_pager *pager, p3l_error *error);

#endif
