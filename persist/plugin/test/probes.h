/* A graph of 64 parts, and functions that read and change it in ways that compilers transform. */
#ifndef PROBES_H
#define PROBES_H

#include <stddef.h>
#include <stdint.h>

#ifdef P3L_QUALIFIED
#define persistent __attribute__((address_space(100)))
#else
#define persistent
#endif

struct part;
typedef struct part persistent *link;

struct pair {
  link left, right;
};

struct part {
  uint32_t id;
  uint32_t kind : 3, rest : 29;
  int64_t x;
  link to[3];
  union {
    link either, or ;
  };
  struct pair pair;
  link volatile unsteady;
  link atomic;
  struct part persistent *persistent *inside; /* to a slot of another part */
  char name[24];
  double weight;
  int32_t numbers[32];
};

#define PARTS 64

/* Each function takes a part and a small number and returns a value that depends on everything
 * it read. */
/* clang-format off */
#define EACH_PROBE(X)                                                                             \
  X(loop) X(gather) X(pairs) X(unions) X(atomics) X(exchanges) X(struct_copy) X(struct_argument)  \
  X(varargs) X(recursion) X(switches) X(bitfields) X(volatiles) X(interior) X(selects) X(copies)  \
  X(compares) X(escaping_local) X(static_variable) X(array_of_locals) X(nulls)                    \
  X(store_fields) X(store_loop) X(store_memory) X(store_copy) X(store_atomic) X(store_string)     \
  X(store_links) X(store_branches) X(store_conditional_vector)
/* clang-format on */

#ifndef PROBE
#define PROBE(name) probe_##name
#endif
#define DECLARE(name) int64_t PROBE(name)(link part, long n);
EACH_PROBE(DECLARE)

#endif
