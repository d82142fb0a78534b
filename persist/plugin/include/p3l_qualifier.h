/*
 * P3L with the compiler plugin: `persistent` as a type qualifier.
 *
 *   #include <p3l_qualifier.h>                        // p3l-clang -c part.c
 *
 *   struct part { uint32_t id; struct part persistent *to[3]; };
 *   P3L_PERSISTENT(part, struct part, 1);
 *
 *   struct part persistent *first = p3l_root(store, "first");
 *   first->to[0]->id = 7;                             // checked when read, marked before written
 *
 * A pointer to a persistent type is checked where it is loaded, from any memory, and writes through
 * it are marked. Other pointers are unchanged: so a persistent pointer must be cast to become a
 * plain one, and clang reports where. Macros with the names of p3l.h's functions do this.
 *
 * For C. C++ has no methods, constructors or references on other address spaces: use p3l.hpp, or
 * p3l-clang++ --p3l=orthogonal, with which `persistent` has no effect.
 */
#ifndef P3L_QUALIFIER_H
#define P3L_QUALIFIER_H

#include "p3l.h"

#if defined(P3L_ORTHOGONAL) || defined(__cplusplus)
#define persistent
#else
#ifndef P3L_QUALIFIED /* both are defined by p3l-clang */
#error "compile with p3l-clang: without the plugin, persistent pointers would not be checked"
#endif
#define persistent __attribute__((address_space(100)))
#endif

/*
 * Describes T to the library under the name `identifier` (P3L_TYPE, p3l.h): the plugin finds the
 * pointers automatically, in nested structs and arrays, too. A union with a persistent pointer
 * may contain nothing else; the compiler reports others.
 */
#define P3L_PERSISTENT(identifier, T, version) P3L_PERSISTENT_UPGRADED(identifier, T, version, NULL)

#define P3L_PERSISTENT_UPGRADED(identifier, T, version, upgrade) \
  P3L_PERSISTENT_DESCRIBED(identifier, T, version, upgrade, NULL)
/* With unions of pointers and others: P3L_UNIONS(P3L_UNION(T, u, ...), ...) as in p3l.h. The plugin
 * finds the other pointers. */
#define P3L_PERSISTENT_UNIONS(identifier, T, version, upgrade, unions) \
  static const p3l_union p3l_unions_of_##identifier[] = unions;        \
  P3L_PERSISTENT_DESCRIBED(identifier, T, version, upgrade, p3l_unions_of_##identifier)

/* clang-format off */
#define P3L_PERSISTENT_DESCRIBED(identifier, T, version, upgrade, unions)                       \
  typedef T persistent p3l_instance_of_##identifier;                                            \
  __attribute__((used, noinline)) static void p3l_probe_of_##identifier(T *p3l_described) {     \
    __builtin_dump_struct(p3l_described, p3l_describe_member);                                  \
  }                                                                                             \
  extern const p3l_field p3l_fields_of_##identifier[] __asm__("p3l.fields." #identifier);       \
  P3L_REGISTER(identifier, T, version, upgrade, unions)
/* clang-format on */

/* Read by the plugin, never called. */
int p3l_describe_member(const char *format, ...);

/* A function that copies surrogates unchanged: one that upgrades objects (p3l_upgrade), one that
 * compares slots. Nothing is checked or marked in it. */
#define P3L_UNCHECKED __attribute__((annotate("p3l.unchecked"), noinline))

#if !defined(P3L_ORTHOGONAL) && !defined(__cplusplus)
/* p3l.h for qualified pointers, with the casts that the qualifier requires. */
#define p3l_root(store, name) ((void persistent *)p3l_root((store), (name)))
#define p3l_set_root(store, name, object) p3l_set_root((store), (name), (void *)(object))
#define p3l_allocate(store, type, count, near) \
  p3l_allocate((store), (type), (count), (const void *)(near))
#define p3l_allocate_array(store, type, count, near) \
  p3l_allocate_array((store), (type), (count), (const void *)(near))
#define p3l_delete(store, object) p3l_delete((store), (void *)(object))
#define p3l_extent(object) p3l_extent((const void *)(object))
#define p3l_surrogate(address) p3l_surrogate((const void *)(address))
#define p3l_prefetch(store, object, depth) p3l_prefetch((store), (const void *)(object), (depth))
#define p3l_pin(object) p3l_pin((const void *)(object))
#define p3l_unpin(object) p3l_unpin((const void *)(object))
#define p3l_dirty(address, bytes) p3l_dirty((void *)(address), (bytes))
#define p3l_is_persistent(address) p3l_is_persistent((const void *)(address))
#endif

#endif
