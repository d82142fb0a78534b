/*
 * In place, or copied? residency_policy.c has the rules. Private to runtime/.
 */
#ifndef P3L_RESIDENCY_POLICY_H
#define P3L_RESIDENCY_POLICY_H

#include "page_state.h"

/* Whether the page in the pool is adopted for an object that has just been asked for; if so,
 * `in_place` is filled. */
bool p3l_adopt(p3l_store *store, p3l_page_state *state);

#endif
