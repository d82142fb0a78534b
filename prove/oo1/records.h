/*
 * The benchmark on key-value stores: a part with its connections is one record, and an index has
 * the incoming connections. A template, as database.h; a mode defines
 *
 *   OO1_SYMBOL
 *
 * and, after record.h, the functions used below: mode_load, mode_open, mode_close, mode_counts,
 * mode_insert, mode_enter, mode_leave, mode_fetch, mode_from.
 */
#include "die.h"
#include "mode.h"
#include "null_proc.h"

#define OO1_PASS(name) oo1_timed_##name
#define OO1_VISIT(part) oo1_null_proc((part)->x, (part)->y, (part)->type)
#include "record_operations.h"
#undef OO1_VISIT
#undef OO1_PASS

#define OO1_PASS(name) oo1_looking_##name
#define OO1_VISIT(part) oo1_look((part)->id, (part)->x, (part)->y, (part)->type)
#include "record_operations.h"
#undef OO1_VISIT
#undef OO1_PASS

extern const oo1_mode OO1_SYMBOL;
const oo1_mode OO1_SYMBOL = {
    .compiler = OO1_COMPILER,
    .keeps = true,
    .durable = true,
    .load = mode_load,
    .open = mode_open,
    .close = mode_close,
    .timed = {oo1_timed_traverse, OO1_REVERSE(timed), oo1_timed_lookup},
    .looking = {oo1_looking_traverse, OO1_REVERSE(looking), oo1_looking_lookup},
    .insert = mode_insert,
    .counts = mode_counts,
};
