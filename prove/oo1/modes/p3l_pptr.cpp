/* P3L in C++: p3l::pptr<T>, for any compiler. Compiled for both layouts into one program, so the
 * classes have other names in each (schema.h). */
#include <p3l.hpp>

#define OO1_REF(T) p3l::pptr<T>
#define OO1_PTR(T) T *
#define OO1_AT(T, p) (p)
#define OO1_GET(T, slot) (slot).get()
#define OO1_GET_OR_NULL(T, slot) (slot).get()
#define OO1_DROP(p) ((void)(p))
#define OO1_SET(slot, p) ((slot) = (p))
#define OO1_EMPTY(slot) (!(slot))
#define OO1_DIRTY(T, p) p3l::edit(p)
#define OO1_NEW(T, near, from) \
  static_cast<T *>(made(p3l_allocate(the_store, p3l::class_of<T>::type(), 1, near)))

#include "schema.h"

P3L_CLASS(oo1_part, oo1_part, 1);
#ifndef OO1_PAPER
P3L_CLASS(oo1_connection, oo1_connection, 1);
#endif
P3L_CLASS(oo1_leaf, oo1_leaf, 1);
P3L_CLASS(oo1_branch, oo1_branch, 1);
P3L_CLASS(oo1_root, oo1_root, 1);

#include "p3l_store.h"

#include "database.h"
