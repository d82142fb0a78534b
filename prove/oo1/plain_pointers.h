/* The part of a mode (database.h) whose slots are C pointers. */
#ifndef OO1_PLAIN_POINTERS_H
#define OO1_PLAIN_POINTERS_H

#include <stddef.h>

#define OO1_REF(T) struct T *
#define OO1_PTR(T) struct T *
#define OO1_AT(T, p) (p)
#define OO1_GET(T, slot) (slot)
#define OO1_GET_OR_NULL(T, slot) (slot)
#define OO1_DROP(p) ((void)(p))
#define OO1_SET(slot, p) ((slot) = (p))
#define OO1_EMPTY(slot) ((slot) == NULL)

#endif
