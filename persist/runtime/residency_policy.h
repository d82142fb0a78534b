/*
 * In place, or copied? residency_policy.c has the rules. Private to runtime/.
 */
#ifndef P3L_RESIDENCY_POLICY_H
#define P3L_RESIDENCY_POLICY_H

#include "page_state.h"

/* Decides whether the page in the pool is adopted for an object that was just requested; if so,
 * fills `in_place`. */
bool p3l_adopt(p3l_store *store, p3l_page_state *state);

/* Whether all objects of the page have the program's layout. */
bool p3l_page_is_current(const p3l_store *store, const p3l_object_page *page);
/* Marks the objects of an adopted frame that are used in place: no holes, no forwards, no
 * objects copied before. */
void p3l_fill_in_place(p3l_page_state *state);

#endif
