/*
 * Pointer swizzling at page fault time (Wilson 1991; Singhal, Kakkad, Wilson 1992: Texas), over an
 * image. Independent of OO1.
 *
 * The store reserves addresses for its maximum size, so that an object's address is known before it
 * is read. A page that was not read is inaccessible; the fault reads it, converts all offsets in
 * its slots to addresses, and makes it accessible. Programs follow plain C pointers. In a writing
 * session pages are read-only at first: the second fault marks them as changed.
 *
 * By mprotect and SIGSEGV, or by userfaultfd and SIGBUS (one system call a fault and no cut of the
 * mapping). One store at a time; one thread. System calls with an address in an unread page fail
 * with EFAULT, as with Texas.
 */
#ifndef OO1_TEXAS_H
#define OO1_TEXAS_H

#include <stdbool.h>
#include <stdint.h>

#include "image.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum texas_means { TEXAS_MPROTECT, TEXAS_USERFAULTFD } texas_means;

void texas_open(const char *path, texas_means means, bool writable);
void texas_close(void); /* uncommitted changes are lost */

void *texas_root(void);
/* A new object, zeroed, adjacent to the previous one. For writing sessions. */
void *texas_new(uint64_t bytes, const image_field *fields);
/* Makes the changes durable: whole pages, into a log. */
void texas_commit(void);

typedef struct texas_figures {
  uint64_t faults;     /* handled: first accesses and first writes */
  uint64_t pages_read; /* more than faults if neighbours were read, see texas.c */
  uint64_t swizzled;   /* slots */
  uint64_t bytes_logged;
} texas_figures;
texas_figures texas_look(void);

/* For tests: sets the limit vm.max_map_count; after texas_open(). */
void texas_allow(uint64_t mappings);

#ifdef __cplusplus
}
#endif

#endif
