/*
 * Bringing an object from its page into memory of its own. Private to residency*.c.
 */
#ifndef P3L_RESIDENCY_LOAD_H
#define P3L_RESIDENCY_LOAD_H

#include "page_state.h"
#include "segment.h"

/* Copies the object at `piece` of the page into an arena, and upgrades it if necessary. */
p3l_code p3l_load_object(p3l_store *store, p3l_page_state *state, p3l_address address,
                         const p3l_object_page *page, const p3l_piece *piece, uint8_t **memory,
                         p3l_error *error);
/* Makes the large object that begins in that page resident; *memory is its first byte. NULL: it
 * has moved to *forward, a surrogate. */
p3l_code p3l_load_large(p3l_store *store, p3l_page_number first, uint8_t **memory,
                        uint64_t *forward, p3l_error *error);
/* A part of a large object in its pages, and what reading it took. */
typedef struct p3l_large_part {
  uint64_t first, bytes; /* of the object: its first page, its length */
  uint64_t from, to;     /* the part */
  uint64_t reads, pages;
} p3l_large_part;
#define P3L_LARGE_RUN 64u /* number of pages of a large object that one request reads */
/* Reads the part to `memory`; `buffer` holds P3L_LARGE_RUN pages. Checks that they are the object's. */
p3l_code p3l_large_read(p3l_store *store, p3l_large_part *part, p3l_page *buffer, uint8_t *memory,
                        p3l_error *error);
/* Records in the state of each of its pages where the object begins, for pointers into its
 * middle. False: no memory for the first page's state; the others can be read again. */
bool p3l_large_note(p3l_store *store, uint64_t first, uint64_t bytes, uint8_t *memory);
/* Memory for a large object that the transaction created, or that is being loaded and has
 * `stored` bytes in the store. */
p3l_code p3l_large_take(p3l_store *store, p3l_resident object, uint64_t bytes, uint64_t stored,
                        uint8_t **memory, p3l_error *error);

/* True while an upgrade function runs on this thread: surrogates are then copied as they are,
 * even through an interface that checks loads. Local-exec, as a variable of one file would be:
 * read in one instruction. */
extern _Thread_local bool p3l_upgrading __attribute__((tls_model("local-exec")));

#endif
