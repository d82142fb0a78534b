/*
 * OO7's structures, for both modes: OO7_REF(T) is the slot that leads to a T. The small database.
 *
 *   module ──> assembly, 6 levels of complex ones ──3──> base assembly ──3 private──> composite part
 *      │                                                       └────────3 shared───>      │
 *      └──> manual ──> pages of it                                                        │
 *            document <───────────────────────────────────────────────────────────────────┤
 *            20 atomic parts <────────────────────────────────────────────────────────────┘
 *            atomic part ══3══> connection ──> atomic part of the same composite
 *
 * Every reference above has its inverse, as OO7 requires; lists are linked by `next`.
 */
#ifndef OO7_SCHEMA_H
#define OO7_SCHEMA_H

#include <stdint.h>

enum {
  OO7_LEVELS = 7,
  OO7_FAN = 3,          /* assemblies of an assembly; composite parts of a base assembly, twice */
  OO7_COMPOSITES = 500, /* in the module */
  OO7_ATOMIC = 20,      /* atomic parts of a composite part */
  OO7_OUT = 3,          /* connections that lead out of an atomic part */
  OO7_DOCUMENT_BYTES = 2000,
  OO7_MANUAL_BYTES = 100000,
  OO7_MANUAL_PAGE = 3900, /* of the manual: no object is larger than a page of the store */
  OO7_MANUAL_PAGES = (OO7_MANUAL_BYTES + OO7_MANUAL_PAGE - 1) / OO7_MANUAL_PAGE,
  OO7_TYPE_BYTES = 10
};

struct oo7_module;
struct oo7_assembly;
struct oo7_composite;
struct oo7_connection;

struct oo7_atomic {
  uint32_t id; /* composite x OO7_ATOMIC + its number there */
  int32_t build;
  uint32_t x, y;
  uint32_t document; /* id */
  char type[OO7_TYPE_BYTES];
  OO7_REF(oo7_connection) to[OO7_OUT];
  OO7_REF(oo7_connection) from; /* the youngest incoming connection */
  OO7_REF(oo7_composite) part_of;
};

struct oo7_connection {
  OO7_REF(oo7_atomic) from;
  OO7_REF(oo7_atomic) to;
  OO7_REF(oo7_connection) next; /* the next older connection to the same part */
  uint32_t length;
  char type[OO7_TYPE_BYTES];
};

struct oo7_document {
  uint32_t id;
  char title[40];
  OO7_REF(oo7_composite) part;
  char text[OO7_DOCUMENT_BYTES];
};

/* A base assembly that uses a composite part. */
struct oo7_use {
  OO7_REF(oo7_assembly) by;
  OO7_REF(oo7_use) next;
};

struct oo7_composite {
  uint32_t id;
  int32_t build;
  char type[OO7_TYPE_BYTES];
  OO7_REF(oo7_document) document;
  OO7_REF(oo7_atomic) root;
  OO7_REF(oo7_atomic) part[OO7_ATOMIC];
  OO7_REF(oo7_use) used_privately;
  OO7_REF(oo7_use) shared_by;
};

struct oo7_assembly {
  uint32_t id;
  int32_t build;
  uint32_t level; /* 1: a base assembly */
  char type[OO7_TYPE_BYTES];
  OO7_REF(oo7_module) module;
  OO7_REF(oo7_assembly) up;
  OO7_REF(oo7_assembly) sub[OO7_FAN]; /* of a complex one */
  OO7_REF(oo7_composite) own[OO7_FAN];
  OO7_REF(oo7_composite) shared[OO7_FAN];
};

struct oo7_manual_page {
  char text[OO7_MANUAL_PAGE];
};

struct oo7_manual {
  char title[40];
  OO7_REF(oo7_manual_page) page[OO7_MANUAL_PAGES];
};

struct oo7_module {
  uint32_t id;
  int32_t build;
  char type[OO7_TYPE_BYTES];
  OO7_REF(oo7_manual) manual;
  OO7_REF(oo7_assembly) root;
};

#endif
