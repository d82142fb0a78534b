/*
 * The pages of an application with one entry script: WordPress, MediaWiki and most frameworks send
 * all addresses to index.php. The kind of a request is in its address: in the path without ids, and
 * in the names of its arguments (/?s=word is a search, /?p=7 an article).
 *
 * Invariants:
 *   1. Clients choose addresses. At most PAGES_NAMES names are distinguished at one place of a
 *      path, and as many sets of argument names after one path; there is room for PAGES_PLACES
 *      places. So the number of kinds is bounded.
 *   2. A place with more names has ids there (titles of articles): all its names count as one from
 *      then on, also those seen before.
 *   3. The memory is shared by all processes of the server, so that a kind is the same in each. Its
 *      words change from 0 to a hash once, by compare and swap, and never back; `full` changes from
 *      false to true. No lock is needed.
 */
#ifndef MOD_SPLIT_PAGES_H
#define MOD_SPLIT_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PAGES_PLACES = 256, PAGES_NAMES = 32 };

/* All zero at first. */
struct pages {
  struct pages_place {
    _Atomic uint64_t place;              /* hash of what comes before the name; 0: free */
    _Atomic uint64_t names[PAGES_NAMES]; /* hashes of the names seen there */
    _Atomic bool full;                   /* there were more */
  } places[PAGES_PLACES];
};

/* Writes the page, "/<id>/feed/?paged", zero-terminated, and returns its length, less than `size`.
 * The path is as in key_pattern, and names of full places are ids, too. The names of arguments
 * follow in alphabetical order; values have no part in it. `arguments` may be NULL. */
size_t pages_page(struct pages *pages, const char *path, const char *arguments, char *page,
                  size_t size);

#endif
