/*
 * In place, or copied? residency_policy.c has the rules. Private to runtime/.
 */
#ifndef P3L_RESIDENCY_POLICY_H
#define P3L_RESIDENCY_POLICY_H

#include "page_state.h"

/* Whether the page in the pool is adopted for an object that has just been asked for; if so,
 * `in_place` is filled. */
bool p3l_adopt(p3l_store *store, p3l_page_state *state);

/* Whether all objects of the page have the program's layout. */
bool p3l_page_is_current(const p3l_store *store, const p3l_object_page *page);
/* Of an adopted frame: its objects that are not elsewhere, neither holes nor forwards, nor copied before. */
void p3l_fill_in_place(p3l_page_state *state);

#endif
