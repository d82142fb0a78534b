/*
 * Pointer swizzling at page fault time (Wilson 1991; Singhal, Kakkad, Wilson 1992: Texas), over an
 * image. Knows nothing of OO1.
 *
 * The store has a reservation of addresses as long as it may become, so that an object's address is
 * known before it is read. A page that was not read cannot be accessed; the fault reads it, turns
 * all offsets in its slots into addresses, and gives access. Programs follow plain C pointers.
 * A session that writes gets pages read-only first: the second fault notes that it was changed.
 *
 * By mprotect and SIGSEGV, or by userfaultfd and SIGBUS (one system call a fault and no cut of the
 * mapping). One store at a time; one thread. System calls that are handed an address of a page which
 * was not read fail with EFAULT, as they did for Texas.
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
void texas_close(void); /* what was not committed is gone */

void *texas_root(void);
/* A new object, zeroed; it lies beside the one made before. Sessions that write. */
void *texas_new(uint64_t bytes, const image_field *fields);
/* Makes the changes durable: whole pages, into a log. */
void texas_commit(void);

typedef struct texas_figures {
  uint64_t faults;     /* handled: first touches and first writes */
  uint64_t pages_read; /* more than faults where neighbours were read along, see texas.c */
  uint64_t swizzled;   /* slots */
  uint64_t bytes_logged;
} texas_figures;
texas_figures texas_look(void);

/* For tests: as if vm.max_map_count were so; after texas_open(). */
void texas_allow(uint64_t mappings);

#ifdef __cplusplus
}
#endif

#endif
