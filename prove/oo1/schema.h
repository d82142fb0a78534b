/*
 * The database's structures, for all modes with pointers: OO1_REF(T) is a slot with a pointer to a
 * T. Layouts: the complete benchmark, or (OO1_PAPER) the part of the paper.
 *
 *   root ──> branch ──> leaf ──> part ══3══> connection ──> part
 *            256 x 256 ids       │  ^            │ ^ next
 *                                └──│── from ────┘ │
 */
#ifndef OO1_SCHEMA_H
#define OO1_SCHEMA_H

#include "graph.h"

/* A program contains both layouts: their types have different names, in stores and for linkers. */
#ifdef OO1_PAPER
#define oo1_part oo1_paper_part
#define oo1_leaf oo1_paper_leaf
#define oo1_branch oo1_paper_branch
#define oo1_root oo1_paper_root
#endif

#define OO1_FAN 256u
#define OO1_BRANCHES 128u /* 8,388,608 ids: OO1_PARTS_MAX and inserts */

struct oo1_connection;

struct oo1_part {
  int64_t build; /* seconds since 1970 */
  uint32_t id, x, y;
  char type[OO1_TYPE_BYTES];
#ifdef OO1_PAPER
  OO1_REF(oo1_part) to[OO1_OUT];
#else
  OO1_REF(oo1_connection) to[OO1_OUT];
  OO1_REF(oo1_connection) from; /* the youngest incoming connection */
#endif
};

#ifndef OO1_PAPER
struct oo1_connection {
  OO1_REF(oo1_part) from;
  OO1_REF(oo1_part) to;
  OO1_REF(oo1_connection) next; /* the next older connection to the same part */
  uint32_t length;
  char type[OO1_TYPE_BYTES];
};
#endif

/* The index by id: a tree of arrays. */
struct oo1_leaf {
  OO1_REF(oo1_part) part[OO1_FAN];
};
struct oo1_branch {
  OO1_REF(oo1_leaf) leaf[OO1_FAN];
};
struct oo1_root {
  OO1_REF(oo1_branch) branch[OO1_BRANCHES];
};

#endif
