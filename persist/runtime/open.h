/*
 * Opening a store over a pager that is open. Private to runtime/ and its tests.
 */
#ifndef P3L_OPEN_H
#define P3L_OPEN_H

#include "p3l.h"
#include "pager.h"

/* The second half of p3l_open(): takes over an open pager, and closes it on failure. */
p3l_code p3l_open_pager(p3l_pager *pager, const p3l_options *options, p3l_store **store,
                        p3l_error *error);

#endif
