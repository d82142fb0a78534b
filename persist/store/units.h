/*
 * Types for numbers of the store, so that page numbers, addresses and log positions cannot be
 * confused.
 */
#ifndef P3L_UNITS_H
#define P3L_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Pages are counted from 0, the header page. A number has 44 bits, so that an address has 56
 * (see P3L_ADDRESS_BITS). */
typedef struct p3l_page_number {
  uint64_t n;
} p3l_page_number;

/*
 * A byte of the store: page number x page size + offset. A persistent pointer contains this value,
 * which never changes. No memory address is ever stored, so a store works at any address where the
 * kernel maps it.
 */
typedef struct p3l_address {
  uint64_t byte;
} p3l_address;

/* A position in the stream of all bytes ever logged. It grows for the store's whole life. */
typedef struct p3l_lsn {
  uint64_t byte;
} p3l_lsn;

/* A position in a file. */
typedef struct p3l_file_offset {
  uint64_t byte;
} p3l_file_offset;

/* Bits 63 to 56 are tag and generation of a pointer that is not yet swizzled; docs/design/persist.md, 1.2. */
#define P3L_ADDRESS_BITS 56
/* Number of generations of a place in the store: 0 to 30 (surrogate.h). */
#define P3L_GENERATIONS 31u

#endif
